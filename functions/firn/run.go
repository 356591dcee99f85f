package main

import (
	"fmt"

	"firn/internal/contract"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
)

// runCommand runs several jobs of the chain in one run.
type runCommand struct {
	Table  string   `required:"" help:"Table (namespace.table)." placeholder:"NS.T"`
	Job    []string `help:"Job to run; may be repeated. Default: all that are built." placeholder:"J"`
	Due    bool     `help:"Run only what the policy finds due."`
	DryRun bool     `help:"Plan and report; change nothing."`
	JSON   bool     `name:"json" help:"Print one JSON object."`
}

// builtJobs are the jobs that a run may execute, in chain order.
func builtJobs() []maintenance.Job {
	return []maintenance.Job{maintenance.RewriteDataFiles, maintenance.ExpireSnapshots, maintenance.RemoveOrphanFiles}
}

// Run runs the jobs.
func (c *runCommand) Run(a *app) error {
	request, err := c.request(a)
	if err != nil {
		return err
	}
	id, err := a.table(c.Table)
	if err != nil {
		return err
	}
	runner, err := a.runner()
	if err != nil {
		return err
	}
	report, err := runner.Run(a.ctx, id, request)
	if err != nil {
		return err
	}
	if err := a.printRun(report, c.JSON); err != nil {
		return err
	}
	return outcomeOf(report)
}

func (c *runCommand) request(_ *app) (maintenance.Request, error) {
	request := maintenance.Request{DryRun: c.DryRun, Trigger: "run"}
	if c.Due {
		return request, &notBuiltError{"run --due"}
	}
	jobs := builtJobs()
	if len(c.Job) > 0 {
		jobs = nil
		for _, name := range c.Job {
			job, err := maintenance.ParseJob(name)
			if err != nil {
				return request, &usageError{err}
			}
			jobs = append(jobs, job)
		}
	}
	for _, job := range jobs {
		request.Jobs = append(request.Jobs, maintenance.JobRequest{Job: job})
	}
	return request, nil
}

// registerCommand makes a metadata file a table.
type registerCommand struct {
	Table            string `required:"" help:"Table (namespace.table)." placeholder:"NS.T"`
	MetadataLocation string `required:"" help:"Location of the metadata file." placeholder:"URI"`
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
