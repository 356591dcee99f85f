// Package icebergtest is support for tests: it unpacks the reference tables that Spark wrote, builds small worlds in words (World), and tells
// what rows a table holds with an engine that is not ours (Rows). Nothing of the product imports it.
package icebergtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/lake"
	"firn/internal/lake/avro"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// World is a place with tables: a store, a catalog and a clock. The clock starts at 2026-11-01T00:00:00Z and moves by one minute at each commit,
// names and snapshot IDs are made from counters, so that a world is the same each time it is built.
//
//	w := icebergtest.NewWorld(t)
//	tbl := w.NewTable("db.t", icebergtest.Columns("id long", "g string"), icebergtest.Partitioned("g"), icebergtest.Version(2))
//	first := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a"}, icebergtest.Row{2, "a"}))
//	tbl.Commit(icebergtest.DeletePositions(first.DataFiles[0], 0))
//	rows := tbl.Rows() // read by iceberg-go's scan
type World struct {
	// Store holds the objects. Catalog has the tables of the world.
	Store   store.Full
	Catalog *Catalog
	// Clock is the store's clock and gives snapshots their timestamps.
	Clock *Clock
	// Location is where tables are made.
	Location string
	// StockEvery makes a world quick when it is not 0: one commit of so many writes its manifests and their list with iceberg-go, and one metadata file of so
	// many is read back; the others take Firn's manifest writer and a list's of our own, a tenth as dear, and what iceberg-go's builder made.
	StockEvery int
	// Memo is what manifests are read and written with; nil remembers nothing. Worlds may share one.
	Memo *lake.Memo
	// Encoders are lent to the writers of lists; nil lends none. Worlds may share them.
	Encoders *avro.Deflaters

	tb testing.TB
	// states are the states that were read, by metadata location: such a file never changes.
	states sync.Map
}

// worldStart is an arbitrary time, later than any that a table of another engine under testdata has.
var worldStart = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// NewWorld makes an empty world in memory, under s3://world/.
func NewWorld(tb testing.TB) *World {
	tb.Helper()
	clock := &Clock{}
	clock.Set(worldStart)
	return &World{Store: store.NewMemory(clock.Now), Catalog: NewCatalog(""), Clock: clock, Location: "s3://world", tb: tb}
}

// NewLocalWorld makes an empty world of files under the test's temporary folder. The files' times are real ones.
func NewLocalWorld(tb testing.TB) *World {
	tb.Helper()
	w := NewWorld(tb)
	w.Store, w.Location = store.NewLocal(), "file://"+tb.TempDir()
	return w
}

// World makes a reference table's surroundings a world, so that a test can commit to the table as a concurrent writer.
func (r *Ref) World(tb testing.TB) *World {
	tb.Helper()
	return &World{Store: r.Store, Catalog: r.Catalog, Clock: r.Clock, Location: "s3://firn-ref/world", tb: tb}
}

// Table is a table of a world with a writer of test data. Its methods end the test on any error.
type Table struct {
	ID maintenance.TableID

	w *World
}

// TableOption describes a new table.
type TableOption func(*tableSpec)

type tableSpec struct {
	schema      *iceberg.Schema
	partitioned []string
	version     int
	location    string
	props       iceberg.Properties
	err         error
}

// Columns gives the columns as "name type" or "name type required"; field IDs count from 1. Without it a table has "id long", "g string" and
// "val double".
func Columns(columns ...string) TableOption {
	return func(s *tableSpec) { s.schema, s.err = parseSchema(columns) }
}

// Schema gives the schema; iceberg-go numbers its fields anew.
func Schema(schema *iceberg.Schema) TableOption { return func(s *tableSpec) { s.schema = schema } }

// Partitioned gives the partition fields as "g", "bucket(4, id)", "day(ts)", "truncate(3, s)", named g, id_bucket, ts_day, s_trunc.
func Partitioned(fields ...string) TableOption {
	return func(s *tableSpec) { s.partitioned = fields }
}

// Version gives the format version; 2 without it.
func Version(version int) TableOption { return func(s *tableSpec) { s.version = version } }

// Property sets a table property.
func Property(key, value string) TableOption { return func(s *tableSpec) { s.props[key] = value } }

// At puts the table elsewhere than under the world's location.
func At(location string) TableOption { return func(s *tableSpec) { s.location = location } }

// NewTable makes an empty table and registers it. The name is "namespace.table".
func (w *World) NewTable(name string, opts ...TableOption) *Table {
	w.tb.Helper()
	id, err := maintenance.ParseTableID(w.Catalog.Name(), name)
	w.check(err)
	spec := tableSpec{version: 2, location: store.Join(w.Location, strings.ReplaceAll(name, ".", "/")), props: iceberg.Properties{}}
	Columns("id long", "g string", "val double")(&spec)
	for _, opt := range opts {
		opt(&spec)
		w.check(spec.err)
	}
	partitions, err := parseSpec(spec.schema, spec.partitioned)
	w.check(err)
	spec.props[table.PropertyFormatVersion] = strconv.Itoa(spec.version)
	id128 := uuid.UUID(hash(name, w.Location)[:16])
	meta, err := table.NewMetadataWithUUID(spec.schema, partitions, table.UnsortedSortOrder, spec.location, spec.props, id128)
	w.check(err)
	t := &Table{ID: id, w: w}
	w.check(w.Catalog.Register(context.Background(), id, t.putMetadata(meta, 0)))
	return t
}

// Open returns a table of the world's catalog.
func (w *World) Open(id maintenance.TableID) *Table { return &Table{ID: id, w: w} }

// State loads the table's current state.
func (t *Table) State() *lake.Table {
	t.w.tb.Helper()
	pointer := t.Pointer()
	if state, ok := t.w.states.Load(pointer.MetadataLocation); ok {
		return state.(*lake.Table)
	}
	state, err := lake.Read(context.Background(), t.w.Store, t.ID, pointer)
	t.w.check(err)
	t.w.states.Store(pointer.MetadataLocation, state)
	return state
}

// Update changes the metadata by iceberg-go's builder (properties, refs, schemas, specs, the format version) and swaps the pointer.
func (t *Table) Update(change func(b *table.MetadataBuilder) error) *lake.Table {
	t.w.tb.Helper()
	base := t.State()
	b, err := table.MetadataBuilderFromBase(base.Metadata, base.Pointer.MetadataLocation)
	t.w.check(err)
	t.w.check(change(b))
	meta, err := b.Build()
	t.w.check(err)
	location := t.putMetadata(meta, metadataVersion(base.Pointer.MetadataLocation)+1)
	t.w.check(t.w.Catalog.Swap(context.Background(), t.ID, base.Pointer, location))
	if t.w.quick(metadataVersion(location)) && meta.LastUpdatedMillis() == t.w.Clock.Now().UnixMilli() {
		t.w.states.Store(location, &lake.Table{ID: t.ID, Pointer: t.Pointer(), Metadata: meta})
	}
	t.w.Clock.Set(t.w.Clock.Now().Add(time.Minute))
	return t.State()
}

// quick says whether the n-th of something may take the quick way.
func (w *World) quick(n int) bool { return w.StockEvery > 0 && n%w.StockEvery != 0 }

// Known is the metadata behind a location, if somebody has read it before, or wrote it in a quick world.
func (w *World) Known(location string) (table.Metadata, bool) {
	state, ok := w.states.Load(location)
	if !ok {
		return nil, false
	}
	return state.(*lake.Table).Metadata, true
}

// Forget deletes a metadata file that the table has left, as write.metadata.delete-after-commit.enabled does, and what the world remembers of it: a world that
// lives for long would otherwise hold each snapshot once for each commit after it.
func (w *World) Forget(location string) {
	w.tb.Helper()
	w.states.Delete(location)
	_, failures, err := w.Store.Delete(context.Background(), []string{location})
	w.check(err)
	if len(failures) > 0 {
		w.tb.Fatal(failures)
	}
}

// SetProperty sets a table property.
func (t *Table) SetProperty(key, value string) {
	t.w.tb.Helper()
	t.Update(func(b *table.MetadataBuilder) error { return b.SetProperties(iceberg.Properties{key: value}) })
}

// Tag and Branch make or move a ref to a snapshot, without retention.
func (t *Table) Tag(name string, snapshotID int64) { t.setRef(name, snapshotID, table.TagRef) }

// Branch makes or moves a branch; moving "main" is a rollback or a fast forward.
func (t *Table) Branch(name string, snapshotID int64) { t.setRef(name, snapshotID, table.BranchRef) }

func (t *Table) setRef(name string, snapshotID int64, kind table.RefType) {
	t.w.tb.Helper()
	t.Update(func(b *table.MetadataBuilder) error { return b.SetSnapshotRef(name, snapshotID, kind) })
}

// Upgrade raises the format version.
func (t *Table) Upgrade(version int) {
	t.w.tb.Helper()
	t.Update(func(b *table.MetadataBuilder) error { return b.SetFormatVersion(version) })
}

// Repartition sets another partition spec, in the words of Partitioned.
func (t *Table) Repartition(fields ...string) {
	t.w.tb.Helper()
	t.Update(func(b *table.MetadataBuilder) error {
		spec, err := parseSpec(b.CurrentSchema(), fields)
		if err != nil {
			return err
		}
		if err := b.AddPartitionSpec(spec, false); err != nil {
			return err
		}
		return b.SetDefaultSpecID(-1)
	})
}

// putMetadata writes a metadata file and returns its location. Last-updated-ms is the world's time.
func (t *Table) putMetadata(meta table.Metadata, version int) string {
	t.w.tb.Helper()
	data, err := json.Marshal(meta)
	t.w.check(err)
	// A key's quotes are escaped within a value, so that these are found in a key only, and the table's is the only one of its name.
	written, now := fmt.Appendf(nil, `"last-updated-ms":%d`, meta.LastUpdatedMillis()), fmt.Appendf(nil, `"last-updated-ms":%d`, t.w.Clock.Now().UnixMilli())
	if bytes.Count(data, written) != 1 {
		t.w.tb.Fatalf("metadata without %s: %s", written, data)
	}
	data = bytes.Replace(data, written, now, 1)
	name := fmt.Sprintf("%05d-%s.metadata.json", version, uuid.UUID(hash(meta.TableUUID(), version, t.w.Clock.Now())[:16]))
	location := store.Join(meta.Location(), "metadata", name)
	t.w.check(t.w.Store.Put(context.Background(), location, data, store.WriteOptions{IfAbsent: true}))
	return location
}

// Pointer is what the catalog says of the table.
func (t *Table) Pointer() catalogs.Pointer {
	t.w.tb.Helper()
	p, err := t.w.Catalog.Load(context.Background(), t.ID)
	t.w.check(err)
	return p
}

func metadataVersion(location string) int {
	number, _, _ := strings.Cut(path.Base(location), "-")
	version, _ := strconv.Atoi(strings.TrimPrefix(strings.TrimSuffix(number, ".metadata.json"), "v"))
	return version
}

func (w *World) check(err error) {
	w.tb.Helper()
	if err != nil {
		w.tb.Fatal(err)
	}
}

// hash makes names and IDs from what they name.
func hash(parts ...any) []byte {
	sum := sha256.Sum256(fmt.Appendln(nil, parts...))
	return sum[:]
}

// snapshotID makes a positive ID.
func snapshotID(parts ...any) int64 {
	return int64(binary.BigEndian.Uint64(hash(parts...)) >> 1)
}
