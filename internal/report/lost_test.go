package report_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/state"
)

// TestLateReport: a run that lost its lease (stopped, noticed, and redriven too late) reports after looks and another run have gone on. Its history, its cost
// and the files that its expiry left waiting are noted; what the others know of jobs and commits stays, or debt would be hidden until more comes.
func TestLateReport(t *testing.T) {
	t.Parallel()
	for name, takeOver := range map[string]bool{"nobody has the table": false, "another run has it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ctx := newWorld(t), context.Background()
			now, left := time.UnixMilli(1_700_000_000_000), int64(3)
			until := now.Add(15 * time.Minute).UnixMilli()
			if _, err := w.state.Release(ctx, w.run.Table, w.run.Token); err != nil {
				t.Fatal(err)
			}
			if takeOver {
				fill := func(int64) (maintenance.RunID, []byte) { return "other", []byte("{}") }
				if _, err := w.state.Acquire(ctx, w.run.Table, now, time.Hour, fill); err != nil {
					t.Fatal(err)
				}
			}
			known := state.JobState{LastRunMS: 1, LastOutcome: maintenance.Committed, Left: &left, LastAgedMS: 1}
			before := state.Head{Table: w.run.Table, Commits: 5, Jobs: map[maintenance.Job]state.JobState{maintenance.RewriteDataFiles: known}}
			if _, err := w.state.SaveHead(ctx, before); err != nil {
				t.Fatal(err)
			}
			w.write(t, w.work.Index(maintenance.RewriteDataFiles), w.rewriteIndex(1, false, 0))
			w.write(t, w.work.Index(maintenance.ExpireSnapshots), &handoff.Index{V: contract.PayloadVersion, Run: w.run, Job: maintenance.ExpireSnapshots})
			w.write(t, w.work.Commit(maintenance.ExpireSnapshots, 0), &handoff.CommitResult{
				V: contract.PayloadVersion, Outcome: maintenance.Committed, Expired: &handoff.Expired{SnapshotIDs: []int64{1}},
			})
			w.write(t, w.work.Reach(maintenance.ExpireSnapshots, 0), &handoff.SweepReach{
				V: contract.PayloadVersion, ItemCount: 1, Ranges: []string{"r"}, NotBeforeMS: until,
				Summary: handoff.SweepSummary{V: contract.PayloadVersion, Outcome: maintenance.Committed, Candidates: 7},
			})
			in := maintenance.ReportInput{
				V: contract.PayloadVersion, Run: w.run, Error: &maintenance.StepError{Error: contract.ErrorLeaseLost},
				Request: maintenance.Request{Automatic: true, Jobs: []maintenance.JobRequest{{Job: maintenance.RewriteDataFiles, Aged: true}}},
			}
			for range 2 {
				if out, err := w.fn.Handle(ctx, in); err != nil || out.Outcome != maintenance.Failed {
					t.Fatal(out.Outcome, err)
				}
			}
			head, err := w.state.LoadHead(ctx, w.run.Table)
			got := head.Jobs[maintenance.RewriteDataFiles]
			if err != nil || head.Commits != 5 || got.LastRunMS != 1 || got.LastOutcome != maintenance.Committed || got.Left == nil || *got.Left != left || got.LastAgedMS != 1 {
				t.Errorf("%d commits, %+v (%v): want what was known before", head.Commits, got, err)
			}
			if expiry := head.Jobs[maintenance.ExpireSnapshots]; expiry.WaitingUntilMS != until || expiry.LastRunMS != 0 {
				t.Errorf("expiry %+v: want only that files wait", expiry)
			}
			if len(head.Spending.Runs) != 1 || head.Spending.Micros == 0 {
				t.Errorf("spending %+v: want that of one run", head.Spending)
			}
			if lease, held, err := w.state.Current(ctx, w.run.Table); err != nil || held != takeOver || held && lease.RunID != "other" {
				t.Errorf("lease %+v, held %v, %v", lease, held, err)
			}
		})
	}
}

// forgetful is a state that cannot save heads.
type forgetful struct {
	state.Store

	err error
}

func (f *forgetful) SaveHead(ctx context.Context, h state.Head) (state.Head, error) {
	if f.err != nil {
		return h, f.err
	}
	return f.Store.SaveHead(ctx, h)
}

// TestReportIsRepeatedWithTheLease: when the ledger could not be told, the lease is not freed, and the next try tells it.
func TestReportIsRepeatedWithTheLease(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	if _, err := w.state.SaveHead(ctx, state.Head{Table: w.run.Table, Commits: 5}); err != nil {
		t.Fatal(err)
	}
	w.write(t, w.work.Index(maintenance.RewriteDataFiles), w.rewriteIndex(1, false, 0))
	w.write(t, w.work.Commit(maintenance.RewriteDataFiles, 0), commitResult(maintenance.Committed, 7, 3))
	down := &forgetful{Store: w.state, err: errors.New("throttled")}
	fn := w.function(down)
	in := maintenance.ReportInput{V: contract.PayloadVersion, Run: w.run}
	if _, err := fn.Handle(ctx, in); !errors.Is(err, down.err) {
		t.Fatalf("error %v, want the store's", err)
	}
	down.err = nil
	if _, err := fn.Handle(ctx, in); err != nil {
		t.Fatal(err)
	}
	head, err := w.state.LoadHead(ctx, w.run.Table)
	if err != nil || head.Commits != 0 || head.Jobs[maintenance.RewriteDataFiles].LastOutcome != maintenance.Committed {
		t.Errorf("ledger %+v, %v: want the run in it", head, err)
	}
	if _, held, err := w.state.Current(ctx, w.run.Table); err != nil || held {
		t.Errorf("the lease is held: %v", err)
	}
}
