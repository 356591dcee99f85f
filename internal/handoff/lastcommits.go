package handoff

import (
	"context"
	"errors"
	"fmt"

	"firn/internal/contract"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// maxLastCommits is how often the batches of a dead run are handed out: whoever closes the run may die too, but a batch that ends its committer each time must
// not keep the table from its next run.
const maxLastCommits = 2

// LastCommit marks that the finished batches of a dead run were handed out (write-once).
type LastCommit struct {
	V int `json:"v"`
}

// LastCommits hands out the batches of a dead run that can still be committed as they are: not settled, not abandoned, with finished groups, with all of them
// where the job lands whole or not at all. The run's own commit decides about them, as if its process had lived: it settles its earlier attempts, validates
// every group against the head, and counts the groups without result as lost. Nothing comes when they were handed out before and nobody got to the end.
func (w *Work) LastCommits(ctx context.Context) ([]maintenance.CommitInput, error) {
	var ready []maintenance.CommitInput
	for _, job := range maintenance.Jobs() {
		if !job.Rewrites() {
			continue
		}
		batches, err := w.readyBatches(ctx, job)
		if err != nil {
			return nil, fmt.Errorf("look for finished groups of %s: %w", job, err)
		}
		ready = append(ready, batches...)
	}
	for n := 0; len(ready) > 0 && n < maxLastCommits; n++ {
		first, err := w.WriteOnce(ctx, store.Join(w.base, fmt.Sprintf("last-commits-%d.json", n)), &LastCommit{V: contract.PayloadVersion})
		if err != nil || first {
			return ready, err
		}
	}
	return nil, nil
}

// readyBatches are the batches of one job.
func (w *Work) readyBatches(ctx context.Context, job maintenance.Job) ([]maintenance.CommitInput, error) {
	var index Index
	if found, err := w.found(ctx, w.Index(job), &index); err != nil || !found || index.DryRun || index.Outcome != "" {
		return nil, err
	}
	var swept SweepSummary
	if found, err := w.found(ctx, w.Abandoned(job), &swept); err != nil || found {
		return nil, err
	}
	var ready []maintenance.CommitInput
	for n, b := range index.Batches {
		var settled CommitResult
		if found, err := w.found(ctx, w.Commit(job, n), &settled); err != nil {
			return nil, err
		} else if found {
			continue
		}
		finished := 0
		for i := b.First; i < b.First+b.Count; i++ {
			var result GroupResult
			found, err := w.found(ctx, w.Result(job, i), &result)
			if err != nil {
				return nil, err
			}
			if found && result.Outcome == maintenance.Committed {
				finished++
			}
		}
		if finished == b.Count || finished > 0 && index.PartialProgress {
			ready = append(ready, maintenance.CommitInput{V: contract.PayloadVersion, Run: index.Run, Job: job, Batch: n})
		}
	}
	return ready, nil
}

// found is Read for an object that may be missing.
func (w *Work) found(ctx context.Context, location string, v any) (bool, error) {
	err := w.Read(ctx, location, v)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
