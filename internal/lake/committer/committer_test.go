package committer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

var (
	tableID = maintenance.TableID{Catalog: "c", Namespace: maintenance.NewNamespace("db"), Name: "t"}
	clock   = time.UnixMilli(1_800_000_000_000)
)

// fixedClock never moves.
func fixedClock() time.Time { return clock }

// foreign is metadata as another writer may leave it: white space, -1 for no snapshot on other branches, members that no specification knows,
// an encrypted manifest list's key, statistics, two schemas.
const foreign = `{
  "format-version" : 3, "table-uuid" : "9c12d441-03fe-4693-9a96-a0705ddf69c1", "location" : "mem://lake/db/t",
  "last-sequence-number" : 34, "last-updated-ms" : 1700000000000, "last-column-id" : 3, "vendor-hint" : {"z": 1, "a": [1.50, 1e3]},
  "current-schema-id" : 1,
  "schemas" : [ {"type":"struct","schema-id":0,"vendor":"x","fields":[{"id":1,"name":"x","required":true,"type":"long"}]},
    {"type":"struct","schema-id":1,"identifier-field-ids":[1],"fields":[{"id":1,"name":"x","required":true,"type":"long","doc":"an <id>"},
     {"id":2,"name":"y","required":false,"type":"int","initial-default":7,"write-default":8},{"id":3,"name":"z","required":false,"type":"string"}]} ],
  "default-spec-id" : 0, "partition-specs" : [ {"spec-id":0,"fields":[{"name":"x","transform":"identity","source-id":1,"field-id":1000,"vendor":true}]} ],
  "last-partition-id" : 1000,
  "default-sort-order-id" : 3, "sort-orders" : [ {"order-id":3,"fields":[{"transform":"identity","source-id":2,"direction":"asc","null-order":"nulls-first"}]} ],
  "properties" : {"owner":"ann","a":"<b>&"},
  "current-snapshot-id" : 2, "next-row-id" : 10,
  "snapshots" : [ {"snapshot-id":1,"timestamp-ms":1699999000000,"sequence-number":33,"summary":{"operation":"append","who":"é"},"manifest-list":"mem://lake/1.avro","schema-id":0,"first-row-id":0,"added-rows":4,"key-id":"k1"},
    {"snapshot-id":2,"parent-snapshot-id":1,"timestamp-ms":1699999500000,"sequence-number":34,"summary":{"operation":"append"},"manifest-list":"mem://lake/2.avro","schema-id":1,"first-row-id":4,"added-rows":6,"key-id":"k2"} ],
  "snapshot-log" : [ {"snapshot-id":1,"timestamp-ms":1699999000000},{"snapshot-id":2,"timestamp-ms":1699999500000} ],
  "metadata-log" : [ {"timestamp-ms":1699999000000,"metadata-file":"mem://lake/db/t/metadata/v1.metadata.json"} ],
  "refs" : { "main":{"snapshot-id":2,"type":"branch","min-snapshots-to-keep":3}, "audit":{"snapshot-id":1,"type":"tag","max-ref-age-ms":99999999,"vendor":1} },
  "statistics" : [ {"snapshot-id":2,"statistics-path":"mem://lake/s.puffin","file-size-in-bytes":413,"file-footer-size-in-bytes":42,"key-metadata":"aGk=","blob-metadata":[{"type":"ndv","snapshot-id":2,"sequence-number":34,"fields":[1],"properties":{"ndv":"5"}}]} ],
  "partition-statistics" : [ {"snapshot-id":2,"statistics-path":"mem://lake/p.parquet","file-size-in-bytes":43} ],
  "encryption-keys" : [ {"key-id":"k1","encrypted-key-metadata":"aGVsbG8=","encrypted-by-id":"root","properties":{"a":"b"}} ]
}`

// world is a table in a memory catalog and a memory store.
type world struct {
	store  *store.Memory
	memory *catalogs.Memory
	cat    *disturbed
	com    committer.Committer
}

// disturbed is the memory catalog with a hook around Swap.
type disturbed struct {
	*catalogs.Memory
	swap func(ctx context.Context, id maintenance.TableID, base catalogs.Pointer, location string) error
}

func (d *disturbed) Swap(ctx context.Context, id maintenance.TableID, base catalogs.Pointer, location string) error {
	if d.swap != nil {
		return d.swap(ctx, id, base, location)
	}
	return d.Memory.Swap(ctx, id, base, location)
}

// newWorld registers the metadata text under the file name.
func newWorld(t *testing.T, text, file string) *world {
	t.Helper()
	w := &world{store: store.NewMemory(func() time.Time { return clock }), memory: catalogs.NewMemory("c")}
	w.cat = &disturbed{Memory: w.memory}
	location := "mem://lake/db/t/metadata/" + file
	if err := w.store.Put(t.Context(), location, []byte(text), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.memory.Register(t.Context(), tableID, location); err != nil {
		t.Fatal(err)
	}
	n := byte(0)
	com, err := committer.New(w.cat, w.store, committer.Options{Now: func() time.Time { return clock }, NewUUID: func() uuid.UUID {
		n++
		return uuid.UUID{15: n}
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.com = com
	return w
}

func (w *world) head(t *testing.T) *lake.Table {
	t.Helper()
	head, err := w.com.Head(t.Context(), tableID)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// set is a change of property k, under the requirement that the table is the base's.
func set(base *lake.Table, value string) committer.Change {
	return committer.Change{
		Requirements: []table.Requirement{table.AssertTableUUID(base.Metadata.TableUUID())},
		Updates:      []table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{"k": value})},
	}
}

// addSnapshot is a change that appends an empty snapshot to main.
func addSnapshot(base *lake.Table, id int64) committer.Change {
	meta := base.Metadata
	schema, first, added := meta.CurrentSchema().ID, meta.NextRowID(), int64(5)
	snap := &table.Snapshot{
		SnapshotID: id, SequenceNumber: meta.LastSequenceNumber() + 1, TimestampMs: clock.UnixMilli(), ManifestList: fmt.Sprintf("mem://lake/%d.avro", id),
		SchemaID: &schema, FirstRowID: &first, AddedRows: &added, Summary: &table.Summary{Operation: table.OpReplace, Properties: iceberg.Properties{"firn.run-id": "r"}},
	}
	var parent *int64
	if head := meta.CurrentSnapshot(); head != nil {
		parent = &head.SnapshotID
	}
	snap.ParentSnapshotID = parent
	return committer.Change{
		Requirements: []table.Requirement{table.AssertTableUUID(meta.TableUUID()), table.AssertRefSnapshotID("main", parent)},
		Updates:      []table.Update{table.NewAddSnapshotUpdate(snap), table.NewSetSnapshotRefUpdate("main", id, table.BranchRef, 0, 0, 3)},
	}
}

func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestCommitKeepsWhatItDoesNotTouch commits a snapshot and compares every other byte of meaning.
func TestCommitKeepsWhatItDoesNotTouch(t *testing.T) {
	w := newWorld(t, foreign, "00004-c0ffee.metadata.json")
	base := w.head(t)
	result, err := w.com.Commit(t.Context(), base, addSnapshot(base, 77))
	if err != nil {
		t.Fatal(err)
	}
	const want = "mem://lake/db/t/metadata/00005-00000000-0000-0000-0000-000000000001.metadata.json"
	if result.MetadataLocation != want || len(result.Unneeded) != 0 {
		t.Errorf("result: got %q, unneeded %v", result.MetadataLocation, result.Unneeded)
	}
	if ptr, err := w.memory.Load(t.Context(), tableID); err != nil || ptr.MetadataLocation != want {
		t.Errorf("pointer: got %q, %v", ptr.MetadataLocation, err)
	}
	if result.Table.Metadata.CurrentSnapshot().SnapshotID != 77 || result.Table.Pointer.MetadataLocation != want || result.Table.ID != tableID {
		t.Errorf("table of the result: %+v", result.Table)
	}
	data, err := w.store.Get(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	before, after := decode(t, []byte(foreign)), decode(t, data)
	expected := maps.Clone(before)
	expected["last-sequence-number"], expected["last-updated-ms"] = 35.0, float64(clock.UnixMilli())
	expected["current-snapshot-id"], expected["next-row-id"] = 77.0, 15.0
	refs := before["refs"].(map[string]any)
	refs["main"] = map[string]any{"snapshot-id": 77.0, "type": "branch", "min-snapshots-to-keep": 3.0}
	expected["snapshot-log"] = append(before["snapshot-log"].([]any), map[string]any{"snapshot-id": 77.0, "timestamp-ms": float64(clock.UnixMilli())})
	expected["metadata-log"] = append(before["metadata-log"].([]any), map[string]any{
		"timestamp-ms": 1700000000000.0, "metadata-file": "mem://lake/db/t/metadata/00004-c0ffee.metadata.json",
	})
	expected["snapshots"] = append(before["snapshots"].([]any), map[string]any{
		"snapshot-id": 77.0, "parent-snapshot-id": 2.0, "sequence-number": 35.0, "timestamp-ms": float64(clock.UnixMilli()), "manifest-list": "mem://lake/77.avro",
		"schema-id": 1.0, "first-row-id": 10.0, "added-rows": 5.0, "summary": map[string]any{"operation": "replace", "firn.run-id": "r"},
	})
	if diff := cmp.Diff(expected, after); diff != "" {
		t.Errorf("metadata: -want +got\n%s", diff)
	}
	if !strings.Contains(string(data), `[1.50,1e3]`) {
		t.Error("numbers of an unknown member were rewritten")
	}
}

func TestCommitWithoutSnapshotTakesTheClock(t *testing.T) {
	w := newWorld(t, foreign, "v4.metadata.json")
	base := w.head(t)
	result, err := w.com.Commit(t.Context(), base, set(base, "v"))
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Table.Metadata.LastUpdatedMillis(); got != clock.UnixMilli() {
		t.Errorf("last-updated-ms: got %d", got)
	}
	if name := path.Base(result.MetadataLocation); !strings.HasPrefix(name, "00005-") {
		t.Errorf("name after v4: got %s", name)
	}
	clock := clock
	com, err := committer.New(w.memory, w.store, committer.Options{Now: func() time.Time { return clock.Add(-time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	base = w.head(t)
	if result, err = com.Commit(t.Context(), base, set(base, "w")); err != nil {
		t.Fatal(err)
	}
	if got := result.Table.Metadata.LastUpdatedMillis(); got != clock.UnixMilli() {
		t.Errorf("last-updated-ms under a slow clock: got %d, want the base's", got)
	}
}

func TestMetadataFileNames(t *testing.T) {
	for _, test := range []struct {
		current, properties, want string
	}{
		{"00004-c0ffee.metadata.json", "", "metadata/00005-U.metadata.json"},
		{"v12.metadata.json", "", "metadata/00013-U.metadata.json"},
		{"v3.gz.metadata.json", "", "metadata/00004-U.metadata.json"},
		{"123456-x.metadata.json", "", "metadata/123457-U.metadata.json"},
		{"00007-x.metadata.json.gz", "", "metadata/00008-U.metadata.json"},
		{"table.json", "", "metadata/00002-U.metadata.json"},
		{"99999999999999999999-x.metadata.json", "", "metadata/00002-U.metadata.json"},
		{"v.metadata.json", "", "metadata/00002-U.metadata.json"},
		{"00001-x.metadata.json", `"write.metadata.compression-codec":"GZIP"`, "metadata/00002-U.gz.metadata.json"},
		{"00001-x.metadata.json", `"write.metadata.compression-codec":"none","write.metadata.path":"mem://meta/elsewhere/"`, "elsewhere/00002-U.metadata.json"},
	} {
		t.Run(test.current+test.properties, func(t *testing.T) {
			text := foreign
			if test.properties != "" {
				text = strings.Replace(text, `"owner":"ann"`, test.properties, 1)
			}
			w := newWorld(t, text, test.current)
			base := w.head(t)
			result, err := w.com.Commit(t.Context(), base, set(base, "v"))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Replace(result.MetadataLocation, uuid.UUID{15: 1}.String(), "U", 1); !strings.HasSuffix(got, "/"+test.want) {
				t.Errorf("got %s, want …/%s", got, test.want)
			}
			data, err := w.store.Get(t.Context(), result.MetadataLocation)
			if err != nil {
				t.Fatal(err)
			}
			if packed := data[0] == 0x1f; packed != strings.Contains(test.want, ".gz.") {
				t.Errorf("packed: got %v under the name %s", packed, result.MetadataLocation)
			}
			if got := w.head(t).Metadata.Properties()["k"]; got != "v" {
				t.Errorf("read back: property is %q", got)
			}
		})
	}
	t.Run("unknown codec", func(t *testing.T) {
		w := newWorld(t, strings.Replace(foreign, `"owner":"ann"`, `"write.metadata.compression-codec":"brotli"`, 1), "v1.metadata.json")
		base := w.head(t)
		if _, err := w.com.Commit(t.Context(), base, set(base, "v")); !errors.Is(err, catalogs.ErrRefused) || !strings.Contains(err.Error(), "brotli") {
			t.Errorf("got %v, want ErrRefused that names the codec", err)
		}
	})
}

func TestMetadataLogIsTrimmed(t *testing.T) {
	for _, cleaned := range []bool{false, true} {
		t.Run(fmt.Sprintf("delete-after-commit %v", cleaned), func(t *testing.T) {
			props := fmt.Sprintf(`"write.metadata.previous-versions-max":"2","write.metadata.delete-after-commit.enabled":"%v"`, cleaned)
			w := newWorld(t, strings.Replace(foreign, `"owner":"ann"`, props, 1), "00001-x.metadata.json")
			var written, unneeded []string
			for i := range 4 {
				base := w.head(t)
				written = append(written, base.Pointer.MetadataLocation)
				result, err := w.com.Commit(t.Context(), base, set(base, fmt.Sprint(i)))
				if err != nil {
					t.Fatal(err)
				}
				unneeded = append(unneeded, result.Unneeded...)
			}
			var want []string
			if cleaned {
				want = append([]string{"mem://lake/db/t/metadata/v1.metadata.json"}, written[:2]...)
			}
			if diff := cmp.Diff(want, unneeded); diff != "" {
				t.Errorf("unneeded: -want +got\n%s", diff)
			}
			var log []string
			for e := range w.head(t).Metadata.PreviousFiles() {
				log = append(log, e.MetadataFile)
			}
			if diff := cmp.Diff(written[2:], log); diff != "" {
				t.Errorf("metadata log: -want +got\n%s", diff)
			}
		})
	}
}

func TestFailedRequirementIsConflictAndWritesNothing(t *testing.T) {
	w := newWorld(t, foreign, "v4.metadata.json")
	base := w.head(t)
	one := int64(1)
	for name, r := range map[string]table.Requirement{
		"uuid": table.AssertTableUUID(uuid.UUID{1}), "ref": table.AssertRefSnapshotID("main", &one), "new ref": table.AssertRefSnapshotID("audit", nil),
		"schema": table.AssertCurrentSchemaID(0), "create": table.AssertCreate(),
	} {
		change := set(base, "v")
		change.Requirements = append(change.Requirements, r)
		if _, err := w.com.Commit(t.Context(), base, change); !errors.Is(err, catalogs.ErrConflict) {
			t.Errorf("%s: got %v, want ErrConflict", name, err)
		}
	}
	if got := w.files(t); len(got) != 1 {
		t.Errorf("files: %v", got)
	}
}

func (w *world) files(t *testing.T) []string {
	t.Helper()
	var files []string
	for info, err := range w.store.List(t.Context(), "mem://lake/", store.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, info.Location)
	}
	return files
}

// TestEndsOfTheSwap covers what is kept and what is given up after each end of the catalog's call.
func TestEndsOfTheSwap(t *testing.T) {
	for _, test := range []struct {
		name     string
		err      error
		unneeded bool
	}{
		{"conflict", fmt.Errorf("moved: %w", catalogs.ErrConflict), true},
		{"refused", fmt.Errorf("not allowed: %w", catalogs.ErrRefused), true},
		{"unknown", errors.New("connection reset"), false},
		{"timeout", context.DeadlineExceeded, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, foreign, "00001-x.metadata.json")
			w.cat.swap = func(context.Context, maintenance.TableID, catalogs.Pointer, string) error { return test.err }
			base := w.head(t)
			result, err := w.com.Commit(t.Context(), base, addSnapshot(base, 77))
			if !errors.Is(err, test.err) || result.Table != nil {
				t.Errorf("commit: got %v, %v", result.Table, err)
			}
			var want []string
			if test.unneeded {
				want = []string{result.MetadataLocation}
			}
			if diff := cmp.Diff(want, result.Unneeded); diff != "" {
				t.Errorf("unneeded: -want +got\n%s", diff)
			}
			if !slices.Contains(w.files(t), result.MetadataLocation) {
				t.Errorf("the committer removed %s", result.MetadataLocation)
			}
			// The left-over wedges nobody: its name holds a UUID.
			w.cat.swap = nil
			if _, err := w.com.Commit(t.Context(), base, addSnapshot(base, 78)); err != nil {
				t.Errorf("next commit: %v", err)
			}
		})
	}
}

func TestStaleBase(t *testing.T) {
	w := newWorld(t, foreign, "00001-x.metadata.json")
	base := w.head(t)
	if _, err := w.com.Commit(t.Context(), base, set(base, "first")); err != nil {
		t.Fatal(err)
	}
	result, err := w.com.Commit(t.Context(), base, set(base, "second"))
	if !errors.Is(err, catalogs.ErrConflict) || len(result.Unneeded) != 1 {
		t.Errorf("stale base: got %v, unneeded %v", err, result.Unneeded)
	}
	if _, _, err := w.store.Delete(t.Context(), []string{base.Pointer.MetadataLocation}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.com.Commit(t.Context(), base, set(base, "third")); !errors.Is(err, catalogs.ErrConflict) {
		t.Errorf("stale base whose file was trimmed: got %v, want ErrConflict", err)
	}
	head := w.head(t)
	if _, _, err := w.store.Delete(t.Context(), []string{head.Pointer.MetadataLocation}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.com.Commit(t.Context(), head, set(head, "fourth")); !errors.Is(err, catalogs.ErrRefused) {
		t.Errorf("head whose file is missing: got %v, want ErrRefused", err)
	}
	if got := head.Metadata.Properties()["k"]; got != "first" {
		t.Errorf("property: got %q", got)
	}
}

// puts is a store whose Put misbehaves.
type puts struct {
	*store.Memory
	put func(ctx context.Context, location string, data []byte, opts store.WriteOptions) error
}

func (p *puts) Put(ctx context.Context, location string, data []byte, opts store.WriteOptions) error {
	return p.put(ctx, location, data, opts)
}

func TestMetadataFileCannotBeWritten(t *testing.T) {
	w := newWorld(t, foreign, "00001-x.metadata.json")
	st := &puts{Memory: w.store}
	com, err := committer.New(w.memory, st, committer.Options{Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	base := w.head(t)
	st.put = func(context.Context, string, []byte, store.WriteOptions) error { return store.ErrTransient }
	result, err := com.Commit(t.Context(), base, set(base, "v"))
	if !errors.Is(err, catalogs.ErrRefused) || !errors.Is(err, store.ErrTransient) || len(result.Unneeded) != 1 {
		t.Errorf("refused write: got %v, unneeded %v", err, result.Unneeded)
	}
	if now := w.head(t).Pointer.MetadataLocation; now != base.Pointer.MetadataLocation {
		t.Errorf("pointer moved to %s", now)
	}
	// A repeated PUT inside the store meets its own first try.
	st.put = func(ctx context.Context, location string, data []byte, opts store.WriteOptions) error {
		if !opts.IfAbsent {
			t.Error("metadata is written without the condition")
		}
		if err := w.store.Put(ctx, location, data, opts); err != nil {
			return err
		}
		return w.store.Put(ctx, location, data, opts)
	}
	if _, err := com.Commit(t.Context(), base, set(base, "v")); err != nil {
		t.Errorf("own first try: %v", err)
	}
	// A file of somebody else under our name is never overwritten.
	st.put = func(ctx context.Context, location string, _ []byte, opts store.WriteOptions) error {
		return errors.Join(w.store.Put(ctx, location, []byte("theirs"), opts), store.ErrExists)
	}
	base = w.head(t)
	if _, err := com.Commit(t.Context(), base, set(base, "w")); !errors.Is(err, catalogs.ErrRefused) {
		t.Errorf("somebody else's file: got %v", err)
	}
}

// TestUpdatesThatDoNotApply are refused, and do not panic.
func TestUpdatesThatDoNotApply(t *testing.T) {
	w := newWorld(t, foreign, "00001-x.metadata.json")
	base := w.head(t)
	for name, updates := range map[string][]table.Update{
		"current snapshot removed": {table.NewRemoveSnapshotsUpdate([]int64{2}, false)},
		"unknown ref":              {table.NewRemoveSnapshotRefUpdate("nope")},
		"snapshot twice":           {addSnapshot(base, 2).Updates[0]},
		"nothing":                  nil,
		"nil":                      {nil},
	} {
		if _, err := w.com.Commit(t.Context(), base, committer.Change{Updates: updates}); !errors.Is(err, catalogs.ErrRefused) {
			t.Errorf("%s: got %v, want ErrRefused", name, err)
		}
	}
	if got := w.files(t); len(got) != 1 {
		t.Errorf("files: %v", got)
	}
}

// TestExpiryKeepsTheRest removes the oldest snapshot, its tag and the statistics list's last entry.
func TestExpiryKeepsTheRest(t *testing.T) {
	w := newWorld(t, foreign, "00001-x.metadata.json")
	base := w.head(t)
	result, err := w.com.Commit(t.Context(), base, committer.Change{Updates: []table.Update{
		table.NewRemoveSnapshotRefUpdate("audit"), table.NewRemoveSnapshotsUpdate([]int64{1}, false), table.NewRemoveStatisticsUpdate(2),
		table.NewRemoveSchemasUpdate([]int{0}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := w.store.Get(t.Context(), result.MetadataLocation)
	if err != nil {
		t.Fatal(err)
	}
	before, after := decode(t, []byte(foreign)), decode(t, data)
	for _, key := range []string{"partition-statistics", "encryption-keys", "vendor-hint", "partition-specs", "sort-orders", "properties", "next-row-id"} {
		if diff := cmp.Diff(before[key], after[key]); diff != "" {
			t.Errorf("%s: -want +got\n%s", key, diff)
		}
	}
	for key, want := range map[string]any{
		"snapshots": before["snapshots"].([]any)[1:], "snapshot-log": before["snapshot-log"].([]any)[1:], "statistics": []any{},
		"schemas": before["schemas"].([]any)[1:], "refs": map[string]any{"main": before["refs"].(map[string]any)["main"]},
	} {
		if diff := cmp.Diff(want, after[key]); diff != "" {
			t.Errorf("%s: -want +got\n%s", key, diff)
		}
	}
}
