package handoff_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/maintenance"
)

// TestLastCommitsOfADeadRun: only what is finished, not settled and not abandoned is handed out, and that not for ever.
func TestLastCommitsOfADeadRun(t *testing.T) {
	t.Parallel()
	ctx, job := context.Background(), maintenance.RewriteDataFiles
	finished, refused := maintenance.Committed, maintenance.Refused
	for _, c := range []struct {
		name  string
		index handoff.Index
		// results are the groups' outcomes, "" for none; batches hold two each.
		results            []maintenance.Outcome
		settled, abandoned bool
		want               []int
	}{
		{"some groups of a batch", handoff.Index{PartialProgress: true}, []maintenance.Outcome{finished, ""}, false, false, []int{0}},
		{"some groups of a batch that lands whole or not at all", handoff.Index{}, []maintenance.Outcome{finished, ""}, false, false, nil},
		{"a refused group keeps such a batch too", handoff.Index{}, []maintenance.Outcome{finished, refused}, false, false, nil},
		{"all groups", handoff.Index{}, []maintenance.Outcome{finished, finished}, false, false, []int{0}},
		{"a later batch", handoff.Index{PartialProgress: true}, []maintenance.Outcome{"", refused, finished, ""}, false, false, []int{1}},
		{"a settled batch", handoff.Index{PartialProgress: true}, []maintenance.Outcome{finished, finished}, true, false, nil},
		{"a settled batch and an open one", handoff.Index{PartialProgress: true}, []maintenance.Outcome{finished, finished, finished, ""}, true, false, []int{1}},
		{"a run that was swept", handoff.Index{PartialProgress: true}, []maintenance.Outcome{finished, finished}, false, true, nil},
		{"a dry run", handoff.Index{PartialProgress: true, DryRun: true}, []maintenance.Outcome{finished, finished}, false, false, nil},
		{"nothing to do", handoff.Index{Outcome: maintenance.NothingToDo}, nil, false, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, _ := open(t)
			write := func(location string, v any) {
				if _, err := w.WriteOnce(ctx, location, v); err != nil {
					t.Fatal(err)
				}
			}
			c.index.V, c.index.Run, c.index.Job = contract.PayloadVersion, maintenance.Run{RunID: run}, job
			for n, outcome := range c.results {
				if n%2 == 0 {
					c.index.Batches = append(c.index.Batches, handoff.Batch{First: n, Count: 2})
				}
				if outcome != "" {
					write(w.Result(job, n), &handoff.GroupResult{V: contract.PayloadVersion, Index: n, Outcome: outcome})
				}
			}
			write(w.Index(job), &c.index)
			if c.settled {
				write(w.Commit(job, 0), &handoff.CommitResult{V: contract.PayloadVersion, Outcome: maintenance.Conflict})
			}
			if c.abandoned {
				write(w.Abandoned(job), &handoff.SweepSummary{V: contract.PayloadVersion})
			}
			for try := range 3 {
				batches, err := w.LastCommits(ctx)
				if err != nil {
					t.Fatal(err)
				}
				var got []int
				for _, b := range batches {
					got = append(got, b.Batch)
					if b.Run.RunID != run || b.Job != job || b.V != contract.PayloadVersion {
						t.Errorf("batch %+v", b)
					}
				}
				want := c.want
				if try == 2 {
					want = nil // two who closed the run died at it
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("try %d:\n%s", try, diff)
				}
			}
		})
	}
}
