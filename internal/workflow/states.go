package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"firn/internal/workflow/asl"
	"firn/internal/workflow/jsonata"
)

// errExecutionTimedOut is the cause of an execution's end by its TimeoutSeconds.
var errExecutionTimedOut = errors.New("execution timed out")

// execution runs one scope: a machine's top level, or the processor of a DISTRIBUTED Map for one child.
type execution struct {
	rt         Runtime
	scope      *asl.Scope
	machineARN string
	arn, name  string
	input      *data
	startedAt  time.Time
	timeout    time.Duration // of the whole execution, 0 for none
	history    *history
	invoke     func(Invocation) (json.RawMessage, error)
	sequence   func() int // numbers what the execution names: Map runs and nested executions

	// at is the state that the scope is in, and where a redrive goes on.
	at position
	// mapRun is the run of the DISTRIBUTED Map that the scope is in; a redrive takes it up again.
	mapRun *mapRun
}

// position is a state at its entry.
type position struct {
	name  string
	input *data
	frame *frame
}

// prepare makes an execution that is to run. work is the life of the process, which functions get.
func (m *Machine) prepare(work context.Context, e Execution, rt Runtime) (*execution, error) {
	if err := CheckName(e.Name); err != nil {
		return nil, err
	}
	if len(e.Input) == 0 {
		e.Input = json.RawMessage(`{}`)
	}
	input, err := textData(e.Input)
	if err != nil {
		return nil, fmt.Errorf("read input of execution %s: %w: %w", e.Name, ErrInvalidInput, err)
	}
	if len(input.raw) > MaxStateBytes {
		return nil, fmt.Errorf("input of execution %s has %d bytes, at most %d are allowed: %w", e.Name, len(input.raw), MaxStateBytes, ErrInvalidInput)
	}
	rt.Observe = serial(rt.Observe)
	x := newExecution(rt, &m.definition.Scope, e.MachineARN, e.Name, input)
	x.invoke = func(call Invocation) (json.RawMessage, error) { return rt.Host.Invoke(work, call) }
	x.timeout = time.Duration(m.definition.TimeoutSeconds) * time.Second
	return x, nil
}

// within runs the execution, or redrives it, for as long as its life and its timeout allow.
func (x *execution) within(work, life context.Context, run func(context.Context) Result) (Result, error) {
	ctx, cancel := context.WithCancelCause(life)
	defer cancel(nil)
	if x.timeout > 0 {
		fired, stop := x.rt.Clock.After(x.timeout)
		defer stop()
		go func() {
			select {
			case <-fired:
				cancel(errExecutionTimedOut)
			case <-ctx.Done():
			}
		}()
	}
	r := run(ctx)
	if r.Status == Aborted && work.Err() != nil {
		return r, fmt.Errorf("run execution %s: %w", x.arn, context.Cause(work))
	}
	return r, nil
}

func newExecution(rt Runtime, scope *asl.Scope, machineARN, name string, input *data) *execution {
	x := &execution{
		rt: rt, scope: scope, machineARN: machineARN, name: name, arn: ExecutionARN(machineARN, name),
		input: input, startedAt: rt.Clock.Now(),
	}
	x.history = &history{arn: x.arn, clock: rt.Clock, observe: rt.Observe}
	x.sequence = counter()
	return x
}

// run runs the scope to its end and says how it ended.
func (x *execution) run(ctx context.Context) Result {
	err := x.history.add(Event{Type: "ExecutionStarted", Data: x.input.raw})
	var out *data
	if err == nil {
		out, err = x.follow(ctx, position{x.scope.StartAt, x.input, newFrame(nil)}, false)
	}
	return x.end(ctx, out, err)
}

// end records how the scope ended.
func (x *execution) end(ctx context.Context, out *data, err error) Result {
	r := Result{ARN: x.arn, StartedAt: x.startedAt}
	end := Event{}
	var failure *TaskError
	var stop *stopError
	switch {
	case err == nil:
		r.Status, r.Output = Succeeded, out.raw
		end = Event{Type: "ExecutionSucceeded", Data: out.raw}
	case errors.As(err, &failure) && ctx.Err() == nil:
		r.Status, r.Error, r.Cause = Failed, failure.Name, failure.Cause
		end.Type = "ExecutionFailed"
	case errors.Is(context.Cause(ctx), errExecutionTimedOut):
		r.Status, r.Error, r.Cause = TimedOut, asl.ErrorTimeout, errExecutionTimedOut.Error()
		end.Type = "ExecutionTimedOut"
	case errors.As(context.Cause(ctx), &stop):
		r.Status, r.Error, r.Cause = Aborted, stop.name, stop.cause
		end.Type = "ExecutionAborted"
	default:
		r.Status, r.Cause = Aborted, err.Error()
		end.Type = "ExecutionAborted"
	}
	end.Error, end.Cause = r.Error, r.Cause
	r.Events = x.history.end(end)
	r.StoppedAt = x.rt.Clock.Now()
	return r
}

// follow runs the execution's own states from a position on, and keeps where it is. Again says that the first state was entered before.
func (x *execution) follow(ctx context.Context, at position, again bool) (*data, error) {
	for {
		x.at = at
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v := &visit{execution: x, frame: at.frame, state: x.scope.States[at.name], input: at.input, enteredAt: x.rt.Clock.Now(), again: again}
		output, next, err := v.run(ctx)
		if failure, is := errors.AsType[*TaskError](err); is && failure.Name == asl.ErrorDataLimit {
			x.mapRun = nil // AWS redrives such a Map as a whole
		}
		if err != nil || next == "" {
			return output, err
		}
		at, again, x.mapRun = position{next, output, at.frame}, false, nil
	}
}

// runScope runs an iteration of an INLINE Map to its end. Errors are *TaskError, or the context's when the execution was stopped.
func (x *execution) runScope(ctx context.Context, f *frame, s *asl.Scope, input *data) (*data, error) {
	for name := s.StartAt; ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v := &visit{execution: x, frame: f, state: s.States[name], input: input, enteredAt: x.rt.Clock.Now()}
		output, next, err := v.run(ctx)
		if err != nil {
			return nil, err
		}
		if next == "" {
			return output, nil
		}
		input, name = output, next
	}
}

// visit is one visit of a state.
type visit struct {
	*execution
	frame     *frame
	state     *asl.State
	input     *data
	enteredAt time.Time
	retries   int
	again     bool // a redrive: the state was entered before
}

// outcome is what a state leads to.
type outcome struct {
	next   string
	output *data
}

func (v *visit) event(typ string, payload []byte) error {
	return v.history.add(Event{Type: typ, State: v.state.Name, Data: payload})
}

func (v *visit) run(ctx context.Context) (*data, string, error) {
	if err := checkSize("input", v.state.Name, len(v.input.raw)); err != nil {
		return nil, "", err
	}
	kind := string(v.state.Type)
	if !v.again {
		if err := v.event(kind+"StateEntered", v.input.raw); err != nil {
			return nil, "", err
		}
	}
	var out outcome
	var err error
	switch v.state.Type {
	case asl.Task:
		out, err = v.withRetries(ctx, v.task)
	case asl.Map:
		out, err = v.withRetries(ctx, v.mapState)
	case asl.Choice:
		out, err = v.choose()
	case asl.Wait:
		out, err = v.wait(ctx)
	case asl.Fail:
		err = v.fail()
	default: // Pass, Succeed
		out, err = v.finish(v.state.Next, nil, v.input)
	}
	if err != nil {
		return nil, "", err
	}
	return out.output, out.next, v.event(kind+"StateExited", out.output.raw)
}

// lookup resolves variables; extra holds result or errorOutput.
func (v *visit) lookup(extra *jsonata.Object) asl.Lookup {
	var states *jsonata.Object
	return func(name string) (any, bool) {
		if name != "states" {
			return v.frame.lookup(name)
		}
		if states == nil {
			states = v.states(extra)
		}
		return states, true
	}
}

// states builds $states.
func (v *visit) states(extra *jsonata.Object) *jsonata.Object {
	states := jsonata.NewObject(4)
	if input, err := v.input.decoded(); err == nil {
		states.Set("input", input)
	}
	states.Set("context", v.contextObject())
	if extra != nil {
		for _, key := range extra.Keys() {
			value, _ := extra.Lookup(key)
			states.Set(key, value)
		}
	}
	return states
}

// timestamp is the time format of the context object.
const timestamp = "2006-01-02T15:04:05.000Z"

func (v *visit) contextObject() *jsonata.Object {
	run := jsonata.NewObject(4).Set("Id", v.arn).Set("Name", v.name).Set("StartTime", v.startedAt.UTC().Format(timestamp))
	if input, err := v.execution.input.decoded(); err == nil {
		run.Set("Input", input)
	}
	machine := jsonata.NewObject(2).Set("Id", v.machineARN).Set("Name", machineName(v.machineARN))
	state := jsonata.NewObject(3).Set("Name", v.state.Name).Set("EnteredTime", v.enteredAt.UTC().Format(timestamp)).
		Set("RetryCount", float64(v.retries))
	out := jsonata.NewObject(4).Set("Execution", run).Set("StateMachine", machine).Set("State", state)
	if item := v.frame.currentItem(); item != nil {
		if value, err := item.value.decoded(); err == nil {
			out.Set("Map", jsonata.NewObject(1).Set("Item", jsonata.NewObject(2).Set("Index", float64(item.index)).Set("Value", value)))
		}
	}
	return out
}

// queryError names an error of evaluation; errors that have a name keep it.
func queryError(err error) error {
	var named *TaskError
	if err == nil || errors.As(err, &named) {
		return err
	}
	return &TaskError{Name: asl.ErrorQuery, Cause: err.Error()}
}

// finish evaluates Output and Assign side by side, with the variables as they were, and then assigns.
func (v *visit) finish(next string, extra *jsonata.Object, fallback *data) (outcome, error) {
	return v.finishWith(next, v.state.Output, v.state.Assign, v.lookup(extra), fallback)
}

func (v *visit) finishWith(next string, output, assign *asl.Template, lookup asl.Lookup, fallback *data) (outcome, error) {
	out := fallback
	if output != nil {
		value, err := output.Eval(lookup)
		if err != nil {
			return outcome{}, queryError(err)
		}
		if out, err = valueData(value); err != nil {
			return outcome{}, queryError(err)
		}
	}
	if err := checkSize("output", v.state.Name, len(out.raw)); err != nil {
		return outcome{}, err
	}
	if assign != nil {
		values, err := assign.Eval(lookup)
		if err != nil {
			return outcome{}, queryError(err)
		}
		object, ok := values.(*jsonata.Object)
		if !ok {
			return outcome{}, queryError(errors.New("field Assign gave no object"))
		}
		if err := v.frame.assign(object); err != nil {
			return outcome{}, queryError(err)
		}
	}
	return outcome{next, out}, nil
}

func (v *visit) choose() (outcome, error) {
	lookup := v.lookup(nil)
	for i, rule := range v.state.Choices {
		value, err := rule.Condition.Eval(lookup)
		if err != nil {
			return outcome{}, queryError(fmt.Errorf("condition of Choices[%d]: %w", i, err))
		}
		holds, ok := value.(bool)
		if !ok {
			return outcome{}, queryError(fmt.Errorf("condition of Choices[%d]: want true or false, the expression gave %T", i, value))
		}
		if holds {
			return v.finishWith(rule.Next, rule.Output, rule.Assign, lookup, v.input)
		}
	}
	if v.state.Default == "" {
		return outcome{}, taskErrorf(asl.ErrorNoChoice, "no rule of state %s holds and it has no Default", v.state.Name)
	}
	return v.finish(v.state.Default, nil, v.input)
}

func (v *visit) wait(ctx context.Context) (outcome, error) {
	d, err := v.waitDuration()
	if err != nil {
		return outcome{}, queryError(err)
	}
	if d > 0 {
		if err := v.rt.Clock.Sleep(ctx, d); err != nil {
			return outcome{}, err
		}
	}
	return v.finish(v.state.Next, nil, v.input)
}

func (v *visit) waitDuration() (time.Duration, error) {
	if v.state.Seconds != nil {
		s, err := v.state.Seconds.Eval(v.lookup(nil))
		return time.Duration(s) * time.Second, err
	}
	text, err := v.state.Timestamp.Eval(v.lookup(nil))
	if err != nil {
		return 0, err
	}
	until, err := asl.ParseTimestamp(text)
	return until.Sub(v.rt.Clock.Now()), err
}

func (v *visit) fail() error {
	name, err := v.text(v.state.Error)
	if err != nil {
		return err
	}
	cause, err := v.text(v.state.Cause)
	if err != nil {
		return err
	}
	return &TaskError{Name: name, Cause: cause}
}

func (v *visit) text(t *asl.Text) (string, error) {
	if t == nil {
		return "", nil
	}
	s, err := t.Eval(v.lookup(nil))
	return s, queryError(err)
}
