package local

import (
	"context"
	"slices"
	"strings"
	"sync"

	"firn/internal/commit"
	"firn/internal/edge"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/report"
	"firn/internal/store"
)

// answers remembers what functions of this process said about runs, for the case that nothing of it can be written down: on a laptop the disk of
// work and state may be full when a commit has just landed.
type answers struct {
	work     store.ReadWriter
	location string

	mu      sync.Mutex
	commits map[maintenance.RunID][]committed
	reports map[maintenance.RunID]maintenance.ReportOutput
}

// committed is a batch that landed.
type committed struct {
	job maintenance.Job
	out maintenance.CommitOutput
}

func newAnswers(work store.ReadWriter, location string) *answers {
	return &answers{
		work: work, location: location, commits: map[maintenance.RunID][]committed{}, reports: map[maintenance.RunID]maintenance.ReportOutput{},
	}
}

// commit is the function commit, whose batches that landed are remembered.
func (a *answers) commit(fn *commit.Function) edge.Raw {
	return edge.Handler(func(ctx context.Context, in maintenance.CommitInput) (maintenance.CommitOutput, error) {
		out, err := fn.Handle(ctx, in)
		if err == nil && out.Outcome == maintenance.Committed {
			a.mu.Lock()
			a.commits[in.Run.RunID] = append(a.commits[in.Run.RunID], committed{in.Job, out})
			a.mu.Unlock()
		}
		return out, err
	})
}

// report is the function report, whose outcome is remembered when it could not be stored, or when this process knows better.
func (a *answers) report(fn *report.Function) edge.Raw {
	return edge.Handler(func(ctx context.Context, in maintenance.ReportInput) (maintenance.ReportOutput, error) {
		out, err := fn.Handle(ctx, in)
		told := out
		told.Jobs = slices.Clone(out.Jobs)
		corrected := a.complete(ctx, &told, len(in.Request.Jobs))
		if err != nil {
			told.Reason = strings.TrimSuffix("the run's record could not be stored: "+err.Error()+"; "+told.Reason, "; ")
		}
		if corrected || err != nil && out.Run.RunID != "" {
			a.mu.Lock()
			a.reports[told.Run.RunID] = told
			a.mu.Unlock()
		}
		return out, err
	})
}

// complete corrects a report that could not find what commit could not write down; it reports whether it did.
func (a *answers) complete(ctx context.Context, out *maintenance.ReportOutput, wanted int) (corrected bool) {
	a.mu.Lock()
	landed := a.commits[out.Run.RunID]
	a.mu.Unlock()
	work, done := handoff.Open(a.work, a.location, out.Run.RunID), 0
	for i := range out.Jobs {
		job := &out.Jobs[i]
		var index handoff.Index
		if err := work.Read(ctx, work.Index(job.Job), &index); err != nil {
			continue // the report stays as it is
		}
		batches, last := 0, maintenance.CommitOutput{}
		for _, c := range landed {
			if c.job == job.Job {
				batches, last = batches+1, c.out
			}
		}
		if job.Outcome != maintenance.Committed && batches > 0 && batches == max(1, len(index.Batches)) {
			job.Outcome, job.SnapshotID, job.Reason, corrected = maintenance.Committed, last.SnapshotID, last.Reason, true
		}
		if job.Outcome == maintenance.Committed || job.Outcome == maintenance.NothingToDo {
			done++
		}
	}
	if done == wanted && len(landed) > 0 {
		out.Outcome = maintenance.Committed
	}
	return corrected
}

// take returns the report of a run that the stored one lacks, and forgets the run.
func (a *answers) take(id maintenance.RunID) (maintenance.ReportOutput, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out, found := a.reports[id]
	delete(a.reports, id)
	delete(a.commits, id)
	return out, found
}
