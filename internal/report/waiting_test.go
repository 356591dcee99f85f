package report_test

import (
	"context"
	"maps"
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

// TestFailedPlanCountsForItsJob: a run that ended while its second job was planned notes that job as failed, and none behind it; the commits that those
// would have looked at stay counted.
func TestFailedPlanCountsForItsJob(t *testing.T) {
	t.Parallel()
	data, expire, orphans := maintenance.RewriteDataFiles, maintenance.ExpireSnapshots, maintenance.RemoveOrphanFiles
	request := maintenance.Request{Automatic: true, Jobs: []maintenance.JobRequest{{Job: data}, {Job: expire}, {Job: orphans}}}
	died := &maintenance.StepError{Error: "Runtime.ExitError"}
	for name, c := range map[string]struct {
		planned []maintenance.Job
		request maintenance.Request
		failure *maintenance.StepError
		want    map[maintenance.Job]maintenance.Outcome
		commits int64
	}{
		"ended at the first":  {nil, request, died, map[maintenance.Job]maintenance.Outcome{data: maintenance.Failed}, 3},
		"ended at the second": {[]maintenance.Job{data}, request, died, map[maintenance.Job]maintenance.Outcome{data: maintenance.NothingToDo, expire: maintenance.Failed}, 3},
		"all planned": {
			[]maintenance.Job{data, expire, orphans},
			request, died,
			map[maintenance.Job]maintenance.Outcome{data: maintenance.NothingToDo, expire: maintenance.NothingToDo, orphans: maintenance.NothingToDo},
			0,
		},
		"dry run": {[]maintenance.Job{data}, maintenance.Request{DryRun: true, Jobs: request.Jobs[:1]}, nil, map[maintenance.Job]maintenance.Outcome{}, 3},
	} {
		w, ctx := newWorld(t), context.Background()
		if _, err := w.state.SaveHead(ctx, state.Head{Table: w.run.Table, Commits: 3}); err != nil {
			t.Fatal(err)
		}
		for _, job := range c.planned {
			w.write(t, w.work.Index(job), &handoff.Index{V: contract.PayloadVersion, Run: w.run, Job: job, Outcome: maintenance.NothingToDo, DryRun: c.request.DryRun})
		}
		if _, err := w.fn.Handle(ctx, maintenance.ReportInput{V: contract.PayloadVersion, Run: w.run, Request: c.request, Error: c.failure}); err != nil {
			t.Fatal(err)
		}
		head, err := w.state.LoadHead(ctx, w.run.Table)
		if err != nil {
			t.Fatal(err)
		}
		got := map[maintenance.Job]maintenance.Outcome{}
		for job, s := range head.Jobs {
			got[job] = s.LastOutcome
		}
		if !maps.Equal(got, c.want) || head.Commits != c.commits {
			t.Errorf("%s: jobs %v, %d commits; want %v, %d", name, got, head.Commits, c.want, c.commits)
		}
	}
}

// TestRefusedCallsDoNotPauseTheTable: what is refused to a person says nothing about the automatic runs; what is refused to those does.
func TestRefusedCallsDoNotPauseTheTable(t *testing.T) {
	t.Parallel()
	for automatic, want := range map[bool]maintenance.Outcome{true: maintenance.Refused, false: maintenance.Committed} {
		w, ctx, job := newWorld(t), context.Background(), maintenance.RewriteDataFiles
		before := map[maintenance.Job]state.JobState{job: {LastRunMS: 1, LastOutcome: maintenance.Committed}}
		if _, err := w.state.SaveHead(ctx, state.Head{Table: w.run.Table, Jobs: before, Commits: 3}); err != nil {
			t.Fatal(err)
		}
		w.write(t, w.work.Index(job), &handoff.Index{V: contract.PayloadVersion, Run: w.run, Job: job, Outcome: maintenance.Refused, Reason: "because"})
		request := maintenance.Request{Automatic: automatic, Jobs: []maintenance.JobRequest{{Job: job}}}
		if _, err := w.fn.Handle(ctx, maintenance.ReportInput{V: contract.PayloadVersion, Run: w.run, Request: request}); err != nil {
			t.Fatal(err)
		}
		head, err := w.state.LoadHead(ctx, w.run.Table)
		if err != nil || head.Jobs[job].LastOutcome != want || (head.Commits == 0) != automatic {
			t.Errorf("automatic %t: %+v, %d commits, %v; want %s, and commits forgotten by automatic runs only", automatic, head.Jobs[job], head.Commits, err, want)
		}
	}
}
