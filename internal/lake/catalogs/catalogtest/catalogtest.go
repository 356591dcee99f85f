// Package catalogtest has the conformance suite that every catalog passes, with the committer in front of it, and fakes of the services: an
// Iceberg REST service and AWS Glue, both with real compare-and-swap and faults on demand. Only tests import it.
package catalogtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// Fault is something that goes wrong with one commit request.
type Fault string

// Faults. What follows the dash is how a commit under it must end.
const (
	// LostAnswer applies the commit and cuts the connection - unknown.
	LostAnswer Fault = "lost answer"
	// ErrorAfter applies the commit and answers with an internal error - unknown.
	ErrorAfter Fault = "error after success"
	// Unavailable applies nothing and answers 503 - unknown: the answer proves nothing.
	Unavailable Fault = "unavailable"
	// SlowAnswer applies the commit and answers after the caller's patience - unknown.
	SlowAnswer Fault = "slow answer"
	// Forbidden applies nothing and answers that the caller may not - refused.
	Forbidden Fault = "forbidden"
)

// Faults lists all.
func Faults() []Fault { return []Fault{LostAnswer, ErrorAfter, Unavailable, SlowAnswer, Forbidden} }

// applied says whether a commit under the fault becomes the table's state.
func (f Fault) applied() bool { return f == LostAnswer || f == ErrorAfter || f == SlowAnswer }

// patience is how long a commit waits under SlowAnswer, which answers after slowness.
const (
	patience = 400 * time.Millisecond
	slowness = 2 * time.Second
)

// World is an empty catalog under test.
type World struct {
	// Catalog is what is tested; it is a Registrar, and a Swapper or a Server.
	Catalog catalogs.Catalog
	// Store holds metadata files.
	Store store.ReadWriter
	// Root is a location inside the store under which tables are made.
	Root string
	// Arm makes the next commit request meet the fault. Nil if the world has no faults to offer.
	Arm func(Fault)
	// Drop removes a table from the catalog behind our back. Nil if the world cannot.
	Drop func(t *testing.T, id maintenance.TableID)
}

// End is how a commit ended.
type End string

// Ends of a commit.
const (
	Committed End = "committed"
	Conflict  End = "conflict"
	Refused   End = "refused"
	Unknown   End = "unknown"
)

// EndOf classifies a commit's error. An error that wraps both classes has no end: that is a fault of the catalog.
func EndOf(err error) End {
	conflict, refused := errors.Is(err, catalogs.ErrConflict), errors.Is(err, catalogs.ErrRefused)
	switch {
	case err == nil:
		return Committed
	case conflict && refused:
		return "both conflict and refused"
	case conflict:
		return Conflict
	case refused:
		return Refused
	}
	return Unknown
}

// Run runs the suite; open makes a fresh world for each part.
func Run(t *testing.T, open func(t *testing.T) World) {
	t.Helper()
	for name, part := range map[string]func(*testing.T, *suite){
		"register, load, list": testRead, "commit": testCommit, "stale base": testStaleBase, "race": testRace, "no lost update": testNoLostUpdate,
		"faults": testFaults, "dropped table": testDropped, "odd names": testOddNames, "canceled": testCanceled, "requirements": testRequirements,
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			com, err := committer.New(w.Catalog, w.Store, committer.Options{Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			part(t, &suite{World: w, com: com})
		})
	}
}

// suite is a world with a committer.
type suite struct {
	World
	com committer.Committer
}

// Table is the ID that the suite uses most.
func tableID(name string) maintenance.TableID {
	return maintenance.TableID{Namespace: maintenance.NewNamespace("db"), Name: name}
}

// WriteTable writes the first metadata file of an empty table (format version 2, one column) and returns its location.
func WriteTable(ctx context.Context, st store.Writer, root string, name string) (string, error) {
	text := fmt.Sprintf(`{"format-version":2,"table-uuid":"%s","location":"%s","last-sequence-number":0,"last-updated-ms":1700000000000,"last-column-id":1,
		"current-schema-id":0,"schemas":[{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"x","required":false,"type":"long"}]}],"default-spec-id":0,
		"partition-specs":[{"spec-id":0,"fields":[]}],"last-partition-id":999,"default-sort-order-id":0,"sort-orders":[{"order-id":0,"fields":[]}],
		"properties":{},"current-snapshot-id":-1,"refs":{},"snapshots":[],"snapshot-log":[],"metadata-log":[]}`, uuid.New(), store.Join(root, name))
	location := store.Join(root, name, "metadata", fmt.Sprintf("00000-%s.metadata.json", uuid.New()))
	return location, st.Put(ctx, location, []byte(text), store.WriteOptions{IfAbsent: true})
}

// create registers an empty table.
func (s *suite) create(t *testing.T, id maintenance.TableID) string {
	t.Helper()
	location, err := WriteTable(t.Context(), s.Store, s.Root, "t"+uuid.NewString())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Catalog.(catalogs.Registrar).Register(t.Context(), id, location); err != nil {
		t.Fatalf("register %s: %v", id, err)
	}
	return location
}

// head loads the table.
func (s *suite) head(t *testing.T, id maintenance.TableID) *lake.Table {
	t.Helper()
	head, err := s.com.Head(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// Set is a change of one property, for the table that the base is.
func Set(base *lake.Table, key, value string) committer.Change {
	return committer.Change{
		Requirements: []table.Requirement{table.AssertTableUUID(base.Metadata.TableUUID())},
		Updates:      []table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{key: value})},
	}
}

// AddSnapshot is a change that adds an empty snapshot to main, which must be where the base has it.
func AddSnapshot(base *lake.Table, id int64) committer.Change {
	meta := base.Metadata
	var parent *int64
	at := time.Now().UnixMilli()
	if head := meta.CurrentSnapshot(); head != nil {
		parent, at = &head.SnapshotID, max(at, head.TimestampMs+1)
	}
	schema := meta.CurrentSchema().ID
	snap := &table.Snapshot{
		SnapshotID: id, ParentSnapshotID: parent, SequenceNumber: meta.LastSequenceNumber() + 1, TimestampMs: at, SchemaID: &schema,
		ManifestList: store.Join(meta.Location(), "metadata", fmt.Sprintf("snap-%d.avro", id)),
		Summary:      &table.Summary{Operation: table.OpAppend, Properties: iceberg.Properties{"writer": fmt.Sprint(id)}},
	}
	return committer.Change{
		Requirements: []table.Requirement{table.AssertTableUUID(meta.TableUUID()), table.AssertRefSnapshotID(table.MainBranch, parent)},
		Updates:      []table.Update{table.NewAddSnapshotUpdate(snap), table.NewSetSnapshotRefUpdate(table.MainBranch, id, table.BranchRef, 0, 0, 0)},
	}
}

// Disturb puts faults in front of a catalog that swaps pointers in a database or in memory, where there is no wire to cut.
func Disturb(cat interface {
	catalogs.Catalog
	catalogs.Registrar
	catalogs.Swapper
},
) (disturbed catalogs.Catalog, arm func(Fault)) {
	d := &disturbedCatalog{Catalog: cat, Registrar: cat, swapper: cat}
	return d, func(f Fault) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.armed = f
	}
}

// disturbedCatalog is a catalog whose next Swap meets a fault.
type disturbedCatalog struct {
	catalogs.Catalog
	catalogs.Registrar
	swapper catalogs.Swapper
	mu      sync.Mutex
	armed   Fault
}

// errCut is what a client sees of a cut connection.
var errCut = errors.New("connection reset by peer") // a sentinel

// Swap meets the armed fault, once.
func (d *disturbedCatalog) Swap(ctx context.Context, id maintenance.TableID, base catalogs.Pointer, location string) error {
	d.mu.Lock()
	fault := d.armed
	d.armed = ""
	d.mu.Unlock()
	switch fault {
	case Unavailable:
		return errCut
	case Forbidden:
		return fmt.Errorf("permission denied: %w", catalogs.ErrRefused)
	case "":
		return d.swapper.Swap(ctx, id, base, location)
	}
	if err := d.swapper.Swap(ctx, id, base, location); err != nil {
		return err
	}
	if fault == SlowAnswer {
		<-ctx.Done()
		return ctx.Err()
	}
	return errCut
}
