package plan_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/plan"
)

// TestSortsAreCutByKeys: a group that is too large for one worker becomes several, each with files of one key range, whatever the order in which
// the files were written.
func TestSortsAreCutByKeys(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	names := map[string]int{}
	var size int64
	for _, n := range []int{3, 0, 5, 1, 4, 2} {
		c := tbl.Commit(icebergtest.Append(icebergtest.Row{int64(10 * n), "a", 0.5}, icebergtest.Row{int64(10*n + 9), "b", 1.5}))
		names[c.DataFiles[0]] = n
		info, err := w.Store.Head(context.Background(), c.DataFiles[0])
		if err != nil {
			t.Fatal(err)
		}
		size = max(size, info.SizeBytes)
	}
	for order, want := range map[string]string{
		"id": "0 1|2 3|4 5", "id desc": "5 4|3 2|1 0", "zorder(id, g)": "0 1|2 3|4 5", "bucket(4, id)": "", // Buckets have no bounds: any three groups.
	} {
		d := newDesk(t, w, tbl, func(deps *plan.Deps) { deps.SortGroupBytes = 2 * size })
		out := d.next(t, maintenance.Request{Jobs: []maintenance.JobRequest{{
			Job: maintenance.RewriteDataFiles, Args: map[string]string{"sort_order": order}, Options: map[string]string{"rewrite-all": "true"},
		}}}, maintenance.Cursor{})
		if out.Next != maintenance.NextCompact {
			t.Fatalf("%s: next %s: %s", order, out.Next, d.index(t, maintenance.RewriteDataFiles).Reason)
		}
		var got []string
		for i, at := range d.index(t, maintenance.RewriteDataFiles).Groups {
			var g handoff.Group
			if err := handoff.Open(d.work, workLocation, d.run.RunID).Read(context.Background(), at, &g); err != nil {
				t.Fatal(err)
			}
			if g.Index != i || g.Ordering == nil || g.ExpectedOutputFiles != 1 {
				t.Errorf("%s: group %d: index %d, ordering %+v, %d outputs", order, i, g.Index, g.Ordering, g.ExpectedOutputFiles)
			}
			var files []string
			for _, in := range g.Inputs {
				files = append(files, fmt.Sprint(names[in.Path]))
			}
			got = append(got, strings.Join(files, " "))
		}
		if want != "" && strings.Join(got, "|") != want {
			t.Errorf("%s: groups %q: want %q", order, got, want)
		}
		if len(got) != 3 {
			t.Errorf("%s: %d groups: want 3", order, len(got))
		}
	}
}

// TestBinPackFollowsTheTablesOrder: groups of a table with a sort order are ordered in parts of the size that a task of Spark's reads, and say which
// order that is; a sort of the same table orders the group as a whole, one by other columns follows none.
func TestBinPackFollowsTheTablesOrder(t *testing.T) {
	t.Parallel()
	ref := icebergtest.Reference(t, "sorted_order")
	for _, c := range []struct {
		args   map[string]string
		order  int
		parted bool
	}{
		{nil, 1, true},
		{map[string]string{"strategy": "sort"}, 1, false},
		{map[string]string{"sort_order": "ts DESC NULLS LAST, id ASC NULLS FIRST"}, 1, false},
		{map[string]string{"sort_order": "s, ts"}, 0, false},
		{map[string]string{"sort_order": "zorder(id, s)"}, 0, false},
	} {
		w := ref.World(t)
		d := newDesk(t, w, w.Open(ref.ID))
		d.next(t, maintenance.Request{Jobs: []maintenance.JobRequest{{
			Job: maintenance.RewriteDataFiles, Args: c.args, Options: map[string]string{"rewrite-all": "true"},
		}}}, maintenance.Cursor{})
		index := d.index(t, maintenance.RewriteDataFiles)
		if len(index.Groups) != 1 {
			t.Fatalf("%v: %d groups: %s", c.args, len(index.Groups), index.Reason)
		}
		var g handoff.Group
		if err := handoff.Open(d.work, workLocation, d.run.RunID).Read(context.Background(), index.Groups[0], &g); err != nil {
			t.Fatal(err)
		}
		if g.Ordering == nil || g.Ordering.SortOrderID != c.order || (g.Ordering.PartSizeBytes > 0) != c.parted {
			t.Errorf("%v: %+v: want sort order %d, in parts %t", c.args, g.Ordering, c.order, c.parted)
		}
	}
}
