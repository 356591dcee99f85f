package commit

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// TestRebaseInPartitionsOfEachType: the delete set of an output is found by the rules of the specification, whatever type its partition has. A tuple
// that is spelled differently would hide it from readers.
func TestRebaseInPartitionsOfEachType(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 2, 29, 13, 0, 0, 0, time.UTC)
	row := func(n int64, null bool) icebergtest.Row {
		r := icebergtest.Row{n, "é=/%", at, at, at, "12.50", "5f3f1b4e-1a2b-4c3d-8e9f-0123456789ab", []byte{0, 255}, true, 1.5}
		if null {
			for i := 1; i < len(r); i++ {
				r[i] = nil
			}
		}
		return r
	}
	for _, version := range []int{2, 3} {
		for _, null := range []bool{false, true} {
			x := newFixture(t, icebergtest.Version(version),
				icebergtest.Columns("id long", "s string", "d date", "ts timestamp", "tz timestamptz", "dec decimal(9,2)", "u uuid", "b binary", "f boolean", "x double"),
				icebergtest.Partitioned("s", "d", "hour(ts)", "day(tz)", "dec", "u", "b", "f", "bucket(7,id)", "truncate(2,s)", "x"))
			// Rows of one bucket of id.
			paths := x.table.Commit(icebergtest.Append(row(1, null), row(1, null))).DataFiles
			paths = append(paths, x.table.Commit(icebergtest.Append(row(1, null))).DataFiles...)
			x.pin(false, paths)
			x.compact()
			if version == 3 {
				x.table.Commit(icebergtest.DeleteVector(paths[1], 0))
			} else {
				x.table.Commit(icebergtest.DeletePositions(paths[1], 0))
			}
			x.want(maintenance.Committed, "")
			ctx, state := context.Background(), x.table.State()
			manifests, err := lake.Manifests(ctx, x.world.Store, x.head())
			x.check(err)
			index, err := lake.BuildDeleteIndex(ctx, x.world.Store, state, manifests)
			x.check(err)
			data, _ := x.live()
			if len(data) != 1 || index.Len() != 1 {
				t.Fatalf("v%d: %d data files, %d delete files", version, len(data), index.Len())
			}
			if applying, err := index.For(data[0]); err != nil || len(applying) != 1 {
				t.Errorf("v%d, null %t: %d delete files apply to the output, %v: want 1", version, null, len(applying), err)
			}
		}
	}
}

// TestRebaseThroughPermutation: the row map of a sort is an object of its own.
func TestRebaseThroughPermutation(t *testing.T) {
	t.Parallel()
	x := newRebase(t, 3, nil)
	x.plan()
	var m handoff.RowMap
	x.check(x.work.Read(context.Background(), x.work.RowMap(maintenance.RewriteDataFiles, 0, "a"), &m))
	var buf bytes.Buffer
	w := handoff.PermutationTo(&buf, 6)
	var sources []handoff.RowCounts
	for _, s := range m.Sources {
		x.check(w.Append([]int64{s.Ranges[0].Offset, s.Ranges[1].Offset, s.Ranges[2].Offset}))
		sources = append(sources, handoff.RowCounts{Path: s.Path, Rows: 3})
	}
	x.check(w.Close(sources, []handoff.RowCounts{{Path: m.Outputs[0], Rows: 6}}))
	at := x.work.Permutation(maintenance.RewriteDataFiles, 0, "a")
	x.check(x.world.Store.Put(context.Background(), at, buf.Bytes(), writeOver))
	x.editResult(0, func(r *handoff.GroupResult) { r.RowMap, r.Permutation = "", at })
	x.commits(icebergtest.DeleteVector(x.paths[1], 2))
	x.want(maintenance.Committed, "")
	if got := x.describe(); !slices.Equal(got, []string{"vector of 1 for g0/0, new"}) {
		t.Errorf("live %q", got)
	}
}
