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

// describedExecution is a nested execution as startExecution.sync:2 returns it; Output is JSON, not text.
type describedExecution struct {
	ExecutionArn    string
	Input           json.RawMessage
	InputDetails    included
	Name            string
	Output          json.RawMessage `json:",omitempty"`
	OutputDetails   included
	Error           string `json:",omitempty"`
	Cause           string `json:",omitempty"`
	StartDate       int64
	StateMachineArn string
	Status          Status
	StopDate        int64
}

// startNested starts an execution, and waits for its end in the form .sync:2.
func (v *visit) startNested(ctx context.Context, arguments *jsonata.Object, timeout time.Duration) (any, error) {
	if v.rt.Starter == nil {
		return nil, &TaskError{Name: asl.ErrorRuntime, Cause: "this host starts no nested executions"}
	}
	s := Start{Name: identity(v.arn, v.state.Name, fmt.Sprint(v.sequence()))}
	for field, into := range map[string]*string{"StateMachineArn": &s.MachineARN, "Name": &s.Name} {
		given, ok := arguments.Lookup(field)
		if !ok {
			continue
		}
		if *into, ok = given.(string); !ok {
			return nil, queryError(fmt.Errorf("field Arguments.%s is no string", field))
		}
	}
	if input, ok := arguments.Lookup("Input"); ok {
		var err error
		if s.Input, err = jsonata.Encode(input); err != nil {
			return nil, queryError(err)
		}
	}
	started, err := v.rt.Starter.StartExecution(ctx, s)
	if err != nil {
		return nil, startError(err)
	}
	if v.state.Resource == asl.StartExecution {
		return jsonata.NewObject(2).Set("ExecutionArn", started.ARN).Set("StartDate", started.StartedAt.UTC().Format(timestamp)), nil
	}
	result, err := v.await(ctx, timeout, func() (any, error) {
		d, err := v.rt.Starter.AwaitExecution(ctx, started.ARN)
		if err != nil {
			return nil, hostError(err)
		}
		return describe(d)
	})
	var failure *TaskError
	if ctx.Err() != nil || (errors.As(err, &failure) && failure.Name == asl.ErrorTimeout) {
		stopErr := v.rt.Starter.StopExecution(context.WithoutCancel(ctx), started.ARN, asl.ErrorTaskFailed, "the parent no longer waits")
		return nil, errors.Join(err, stopErr)
	}
	return result, err
}

// describe turns an ended execution into the task's result, or into States.TaskFailed with the description as its cause.
func describe(d Description) (any, error) {
	text, err := encodePlain(describedExecution{
		ExecutionArn: d.ARN, Input: d.Input, InputDetails: included{true}, Name: d.Name, Output: d.Output, OutputDetails: included{true},
		Error: d.Error, Cause: d.Cause, StartDate: d.StartedAt.UnixMilli(), StateMachineArn: d.MachineARN, Status: d.Status,
		StopDate: d.StoppedAt.UnixMilli(),
	})
	if err != nil {
		return nil, fmt.Errorf("describe execution %s: %w", d.ARN, err)
	}
	if d.Status != Succeeded {
		return nil, &TaskError{Name: asl.ErrorTaskFailed, Cause: string(text)}
	}
	return jsonata.Decode(text)
}

// startError names a refusal of StartExecution as AWS does.
func startError(err error) error {
	for sentinel, name := range map[error]string{
		ErrExecutionAlreadyExists: "StepFunctions.ExecutionAlreadyExistsException",
		ErrMachineDoesNotExist:    "StepFunctions.StateMachineDoesNotExistException",
		ErrInvalidName:            "StepFunctions.InvalidNameException",
		ErrInvalidInput:           "StepFunctions.InvalidExecutionInputException",
	} {
		if errors.Is(err, sentinel) {
			return &TaskError{Name: name, Cause: err.Error()}
		}
	}
	return hostError(err)
}
