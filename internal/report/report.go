// Package report ends a run: it gathers what the jobs left in the work location, writes the run's history, emits metrics, and frees the lease.
// It runs on success and on failure. It reads the work location only, never the table, so that it can always tell what happened.
package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"firn/internal/contract"
	"firn/internal/event"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/store"
	"firn/internal/telemetry"
)

// Notifier puts a table back on the queue of tables to look at.
type Notifier interface {
	Notify(ctx context.Context, table maintenance.TableID) error
}

// Sender puts a message on the queue that evaluate reads.
type Sender interface {
	Send(ctx context.Context, body []byte) error
}

// Publisher sends an event to whoever subscribes: the detail type and the detail of EventBridge, with contract.EventSource as source.
type Publisher interface {
	Publish(ctx context.Context, detailType string, detail []byte) error
}

// Queue is a Notifier that sends a notice in the form of our own event.
type Queue struct{ Sender Sender }

// Notify implements Notifier.
func (q Queue) Notify(ctx context.Context, table maintenance.TableID) error {
	body, err := event.Encode(event.Notice{Source: event.SourceSchedule, EventID: "pending", Table: table})
	if err != nil {
		return fmt.Errorf("encode notice of %s: %w", table, err)
	}
	return q.Sender.Send(ctx, body)
}

// Deps are what report reaches.
type Deps struct {
	// Work is the store of WorkLocation.
	Work         store.ReadWriter
	WorkLocation string
	State        state.Store
	Metrics      telemetry.Sink
	// Notifier gets tables whose events met the held lease; nil when nobody waits for them.
	Notifier Notifier
	// Events gets the outcome of each run; nil when nobody subscribes.
	Events Publisher
	Now    func() time.Time
	Log    *slog.Logger
}

// Function is report.
type Function struct{ deps Deps }

// New returns the function.
func New(deps Deps) *Function { return &Function{deps: deps} }

// Handle gathers, remembers and tells. A second call writes the same history and frees nothing twice. The outcome is returned beside the error when
// it could be gathered but not remembered.
func (f *Function) Handle(ctx context.Context, in maintenance.ReportInput) (maintenance.ReportOutput, error) {
	g := &gatherer{work: handoff.Open(f.deps.Work, f.deps.WorkLocation, in.Run.RunID), ended: in.Error}
	out := maintenance.ReportOutput{V: contract.PayloadVersion, Run: in.Run, Jobs: []maintenance.JobOutcome{}}
	started := f.deps.Now().UnixMilli()
	for _, job := range maintenance.Jobs() {
		index, found, err := g.index(ctx, job)
		if err != nil {
			return maintenance.ReportOutput{}, err
		}
		if !found {
			continue
		}
		outcome, err := g.job(ctx, index)
		if err != nil {
			return maintenance.ReportOutput{}, err
		}
		started = min(started, index.PlannedAtMS)
		out.Jobs = append(out.Jobs, outcome)
	}
	var err error
	if out.Earlier, err = g.earlier(ctx); err != nil {
		return maintenance.ReportOutput{}, err
	}
	out.Outcome = overall(out.Jobs)
	if in.Error != nil {
		out.Error, out.Reason = in.Error.Error, causeOf(*in.Error)
		if out.Outcome == maintenance.Committed && len(out.Jobs) == len(in.Request.Jobs) && !g.short {
			out.Reason = "what was asked for is committed; ending the run failed: " + out.Reason
		} else {
			out.Outcome = worst(out.Outcome, outcomeOf(in.Error.Error))
		}
	}
	record, err := f.remember(ctx, in, out, started)
	if err != nil {
		return out, err // the lease stays for the next try: without it the ledger would not be told
	}
	return out, errors.Join(f.tell(ctx, record), f.release(ctx, in.Run))
}

// remember writes history and the ledger's last runs.
func (f *Function) remember(ctx context.Context, in maintenance.ReportInput, out maintenance.ReportOutput, startedMS int64) (state.RunRecord, error) {
	now := f.deps.Now()
	record := state.RunRecord{Run: in.Run, Request: in.Request, StartedMS: startedMS, EndedMS: now.UnixMilli(), Report: out}
	if earlier, found, err := f.deps.State.FindRun(ctx, in.Run.RunID); err != nil {
		return record, err
	} else if found {
		record.StartedMS, record.EndedMS = earlier.StartedMS, earlier.EndedMS
	}
	if err := f.deps.State.SaveRun(ctx, record); err != nil {
		return record, err
	}
	return record, f.lastRuns(ctx, in, out, now)
}

// tell publishes the outcome, and writes metrics and logs.
func (f *Function) tell(ctx context.Context, record state.RunRecord) error {
	now, run, out := f.deps.Now(), record.Run, record.Report
	if err := f.publish(ctx, record); err != nil {
		return err
	}
	for _, e := range out.Earlier {
		if err := f.deps.Metrics.Emit(now, run.Table, maintenance.ExpireSnapshots, telemetry.Counts(e.Columns)); err != nil {
			return fmt.Errorf("emit metrics of run %s: %w", run.RunID, err)
		}
		f.deps.Log.InfoContext(ctx, "files of an earlier expiry deleted", "run_id", run.RunID, "table", run.Table.String(), "earlier_run_id", e.RunID,
			"files", e.Files, "bytes", e.Bytes, "failed", e.Failed)
	}
	for _, job := range out.Jobs {
		metrics := append(telemetry.Counts(job.Columns), telemetry.Metric{Name: contract.MetricOutcome(string(job.Outcome)), Unit: telemetry.Count, Value: 1})
		if err := f.deps.Metrics.Emit(now, run.Table, job.Job, metrics); err != nil {
			return fmt.Errorf("emit metrics of run %s: %w", run.RunID, err)
		}
		f.deps.Log.InfoContext(ctx, "job ended", "run_id", run.RunID, "table", run.Table.String(), "job", job.Job, "outcome", job.Outcome,
			"reason", job.Reason, "snapshot_id", job.SnapshotID)
	}
	return nil
}

// publish tells the outcome to subscribers. A repeated report tells the same again.
func (f *Function) publish(ctx context.Context, r state.RunRecord) error {
	if f.deps.Events == nil {
		return nil
	}
	detail, err := event.EncodeEnded(event.RunEnded{
		Request: r.Request, Report: r.Report, StartedAt: time.UnixMilli(r.StartedMS), EndedAt: time.UnixMilli(r.EndedMS), CostMicros: CostMicros(r.Report),
	})
	if err == nil {
		err = f.deps.Events.Publish(ctx, contract.EventRunEnded, detail)
	}
	if err != nil {
		return fmt.Errorf("publish outcome of run %s: %w", r.Run.RunID, err)
	}
	return nil
}

// lastRuns notes when each job ended, and what an automatic run cost, for triggers and bounds that count from there. A table without ledger has nothing to
// note it on. Of a run that lost its lease only the cost is noted, and what its expiry left waiting: looks and runs have gone on since, so that it says
// nothing of what there is to do now, and would hide it.
func (f *Function) lastRuns(ctx context.Context, in maintenance.ReportInput, out maintenance.ReportOutput, now time.Time) error {
	lease, held, err := f.deps.State.Current(ctx, in.Run.Table)
	if err != nil {
		return err
	}
	holds := held && lease.Token == in.Run.Token
	for {
		head, err := f.deps.State.LoadHead(ctx, in.Run.Table)
		if err != nil || head.Version == 0 {
			return err
		}
		if head.Jobs == nil {
			head.Jobs = map[maintenance.Job]state.JobState{}
		}
		if holds {
			all := ran(head.Jobs, in.Request, ends(in, out.Jobs), now)
			if _, missing := unreached(in.Request, out.Jobs); all && !missing {
				head.Commits = 0 // nothing is folded while a lease is held, so every commit that was counted came before this run
			}
		}
		waiting(head.Jobs, out.Jobs, now)
		if in.Request.Automatic {
			head.Spending = spent(head.Spending, in.Run.RunID, CostMicros(out), now)
		}
		if _, err = f.deps.State.SaveHead(ctx, head); !errors.Is(err, state.ErrConditionFailed) {
			return err
		}
	}
}

// unreached is the first job of a request that has no outcome: the run ended while it was planned, or before.
func unreached(request maintenance.Request, outcomes []maintenance.JobOutcome) (job maintenance.Job, missing bool) {
	for _, job := range maintenance.Jobs() {
		if slices.ContainsFunc(request.Jobs, func(r maintenance.JobRequest) bool { return r.Job == job }) &&
			!slices.ContainsFunc(outcomes, func(o maintenance.JobOutcome) bool { return o.Job == job }) {
			return job, true
		}
	}
	return "", false
}

// ends are the outcomes of a run's jobs. The job at which the run ended has that outcome; those behind it have none: they wait for nothing.
func ends(in maintenance.ReportInput, outcomes []maintenance.JobOutcome) []maintenance.JobOutcome {
	if job, missing := unreached(in.Request, outcomes); missing && in.Error != nil {
		return append(slices.Clone(outcomes), maintenance.JobOutcome{Job: job, Outcome: outcomeOf(in.Error.Error)})
	}
	return outcomes
}

// ran notes when each job ended, and how. What it left is found by the next look. A dry run is none, and what was refused to a person says nothing about
// automatic runs; all says that there was neither.
func ran(jobs map[maintenance.Job]state.JobState, request maintenance.Request, outcomes []maintenance.JobOutcome, now time.Time) (all bool) {
	all = true
	for _, o := range outcomes {
		if request.DryRun || o.Outcome == maintenance.Refused && !request.Automatic {
			all = false
			continue
		}
		was := jobs[o.Job]
		was = state.JobState{LastRunMS: now.UnixMilli(), LastOutcome: o.Outcome, WaitingUntilMS: was.WaitingUntilMS, LastAgedMS: was.LastAgedMS}
		if TookAll(request, o) {
			was.LastAgedMS = was.LastRunMS
		}
		jobs[o.Job] = was
	}
	return all
}

// TookAll reports a rewrite of data files that took all small files: by their age, or asked for by a person. One that failed is repeated.
func TookAll(request maintenance.Request, o maintenance.JobOutcome) bool {
	return o.Job == maintenance.RewriteDataFiles && o.Outcome != maintenance.Failed && !request.DryRun &&
		slices.ContainsFunc(request.Jobs, func(r maintenance.JobRequest) bool { return r.Job == o.Job && (r.Aged || !request.Automatic) })
}

// waiting notes until when files of an expiry wait. Each run's end deletes those whose time has come.
func waiting(jobs map[maintenance.Job]state.JobState, outcomes []maintenance.JobOutcome, now time.Time) {
	expiry, known := jobs[maintenance.ExpireSnapshots]
	if now.UnixMilli() >= expiry.WaitingUntilMS {
		expiry.WaitingUntilMS = 0
	}
	for _, o := range outcomes {
		if o.Waiting != nil {
			expiry.WaitingUntilMS, known = max(expiry.WaitingUntilMS, o.Waiting.NotBeforeMS), true
		}
	}
	if known {
		jobs[maintenance.ExpireSnapshots] = expiry
	}
}

// release frees the lease and the run's place among those that run at once, and puts the table back on the queue when events met it, and tables that wait for
// a place.
func (f *Function) release(ctx context.Context, run maintenance.Run) error {
	pending, err := f.deps.State.Release(ctx, run.Table, run.Token)
	if errors.Is(err, state.ErrLeaseLost) {
		return nil // a second call, or another run took over: the lease is not ours to free
	}
	if err != nil {
		return err
	}
	again, err := Leave(ctx, f.deps.State, run.Table)
	if err != nil || f.deps.Notifier == nil {
		return err
	}
	if pending && !slices.Contains(again, run.Table) {
		again = append(again, run.Table)
	}
	var faults []error
	for _, table := range again {
		faults = append(faults, f.deps.Notifier.Notify(ctx, table))
	}
	return errors.Join(faults...)
}

// outcomeOf maps the error that ended a run.
func outcomeOf(name string) maintenance.Outcome {
	switch name {
	case contract.ErrorConflict:
		return maintenance.Conflict
	case contract.ErrorRefused, contract.ErrorBadInput, contract.ErrorUnsupportedVersion:
		return maintenance.Refused
	case contract.ErrorCommitStateUnknown:
		return maintenance.Unknown
	}
	return maintenance.Failed
}

// severity orders outcomes for a run's overall one.
func severity(o maintenance.Outcome) int {
	order := []maintenance.Outcome{
		maintenance.NothingToDo, maintenance.DryRun, maintenance.Committed, maintenance.Refused, maintenance.Conflict, maintenance.Failed,
		maintenance.Unknown,
	}
	return slices.Index(order, o) // -1 for "no outcome yet"
}

func worst(a, b maintenance.Outcome) maintenance.Outcome {
	if severity(b) > severity(a) {
		return b
	}
	return a
}

// overall is the worst of the jobs' outcomes.
func overall(jobs []maintenance.JobOutcome) maintenance.Outcome {
	out := maintenance.NothingToDo
	for _, j := range jobs {
		out = worst(out, j.Outcome)
	}
	return out
}
