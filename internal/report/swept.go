package report

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// swept adds what sweep did for an expiry or an orphan sweep. An expiry stays committed whatever its clean-up did: what was left is told, and goes
// with remove_orphan_files.
func (g *gatherer) swept(ctx context.Context, index handoff.Index, out *maintenance.JobOutcome) error {
	summary, err := g.work.SweepSummary(ctx, index.Job, 0)
	if errors.Is(err, store.ErrNotFound) {
		if out.Outcome == "" {
			out.Outcome, out.Reason = g.cutShort("the run ended before its files were looked at")
		}
		return nil
	}
	if err != nil {
		return err
	}
	maps.Copy(out.Columns, summary.Columns)
	out.Files, out.FilesLocation = summary.Files[:min(len(summary.Files), maxNamed)], summary.FilesLocation
	for _, kept := range summary.Kept {
		out.Refusals = append(out.Refusals, fmt.Sprintf("kept %s: %s", kept.Location, kept.Reason))
	}
	for _, failure := range summary.Failures {
		out.Refusals = append(out.Refusals, fmt.Sprintf("could not delete %s: %s", failure.Location, failure.Reason))
	}
	out.Refusals = append(out.Refusals, summary.Warnings...)
	out.Refusals = out.Refusals[:min(len(out.Refusals), maxNamed)]
	if index.Job == maintenance.RemoveOrphanFiles {
		out.Columns["orphan_files_count"], out.Columns["deleted_files_count"] = summary.Candidates, summary.Deleted
	}
	if index.DryRun && summary.Candidates > 0 {
		out.Estimate = &maintenance.Estimate{Files: summary.Candidates, Bytes: summary.CandidateBytes}
	}
	unfinished := summary.UnfinishedRanges > 0 || summary.Failed > 0
	switch {
	case summary.NotBeforeMS > 0:
		return g.waiting(ctx, index, summary, out)
	case index.Job == maintenance.ExpireSnapshots && !index.DryRun:
		if unfinished || summary.Outcome == maintenance.Refused {
			out.Reason = fmt.Sprintf("snapshots expired; %d files could not be deleted, %d ranges are unfinished. %s",
				summary.Failed, summary.UnfinishedRanges, summary.Reason)
		}
	case unfinished:
		out.Outcome, out.Reason = maintenance.Failed, fmt.Sprintf("%d files could not be deleted, %d ranges are unfinished", summary.Failed, summary.UnfinishedRanges)
	default:
		out.Outcome, out.Reason = summary.Outcome, summary.Reason
	}
	return nil
}

// waiting tells what an expiry let go of that a later run deletes: how much, when, and by what.
func (g *gatherer) waiting(ctx context.Context, index handoff.Index, s handoff.SweepSummary, out *maintenance.JobOutcome) error {
	var result handoff.CommitResult
	if _, err := g.read(ctx, g.work.Commit(index.Job, 0), &result); err != nil {
		return err
	}
	w := &maintenance.Waiting{
		Files: s.Candidates - s.Deleted - s.Failed - s.KeptCount, Bytes: max(0, s.CandidateBytes-s.Bytes), NotBeforeMS: s.NotBeforeMS,
	}
	expired := 0
	if result.Expired != nil {
		expired = len(result.Expired.SnapshotIDs)
	}
	out.Waiting = w
	out.Reason = fmt.Sprintf("%d snapshots expired; their %d files (%d bytes) may be read until %s, as readers of this catalog may hold the replaced metadata: "+
		"the first run on the table after that deletes them", expired, w.Files, w.Bytes, time.UnixMilli(w.NotBeforeMS).UTC().Format(time.RFC3339))
	return nil
}

// earlier tells what the run deleted for earlier ones.
func (g *gatherer) earlier(ctx context.Context) ([]maintenance.EarlierDeletion, error) {
	var done handoff.EarlierDeletions
	if _, err := g.read(ctx, g.work.Earlier(), &done); err != nil {
		return nil, err
	}
	var out []maintenance.EarlierDeletion
	for _, d := range done.Runs {
		out = append(out, maintenance.EarlierDeletion{
			RunID: d.RunID, Files: d.Deleted.Deleted, Failed: d.Deleted.Failed, Bytes: d.Deleted.Bytes, Columns: d.Deleted.Columns,
		})
	}
	return out, nil
}
