package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Errors of Executions, with the meaning of AWS's exceptions of the same name.
var (
	ErrExecutionAlreadyExists = errors.New("execution already exists")
	ErrExecutionDoesNotExist  = errors.New("execution does not exist")
	ErrMachineDoesNotExist    = errors.New("state machine does not exist")
	ErrInvalidName            = errors.New("invalid name")
	ErrInvalidInput           = errors.New("invalid execution input")
)

// Start asks for an execution.
type Start struct {
	MachineARN string
	Name       string
	// Input is one JSON value; empty means {}.
	Input json.RawMessage
}

// Started names the execution that runs.
type Started struct {
	ARN       string
	StartedAt time.Time
}

// Description is an execution as DescribeExecution shows it. Status is Running until it ended.
type Description struct {
	Result
	MachineARN string
	Name       string
	Input      json.RawMessage
	// RedriveCount is how often the execution was redriven.
	RedriveCount int
}

// Starter starts executions and waits for them. AwaitExecution returns when the execution has ended.
type Starter interface {
	StartExecution(ctx context.Context, s Start) (Started, error)
	AwaitExecution(ctx context.Context, arn string) (Description, error)
	StopExecution(ctx context.Context, arn, name, cause string) error
}

// stopError is the cause of a stopped execution.
type stopError struct{ name, cause string }

func (e *stopError) Error() string { return fmt.Sprintf("execution stopped: %s %s", e.name, e.cause) }

// Executions is a registry of executions with the semantics of AWS: a name is unique for its machine for ever; starting it again with
// the same bytes while it runs gives the same execution, everything else is ErrExecutionAlreadyExists. It keeps every execution in
// memory until the process ends.
type Executions struct {
	rt    Runtime
	onEnd func(Description)

	mu       sync.Mutex
	machines map[string]*Machine
	runs     map[string]*registered
	running  sync.WaitGroup
	closed   bool
}

type registered struct {
	// work is the life of the process, which functions get: an execution outlives who started it.
	work context.Context //nolint:containedctx // a redrive needs it
	kill context.CancelFunc

	// Guarded by Executions.mu.
	description Description
	execution   *execution // nil when it could not even begin
	stop        context.CancelCauseFunc
	done        chan struct{}
}

// NewExecutions returns an empty registry. rt.Observe is called by one goroutine at a time. onEnd, which may be nil, is called once for each execution that ended, however it did.
func NewExecutions(rt Runtime, onEnd func(Description)) *Executions {
	x := &Executions{rt: rt, onEnd: onEnd, machines: map[string]*Machine{}, runs: map[string]*registered{}}
	x.rt.Starter, x.rt.Observe = x, serial(rt.Observe)
	return x
}

// Define adds or replaces a state machine. Executions that run keep the one that they started with.
func (x *Executions) Define(machineARN string, m *Machine) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.machines[machineARN] = m
}

// StartExecution starts an execution and returns at once. The execution outlives ctx, but keeps its values.
func (x *Executions) StartExecution(ctx context.Context, s Start) (Started, error) {
	if err := CheckName(s.Name); err != nil {
		return Started{}, err
	}
	if len(s.Input) == 0 {
		s.Input = json.RawMessage(`{}`)
	}
	if !json.Valid(s.Input) || len(s.Input) > MaxStateBytes {
		return Started{}, fmt.Errorf("start execution %s: want JSON of at most %d bytes: %w", s.Name, MaxStateBytes, ErrInvalidInput)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	m, ok := x.machines[s.MachineARN]
	if !ok || x.closed {
		return Started{}, fmt.Errorf("start execution of %s: %w", s.MachineARN, ErrMachineDoesNotExist)
	}
	arn := ExecutionARN(s.MachineARN, s.Name)
	if r, ok := x.runs[arn]; ok {
		if r.description.Status == Running && bytes.Equal(r.description.Input, s.Input) {
			return Started{arn, r.description.StartedAt}, nil
		}
		return Started{}, fmt.Errorf("start execution %s: %w", arn, ErrExecutionAlreadyExists)
	}
	r := &registered{}
	r.work, r.kill = context.WithCancel(context.WithoutCancel(ctx))
	r.description = Description{MachineARN: s.MachineARN, Name: s.Name, Input: bytes.Clone(s.Input)}
	r.description.Result = Result{ARN: arn, StartedAt: x.rt.Clock.Now()}
	x.runs[arn] = r
	//nolint:contextcheck // see registered.work
	run, err := m.prepare(r.work, Execution{MachineARN: s.MachineARN, Name: s.Name, Input: r.description.Input}, x.rt)
	r.execution = run
	//nolint:contextcheck // see registered.work
	x.follow(r, func(life context.Context) (Result, error) {
		if err != nil {
			return Result{}, err
		}
		return run.within(r.work, life, run.run)
	})
	return Started{arn, r.description.StartedAt}, nil
}

// follow runs a registered execution beside the caller, who holds x.mu, and records its end. Functions that outlive their state keep running: only
// Close ends work.
func (x *Executions) follow(r *registered, run func(life context.Context) (Result, error)) {
	life, stop := context.WithCancelCause(r.work)
	done := make(chan struct{})
	r.stop, r.done, r.description.Status = stop, done, Running
	x.running.Go(func() {
		result, err := run(life)
		if err != nil && result.Status == "" {
			result = Result{ARN: r.description.ARN, Status: Failed, Error: "States.Runtime", Cause: err.Error(), StoppedAt: x.rt.Clock.Now()}
		}
		x.mu.Lock()
		result.StartedAt = r.description.StartedAt
		r.description.Result = result
		d := r.description
		x.mu.Unlock()
		stop(nil)
		if x.onEnd != nil {
			x.onEnd(d)
		}
		close(done)
	})
}

func (x *Executions) find(arn string) (*registered, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r, ok := x.runs[arn]
	if !ok {
		return nil, fmt.Errorf("find execution %s: %w", arn, ErrExecutionDoesNotExist)
	}
	return r, nil
}

// StopExecution ends an execution as ABORTED with an error name and cause of the caller's. Functions that it called go on. Stopping one
// that has ended changes nothing.
func (x *Executions) StopExecution(_ context.Context, arn, name, cause string) error {
	r, err := x.find(arn)
	if err != nil {
		return err
	}
	x.mu.Lock()
	stop := r.stop
	x.mu.Unlock()
	stop(&stopError{name, cause})
	return nil
}

// DescribeExecution shows an execution.
func (x *Executions) DescribeExecution(_ context.Context, arn string) (Description, error) {
	r, err := x.find(arn)
	if err != nil {
		return Description{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return r.description, nil
}

// AwaitExecution waits for an execution's end, after onEnd returned.
func (x *Executions) AwaitExecution(ctx context.Context, arn string) (Description, error) {
	r, err := x.find(arn)
	if err != nil {
		return Description{}, err
	}
	x.mu.Lock()
	done := r.done
	x.mu.Unlock()
	select {
	case <-done:
		return x.DescribeExecution(ctx, arn)
	case <-ctx.Done():
		return Description{}, ctx.Err()
	}
}

// ListExecutions returns the executions of a machine with the status, all for "".
func (x *Executions) ListExecutions(machineARN string, status Status) []Description {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []Description
	for _, r := range x.runs {
		if r.description.MachineARN == machineARN && (status == "" || r.description.Status == status) {
			out = append(out, r.description)
		}
	}
	return out
}

// Close ends the process's work: no execution starts any more, those that run are aborted and the context of their functions ends. It
// returns when all executions have ended.
func (x *Executions) Close() {
	x.mu.Lock()
	x.closed = true
	for _, r := range x.runs {
		r.kill()
	}
	x.mu.Unlock()
	x.running.Wait()
}
