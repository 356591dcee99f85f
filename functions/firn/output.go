package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"firn/internal/decide"
	"firn/internal/local/inspect"
	"firn/internal/maintenance"
)

// columnOrder is the order in which Spark prints a procedure's result columns.
func columnOrder(job maintenance.Job) []string {
	switch job {
	case maintenance.RewriteDataFiles:
		return []string{
			"rewritten_data_files_count", "added_data_files_count", "rewritten_bytes_count", "failed_data_files_count", "removed_delete_files_count",
		}
	case maintenance.RewritePositionDeleteFiles, maintenance.RewriteEqualityDeleteFiles:
		return []string{"rewritten_delete_files_count", "added_delete_files_count", "rewritten_bytes_count", "added_bytes_count"}
	case maintenance.RewriteManifests:
		return []string{"rewritten_manifests_count", "added_manifests_count"}
	case maintenance.ExpireSnapshots:
		return []string{
			"deleted_data_files_count", "deleted_position_delete_files_count", "deleted_equality_delete_files_count", "deleted_manifest_files_count",
			"deleted_manifest_lists_count", "deleted_statistics_files_count",
		}
	case maintenance.RemoveOrphanFiles:
		return []string{"orphan_files_count", "deleted_files_count"}
	}
	return nil
}

// callResult finds the one job of a call in the run's report.
func callResult(job maintenance.Job, report maintenance.ReportOutput) maintenance.JobOutcome {
	for _, j := range report.Jobs {
		if j.Job == job {
			return j
		}
	}
	return maintenance.JobOutcome{Job: job, Outcome: report.Outcome, Reason: report.Reason, Columns: map[string]int64{}}
}

// printCall prints one job's result: Spark's columns under Spark's names, then outcome, snapshot and run.
func (a *app) printCall(job maintenance.Job, report maintenance.ReportOutput, asJSON bool) error {
	result := callResult(job, report)
	if outcomeStatus(report.Outcome) != exitDone {
		result.Outcome = report.Outcome
	}
	if result.Reason == "" {
		result.Reason = report.Reason // what is to be said about the run's end
	}
	if asJSON {
		return a.printJSON(callObject(result, report))
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	for _, name := range columnOrder(job) {
		fmt.Fprintf(w, "%s\t%d\n", name, result.Columns[name])
	}
	fmt.Fprintf(w, "outcome\t%s\n", result.Outcome)
	if result.Reason != "" {
		fmt.Fprintf(w, "reason\t%s\n", result.Reason)
	}
	if result.SnapshotID != 0 {
		fmt.Fprintf(w, "snapshot_id\t%d\n", result.SnapshotID)
	}
	fmt.Fprintf(w, "run_id\t%s\n", report.Run.RunID)
	for _, e := range report.Earlier {
		fmt.Fprintf(w, "earlier run\t%s: %d files (%d bytes) of its expiry deleted\n", e.RunID, e.Files, e.Bytes)
	}
	if c := result.Contention; c != nil {
		fmt.Fprintf(w, "other writers\t%d attempts for %d commits; %d groups met deletes, %d rows carried over; %d groups in conflict\n", c.Attempts, c.Commits,
			c.RebasedGroups, c.RebasedRows, c.ConflictGroups)
	}
	for _, line := range result.Files {
		fmt.Fprintf(w, "file\t%s\n", line)
	}
	if result.FilesLocation != "" {
		fmt.Fprintf(w, "all files\t%s\n", result.FilesLocation)
	}
	for _, line := range result.Refusals {
		fmt.Fprintf(w, "note\t%s\n", line)
	}
	if len(result.Plan) > 0 && result.Outcome == maintenance.DryRun {
		fmt.Fprintf(w, "plan\t%s\n", result.Plan)
	}
	if result.PlanLocation != "" {
		fmt.Fprintf(w, "plan\t%s\n", result.PlanLocation)
	}
	return w.Flush()
}

// callObject is the JSON form of a call's result. IDs are numbers, as in Spark's rows.
func callObject(result maintenance.JobOutcome, report maintenance.ReportOutput) map[string]any {
	object := map[string]any{"procedure": result.Job, "outcome": result.Outcome, "run_id": report.Run.RunID}
	for name, n := range result.Columns {
		object[name] = n
	}
	if result.SnapshotID != 0 {
		object["snapshot_id"] = json.Number(strconv.FormatInt(result.SnapshotID, 10))
	} else {
		object["snapshot_id"] = nil
	}
	if result.Reason != "" {
		object["reason"] = result.Reason
	}
	if report.Error != "" {
		object["error"] = report.Error
	}
	if len(result.Refusals) > 0 {
		object["notes"] = result.Refusals
	}
	if result.Job == maintenance.RemoveOrphanFiles {
		object["orphan_file_location"] = append([]string{}, result.Files...)
	} else if len(result.Files) > 0 {
		object["files"] = result.Files
	}
	if w := result.Waiting; w != nil {
		object["waiting"] = map[string]any{
			"files": w.Files, "bytes": w.Bytes, "not_before": time.UnixMilli(w.NotBeforeMS).UTC().Format(time.RFC3339), "deleted_by": "the next run on the table",
		}
	}
	if len(report.Earlier) > 0 {
		object["earlier"] = report.Earlier
	}
	if result.Contention != nil {
		object["contention"] = result.Contention
	}
	if result.FilesLocation != "" {
		object["files_location"] = result.FilesLocation
	}
	if len(result.Plan) > 0 && result.Outcome == maintenance.DryRun {
		object["plan"] = result.Plan
	}
	if result.PlanLocation != "" {
		object["plan_location"] = result.PlanLocation
	}
	if result.Estimate != nil {
		object["estimate"] = result.Estimate
	}
	return object
}

// printJSON prints exactly one object on one line.
func (a *app) printJSON(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	a.printed = true
	_, err = fmt.Fprintf(a.stdout, "%s\n", data)
	return err
}

// printRun prints all jobs of a run.
func (a *app) printRun(report maintenance.ReportOutput, asJSON bool) error {
	reason := report.Reason
	for _, j := range report.Jobs {
		if reason == "" && j.Outcome == report.Outcome {
			reason = j.Reason // of the first job that made the run's outcome
		}
	}
	if asJSON {
		jobs := make([]map[string]any, 0, len(report.Jobs))
		for _, j := range report.Jobs {
			jobs = append(jobs, callObject(j, report))
		}
		object := map[string]any{"run_id": report.Run.RunID, "outcome": report.Outcome, "jobs": jobs}
		if report.Outcome == maintenance.DryRun {
			e := estimated(report)
			object["estimate"] = map[string]any{"rewritten_bytes": e.rewritten, "deleted_bytes": e.deleted, "modelled_dollars": e.dollars()}
		}
		if reason != "" {
			object["reason"] = reason
		}
		return a.printJSON(object)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "run\t%s\t%s\t%s\n", report.Run.RunID, report.Outcome, reason)
	for _, e := range report.Earlier {
		fmt.Fprintf(w, "earlier run\t%s\t%d files (%d bytes) of its expiry deleted\t\n", e.RunID, e.Files, e.Bytes)
	}
	for _, j := range report.Jobs {
		fmt.Fprintf(w, "%s\t%s\t%s\t", j.Job, j.Outcome, cmp.Or(j.Reason, wouldDo(j)))
		for _, name := range slices.Sorted(maps.Keys(j.Columns)) {
			if n := j.Columns[name]; n != 0 {
				fmt.Fprintf(w, "%s=%d ", name, n)
			}
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil || report.Outcome != maintenance.DryRun {
		return err
	}
	e := estimated(report)
	_, err := fmt.Fprintf(a.stdout, "it would rewrite %s and delete %s, for about $%.4f by the cost model (docs/cost.md); nothing was changed\n",
		inspect.Size(e.rewritten), inspect.Size(e.deleted), e.dollars())
	return err
}

// wouldDo says how much a job of a dry run would do.
func wouldDo(j maintenance.JobOutcome) string {
	e := j.Estimate
	switch {
	case e == nil:
		return ""
	case j.Job == maintenance.RewriteManifests:
		return fmt.Sprintf("would replace %d manifests (%s) by %d", e.Files, inspect.Size(e.Bytes), e.AddedFiles)
	case j.Job.Rewrites():
		return fmt.Sprintf("would replace %d files (%s) by about %d", e.Files, inspect.Size(e.Bytes), e.AddedFiles)
	}
	return fmt.Sprintf("would delete %d files (%s)", e.Files, inspect.Size(e.Bytes))
}

// totals are the bytes that a dry run would rewrite and delete.
type totals struct{ rewritten, deleted int64 }

func estimated(report maintenance.ReportOutput) (t totals) {
	for _, j := range report.Jobs {
		switch e := j.Estimate; {
		case e == nil:
		case j.Job.Rewrites():
			t.rewritten += e.Bytes
		default:
			t.deleted += e.Bytes
		}
	}
	return t
}

// dollars are those of the cost model.
func (t totals) dollars() float64 { return float64(decide.RunMicros(t.rewritten)) / 1e6 }
