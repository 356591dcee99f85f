package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"firn/internal/maintenance"
)

// runs are the executions that were started and are not done: those at work, and those that wait for a worker. A run that waits when the process dies
// has its lease in phase starting; the next look starts it again.
type runs struct {
	execute func(ctx context.Context, in maintenance.ExecutionInput, input []byte) (maintenance.ReportOutput, error)
	log     *slog.Logger
	wake    chan struct{}

	mu      sync.Mutex
	waiting []execution
	names   map[string]bool
}

type execution struct {
	name  string
	in    maintenance.ExecutionInput
	input []byte
}

func newRuns(execute func(context.Context, maintenance.ExecutionInput, []byte) (maintenance.ReportOutput, error), log *slog.Logger) *runs {
	return &runs{execute: execute, log: log, wake: make(chan struct{}, 1), names: map[string]bool{}}
}

// Start implements evaluate.Starter: the run waits for a worker. A name that is known already is not started twice.
func (r *runs) Start(_ context.Context, name string, input []byte) error {
	var in maintenance.ExecutionInput
	if err := json.Unmarshal(input, &in); err != nil {
		return fmt.Errorf("decode execution input: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.names[name] {
		r.names[name] = true
		r.waiting = append(r.waiting, execution{name: name, in: in, input: slices.Clone(input)})
		r.signal()
	}
	return nil
}

// Active are the names of the runs at work or waiting, sorted.
func (r *runs) Active() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, 0, len(r.names))
	for name := range r.names {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// work executes runs, one after another, until the context ends.
func (r *runs) work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		}
		for next, found := r.next(); found; next, found = r.next() {
			out, err := r.execute(ctx, next.in, next.input)
			if err != nil {
				r.log.ErrorContext(ctx, "execute run", "run_id", next.name, "error", err)
			} else {
				r.log.InfoContext(ctx, "run ended", "run_id", next.name, "table", next.in.Run.Table.String(), "outcome", out.Outcome)
			}
			r.done(next.name)
		}
	}
}

// next takes a run, and wakes another worker when more wait.
func (r *runs) next() (execution, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return execution{}, false
	}
	next := r.waiting[0]
	r.waiting = r.waiting[1:]
	if len(r.waiting) > 0 {
		r.signal()
	}
	return next, true
}

func (r *runs) done(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.names, name)
}

// signal wakes a worker if one sleeps.
func (r *runs) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
