package produce

import (
	"context"
	"testing"

	"firn/internal/icebergtest"
	"firn/internal/lake"
)

// TestEmptyPartitionBound: the empty string is a value. A summary that says null instead makes readers pass over the manifest. The first
// attempt writes a new manifest, the second keeps it and copies what the first list says.
func TestEmptyPartitionBound(t *testing.T) {
	for _, version := range []int{1, 2, 3} {
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t", icebergtest.Version(version), icebergtest.Partitioned("g"))
		tbl.Commit(icebergtest.Append(row(1, ""), row(2, "b")))
		tbl.Commit(icebergtest.Append(row(3, "")))
		a := onHead(t, w, tbl)
		a.Rewrite = map[string]bool{}
		for _, m := range a.Manifests {
			a.Rewrite[m.FilePath()] = true
		}
		for range 2 {
			product, err := a.snapshot(w)
			if err != nil {
				t.Fatal(err)
			}
			if a.Manifests, err = lake.Manifests(context.Background(), w.Store, product.Snapshot); err != nil {
				t.Fatal(err)
			}
			for _, m := range a.Manifests {
				if s := m.Partitions()[0]; s.LowerBound == nil || len(*s.LowerBound) != 0 || s.UpperBound == nil {
					t.Errorf("format version %d: the list says of g: %+v: want the empty string as lower bound", version, s)
				}
			}
			a.Rewrite, a.SnapshotID = nil, 78
		}
	}
}
