package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"firn/internal/maintenance"
)

// callCommand is one procedure with Spark's arguments as flags.
type callCommand struct {
	Procedure          string   `arg:"" help:"rewrite_data_files, rewrite_position_delete_files, rewrite_manifests, expire_snapshots, remove_orphan_files or rewrite_equality_delete_files."`
	Table              string   `required:"" help:"Table (namespace.table)." placeholder:"NS.T"`
	Option             []string `help:"Entry of the procedure's options map; may be repeated." placeholder:"K=V" sep:"none"`
	Strategy           string   `help:"binpack or sort."`
	SortOrder          string   `help:"Columns and transforms with ASC, DESC, NULLS FIRST or LAST, zorder(...) or hilbert(...)."`
	Where              string   `help:"Predicate that selects files, as in Spark SQL."`
	OlderThan          string   `help:"Timestamp." placeholder:"TS"`
	RetainLast         string   `help:"Snapshots to keep." placeholder:"N"`
	SnapshotID         []string `name:"snapshot-id" help:"Snapshot to expire; may be repeated." placeholder:"ID"`
	SpecID             string   `name:"spec-id" placeholder:"N"`
	SortBy             []string `help:"Partition field to cluster manifests by; may be repeated." placeholder:"F"`
	Location           string   `help:"Where to look for orphans." placeholder:"URI"`
	PrefixMismatchMode string   `help:"ERROR, IGNORE or DELETE." placeholder:"M"`
	FileListView       string   `name:"file-list-view" help:"List of files to look through instead of a listing: CSV, JSON Lines or Parquet with file_path and last_modified, or an S3 Inventory's manifest.json." placeholder:"URI"`
	EqualScheme        []string `help:"Schemes that mean the same; may be repeated." placeholder:"A=B" sep:"none"`
	EqualAuthority     []string `help:"Authorities that mean the same; may be repeated." placeholder:"A=B" sep:"none"`
	Arg                []string `help:"Argument that has no flag of its own (max_concurrent_deletes, unsafe_older_than, ...); may be repeated." placeholder:"K=V" sep:"none"`
	CleanExpired       bool     `name:"clean-expired-metadata" help:"Remove unused specs and schemas too."`
	Branch             string   `help:"Branch to maintain."`
	DryRun             bool     `help:"Plan and report; change nothing."`
	JSON               bool     `name:"json" help:"Print one JSON object."`
}

// Run runs the procedure.
func (c *callCommand) Run(a *app) error {
	request, err := c.request()
	if err != nil {
		return &usageError{err}
	}
	id, err := a.table(c.Table)
	if err != nil {
		return err
	}
	return a.call(id, request, c.DryRun, c.JSON)
}

// request turns flags into a job request under Spark's argument names.
func (c *callCommand) request() (maintenance.JobRequest, error) {
	job, err := parseJob(c.Procedure[strings.LastIndexByte(c.Procedure, '.')+1:])
	if err != nil {
		return maintenance.JobRequest{}, err
	}
	request := maintenance.JobRequest{Job: job, Args: map[string]string{}, Options: map[string]string{}, SnapshotIDs: c.SnapshotID}
	for _, pair := range c.Option {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return request, fmt.Errorf("read --option %q: want KEY=VALUE", pair)
		}
		request.Options[key] = value
	}
	for _, id := range c.SnapshotID {
		if _, err := strconv.ParseInt(id, 10, 64); err != nil {
			return request, fmt.Errorf("read --snapshot-id: %w", err)
		}
	}
	sortBy, err1 := listText(c.SortBy)
	schemes, err2 := mapText(c.EqualScheme)
	authorities, err3 := mapText(c.EqualAuthority)
	if err := errors.Join(err1, err2, err3); err != nil {
		return request, err
	}
	for key, value := range map[string]string{
		"strategy": c.Strategy, "sort_order": c.SortOrder, "where": c.Where, "older_than": c.OlderThan, "retain_last": c.RetainLast,
		"spec_id": c.SpecID, "sort_by": sortBy, "location": c.Location, "prefix_mismatch_mode": c.PrefixMismatchMode,
		"equal_schemes": schemes, "equal_authorities": authorities, "branch": c.Branch, "file_list_view": c.FileListView,
	} {
		if value != "" {
			request.Args[key] = value
		}
	}
	if c.CleanExpired {
		request.Args["clean_expired_metadata"] = "true"
	}
	for _, pair := range c.Arg {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return request, fmt.Errorf("read --arg %q: want KEY=VALUE", pair)
		}
		request.Args[key] = value
	}
	return request, checkFlags(request)
}

// parseJob reads the name of a procedure; a wrong one is answered with the nearest.
func parseJob(name string) (maintenance.Job, error) {
	job, err := maintenance.ParseJob(name)
	if err == nil {
		return job, nil
	}
	known := make([]string, 0, len(maintenance.Jobs()))
	for _, j := range maintenance.Jobs() {
		known = append(known, string(j))
	}
	return "", fmt.Errorf("unknown procedure %q%s; known are %s", name, maintenance.Suggestion(name, known), strings.Join(known, ", "))
}

// call runs one job and prints its result columns.
func (a *app) call(id maintenance.TableID, request maintenance.JobRequest, dryRun, asJSON bool) error {
	if err := a.placeFileList(request); err != nil {
		return err
	}
	if err := a.checkValues(id, request); err != nil {
		return err
	}
	runner, err := a.runner()
	if err != nil {
		return err
	}
	a.causes = nil
	report, err := runner.Run(a.ctx, id, maintenance.Request{Jobs: []maintenance.JobRequest{request}, DryRun: dryRun, Trigger: "call"})
	if err != nil {
		return err
	}
	report = a.withCauses(report)
	if err := a.printCall(request.Job, report, asJSON); err != nil {
		return err
	}
	return outcomeOf(report)
}

// placeFileList gives a list of files that lies on this machine its whole location: functions have no working directory.
func (a *app) placeFileList(request maintenance.JobRequest) error {
	const name = "file_list_view"
	at := request.Args[name]
	if at == "" || strings.Contains(at, "://") || filepath.IsAbs(at) {
		return nil
	}
	dir, err := a.workDir()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, at)
	if _, err := os.Stat(path); err == nil {
		request.Args[name] = "file://" + path
	}
	return nil
}

// outcomeOf turns a bad outcome into an error for the exit status.
func outcomeOf(report maintenance.ReportOutput) error {
	if outcomeStatus(report.Outcome) == exitDone {
		return nil
	}
	reason := report.Reason
	for _, job := range report.Jobs {
		if reason == "" || job.Reason != "" && outcomeStatus(job.Outcome) != exitDone {
			reason = job.Reason
		}
	}
	if report.Error != "" && !strings.HasPrefix(report.Error, "States.") { // a name of ours says something
		reason = strings.TrimPrefix(report.Error+": "+reason, ": ")
	}
	return &outcomeError{outcome: report.Outcome, reason: strings.TrimPrefix(reason, string(report.Outcome)+": ")}
}
