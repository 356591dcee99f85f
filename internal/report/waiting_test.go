package report_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/state"
)

// TestWaitingFiles: an expiry whose files may not be deleted yet says how many, until when and by what; the ledger remembers the time, and the run
// that deletes them says for whom.
func TestWaitingFiles(t *testing.T) {
	t.Parallel()
	w, ctx, job := newWorld(t), context.Background(), maintenance.ExpireSnapshots
	until := time.UnixMilli(1_700_000_000_000).Add(15 * time.Minute)
	if _, err := w.state.SaveHead(ctx, state.Head{Table: w.run.Table}); err != nil {
		t.Fatal(err)
	}
	w.write(t, w.work.Index(job), &handoff.Index{V: contract.PayloadVersion, Run: w.run, Job: job})
	w.write(t, w.work.Commit(job, 0), &handoff.CommitResult{
		V: contract.PayloadVersion, Outcome: maintenance.Committed, Expired: &handoff.Expired{SnapshotIDs: []int64{1, 2}},
	})
	w.write(t, w.work.Reach(job, 0), &handoff.SweepReach{
		V: contract.PayloadVersion, ItemCount: 1, Ranges: []string{"r"}, NotBeforeMS: until.UnixMilli(),
		Summary: handoff.SweepSummary{V: contract.PayloadVersion, Outcome: maintenance.Committed, Candidates: 7, CandidateBytes: 700},
	})
	w.write(t, w.work.Earlier(), &handoff.EarlierDeletions{V: contract.PayloadVersion, Runs: []handoff.EarlierDeletion{{
		RunID: "r0", Deleted: handoff.SweepDeleted{Deleted: 3, Bytes: 30, Columns: map[string]int64{"deleted_data_files_count": 2}},
	}}})
	out := w.handle(t, nil)
	got := out.Jobs[0]
	if got.Waiting == nil || *got.Waiting != (maintenance.Waiting{Files: 7, Bytes: 700, NotBeforeMS: until.UnixMilli()}) {
		t.Errorf("waiting %+v", got.Waiting)
	}
	for _, want := range []string{"2 snapshots expired", "7 files (700 bytes)", until.UTC().Format(time.RFC3339), "the first run on the table after that"} {
		if !strings.Contains(got.Reason, want) {
			t.Errorf("%q does not say %q", got.Reason, want)
		}
	}
	if got.Outcome != maintenance.Committed || len(out.Earlier) != 1 || out.Earlier[0].Files != 3 || out.Earlier[0].Columns["deleted_data_files_count"] != 2 {
		t.Errorf("outcome %s, earlier %+v", got.Outcome, out.Earlier)
	}
	head, err := w.state.LoadHead(ctx, w.run.Table)
	if err != nil || head.Jobs[job].WaitingUntilMS != until.UnixMilli() {
		t.Errorf("ledger %+v, %v: want it to wait until %s", head.Jobs[job], err, until)
	}
}
