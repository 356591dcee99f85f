// Package workflow runs state machines in Amazon States Language, as AWS Step Functions would, in this process.
//
// It exists so that one definition runs on a laptop, in tests and on AWS. For that it is strict: sub-package asl refuses every
// definition with something that it does not know, sub-package jsonata evaluates expressions as the reference engine does, and the
// limits of AWS are enforced here: 262,144 bytes for what passes between states, 6 MB for a function's answer, 25,000 history events,
// 80 characters for names.
//
// What an execution touches lies behind Host: functions and objects. A state's timeout never cancels the function that it called:
// as on AWS the worker goes on (a zombie) and may still act later. Only the context given to Run, the life of the process, reaches
// functions.
//
// Known differences from AWS: the result of lambda:invoke has the fields Payload, StatusCode and ExecutedVersion only; a Map without
// ResultWriter returns the outputs of the children that succeeded, in item order; integers beyond 2^53-1 pass from state to state
// unchanged where no expression touches them and are an error where one does; execution history is a stream of events, not a log; the context object does
// not tell how often an execution was redriven.
package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"firn/internal/workflow/asl"
)

// Host is what an execution reaches outside itself. All methods may be called by many goroutines at once.
type Host interface {
	// Invoke runs a function and returns its answer, one JSON value. A *TaskError gives the error name that Retry and Catch match; any
	// other error becomes Lambda.Unknown. ctx ends with the process only, never with a state's timeout.
	Invoke(ctx context.Context, call Invocation) (json.RawMessage, error)
	// ReadObject opens an object for an ItemReader. Any error becomes States.ItemReaderFailed.
	ReadObject(ctx context.Context, bucket, key string) (io.ReadCloser, error)
	// WriteObject writes an object for a ResultWriter. Any error becomes States.ResultWriterFailed.
	WriteObject(ctx context.Context, bucket, key string, body []byte) error
}

// Invocation is one call of a function.
type Invocation struct {
	// Function is the FunctionName of the state, a name or an ARN.
	Function string
	// Payload is the function's input.
	Payload json.RawMessage
	// ExecutionARN and State say who calls; Attempt counts from 0 within the state.
	ExecutionARN string
	State        string
	Attempt      int
}

// Clock is the time of an execution. All methods may be called by many goroutines at once.
type Clock interface {
	Now() time.Time
	// Sleep waits for a Wait state or between attempts. It returns ctx's error when ctx ends first.
	Sleep(ctx context.Context, d time.Duration) error
	// After fires once after d, for timeouts; stop releases the timer. A clock that never fires disables timeouts.
	After(d time.Duration) (fired <-chan time.Time, stop func())
}

// NewClock returns a clock that reads the time from now (such as time.Now) and waits in real time.
func NewClock(now func() time.Time) Clock { return timerClock{now} }

type timerClock struct{ now func() time.Time }

func (c timerClock) Now() time.Time { return c.now() }

func (c timerClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c timerClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Runtime is what an execution runs with.
type Runtime struct {
	Host  Host
	Clock Clock
	// Starter starts nested executions; without it a machine that has startExecution states does not run. Executions sets itself.
	Starter Starter
	// Observe gets every history event, one at a time for each Run and for each Executions; nil for none. It must not block for long.
	Observe func(Event)
	// Jitter gives values from 0 to 1 for JitterStrategy FULL; nil means no jitter.
	Jitter func() float64
	// Parallelism caps how many iterations or children of one Map run at once on this machine; 0 means 16.
	Parallelism int
}

const defaultParallelism = 16

func (rt Runtime) parallelism(limit float64) int {
	n := rt.Parallelism
	if n <= 0 {
		n = defaultParallelism
	}
	return int(min(float64(n), limit))
}

// Execution names a run of a machine.
type Execution struct {
	// MachineARN is the state machine's ARN; see LocalMachineARN.
	MachineARN string
	// Name is the execution's name, at most 80 characters, unique for its machine.
	Name string
	// Input is one JSON value; empty means {}.
	Input json.RawMessage
}

// LocalMachineARN makes an ARN for a state machine on this machine.
func LocalMachineARN(name string) string {
	return "arn:aws:states:local:000000000000:stateMachine:" + name
}

// ExecutionARN is the ARN of an execution: $states.context.Execution.Id.
func ExecutionARN(machineARN, name string) string {
	return strings.Replace(machineARN, ":stateMachine:", ":execution:", 1) + ":" + name
}

func machineName(arn string) string { return arn[strings.LastIndex(arn, ":")+1:] }

// Status is the state of an execution.
type Status string

// The statuses of AWS.
const (
	Running   Status = "RUNNING"
	Succeeded Status = "SUCCEEDED"
	Failed    Status = "FAILED"
	TimedOut  Status = "TIMED_OUT"
	Aborted   Status = "ABORTED"
)

// Result is how an execution ended.
type Result struct {
	ARN    string
	Status Status
	// Output is set when Status is Succeeded.
	Output json.RawMessage
	// Error and Cause are set otherwise.
	Error, Cause         string
	StartedAt, StoppedAt time.Time
	// Events is the number of history events.
	Events int
}

// Err returns the execution's failure as an error, nil for a success.
func (r Result) Err() error {
	if r.Status == Succeeded {
		return nil
	}
	return fmt.Errorf("execution %s ended %s: %w", r.ARN, r.Status, &TaskError{Name: r.Error, Cause: r.Cause})
}

// Options are what a definition is loaded with.
type Options = asl.Options

// Machine is a definition that passed every check. It may run many executions at once.
type Machine struct {
	definition *asl.Definition
}

// Load reads a definition and refuses it with all its faults (a *asl.DefinitionError).
func Load(definition []byte, o Options) (*Machine, error) {
	d, err := asl.Load(definition, o)
	if err != nil {
		return nil, err
	}
	return &Machine{definition: d}, nil
}

// Functions lists the plain function names that the definition invokes, sorted.
func (m *Machine) Functions() []string { return m.definition.Functions() }

// Run runs one execution to its end. The error is nil when the execution ended by itself, also when it failed: see Result. Ending ctx
// aborts the execution and is passed to the functions that still run.
func (m *Machine) Run(ctx context.Context, e Execution, rt Runtime) (Result, error) {
	x, err := m.prepare(ctx, e, rt)
	if err != nil {
		return Result{}, err
	}
	return x.within(ctx, ctx, x.run)
}
