package evaluate_test

import (
	"context"
	"testing"

	"github.com/apache/iceberg-go/table"

	"firn/internal/contract"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/state"
)

// TestWhatARunLeft: what a run left is what was there before and what its own commits changed of it, whatever writers committed beside it, before and
// after. It is noted once; later looks only lower it.
func TestWhatARunLeft(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, partitions := range map[string]int{"in the head": 8, "in shards": 40} {
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
		id := tbl.State().ID
		tbl.Commit(bare(t, tbl, partitions, 0)...)
		l := newLooker(t, w, observe)
		l.over(state.NewMemory(), policy.Document{})
		l.tell(t, "t")
		head, err := l.state.LoadHead(ctx, id)
		if err != nil || (head.ShardCount > 0) != (partitions > 32) {
			t.Fatalf("%s: %d shards, %v", name, head.ShardCount, err)
		}
		head.Jobs = map[maintenance.Job]state.JobState{
			maintenance.RewriteDataFiles: {LastRunMS: 1, LastOutcome: maintenance.Committed}, maintenance.RewriteManifests: {LastRunMS: 1, LastOutcome: maintenance.Committed},
		}
		if _, err := l.state.SaveHead(ctx, head); err != nil {
			t.Fatal(err)
		}
		left := func() (small, manifests int64) {
			head, err := l.state.LoadHead(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			data, lists := head.Jobs[maintenance.RewriteDataFiles], head.Jobs[maintenance.RewriteManifests]
			if data.Left == nil || data.LeftEquality == nil || lists.Left == nil || *data.LeftEquality != 0 {
				t.Fatalf("%s: left %+v and %+v", name, data, lists)
			}
			return *data.Left, *lists.Left
		}
		tbl.Commit(bare(t, tbl, 1, 5)...)
		tbl.Commit(append(bare(t, tbl, 1, 7), icebergtest.Operation(table.OpReplace), icebergtest.Summary(contract.SummaryRunID, "r1"))...)
		tbl.Commit(bare(t, tbl, 1, 5)...)
		tbl.Commit(bare(t, tbl, 1, 5)...)
		l.tell(t, "t")
		// One file in each partition, one more from the run in one of them; its commit made a second manifest of one.
		if small, manifests := left(); small != 2 || manifests != 2 {
			t.Errorf("%s: the run left %d small files and %d manifests, want 2 and 2", name, small, manifests)
		}
		tbl.Commit(bare(t, tbl, 1, 5)...)
		l.tell(t, "t")
		if small, manifests := left(); small != 2 || manifests != 2 {
			t.Errorf("%s: after another commit, %d small files and %d manifests, want 2 and 2", name, small, manifests)
		}
	}
}
