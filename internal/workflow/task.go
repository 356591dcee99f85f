package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"firn/internal/workflow/asl"
	"firn/internal/workflow/jsonata"
)

// withRetries runs the body of a Task or Map, again where a retrier says so, and follows a catcher in the end.
func (v *visit) withRetries(ctx context.Context, body func(context.Context) (outcome, error)) (outcome, error) {
	attempts := make([]int64, len(v.state.Retry))
	for {
		out, err := body(ctx)
		var failure *TaskError
		if err == nil || !errors.As(err, &failure) {
			return out, err
		}
		failed := Event{Type: "TaskFailed", State: v.state.Name, Error: failure.Name, Cause: failure.Cause}
		if v.state.Type == asl.Map {
			failed.Type = "MapStateFailed"
		}
		if err := v.history.add(failed); err != nil {
			return outcome{}, err
		}
		i := retrierFor(v.state.Retry, failure)
		if i < 0 || attempts[i] >= v.state.Retry[i].MaxAttempts {
			return v.catch(failure)
		}
		if err := v.rt.Clock.Sleep(ctx, v.delay(v.state.Retry[i], attempts[i])); err != nil {
			return outcome{}, err
		}
		attempts[i]++
		v.retries++
	}
}

func retrierFor(list []asl.Retrier, e *TaskError) int {
	for i, r := range list {
		if matches(r.ErrorEquals, e) {
			return i
		}
	}
	return -1
}

// delay is the wait before the repetition that follows n earlier ones of the same retrier.
func (v *visit) delay(r asl.Retrier, n int64) time.Duration {
	s := float64(r.IntervalSeconds) * math.Pow(r.BackoffRate, float64(n))
	if r.MaxDelaySeconds > 0 {
		s = min(s, float64(r.MaxDelaySeconds))
	}
	s = min(s, asl.MaxWaitSeconds)
	if r.FullJitter && v.rt.Jitter != nil {
		s *= v.rt.Jitter()
	}
	return time.Duration(s * float64(time.Second))
}

// catch follows the first catcher that matches, else it passes the error on.
func (v *visit) catch(e *TaskError) (outcome, error) {
	for _, c := range v.state.Catch {
		if !matches(c.ErrorEquals, e) {
			continue
		}
		errorOutput := jsonata.NewObject(2).Set("Error", e.Name).Set("Cause", e.Cause)
		fallback, err := valueData(errorOutput)
		if err != nil {
			return outcome{}, queryError(err)
		}
		extra := jsonata.NewObject(1).Set("errorOutput", errorOutput)
		return v.finishWith(c.Next, c.Output, c.Assign, v.lookup(extra), fallback)
	}
	return outcome{}, e
}

// task runs one attempt of a Task.
func (v *visit) task(ctx context.Context) (outcome, error) {
	value, err := v.state.Arguments.Eval(v.lookup(nil))
	if err != nil {
		return outcome{}, queryError(err)
	}
	arguments, err := valueData(value)
	if err != nil {
		return outcome{}, queryError(err)
	}
	if err := checkSize("arguments", v.state.Name, len(arguments.raw)); err != nil {
		return outcome{}, err
	}
	timeout, err := v.timeout()
	if err != nil {
		return outcome{}, err
	}
	for _, typ := range []string{"TaskScheduled", "TaskStarted"} {
		if err := v.event(typ, arguments.raw); err != nil {
			return outcome{}, err
		}
	}
	object, ok := value.(*jsonata.Object)
	if !ok {
		return outcome{}, queryError(errors.New("field Arguments gave no object"))
	}
	var result any
	if v.state.Resource == asl.Invoke {
		result, err = v.invokeFunction(ctx, object, timeout)
	} else {
		result, err = v.startNested(ctx, object, timeout)
	}
	if err != nil {
		return outcome{}, err
	}
	out, err := valueData(result)
	if err != nil {
		return outcome{}, queryError(err)
	}
	if err := checkSize("result", v.state.Name, len(out.raw)); err != nil {
		return outcome{}, err
	}
	if err := v.event("TaskSucceeded", out.raw); err != nil {
		return outcome{}, err
	}
	return v.finish(v.state.Next, jsonata.NewObject(1).Set("result", result), out)
}

// timeout is the state's limit, 0 for none.
func (v *visit) timeout() (time.Duration, error) {
	if v.state.TimeoutSeconds == nil {
		return 0, nil
	}
	s, err := v.state.TimeoutSeconds.Eval(v.lookup(nil))
	if err != nil {
		return 0, queryError(err)
	}
	return time.Duration(s) * time.Second, nil
}

// answer is what a call gave.
type answer struct {
	value any
	err   error
}

// await runs a call beside the state. When the state's time is over, or the execution ends, the call goes on without anybody who
// listens.
func (v *visit) await(ctx context.Context, timeout time.Duration, call func() (any, error)) (any, error) {
	done := make(chan answer, 1)
	go func() {
		value, err := call()
		done <- answer{value, err}
	}()
	var fired <-chan time.Time
	if timeout > 0 {
		var stop func()
		fired, stop = v.rt.Clock.After(timeout)
		defer stop()
	}
	select {
	case a := <-done:
		return a.value, a.err
	case <-fired:
		return nil, taskErrorf(asl.ErrorTimeout, "state %s took longer than %s", v.state.Name, timeout)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (v *visit) invokeFunction(ctx context.Context, arguments *jsonata.Object, timeout time.Duration) (any, error) {
	name, _ := arguments.Lookup("FunctionName")
	function, ok := name.(string)
	if !ok {
		return nil, queryError(errors.New("field Arguments.FunctionName is no string"))
	}
	payload, ok := arguments.Lookup("Payload")
	if !ok {
		payload = jsonata.NewObject(0)
	}
	raw, err := jsonata.Encode(payload)
	if err != nil {
		return nil, queryError(err)
	}
	call := Invocation{Function: function, Payload: raw, ExecutionARN: v.arn, State: v.state.Name, Attempt: v.retries}
	return v.await(ctx, timeout, func() (any, error) {
		response, err := v.invoke(call)
		if err != nil {
			return nil, hostError(err)
		}
		return invokeResult(response)
	})
}

// hostError gives an error of a Host a name.
func hostError(err error) error {
	if named, ok := errors.AsType[*TaskError](err); ok {
		return named
	}
	return &TaskError{Name: ErrorUnknown, Cause: err.Error()}
}

// invokeResult wraps a function's answer as lambda:invoke does.
func invokeResult(response json.RawMessage) (any, error) {
	if len(response) > MaxPayloadBytes {
		return nil, taskErrorf(ErrorResponseTooLarge, "response has %d bytes, at most %d are allowed", len(response), MaxPayloadBytes)
	}
	if len(response) == 0 {
		response = json.RawMessage("null")
	}
	payload, err := jsonata.Decode(response)
	if err != nil {
		return nil, &TaskError{Name: ErrorUnknown, Cause: "the function's response is no JSON: " + err.Error()}
	}
	return jsonata.NewObject(3).Set("ExecutedVersion", "$LATEST").Set("Payload", payload).Set("StatusCode", 200.0), nil
}
