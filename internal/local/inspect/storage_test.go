package inspect_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"firn/internal/icebergtest"
	"firn/internal/local/inspect"
	"firn/internal/store"
)

// TestStorage tells what an expiry and a search for orphans would free.
func TestStorage(t *testing.T) {
	t.Parallel()
	ctx, w := context.Background(), icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	first := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 1.5})).DataFiles[0]
	tbl.Commit(icebergtest.Append(icebergtest.Row{2, "b", 1.5}))
	tbl.Commit(icebergtest.Remove(first))
	look := func(at time.Time) inspect.Storage {
		v, err := inspect.Look(ctx, w.Store, tbl.State(), at)
		if err != nil {
			t.Fatal(err)
		}
		return v.Storage(ctx)
	}
	now := w.Clock.Now().AddDate(0, 0, 1)
	if s := look(now); s.ExpirableSnapshots != 0 || s.Expirable != (inspect.Reclaimable{}) || s.Orphans.Files != 0 || !s.Complete || len(s.Notes) > 0 {
		t.Errorf("a young table: %+v", s)
	}
	memory := w.Store.(*store.Memory)
	for name, age := range map[string]int{"data/old.parquet": 10, "data/young.parquet": 1, "data/_hidden.parquet": 10} {
		at := store.Join(tbl.State().Metadata.Location(), name)
		if err := memory.Put(ctx, at, make([]byte, 1000), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := memory.SetModifiedAt(at, now.AddDate(0, 0, 30-age)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Store.Head(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	s := look(now.AddDate(0, 0, 30))
	// Two snapshots with their lists; the removed data file, and the manifest that held it.
	if s.ExpirableSnapshots != 2 || s.Expirable.Files != 4 || s.Expirable.Bytes <= info.SizeBytes {
		t.Errorf("expirable: %+v", s)
	}
	if s.Orphans != (inspect.Reclaimable{Files: 1, Bytes: 1000}) || s.Listed < 10 {
		t.Errorf("orphans: %+v", s)
	}
	tbl.SetProperty("gc.enabled", "false")
	if s = look(now.AddDate(0, 0, 30)); len(s.Notes) != 2 || !strings.Contains(s.Notes[0], "gc.enabled") {
		t.Errorf("a table that does not own its files: %+v", s)
	}
}
