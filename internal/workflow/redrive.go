package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"firn/internal/workflow/asl"
)

// ErrNotRedrivable is AWS's ExecutionNotRedrivable.
var ErrNotRedrivable = errors.New("execution is not redrivable")

// Limits of a redrive on AWS: so long after an execution's end, so long after its start, and with room for so many events.
const (
	redrivablePeriod = 14 * 24 * time.Hour
	maxOpenTime      = 365 * 24 * time.Hour
)

// RedriveExecution lets an execution that failed, timed out or was stopped go on, under its own ARN, with the definition that it started with:
// at the state that it did not leave, with the variables and the input of that state. What succeeded is not repeated; a DISTRIBUTED Map's children that did not
// succeed go on in the same way, those that never started start now. Retries and timeouts count from the start. An execution in a Fail state fails again. onEnd is
// called once more. A run that stopped in an INLINE Map cannot be redriven here.
func (x *Executions) RedriveExecution(_ context.Context, arn string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	r, found := x.runs[arn]
	if !found || x.closed {
		return fmt.Errorf("redrive execution %s: %w", arn, ErrExecutionDoesNotExist)
	}
	if reason := x.notRedrivable(r); reason != "" {
		return fmt.Errorf("redrive execution %s: %s: %w", arn, reason, ErrNotRedrivable)
	}
	r.description.RedriveCount++
	r.description.Result = Result{ARN: arn, StartedAt: r.description.StartedAt}
	//nolint:contextcheck // see registered.work
	x.follow(r, func(life context.Context) (Result, error) {
		return r.execution.within(r.work, life, r.execution.redrive)
	})
	return nil
}

func (x *Executions) notRedrivable(r *registered) string {
	now, d := x.rt.Clock.Now(), r.description
	switch {
	case d.Status == Running:
		return "it is running"
	case d.Status == Succeeded:
		return "it succeeded"
	case r.execution == nil:
		return "it never began"
	case now.Sub(d.StoppedAt) > redrivablePeriod:
		return "it ended more than 14 days ago"
	case now.Sub(d.StartedAt) > maxOpenTime:
		return "it started more than a year ago"
	case d.Events >= MaxEvents-1:
		return "its history is full"
	case !r.execution.resumable():
		return "it stopped in an INLINE Map, which is not redriven here"
	}
	return ""
}

// resumable says whether the execution, and each child of the Map that it stopped in, stopped in a state that can be taken up again.
func (x *execution) resumable() bool {
	state := x.scope.States[x.at.name]
	if state == nil || (state.Type == asl.Map && !state.Map.Distributed) {
		return false
	}
	if x.mapRun != nil {
		for i, child := range x.mapRun.children {
			if child != nil && x.mapRun.results[i].Status != Succeeded && !child.resumable() {
				return false
			}
		}
	}
	return true
}

// redrive goes on at the state that the execution did not leave.
func (x *execution) redrive(ctx context.Context) Result {
	err := x.history.add(Event{Type: "ExecutionRedriven"})
	var out *data
	if err == nil {
		out, err = x.follow(ctx, x.at, true)
	}
	return x.end(ctx, out, err)
}
