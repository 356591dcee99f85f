package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"firn/internal/contract"
	"firn/internal/maintenance"
	"firn/internal/state"
)

// abortWait is how long an interrupted run waits for functions that are still at work: to abort an output takes less.
const abortWait = 30 * time.Second

// interruptedCause tells in the report why the run ended.
const interruptedCause = "interrupted: the work in progress was given up and the run was closed; what it had committed stays"

// inFlight counts function calls that have not returned.
type inFlight struct {
	mu     sync.Mutex
	count  int
	closed bool
	idle   chan struct{}
}

// enter counts a call; false when the run is being closed, and no call may begin.
func (f *inFlight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.count++
	}
	return !f.closed
}

func (f *inFlight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count--; f.count == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// wait keeps further calls out and returns when none is in flight, or after the given time with false.
func (f *inFlight) wait(atMost time.Duration) bool {
	f.mu.Lock()
	f.closed = true
	if f.count == 0 {
		f.mu.Unlock()
		return true
	}
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	idle := f.idle
	f.mu.Unlock()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-idle:
		return true
	case <-timer.C:
		return false
	}
}

// uninterrupted are functions that finish what they began: a commit whose answer nobody waits for would have to be settled by others.
func uninterrupted(function string) bool {
	return function == contract.FunctionCommit || function == contract.FunctionReport
}

// interrupted closes a run whose context was cancelled, as the state machine would have done after a failure, and returns its report.
func (r *Runner) interrupted(ctx context.Context, st state.Store, host *Host, held state.Lease) (maintenance.ReportOutput, error) {
	cause := context.Cause(ctx)
	ctx = context.WithoutCancel(ctx)
	if !host.calls.wait(abortWait) {
		// Its fate log keeps a late commit from doing harm; its outputs are left to the orphan sweep.
		r.Log.WarnContext(ctx, "a function did not stop", "run_id", held.RunID, "waited", abortWait)
	}
	if err := r.closeRun(ctx, st, held, interruptedCause); err != nil {
		return maintenance.ReportOutput{}, errors.Join(fmt.Errorf("run %s: %w", held.RunID, cause), fmt.Errorf("close interrupted run: %w", err))
	}
	return r.record(ctx, st, held.RunID, fmt.Errorf("run %s: %w", held.RunID, cause))
}
