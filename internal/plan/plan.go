// Package plan decides what a run does next. Each call renews the lease, walks the run's jobs in chain order from the cursor on, writes the plan of
// the next job that has work (once: the write-once index makes it valid and a retry returns it), and hands out the job's next commit batch.
//
// It reads metadata and manifests and writes plans; it never commits and never deletes. A crash leaves plan parts under an attempt's own name that
// nobody reads; they go with the work location's lifecycle.
package plan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/store"
)

// Deps are what plan reaches.
type Deps struct {
	// Catalog opens the catalog of a table and the store of its files.
	Catalog func(ctx context.Context, name string) (catalogs.Catalog, store.Reader, error)
	// Work is the store of WorkLocation.
	Work         store.ReadWriter
	WorkLocation string
	Leases       state.Leases
	// SortGroupBytes is the most input bytes that one worker sorts; 0 is no limit. Larger groups are cut by key range.
	SortGroupBytes int64
	// Now is the clock; NewAttempt makes a name that no other attempt has.
	Now        func() time.Time
	NewAttempt func() string
	Log        *slog.Logger
}

// Function is plan.
type Function struct{ deps Deps }

// New returns the function.
func New(deps Deps) *Function { return &Function{deps: deps} }

// Handle answers with the branch that the state machine takes next. Errors: state.ErrLeaseLost when another run took the table over; the ports'
// classes otherwise. A job that cannot be planned (unsupported table, bad option) is a refused job in its index, not an error.
func (f *Function) Handle(ctx context.Context, in maintenance.PlanInput) (maintenance.PlanOutput, error) {
	if err := f.deps.Leases.Renew(ctx, in.Run.Table, in.Run.Token, f.deps.Now(), state.LeaseTTL); err != nil {
		return maintenance.PlanOutput{}, fmt.Errorf("renew lease of run %s: %w", in.Run.RunID, err)
	}
	work := handoff.Open(f.deps.Work, f.deps.WorkLocation, in.Run.RunID)
	chain := maintenance.Jobs()
	for cursor := in.Cursor; cursor.Job < len(chain); cursor = (maintenance.Cursor{Job: cursor.Job + 1}) {
		request, wanted := find(in.Request.Jobs, chain[cursor.Job])
		if !wanted {
			continue
		}
		index, err := f.index(ctx, work, in, request)
		if err != nil {
			return maintenance.PlanOutput{}, err
		}
		out, more, err := step(ctx, work, index, cursor)
		if err != nil || more {
			return out, err
		}
	}
	return maintenance.PlanOutput{V: contract.PayloadVersion, Next: maintenance.NextFinish, Cursor: maintenance.Cursor{Job: len(chain)}}, nil
}

// find returns the request of a job.
func find(requests []maintenance.JobRequest, job maintenance.Job) (maintenance.JobRequest, bool) {
	for _, r := range requests {
		if r.Job == job {
			return r, true
		}
	}
	return maintenance.JobRequest{}, false
}

// index reads the job's plan index, or makes the plan. When two calls race, the first index wins and both go on with it.
func (f *Function) index(ctx context.Context, work *handoff.Work, in maintenance.PlanInput, request maintenance.JobRequest) (handoff.Index, error) {
	location := work.Index(request.Job)
	var index handoff.Index
	err := work.Read(ctx, location, &index)
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return index, err
	}
	p := &planner{
		Function: f, work: work, run: in.Run, request: request, dryRun: in.Request.DryRun || request.Args["dry_run"] == "true",
		automatic: in.Request.Automatic, due: in.Request.Due, attempt: f.deps.NewAttempt(), now: f.deps.Now(),
	}
	if index, err = p.plan(ctx); err != nil {
		return handoff.Index{}, fmt.Errorf("plan %s of %s: %w", request.Job, in.Run.Table, err)
	}
	if _, err := work.WriteOnce(ctx, location, &index); err != nil {
		return handoff.Index{}, err
	}
	return index, nil
}

// step hands out what comes next of a planned job; more is false when the job has nothing (more) to do.
func step(ctx context.Context, work *handoff.Work, index handoff.Index, cursor maintenance.Cursor) (maintenance.PlanOutput, bool, error) {
	out := maintenance.PlanOutput{
		V: contract.PayloadVersion, Job: index.Job, Batch: cursor.Batch,
		Cursor: maintenance.Cursor{Job: cursor.Job, Batch: cursor.Batch + 1, Planned: true},
	}
	switch {
	case index.Outcome != "":
		return out, false, nil
	case index.Job == maintenance.RewriteManifests:
		if index.DryRun || cursor.Batch > 0 {
			return out, false, nil
		}
		out.Next = maintenance.NextCommit
	case index.Job.Rewrites():
		if index.DryRun || cursor.Batch >= len(index.Batches) {
			return out, false, nil
		}
		stop, err := gaveUp(ctx, work, index, cursor.Batch)
		if err != nil || stop {
			return out, false, err
		}
		batch := index.Batches[cursor.Batch]
		out.Next, out.Items, out.ItemCount = maintenance.NextCompact, batch.Items, batch.Count
		return out, true, nil
	case cursor.Batch > 0:
		return out, false, nil
	case index.Job == maintenance.ExpireSnapshots && index.DryRun:
		out.Next = maintenance.NextReach
	case index.Job == maintenance.ExpireSnapshots:
		out.Next = maintenance.NextCommit
	default:
		batch := index.Batches[0]
		out.Next, out.Items, out.ItemCount = maintenance.NextList, batch.Items, batch.Count
	}
	return out, true, nil
}

// gaveUp says that a job with partial progress has more failed commits than it tolerates (Spark: partial-progress.max-failed-commits).
func gaveUp(ctx context.Context, work *handoff.Work, index handoff.Index, batches int) (bool, error) {
	failed := 0
	for b := range batches {
		var result handoff.CommitResult
		err := work.Read(ctx, work.Commit(index.Job, b), &result)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
		if err != nil || result.Outcome != maintenance.Committed && result.Outcome != maintenance.NothingToDo {
			failed++
		}
	}
	return failed > index.MaxFailedCommits, nil
}

// planner makes the plan of one job.
type planner struct {
	*Function
	work      *handoff.Work
	run       maintenance.Run
	request   maintenance.JobRequest
	dryRun    bool
	automatic bool
	// due says that the run is of what was due, whoever asked.
	due     bool
	attempt string
	now     time.Time

	table  *lake.Table
	reader store.Reader
	// codecs are by spec ID, made when first wanted.
	codecs map[int]*lake.FileCodec
	memo   lake.Memo
	// buffers are for the texts of the plan's parts.
	buffers sync.Pool
}

// plan loads the table and makes the job's index. What is definitely wrong with the request or the table becomes a refused index.
func (p *planner) plan(ctx context.Context) (handoff.Index, error) {
	index := handoff.Index{
		V: contract.PayloadVersion, Run: p.run, Job: p.request.Job, Request: p.request, DryRun: p.dryRun, PlannedAtMS: p.now.UnixMilli(),
	}
	err := p.load(ctx)
	if err == nil {
		switch p.request.Job {
		case maintenance.RewriteDataFiles:
			err = p.rewriteDataFiles(ctx, &index)
		case maintenance.RewritePositionDeleteFiles:
			err = p.rewritePositionDeleteFiles(ctx, &index)
		case maintenance.RewriteEqualityDeleteFiles:
			err = p.rewriteEqualityDeleteFiles(ctx, &index)
		case maintenance.RewriteManifests:
			err = p.rewriteManifests(ctx, &index)
		case maintenance.ExpireSnapshots:
			err = p.expireSnapshots(&index)
		case maintenance.RemoveOrphanFiles:
			err = p.removeOrphanFiles(ctx, &index)
		default:
			err = refusef("%s is no job", p.request.Job)
		}
	}
	if reason, refused := refusal(err); refused {
		p.deps.Log.WarnContext(ctx, "job refused", "run_id", p.run.RunID, "job", p.request.Job, "table", p.run.Table.String(), "reason", reason)
		index.Outcome, index.Reason, index.Groups, index.Batches = maintenance.Refused, reason, nil, nil
		return index, nil
	}
	return index, err
}

// load reads the table fresh and makes sure that it is the one for which the run was started.
func (p *planner) load(ctx context.Context) error {
	cat, reader, err := p.deps.Catalog(ctx, p.run.Table.Catalog)
	if err != nil {
		return err
	}
	p.reader = reader
	if p.table, err = lake.Load(ctx, cat, reader, p.run.Table); err != nil {
		return err
	}
	if have := p.table.Metadata.TableUUID().String(); have != p.run.TableUUID {
		return refusef("table %s was made anew: its UUID is %s, the run was started for %s", p.run.Table, have, p.run.TableUUID)
	}
	return nil
}
