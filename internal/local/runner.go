package local

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/workflow"
	"firn/internal/workflow/definition"
)

// Runner runs the state machine over functions in this process.
type Runner struct {
	Clients *edge.Clients
	// Functions are the five functions of the state machine by name.
	Functions map[string]edge.Raw
	// LockDir holds one lock file a run: a run whose lock can be taken is dead.
	LockDir string
	// SharedState says that runs on other machines use the same state: a free lock proves nothing of theirs.
	SharedState bool
	Now         func() time.Time
	// Observe gets the execution's history events (progress); nil for none.
	Observe func(workflow.Event)
	Log     *slog.Logger

	// answers knows what could not be stored; nil where the functions are not in this process.
	answers *answers
}

// BusyError says that a living run holds the table.
type BusyError struct {
	Table maintenance.TableID
	RunID maintenance.RunID
}

// Error names table and run.
func (e *BusyError) Error() string {
	return fmt.Sprintf("table %s is being maintained by run %s: wait for its end", e.Table, e.RunID)
}

// Run takes the table's lease, runs the request through the state machine, and returns its report. A dead run that still holds the lease is
// closed first: what it had finished is committed, its fate logs are ended and its leftovers swept, as the state machine would have done.
func (r *Runner) Run(ctx context.Context, id maintenance.TableID, request maintenance.Request) (maintenance.ReportOutput, error) {
	st, err := r.Clients.State(ctx)
	if err != nil {
		return maintenance.ReportOutput{}, err
	}
	uuid, head, err := r.identity(ctx, id)
	if err != nil {
		return maintenance.ReportOutput{}, err
	}
	var in maintenance.ExecutionInput
	fill := func(token int64) (maintenance.RunID, []byte) {
		run := maintenance.Run{RunID: maintenance.UniqueRunID(uuid, head, token, rand.Text()), Table: id, TableUUID: uuid, Token: token}
		in = maintenance.ExecutionInput{V: contract.PayloadVersion, Run: run, Request: request}
		data, err := json.Marshal(in)
		if err != nil {
			panic(fmt.Sprintf("encode execution input: %v", err)) // plain data always encodes
		}
		return run.RunID, data
	}
	lease, lock, err := r.acquire(ctx, st, id, fill)
	if err != nil {
		return maintenance.ReportOutput{}, err
	}
	defer r.unlock(lock)
	if !request.DryRun {
		r.tidy(ctx, st)
	}
	return r.execute(ctx, st, in, lease.Input)
}

// Execute runs one execution whose lease was taken already, under the run's lock, and returns its report. Another process that meets the lease before
// the lock is taken closes the run; this one then ends at plan, which renews the lease.
func (r *Runner) Execute(ctx context.Context, in maintenance.ExecutionInput, input []byte) (maintenance.ReportOutput, error) {
	st, err := r.Clients.State(ctx)
	if err != nil {
		return maintenance.ReportOutput{}, err
	}
	lock, err := r.lock(in.Run.RunID)
	if err != nil {
		return maintenance.ReportOutput{}, err
	}
	defer r.unlock(lock)
	return r.execute(ctx, st, in, input)
}

// identity reads the table's UUID and head snapshot.
func (r *Runner) identity(ctx context.Context, id maintenance.TableID) (uuid string, head int64, err error) {
	l, err := r.Clients.Lake(ctx, id.Catalog)
	if err != nil {
		return "", 0, err
	}
	t, err := lake.Load(ctx, l.Catalog, l.Store, id)
	if err != nil {
		return "", 0, err
	}
	if snap := t.Metadata.CurrentSnapshot(); snap != nil {
		head = snap.SnapshotID
	}
	return t.Metadata.TableUUID().String(), head, nil
}

// acquire takes the table's lease, closing a dead holder's run first, and the lock of its own run. The lock is taken before the lease can be seen: a
// lease whose lock is free belongs to a dead process.
func (r *Runner) acquire(ctx context.Context, st state.Store, id maintenance.TableID, fill func(int64) (maintenance.RunID, []byte)) (
	lease state.Lease, lock *flock.Flock, err error,
) {
	var lockErr error
	locked := func(token int64) (maintenance.RunID, []byte) {
		run, input := fill(token)
		lock, lockErr = r.lock(run)
		return run, input
	}
	for {
		lease, err = st.Acquire(ctx, id, r.Now(), state.LeaseTTL, locked)
		switch {
		case err == nil && lockErr == nil:
			return lease, lock, nil
		case err == nil:
			_, err = st.Release(ctx, id, lease.Token)
			return state.Lease{}, nil, errors.Join(lockErr, err)
		case lock != nil:
			r.unlock(lock)
			lock = nil
		}
		if !errors.Is(err, state.ErrLeaseHeld) {
			return state.Lease{}, nil, err
		}
		if err := r.closeHolder(ctx, st, id); err != nil {
			return state.Lease{}, nil, err
		}
	}
}

// CloseDead closes the run that holds the table's lease if its process is dead. It is no error when the process lives, or the table is free.
func (r *Runner) CloseDead(ctx context.Context, id maintenance.TableID) error {
	st, err := r.Clients.State(ctx)
	if err != nil {
		return err
	}
	var busy *BusyError
	if err := r.closeHolder(ctx, st, id); !errors.As(err, &busy) {
		return err
	}
	return nil
}

// closeHolder closes the run that holds the table's lease, if its process is dead; else it is a BusyError. A free lock proves a death only where state and
// locks are of one machine: a run whose state is shared with a deployment ends by itself, or by its lease.
func (r *Runner) closeHolder(ctx context.Context, st state.Store, id maintenance.TableID) error {
	held, found, err := st.Current(ctx, id)
	if err != nil || !found {
		return err
	}
	if r.SharedState {
		return &BusyError{Table: id, RunID: held.RunID} // its process may be elsewhere, where this machine's locks say nothing
	}
	lock, err := r.lock(held.RunID)
	if err != nil {
		return &BusyError{Table: id, RunID: held.RunID}
	}
	defer r.unlock(lock)
	// The lock may have become free because the run ended.
	if now, found, err := st.Current(ctx, id); err != nil || !found || now.RunID != held.RunID {
		return err
	}
	r.Log.WarnContext(ctx, "close a dead run", "run_id", held.RunID, "table", id.String())
	r.commitFinished(ctx, held.RunID)
	if err := r.closeRun(ctx, st, held, "the process that executed the run died"); err != nil {
		return fmt.Errorf("close dead run %s: %w", held.RunID, err)
	}
	if r.answers != nil {
		r.answers.take(held.RunID)
	}
	return nil
}

// commitFinished commits what a dead run had finished and not committed, so that its work is not lost. A batch that does not land is abandoned like the rest.
func (r *Runner) commitFinished(ctx context.Context, id maintenance.RunID) {
	work, err := r.Clients.Work()
	if err != nil {
		return // closing the run says so
	}
	batches, err := handoff.Open(work, r.Clients.Settings().WorkLocation, id).LastCommits(ctx)
	if err != nil {
		r.Log.WarnContext(ctx, "what a dead run finished stays uncommitted", "run_id", id, "error", err)
		return
	}
	for _, batch := range batches {
		payload, err := json.Marshal(batch)
		if err == nil {
			_, err = r.Functions[contract.FunctionCommit](ctx, payload)
		}
		r.Log.InfoContext(ctx, "asked to commit what a dead run had finished", "run_id", id, "job", batch.Job, "batch", batch.Batch, "error", err)
	}
}

// closeRun does for a dead run what the state machine does after a failure: abandon, then report.
func (r *Runner) closeRun(ctx context.Context, st state.Store, held state.Lease, cause string) error {
	var in maintenance.ExecutionInput
	if err := json.Unmarshal(held.Input, &in); err != nil {
		return fmt.Errorf("decode its input: %w", err)
	}
	failure := &maintenance.StepError{Error: "States.Runtime", Cause: cause}
	calls := []struct {
		function string
		payload  any
	}{
		{contract.FunctionSweep, maintenance.SweepInput{V: contract.PayloadVersion, Step: maintenance.SweepAbandon, Run: in.Run}},
		{contract.FunctionReport, maintenance.ReportInput{V: contract.PayloadVersion, Run: in.Run, Request: in.Request, Error: failure}},
	}
	for _, call := range calls {
		payload, err := json.Marshal(call.payload)
		if err != nil {
			return err
		}
		if _, err := r.Functions[call.function](ctx, payload); err != nil {
			return fmt.Errorf("%s: %w", call.function, err)
		}
	}
	if _, err := st.Release(ctx, held.Table, held.Token); err != nil && !errors.Is(err, state.ErrLeaseLost) {
		return err
	}
	return nil
}

// lock takes the run's lock without waiting; an error means that a living process has it.
func (r *Runner) lock(id maintenance.RunID) (*flock.Flock, error) {
	if err := os.MkdirAll(r.LockDir, 0o750); err != nil {
		return nil, fmt.Errorf("make lock folder: %w", err)
	}
	lock := flock.New(filepath.Join(r.LockDir, string(id)+".lock"))
	taken, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock run %s: %w", id, err)
	}
	if !taken {
		return nil, fmt.Errorf("lock run %s: held by a living process", id)
	}
	return lock, nil
}

func (r *Runner) unlock(lock *flock.Flock) {
	path := lock.Path()
	if err := errors.Join(os.Remove(path), lock.Unlock()); err != nil {
		r.Log.Warn("free lock of a run", "path", path, "error", err)
	}
}

// execute runs the state machine to its end.
func (r *Runner) execute(ctx context.Context, st state.Store, in maintenance.ExecutionInput, input []byte) (maintenance.ReportOutput, error) {
	if r.answers != nil {
		defer r.answers.take(in.Run.RunID)
	}
	work, err := r.Clients.Work()
	if err != nil {
		return maintenance.ReportOutput{}, err
	}
	machine, err := workflow.Load(definition.Maintain, workflow.Options{Substitutions: substitutions()})
	if err != nil {
		return maintenance.ReportOutput{}, fmt.Errorf("load state machine: %w", err)
	}
	host := &Host{Functions: r.Functions, Work: work, Scheme: r.Clients.WorkScheme()}
	runtime := workflow.Runtime{
		Host:  host,
		Clock: workflow.NewClock(r.Now), Observe: r.Observe, Parallelism: 1,
	}
	execution := workflow.Execution{MachineARN: workflow.LocalMachineARN("maintain"), Name: string(in.Run.RunID), Input: input}
	result, err := machine.Run(ctx, execution, runtime)
	if err != nil && ctx.Err() != nil {
		return r.interrupted(ctx, st, host, state.Lease{Table: in.Run.Table, Token: in.Run.Token, RunID: in.Run.RunID, Input: input})
	}
	if err != nil {
		return maintenance.ReportOutput{}, fmt.Errorf("run %s: %w", in.Run.RunID, err)
	}
	if result.Status == workflow.Succeeded {
		var out maintenance.ReportOutput
		if err := json.Unmarshal(result.Output, &out); err != nil {
			return maintenance.ReportOutput{}, fmt.Errorf("decode report of run %s: %w", in.Run.RunID, err)
		}
		return out, nil
	}
	return r.record(context.WithoutCancel(ctx), st, in.Run.RunID, result.Err())
}

// record is the report of a run that ended badly: what this process knows better, else the stored one; else the error.
func (r *Runner) record(ctx context.Context, st state.Store, id maintenance.RunID, cause error) (maintenance.ReportOutput, error) {
	if r.answers != nil {
		if out, found := r.answers.take(id); found {
			return out, nil
		}
	}
	record, found, err := st.FindRun(ctx, id)
	if err == nil && found {
		return record.Report, nil
	}
	return maintenance.ReportOutput{}, errors.Join(cause, err)
}

// substitutions names the functions as Host knows them.
func substitutions() map[string]string {
	return map[string]string{
		"PlanFunction": contract.FunctionPlan, "CompactFunction": contract.FunctionCompact, "CommitFunction": contract.FunctionCommit,
		"SweepFunction": contract.FunctionSweep, "ReportFunction": contract.FunctionReport, "CompactConcurrency": "40", "SweepConcurrency": "40",
	}
}
