package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"firn/internal/contract"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/restore"
	"firn/internal/store"
)

// runCommand runs several jobs of the chain in one run.
type runCommand struct {
	Table  string   `required:"" help:"Table (namespace.table)." placeholder:"NS.T"`
	Job    []string `help:"Job to run; may be repeated. Default: all of the chain." placeholder:"J"`
	Due    bool     `help:"Run only what the policy finds due, as an automatic run would: with its guards and bounds, and not beside another maintainer. firn.mode is not looked at."`
	DryRun bool     `help:"Plan and report; change nothing."`
	JSON   bool     `name:"json" help:"Print one JSON object."`
}

// Run runs the jobs. A person asked, even for what is due, so firn.mode is not looked at; thresholds, arguments and options are those of the table's policy.
func (c *runCommand) Run(a *app) error {
	jobs, err := c.jobs()
	if err != nil {
		return err
	}
	look, err := a.look(c.Table)
	if err != nil {
		return err
	}
	// What is due is done as an automatic run does it: the triggers' terms, the guards, the bounds on runs and dollars.
	request := maintenance.Request{DryRun: c.DryRun, Due: c.Due, Automatic: c.Due, Trigger: "run"}
	if c.Due {
		var why string
		if request.Jobs, why, err = c.due(a, look, jobs); err != nil {
			return err
		}
		if why != "" {
			return a.printRun(maintenance.ReportOutput{Outcome: maintenance.NothingToDo, Reason: why}, c.JSON)
		}
	} else {
		for _, job := range jobs {
			request.Jobs = append(request.Jobs, look.policy.Request(job))
		}
	}
	for _, r := range request.Jobs {
		if slices.Contains(c.Job, string(r.Job)) {
			delete(r.Args, "dry_run") // asked for by name: the policy's switch is for runs that nobody asked for
		}
	}
	runner, err := a.runner()
	if err != nil {
		return err
	}
	a.causes = nil
	report, err := runner.Run(a.ctx, look.view.Table.ID, request)
	if err != nil {
		return err
	}
	report = a.withCauses(report)
	if err := a.printRun(report, c.JSON); err != nil {
		return err
	}
	return outcomeOf(report)
}

// jobs are the jobs that were named, in chain order; all that are built when none was.
func (c *runCommand) jobs() ([]maintenance.Job, error) {
	if len(c.Job) == 0 {
		return maintenance.Chain(), nil
	}
	wanted := map[maintenance.Job]bool{}
	for _, name := range c.Job {
		job, err := parseJob(name)
		if err != nil {
			return nil, &usageError{err}
		}
		wanted[job] = true
	}
	return slices.DeleteFunc(maintenance.Jobs(), func(job maintenance.Job) bool { return !wanted[job] }), nil
}

// due is what an automatic run would be asked for now, of the jobs that were named; why says that there is nothing to ask for.
func (c *runCommand) due(a *app, l look, jobs []maintenance.Job) (due []maintenance.JobRequest, why string, err error) {
	health, err := l.health(a)
	if err != nil {
		return nil, "", err
	}
	due = slices.DeleteFunc(health.Requests(l.policy), func(r maintenance.JobRequest) bool { return !slices.Contains(jobs, r.Job) })
	if len(due) == 0 {
		return nil, "no job is due", nil
	}
	if other := a.otherMaintainer(l); other != "" {
		return nil, "skipped: " + other, nil
	}
	return due, "", nil
}

// registerCommand makes a metadata file a table.
type registerCommand struct {
	Table            string `required:"" help:"Table (namespace.table)." placeholder:"NS.T"`
	MetadataLocation string `required:"" help:"Location of the metadata file." placeholder:"URI"`
	JSON             bool   `name:"json" help:"Print one JSON object."`
}

// Run registers the table after reading its metadata once, so that a broken file never becomes a table.
func (c *registerCommand) Run(a *app) error {
	id, err := a.table(c.Table)
	if err != nil {
		return err
	}
	if err := a.register(id, c.MetadataLocation); err != nil {
		return err
	}
	if c.JSON {
		return a.printJSON(map[string]any{"table": id.String(), "metadata_location": c.MetadataLocation, "outcome": maintenance.Committed})
	}
	_, err = fmt.Fprintf(a.stdout, "registered %s at %s\n", id, c.MetadataLocation)
	return err
}

// register points a new table of the catalog at a metadata file that can be read.
func (a *app) register(id maintenance.TableID, location string) error {
	clients, err := a.open()
	if err != nil {
		return err
	}
	l, err := clients.Lake(a.ctx, id.Catalog)
	if err != nil {
		return err
	}
	if _, err := lake.Read(a.ctx, l.Store, id, catalogs.Pointer{MetadataLocation: location}); err != nil {
		return fmt.Errorf("read the metadata to register: %w", err)
	}
	registrar, can := l.Catalog.(catalogs.Registrar)
	if !can {
		return maintenance.Named(contract.ErrorRefused, fmt.Errorf("catalog %s does not register tables through firn: use its own client", id.Catalog))
	}
	return registrar.Register(a.ctx, id, location)
}

// restoreCommand undoes what a run deleted.
type restoreCommand struct {
	RunID  string `name:"run" required:"" help:"Run whose deletions to undo." placeholder:"ID"`
	List   string `help:"Write what became of every object to this file, a line of JSON each." placeholder:"FILE" type:"path"`
	DryRun bool   `help:"Say what would come back; change nothing."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// Run restores and prints. Objects that are not back end with the status of a refusal, in a dry run too.
func (c *restoreCommand) Run(a *app) (err error) {
	id := maintenance.RunID(c.RunID)
	if err := id.Validate(); err != nil {
		return &usageError{err}
	}
	clients, err := a.open()
	if err != nil {
		return err
	}
	work, err := clients.Work()
	if err != nil {
		return err
	}
	run, err := a.findRun(work, id)
	if err != nil {
		return err
	}
	files, err := clients.Tables(run.Table.Catalog)
	if err != nil {
		return err
	}
	r := &restore.Restorer{Work: work, WorkLocation: clients.Settings().WorkLocation, Files: store.Versions(files), DryRun: c.DryRun}
	if c.List != "" {
		list, err := os.Create(c.List)
		if err != nil {
			return &usageError{fmt.Errorf("make the list: %w", err)}
		}
		defer func() { err = errors.Join(err, list.Close()) }()
		lines := json.NewEncoder(list)
		r.Each = func(o restore.Object) error { return lines.Encode(o) }
	}
	report, fault := r.Run(a.ctx, run)
	if fault != nil {
		report.Outcome, report.Reason = string(maintenance.Failed), "ended early, say it again to go on: "+fault.Error()
	} else {
		report.Advise(a.ctx, run, a.headOf(run), files)
	}
	if c.JSON {
		err = a.printJSON(report)
	} else {
		err = report.Text(a.stdout)
	}
	if err == nil && report.Outcome == string(maintenance.Refused) {
		err = &outcomeError{outcome: maintenance.Refused, reason: report.Reason}
	}
	return errors.Join(fault, err)
}

// findRun names the table of a run that has ended and that may be restored.
func (a *app) findRun(work store.Reader, id maintenance.RunID) (maintenance.Run, error) {
	run, err := restore.Find(a.ctx, work, a.clients.Settings().WorkLocation, id)
	if errors.Is(err, restore.ErrUnknownRun) {
		if _, known, historyErr := a.history().FindRun(a.ctx, id); historyErr == nil && known {
			err = fmt.Errorf("%w: it is in the history, and its work objects with the deletion manifests are gone", err)
		}
		return run, maintenance.Named(contract.ErrorRefused, err)
	}
	if err != nil {
		return run, err
	}
	if err := a.clients.Authority().Table(run.Table); err != nil {
		return run, maintenance.Named(contract.ErrorRefused, err)
	}
	holder, held, err := a.holder(run.Table)
	switch {
	case err != nil:
		a.logger().Warn("whether the run has ended is not known", "error", err.Error())
	case held && holder == id:
		return run, maintenance.Named(contract.ErrorRefused, fmt.Errorf("run %s is active: wait for its end; if its process died, the next run on %s closes it", id, run.Table))
	case held:
		a.logger().Warn("another run is at work on the table: if it expires or removes orphans, it may delete again", "run_id", string(holder))
	}
	return run, nil
}

// holder is the run that holds a table's lease, as far as this machine's state knows.
func (a *app) holder(id maintenance.TableID) (maintenance.RunID, bool, error) {
	lease, held, err := a.history().Current(a.ctx, id)
	return lease.RunID, held, err
}

// headOf is the run's table as it is; nil when it is gone, made anew or cannot be read, which must not keep its files from coming back.
func (a *app) headOf(run maintenance.Run) *lake.Table {
	l, err := a.clients.Lake(a.ctx, run.Table.Catalog)
	if err != nil {
		return nil
	}
	t, err := lake.Load(a.ctx, l.Catalog, l.Store, run.Table)
	if err != nil || t.Metadata.TableUUID().String() != run.TableUUID {
		return nil
	}
	return t
}
