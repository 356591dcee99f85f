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
	description Description // guarded by Executions.mu
	stop        context.CancelCauseFunc
	kill        context.CancelFunc
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
	work, kill := context.WithCancel(context.WithoutCancel(ctx))
	life, stop := context.WithCancelCause(work)
	r := &registered{stop: stop, kill: kill, done: make(chan struct{})}
	r.description = Description{MachineARN: s.MachineARN, Name: s.Name, Input: bytes.Clone(s.Input)}
	r.description.Result = Result{ARN: arn, Status: Running, StartedAt: x.rt.Clock.Now()}
	x.runs[arn] = r
	x.running.Go(func() { x.follow(work, life, m, r) })
	return Started{arn, r.description.StartedAt}, nil
}

// follow runs a registered execution and records its end. Functions that outlive their state keep running: only Close ends work.
func (x *Executions) follow(work, life context.Context, m *Machine, r *registered) {
	e := Execution{MachineARN: r.description.MachineARN, Name: r.description.Name, Input: r.description.Input}
	result, err := m.run(work, life, e, x.rt)
	if err != nil && result.Status == "" {
		result = Result{ARN: r.description.ARN, Status: Failed, Error: "States.Runtime", Cause: err.Error(), StoppedAt: x.rt.Clock.Now()}
	}
	x.mu.Lock()
	result.StartedAt = r.description.StartedAt
	r.description.Result = result
	d := r.description
	x.mu.Unlock()
	r.stop(nil)
	if x.onEnd != nil {
		x.onEnd(d)
	}
	close(r.done)
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
	r.stop(&stopError{name, cause})
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
	select {
	case <-r.done:
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
