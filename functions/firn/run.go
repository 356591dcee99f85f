package main

import (
	"fmt"
	"slices"

	"firn/internal/contract"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
)

// runCommand runs several jobs of the chain in one run.
type runCommand struct {
	Table  string   `required:"" help:"Table (namespace.table)." placeholder:"NS.T"`
	Job    []string `help:"Job to run; may be repeated. Default: all of the chain." placeholder:"J"`
	Due    bool     `help:"Run only what the policy finds due."`
	DryRun bool     `help:"Plan and report; change nothing."`
	JSON   bool     `name:"json" help:"Print one JSON object."`
}

// Run runs the jobs. A person asked, so firn.mode is not looked at; thresholds, arguments and options are those of the table's policy.
func (c *runCommand) Run(a *app) error {
	jobs, err := c.jobs()
	if err != nil {
		return err
	}
	look, err := a.look(c.Table)
	if err != nil {
		return err
	}
	if c.Due {
		if jobs, err = c.due(a, look, jobs); err != nil {
			return err
		}
		if len(jobs) == 0 {
			return a.printRun(maintenance.ReportOutput{Outcome: maintenance.NothingToDo, Reason: "no job is due"}, c.JSON)
		}
	}
	request := maintenance.Request{DryRun: c.DryRun, Due: c.Due, Trigger: "run"}
	for _, job := range jobs {
		r := look.policy.Request(job)
		if slices.Contains(c.Job, string(job)) {
			delete(r.Args, "dry_run") // asked for by name: the policy's switch is for runs that nobody asked for
		}
		request.Jobs = append(request.Jobs, r)
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

// due keeps the jobs that the table asks for.
func (c *runCommand) due(a *app, l look, jobs []maintenance.Job) ([]maintenance.Job, error) {
	health, err := l.health(a)
	if err != nil {
		return nil, err
	}
	var due []maintenance.Job
	for _, d := range health.Due {
		if job := maintenance.Job(d.Job); d.Due && slices.Contains(jobs, job) {
			due = append(due, job)
		}
	}
	return due, nil
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
