package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// maxNamed is how many refusals and files travel in the outcome; the rest stays in the work location.
const maxNamed = 20

// gatherer reads what the jobs of one run left in the work location.
type gatherer struct {
	work *handoff.Work
	// ended is the failure that ended the run, nil when none did.
	ended *maintenance.StepError
	// short says that the run's end kept something of a job from being done.
	short bool
}

func (g *gatherer) index(ctx context.Context, job maintenance.Job) (handoff.Index, bool, error) {
	var index handoff.Index
	found, err := g.read(ctx, g.work.Index(job), &index)
	return index, found, err
}

// read decodes an object; found is false when there is none.
func (g *gatherer) read(ctx context.Context, location string, v any) (bool, error) {
	err := g.work.Read(ctx, location, v)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// maxPlanBytes bounds the plan in a job's outcome: the outcomes of five jobs are the data of one state, and with a run's request one item of its history.
const maxPlanBytes = 32 << 10

// job tells how a planned job ended.
func (g *gatherer) job(ctx context.Context, index handoff.Index) (maintenance.JobOutcome, error) {
	out := maintenance.JobOutcome{Job: index.Job, Outcome: index.Outcome, Reason: index.Reason, Columns: zeroColumns(index.Job)}
	switch {
	case !index.DryRun:
	case len(index.Detail) <= maxPlanBytes:
		out.Plan = index.Detail
	default:
		out.PlanLocation = g.work.Index(index.Job)
	}
	switch {
	case index.Outcome != "":
		return out, nil
	case index.Job.Rewrites() && index.DryRun:
		out.Outcome = maintenance.DryRun
		var err error
		out.Estimate, err = estimate(index)
		return out, err
	case index.Job.Rewrites():
		return out, g.batches(ctx, index, &out)
	case index.Job == maintenance.ExpireSnapshots && !index.DryRun:
		if err := g.batch(ctx, index.Job, 0, &out); err != nil {
			return out, err
		}
	}
	return out, g.swept(ctx, index, &out)
}

// estimate reads from a rewrite's plan how much it would do: its files, or its manifests.
func estimate(index handoff.Index) (*maintenance.Estimate, error) {
	if len(index.Detail) == 0 {
		return nil, nil //nolint:nilnil // a plan without figures
	}
	var plan struct {
		handoff.ManifestsDetail

		Files    int64 `json:"files"`
		Bytes    int64 `json:"bytes"`
		Expected int64 `json:"expected_output_files"`
	}
	if err := json.Unmarshal(index.Detail, &plan); err != nil {
		return nil, fmt.Errorf("read plan of %s: %w", index.Job, err)
	}
	if plan.Files > 0 {
		return &maintenance.Estimate{Files: plan.Files, Bytes: plan.Bytes, AddedFiles: plan.Expected}, nil
	}
	return &maintenance.Estimate{
		Files: int64(plan.Data.Manifests + plan.Deletes.Manifests), Bytes: plan.Data.Bytes + plan.Deletes.Bytes,
		AddedFiles: int64(plan.Data.Target + plan.Deletes.Target),
	}, nil
}

// batches sums up a rewrite's commits. Groups that did not land are refusals; the job is committed when any batch is.
func (g *gatherer) batches(ctx context.Context, index handoff.Index, out *maintenance.JobOutcome) error {
	landed, failed, idle := 0, 0, ""
	out.Refusals = refusedFiles(index.Detail)
	var bad maintenance.JobOutcome
	met := maintenance.Contention{}
	for b := range index.Batches {
		one := maintenance.JobOutcome{Columns: map[string]int64{}}
		if err := g.batch(ctx, index.Job, b, &one); err != nil {
			return err
		}
		for name, n := range one.Columns {
			out.Columns[name] += n
		}
		out.Refusals = append(out.Refusals, one.Refusals...)
		if c := one.Contention; c != nil {
			met.Add(*c)
		}
		switch one.Outcome {
		case maintenance.Committed:
			landed++
			out.SnapshotID = one.SnapshotID
		case maintenance.NothingToDo:
			idle = one.Reason
		default:
			failed++
			bad.Outcome = worst(bad.Outcome, one.Outcome)
			bad.Reason = one.Reason
		}
	}
	out.Refusals = out.Refusals[:min(len(out.Refusals), maxNamed)]
	if met.Any() {
		out.Contention = &met
	}
	switch {
	case bad.Outcome == maintenance.Unknown || failed > 0 && landed == 0:
		out.Outcome, out.Reason = bad.Outcome, bad.Reason
	case index.PartialProgress && failed > index.MaxFailedCommits:
		out.Outcome = maintenance.Failed
		out.Reason = fmt.Sprintf("%d of %d commits failed, partial-progress.max-failed-commits is %d; the first reason: %s",
			failed, len(index.Batches), index.MaxFailedCommits, bad.Reason)
	case landed > 0:
		out.Outcome = maintenance.Committed
	default:
		out.Outcome, out.Reason = maintenance.NothingToDo, idle
	}
	return nil
}

// refusedFiles lists the files that the plan left alone although the rules wanted them.
func refusedFiles(detail json.RawMessage) []string {
	var plan struct {
		Refusals []maintenance.FileRefusal `json:"refusals"`
	}
	if json.Unmarshal(detail, &plan) != nil {
		return nil // the report of what did happen matters more than the plan's own words
	}
	var lines []string
	for _, r := range plan.Refusals {
		lines = append(lines, fmt.Sprintf("left alone %s: %s", r.Path, r.Reason))
	}
	return lines
}

// batch reads one commit's result. Without one the run ended before the commit was settled.
func (g *gatherer) batch(ctx context.Context, job maintenance.Job, batch int, out *maintenance.JobOutcome) error {
	var result handoff.CommitResult
	found, err := g.read(ctx, g.work.Commit(job, batch), &result)
	if err != nil {
		return err
	}
	if !found {
		return g.unsettled(ctx, job, batch, out)
	}
	out.Outcome, out.Reason, out.SnapshotID = result.Outcome, result.Reason, result.SnapshotID
	maps.Copy(out.Columns, result.Columns)
	if job.Rewrites() {
		out.Contention = contention(result)
	}
	for _, d := range result.Dropped {
		out.Refusals = append(out.Refusals, fmt.Sprintf("group %d (%d files): %s: %s", d.Index, d.Files, d.Outcome, d.Reason))
	}
	return nil
}

// contention is what other writers cost one batch.
func contention(r handoff.CommitResult) *maintenance.Contention {
	c := &maintenance.Contention{Attempts: r.Attempts}
	if r.Outcome == maintenance.Committed {
		c.Commits = 1
	}
	if r.Rebased != nil {
		c.RebasedGroups, c.RebasedRows = r.Rebased.Groups, r.Rebased.Positions
	}
	for _, d := range r.Dropped {
		if d.Outcome == maintenance.Conflict {
			c.ConflictGroups++
		}
	}
	return c
}

// unsettled tells a commit that was never tried from one whose state is unknown, and from one that landed without a result: by whether its fate log
// announces a call, and how that ended.
func (g *gatherer) unsettled(ctx context.Context, job maintenance.Job, batch int, out *maintenance.JobOutcome) error {
	out.Outcome, out.Reason = g.cutShort("the run ended before this commit")
	for n := 0; ; n++ {
		var fate handoff.Fate
		found, err := g.read(ctx, g.work.Fate(job, batch, n), &fate)
		if err != nil || !found {
			return err
		}
		var end handoff.FateEnd
		settled, err := g.read(ctx, g.work.FateEnd(job, batch, n), &end)
		if err != nil {
			return err
		}
		switch {
		case settled && end.Outcome == maintenance.Committed:
			g.short = true
			out.Outcome, out.SnapshotID = maintenance.Committed, fate.SnapshotID
			out.Reason = "committed; what exactly could not be written down"
			return nil
		case !fate.Abandoned && !settled:
			out.Outcome, out.Reason, out.SnapshotID = maintenance.Unknown, "the catalog's answer was lost: nothing was deleted", fate.SnapshotID
		}
	}
}

// zeroColumns are Spark's result columns of a procedure, all zero.
func zeroColumns(job maintenance.Job) map[string]int64 {
	deleteFiles := []string{"rewritten_delete_files_count", "added_delete_files_count", "rewritten_bytes_count", "added_bytes_count"}
	names := map[maintenance.Job][]string{
		maintenance.RewriteDataFiles: {
			"rewritten_data_files_count", "added_data_files_count", "rewritten_bytes_count", "failed_data_files_count", "removed_delete_files_count",
		},
		maintenance.RewritePositionDeleteFiles: deleteFiles, maintenance.RewriteEqualityDeleteFiles: deleteFiles,
		maintenance.RewriteManifests: {"rewritten_manifests_count", "added_manifests_count"},
		maintenance.ExpireSnapshots: {
			"deleted_data_files_count", "deleted_position_delete_files_count", "deleted_equality_delete_files_count", "deleted_manifest_files_count",
			"deleted_manifest_lists_count", "deleted_statistics_files_count",
		},
	}
	columns := map[string]int64{}
	for _, name := range names[job] {
		columns[name] = 0
	}
	return columns
}

// cutShort is the outcome of a step that the run's end kept from being done, with the cause of that end.
func (g *gatherer) cutShort(reason string) (maintenance.Outcome, string) {
	g.short = true
	if g.ended == nil {
		return maintenance.Failed, reason
	}
	outcome := outcomeOf(g.ended.Error)
	if outcome == maintenance.Unknown {
		outcome = maintenance.Failed // another commit's state is unknown; this one was not tried
	}
	return outcome, reason + ": " + causeOf(*g.ended)
}

// causeOf is the message in a failure's cause: hosts report errors as {"errorType", "errorMessage"}.
func causeOf(e maintenance.StepError) string {
	var reported struct {
		Message string `json:"errorMessage"`
	}
	if err := json.Unmarshal([]byte(e.Cause), &reported); err == nil && reported.Message != "" {
		return reported.Message
	}
	return e.Cause
}
