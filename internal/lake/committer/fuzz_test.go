package committer_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/committer"
	"firn/internal/store"
)

// FuzzForeignMetadata commits to whatever parses as metadata: every end is committed or refused, never a panic, and a committed state reads back
// with every snapshot that was there.
func FuzzForeignMetadata(f *testing.F) {
	f.Add([]byte(foreign))
	f.Add([]byte(`{"format-version":1,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":"mem://l/t","last-updated-ms":1,"last-column-id":1,
		"schema":{"type":"struct","fields":[{"id":1,"name":"x","required":true,"type":"long"}]},"partition-spec":[],"properties":{},"current-snapshot-id":-1,"snapshots":[]}`))
	f.Add([]byte(`{"format-version":2,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":"mem://l/t","last-sequence-number":0,"last-updated-ms":1,"last-column-id":1,
		"current-schema-id":0,"schemas":[{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"x","required":true,"type":"long"}]}],"default-spec-id":0,
		"partition-specs":[{"spec-id":0,"fields":[]}],"last-partition-id":999,"default-sort-order-id":0,"sort-orders":[{"order-id":0,"fields":[]}],"x":{"x":1,"x":2}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		st := store.NewMemory(fixedClock)
		ptr := catalogs.Pointer{MetadataLocation: "mem://l/t/metadata/v1.metadata.json"}
		if err := st.Put(t.Context(), ptr.MetadataLocation, text, store.WriteOptions{}); err != nil {
			t.Skip()
		}
		meta, err := lake.ParseMetadata(text)
		if err != nil {
			t.Skip()
		}
		cat := catalogs.NewMemory("c")
		if err := cat.Register(t.Context(), tableID, ptr.MetadataLocation); err != nil {
			t.Fatal(err)
		}
		com, err := committer.New(cat, st, committer.Options{Now: fixedClock, NewUUID: func() uuid.UUID { return uuid.UUID{1} }})
		if err != nil {
			t.Fatal(err)
		}
		base := &lake.Table{ID: tableID, Pointer: ptr, Metadata: meta}
		result, err := com.Commit(t.Context(), base, set(base, "v"))
		if err != nil {
			if !errors.Is(err, catalogs.ErrRefused) {
				t.Errorf("commit: got %v, want ErrRefused", err)
			}
			return
		}
		if got, want := len(result.Table.Metadata.Snapshots()), len(meta.Snapshots()); got != want {
			t.Errorf("snapshots: got %d, want %d", got, want)
		}
		if got := result.Table.Metadata.TableUUID(); got != meta.TableUUID() {
			t.Errorf("table UUID: got %s", got)
		}
	})
}
