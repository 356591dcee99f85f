package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"firn/internal/authority"
	"firn/internal/contract"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/state/dynamo"
	"firn/internal/store"
)

// Lake is one catalog with the store that reaches its tables' files.
type Lake struct {
	catalogs.Catalog
	// Store has every power; the host narrows it before it hands it on.
	Store store.Full
}

// Clients opens catalogs, stores and state once and keeps them for the life of the process. Its methods may be called concurrently.
type Clients struct {
	config   *catalogs.Config
	settings Settings
	stores   map[string]store.Full

	mu    sync.Mutex
	lakes map[string]Lake
	// secrets are those of open catalogs by name; retired are catalogs that were opened with older ones, and may still be in use.
	secrets map[string]secret
	retired []Lake
	now     func() time.Time
	// tables are stores that were opened without their catalog.
	tables map[string]store.ReadWriter
	state  state.Store
	work   store.Full
	// rules are what firn.yaml entrusts; rulesErr is why they cannot be used: then nothing is opened.
	rules    authority.Rules
	rulesErr error
}

// NewClients returns clients over the settings. stores replaces stores by scheme (tests: memory, faults).
func NewClients(config *catalogs.Config, settings Settings, stores map[string]store.Full) *Clients {
	c := &Clients{
		config: config, settings: settings, stores: stores, lakes: map[string]Lake{}, tables: map[string]store.ReadWriter{},
		secrets: map[string]secret{}, now: time.Now,
	}
	c.rules, c.rulesErr = settings.Authority()
	return c
}

// Authority is what firn.yaml entrusts to Firn. Catalogs and stores of tables that Clients opens are under it.
func (c *Clients) Authority() authority.Rules { return c.rules }

// Entrusted makes a function of the state machine refuse runs on tables that are not entrusted, whoever started them.
func (c *Clients) Entrusted(fn Raw) Raw {
	return func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error) {
		var in struct {
			Run maintenance.Run `json:"run"`
		}
		if err := json.Unmarshal(payload, &in); err != nil {
			return nil, &Error{Name: contract.ErrorBadInput, Message: fmt.Sprintf("decode payload: %v", err)}
		}
		id := in.Run.Table
		if id.Catalog == "" {
			id.Catalog = c.DefaultCatalog()
		}
		if err := errors.Join(c.rulesErr, c.rules.Table(id)); err != nil {
			return nil, &Error{Name: contract.ErrorRefused, Message: err.Error()}
		}
		return fn(ctx, payload)
	}
}

// Settings returns the settings.
func (c *Clients) Settings() Settings { return c.settings }

// DefaultCatalog is the name of the catalog that is meant when none is named.
func (c *Clients) DefaultCatalog() string { return c.config.Default() }

// CatalogNames lists the catalogs of firn.yaml, sorted; the default one when it has none.
func (c *Clients) CatalogNames() []string {
	names := slices.Sorted(maps.Keys(c.settings.Catalogs))
	if len(names) == 0 {
		names = []string{c.config.Default()}
	}
	return names
}

// UseLake sets an opened catalog (tests, and hosts that share one).
func (c *Clients) UseLake(name string, l Lake) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lakes[name] = c.under(l)
}

// under puts a catalog and its store under the rules.
func (c *Clients) under(l Lake) Lake {
	return Lake{Catalog: c.rules.Catalog(l.Catalog), Store: c.rules.Store(l.Store)}
}

// Lake opens a catalog by name; "" means the default one.
func (c *Clients) Lake(ctx context.Context, name string) (Lake, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" {
		name = c.config.Default()
	}
	old, found := c.lakes[name]
	if found && !c.rotated(ctx, name) {
		return old, nil
	}
	props, err := c.config.Properties(name)
	if err = errors.Join(c.rulesErr, err); err != nil {
		return Lake{}, err
	}
	full, err := c.withSecret(ctx, name, props)
	if err != nil {
		return Lake{}, err
	}
	cat, err := catalogs.Open(ctx, name, full)
	if err != nil {
		return Lake{}, c.secrets[name].hide(err)
	}
	if found {
		c.retired = append(c.retired, old)
	}
	st, err := store.New(store.Config{Properties: props, Stores: c.stores, Roles: c.settings.BucketRoles})
	if err != nil {
		return Lake{}, fmt.Errorf("open store of catalog %s: %w", name, err)
	}
	l := c.under(Lake{Catalog: cat, Store: st})
	c.lakes[name] = l
	return l, nil
}

// Reader opens a catalog and the store of its files for those that only read.
func (c *Clients) Reader(ctx context.Context, name string) (catalogs.Catalog, store.Reader, error) {
	l, err := c.Lake(ctx, name)
	return l.Catalog, l.Store, err
}

// Remover opens a catalog and the store of its files with the power to delete: for sweep alone.
func (c *Clients) Remover(ctx context.Context, name string) (catalogs.Catalog, store.Full, error) {
	l, err := c.Lake(ctx, name)
	return l.Catalog, l.Store, err
}

// Tables opens the store of a catalog's tables and not the catalog: for compact, which must not reach one.
func (c *Clients) Tables(name string) (store.ReadWriter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" {
		name = c.config.Default()
	}
	if l, found := c.lakes[name]; found {
		return l.Store, nil
	}
	if st, found := c.tables[name]; found {
		return st, nil
	}
	props, err := c.config.Properties(name)
	if err = errors.Join(c.rulesErr, err); err != nil {
		return nil, err
	}
	st, err := store.New(store.Config{Properties: props, Stores: c.stores, Roles: c.settings.BucketRoles})
	if err != nil {
		return nil, fmt.Errorf("open store of catalog %s: %w", name, err)
	}
	c.tables[name] = c.rules.Store(st)
	return c.tables[name], nil
}

// restGrace is how long expired files outlive an expiry on a REST catalog: its server and caches may still hand out the replaced metadata.
const restGrace = 15 * time.Minute

// Grace is how long after an expiry's commit its files are left alone.
func (c *Clients) Grace(name string) time.Duration {
	props, err := c.config.Properties(name)
	if err != nil {
		return restGrace
	}
	if kind, err := catalogs.Kind(props); err == nil && kind != catalogs.TypeREST {
		return 0
	}
	return restGrace
}

// Work is the store of the work location: the default catalog's properties reach it.
func (c *Clients) Work() (store.Full, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.work != nil {
		return c.work, nil
	}
	props, err := c.config.Properties("")
	if err != nil {
		props = nil // a deployment without default catalog still has a work location, reached with the default credentials
	}
	st, err := store.New(store.Config{Properties: props, Stores: c.stores})
	if err != nil {
		return nil, fmt.Errorf("open store of work location %s: %w", c.settings.WorkLocation, err)
	}
	c.work = st
	return st, nil
}

// State opens the state database.
func (c *Clients) State(ctx context.Context) (state.Store, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != nil {
		return c.state, nil
	}
	if c.settings.StateLocation == "memory:" {
		c.state = state.New(state.NewMemory())
		return c.state, nil
	}
	if table, is := strings.CutPrefix(c.settings.StateLocation, contract.StateDynamoDB); is && table != "" {
		items, err := dynamo.Open(ctx, table)
		if err != nil {
			return nil, err
		}
		c.state = state.New(items)
		return c.state, nil
	}
	loc, err := store.ParseLocation(c.settings.StateLocation)
	if err != nil || loc.Scheme != "file" {
		return nil, fmt.Errorf("open state %q: want memory:, dynamodb:TABLE or the absolute path of a SQLite file", c.settings.StateLocation)
	}
	items, err := state.OpenSQLite(ctx, loc.Key)
	if err != nil {
		return nil, err
	}
	c.state = state.New(items)
	return c.state, nil
}

// WorkScheme is the scheme of the work location: how an item reader's bucket and key become a location again.
func (c *Clients) WorkScheme() string {
	scheme, _, found := strings.Cut(c.settings.WorkLocation, "://")
	if !found {
		return "file"
	}
	return scheme
}

// Close closes what was opened.
func (c *Clients) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var faults []error
	if c.state != nil {
		faults = append(faults, c.state.Close())
	}
	for _, l := range slices.AppendSeq(c.retired, maps.Values(c.lakes)) {
		if closer, ok := l.Catalog.(interface{ Close() error }); ok {
			faults = append(faults, closer.Close())
		}
	}
	return errors.Join(faults...)
}
