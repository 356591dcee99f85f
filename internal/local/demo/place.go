package demo

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"firn/internal/edge"
	"firn/internal/lake/catalogs"
	"firn/internal/local"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/report"
	"firn/internal/store"
)

// catalogName is the catalog of the demo's firn.yaml.
const catalogName = "demo"

// configText is the demo's firn.yaml: a whole deployment in one file, and the same file serves the command line afterwards. %[1]s is the folder.
const configText = `# The demo's deployment: a SQLite catalog and local files.
catalog: demo
catalogs:
  demo:
    type: sql
    uri: sqlite:////%[1]s/catalog.db
    warehouse: file:///%[1]s/warehouse
work-location: file:///%[1]s/work
state-location: /%[1]s/state.db
policy:
  # mode is left at its default, observe: Firn decides and changes nothing until the table's property firn.mode says maintain.
  remove_orphan_files:
    enabled: true   # the default lists orphans and deletes none
`

// place is a lake in a folder, and the whole of Firn beside it in this process.
type place struct {
	dir     string
	clock   *Clock
	clients *edge.Clients
	lake    edge.Lake
	twin    *local.Twin
}

// build makes the folder's configuration and opens everything that it names.
func build(ctx context.Context, dir string, clock *Clock, log *slog.Logger) (*place, error) {
	if err := os.MkdirAll(filepath.Join(dir, "warehouse"), 0o750); err != nil {
		return nil, fmt.Errorf("make folder of the demo: %w", err)
	}
	text := fmt.Sprintf(configText, filepath.ToSlash(dir)[1:])
	if err := os.WriteFile(filepath.Join(dir, "firn.yaml"), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration of the demo: %w", err)
	}
	settings, err := edge.ParseSettings([]byte(text))
	if err != nil {
		return nil, err
	}
	document, err := policy.Parse(settings.Policy)
	if err != nil {
		return nil, err
	}
	config, err := settings.CatalogConfig("", "", nil, nil)
	if err != nil {
		return nil, err
	}
	p := &place{dir: dir, clock: clock}
	p.clients = edge.NewClients(config, settings, map[string]store.Full{"file": datedFiles{Full: store.NewLocal(), now: clock.Now}})
	if p.lake, err = p.clients.Lake(ctx, catalogName); err != nil {
		return nil, err
	}
	p.twin, err = local.NewTwin(ctx, func(notifier report.Notifier) (*local.Runner, error) {
		return local.NewRunner(ctx, p.clients, local.Options{LockDir: filepath.Join(dir, "locks"), Now: clock.Now, Log: log, Notifier: notifier})
	}, document)
	return p, err
}

// register points a new table of the catalog at its first metadata file.
func register(ctx context.Context, l edge.Lake, id maintenance.TableID, location string) error {
	registrar, can := l.Catalog.(catalogs.Registrar)
	if !can {
		return fmt.Errorf("register %s: the catalog cannot", id)
	}
	return registrar.Register(ctx, id, location)
}

// listAll is a listing without bounds.
func listAll() store.ListOptions { return store.ListOptions{} }

// writeNew is a write that must be the first.
func writeNew() store.WriteOptions { return store.WriteOptions{IfAbsent: true} }

// reader opens a catalog for reading.
func (p *place) reader(ctx context.Context, name string) (catalogs.Catalog, store.Reader, error) {
	l, err := p.clients.Lake(ctx, name)
	return l.Catalog, l.Store, err
}
