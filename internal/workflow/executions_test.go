package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"firn/internal/workflow"
)

func TestNestedExecution(t *testing.T) {
	w := newWorld()
	var ended []string
	x := workflow.NewExecutions(w.runtime(), func(d workflow.Description) { ended = append(ended, string(d.Status)+" "+d.Name) })
	child, parent := workflow.LocalMachineARN("child"), workflow.LocalMachineARN("parent")
	x.Define(child, machine(t, "P", `"P":{"Type":"Pass","Output":{"twice":"{% $states.input.n * 2 %}"},"End":true}`))
	x.Define(parent, machine(t, "N", fmt.Sprintf(`"N":{"Type":"Task","Resource":"arn:aws:states:::states:startExecution.sync:2","Arguments":{"StateMachineArn":%q,"Name":"{%% 'c-' & $states.context.Execution.Name %%}","Input":{"n":"{%% $states.input.n %%}"}},"Output":{"out":"{%% $states.result.Output %%}","status":"{%% $states.result.Status %%}"},"End":true}`, child)))
	d := start(t, x, parent, `{"n":21}`)
	x.Close()
	if d.Status != workflow.Succeeded || string(d.Output) != `{"out":{"twice":42},"status":"SUCCEEDED"}` {
		t.Fatalf("got %s %s %s", d.Output, d.Error, d.Cause)
	}
	if fmt.Sprint(ended) != "[SUCCEEDED c-p SUCCEEDED p]" {
		t.Fatalf("ended %v", ended)
	}
	if list := x.ListExecutions(child, workflow.Succeeded); len(list) != 1 || list[0].Name != "c-p" {
		t.Fatalf("got %+v", list)
	}
}

func TestStartExecutionErrorsHaveNames(t *testing.T) {
	w := newWorld()
	x := workflow.NewExecutions(w.runtime(), nil)
	defer x.Close()
	parent := workflow.LocalMachineARN("parent")
	x.Define(parent, machine(t, "N", `"N":{"Type":"Task","Resource":"arn:aws:states:::states:startExecution","Arguments":{"StateMachineArn":"arn:aws:states:local:000000000000:stateMachine:absent"},"End":true}`))
	if d := start(t, x, parent, `{}`); d.Error != "StepFunctions.StateMachineDoesNotExistException" {
		t.Fatalf("got %s", d.Error)
	}
	for want, s := range map[error]workflow.Start{
		workflow.ErrMachineDoesNotExist: {MachineARN: "arn:x:stateMachine:y", Name: "n"},
		workflow.ErrInvalidName:         {MachineARN: parent, Name: "a b"},
		workflow.ErrInvalidInput:        {MachineARN: parent, Name: "n", Input: json.RawMessage(`{`)},
	} {
		if _, err := x.StartExecution(t.Context(), s); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if _, err := x.DescribeExecution(t.Context(), "arn:none"); !errors.Is(err, workflow.ErrExecutionDoesNotExist) {
		t.Errorf("got %v", err)
	}
	r := run(t, newWorld(), machine(t, "N", `"N":{"Type":"Task","Resource":"arn:aws:states:::states:startExecution","Arguments":{"StateMachineArn":"x"},"End":true}`), `{}`)
	wantError(t, r, "States.Runtime", "starts no nested executions")
}

func TestStopExecutionLeavesTheFunctionRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var acted atomic.Bool
		w.functions["f"] = func(ctx context.Context, _ map[string]any) (any, error) {
			time.Sleep(time.Minute)
			acted.Store(ctx.Err() == nil)
			return 1, nil
		}
		x := workflow.NewExecutions(w.runtime(), nil)
		arn := workflow.LocalMachineARN("m")
		x.Define(arn, machine(t, "T", task("T", "f", `,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"C"}],"End":true`)+`,"C":{"Type":"Succeed"}`))
		s, err := x.StartExecution(t.Context(), workflow.Start{MachineARN: arn, Name: "r"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if d, err := x.DescribeExecution(t.Context(), s.ARN); err != nil || d.Status != workflow.Running {
			t.Fatalf("got %+v %v", d, err)
		}
		if err := x.StopExecution(t.Context(), s.ARN, "Operator", "enough"); err != nil {
			t.Fatal(err)
		}
		d, err := x.AwaitExecution(t.Context(), s.ARN)
		if err != nil || d.Status != workflow.Aborted || d.Error != "Operator" || d.Cause != "enough" || d.StoppedAt.Sub(d.StartedAt) != time.Second {
			t.Fatalf("got %+v %v", d, err)
		}
		if err := x.StopExecution(t.Context(), s.ARN, "Again", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if !acted.Load() {
			t.Fatal("the function was cancelled")
		}
		x.Close()
	})
}

func TestTimeoutOfANestedExecutionStopsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		x := workflow.NewExecutions(w.runtime(), nil)
		defer x.Close()
		child, parent := workflow.LocalMachineARN("child"), workflow.LocalMachineARN("parent")
		x.Define(child, machine(t, "W", `"W":{"Type":"Wait","Seconds":3600,"End":true}`))
		x.Define(parent, machine(t, "N", fmt.Sprintf(`"N":{"Type":"Task","TimeoutSeconds":60,"Resource":"arn:aws:states:::states:startExecution.sync:2","Arguments":{"StateMachineArn":%q,"Name":"c"},"End":true}`, child)))
		if d := start(t, x, parent, `{}`); d.Error != "States.Timeout" {
			t.Fatalf("got %+v", d)
		}
		d, err := x.AwaitExecution(t.Context(), workflow.ExecutionARN(child, "c"))
		if err != nil || d.Status != workflow.Aborted || d.StoppedAt.Sub(d.StartedAt) != time.Minute {
			t.Fatalf("got %+v %v", d, err)
		}
	})
}

func TestCloseAbortsExecutions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		x := workflow.NewExecutions(w.runtime(), nil)
		arn := workflow.LocalMachineARN("m")
		x.Define(arn, machine(t, "W", `"W":{"Type":"Wait","Seconds":3600,"End":true}`))
		s, err := x.StartExecution(t.Context(), workflow.Start{MachineARN: arn, Name: "r"})
		if err != nil {
			t.Fatal(err)
		}
		x.Close()
		if d, err := x.DescribeExecution(t.Context(), s.ARN); err != nil || d.Status != workflow.Aborted {
			t.Fatalf("got %+v %v", d, err)
		}
		if _, err := x.StartExecution(t.Context(), workflow.Start{MachineARN: arn, Name: "r2"}); err == nil {
			t.Fatal("started after Close")
		}
	})
}
