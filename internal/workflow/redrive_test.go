package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firn/internal/workflow"
)

// redriven starts an execution, lets it end, redrives it once, and returns both ends.
func redriven(t *testing.T, x *workflow.Executions, arn, input string, between func()) (first, second workflow.Description) {
	t.Helper()
	first = start(t, x, arn, input)
	between()
	if err := x.RedriveExecution(t.Context(), first.ARN); err != nil {
		t.Fatal(err)
	}
	second, err := x.AwaitExecution(t.Context(), first.ARN)
	if err != nil {
		t.Fatal(err)
	}
	return first, second
}

func TestRedriveGoesOnAtTheFailedState(t *testing.T) {
	w := newWorld()
	broken := true
	w.functions["f"] = echo
	w.functions["g"] = func(_ context.Context, payload map[string]any) (any, error) {
		if broken {
			return nil, &workflow.TaskError{Name: "Broken", Cause: "away"}
		}
		return payload, nil
	}
	ends := 0
	x := workflow.NewExecutions(w.runtime(), func(workflow.Description) { ends++ })
	defer x.Close()
	arn := workflow.LocalMachineARN("m")
	states := task("A", "f", `,"Assign":{"kept":"{% $states.result.Payload.n + 1 %}"},"Output":"{% $states.result.Payload %}","Next":"B"`) + "," +
		task("B", "g", `,"Retry":[{"ErrorEquals":["Broken"],"MaxAttempts":1,"IntervalSeconds":1}],"Output":{"kept":"{% $kept %}","in":"{% $states.result.Payload.n %}"},"End":true`)
	x.Define(arn, machine(t, "A", states))
	first, second := redriven(t, x, arn, `{"n":1}`, func() {
		broken = false
		x.Define(arn, machine(t, "Z", `"Z":{"Type":"Succeed","Output":"a newer definition"}`))
	})
	if first.Status != workflow.Failed || first.Error != "Broken" {
		t.Fatalf("first %+v", first)
	}
	if second.Status != workflow.Succeeded || string(second.Output) != `{"kept":2,"in":1}` || second.Error != "" || second.RedriveCount != 1 {
		t.Fatalf("second %s %s %+v", second.Output, second.Cause, second)
	}
	if n := len(w.called()); n != 1 {
		t.Errorf("the state that succeeded was called %d times", n)
	}
	if ends != 2 || w.counted("ExecutionRedriven") != 1 || w.counted("ExecutionStarted") != 1 || second.Events <= first.Events {
		t.Errorf("%d ends, %d and %d events", ends, first.Events, second.Events)
	}
	fresh, err := x.StartExecution(t.Context(), workflow.Start{MachineARN: arn, Name: "fresh"})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := x.AwaitExecution(t.Context(), fresh.ARN); err != nil || again.Status != workflow.Succeeded || string(again.Output) != `"a newer definition"` {
		t.Errorf("a new execution: %+v", again)
	}
}

// TestRedriveOfMap: only the children that did not succeed run again, each at the state where it failed; those that never started start.
func TestRedriveOfMap(t *testing.T) {
	for _, percentage := range []string{"0", "90"} {
		w := newWorld()
		w.objects["b/k"] = numbers(6)
		var mu sync.Mutex
		broken, calls := true, map[string]int{}
		count := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			calls[what]++
		}
		w.functions["first"] = func(_ context.Context, p map[string]any) (any, error) {
			count(fmt.Sprint("first ", p["i"]))
			return p, nil
		}
		w.functions["second"] = func(_ context.Context, p map[string]any) (any, error) {
			count(fmt.Sprint("second ", p["i"]))
			if broken && p["i"] == 3.0 {
				return nil, &workflow.TaskError{Name: "Broken"}
			}
			return p, nil
		}
		w.functions["after"] = func(_ context.Context, p map[string]any) (any, error) {
			if broken {
				return nil, &workflow.TaskError{Name: "Later"}
			}
			return p, nil
		}
		rt := w.runtime()
		rt.Parallelism = 1
		x := workflow.NewExecutions(rt, nil)
		arn := workflow.LocalMachineARN("m")
		states := fmt.Sprintf(`"M":{"Type":"Map","ToleratedFailurePercentage":%s,"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"One","States":{%s,%s}}%s,"Output":{"n":"{%% $count($states.result) %%}"},"Next":"After"},%s`,
			percentage, task("One", "first", `,"Output":"{% $states.result.Payload %}","Next":"Two"`), task("Two", "second", `,"Output":"{% $states.result.Payload %}","End":true`), jsonl,
			task("After", "after", `,"Output":"{% $states.result.Payload.n %}","End":true`))
		x.Define(arn, machine(t, "M", states))
		first, second := redriven(t, x, arn, `{}`, func() { broken = false })
		x.Close()
		want, twice := "6", 2
		if percentage == "90" { // the Map tolerated the child and is not taken up again
			want, twice = "5", 1
		}
		if first.Status != workflow.Failed || second.Status != workflow.Succeeded || string(second.Output) != want {
			t.Fatalf("%s: first %s, second %s %s %s", percentage, first.Error, second.Status, second.Output, second.Cause)
		}
		for i := 1; i <= 6; i++ {
			n := 1
			if i == 3 {
				n = twice
			}
			if calls[fmt.Sprint("first ", i)] != 1 || calls[fmt.Sprint("second ", i)] != n {
				t.Errorf("%s: item %d: %v", percentage, i, calls)
			}
		}
		if n := w.counted("MapRunRedriven"); n != twice-1 {
			t.Errorf("%s: %d Map runs were redriven", percentage, n)
		}
	}
}

// TestRedriveOfStoppedMap: children that were at work when the execution was stopped go on.
func TestRedriveOfStoppedMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.objects["b/k"] = numbers(4)
		w.functions["f"] = func(_ context.Context, p map[string]any) (any, error) {
			if p["i"].(float64) > 2 {
				time.Sleep(time.Minute)
			}
			return p, nil
		}
		x := workflow.NewExecutions(w.runtime(), nil)
		defer x.Close()
		arn := workflow.LocalMachineARN("m")
		x.Define(arn, machine(t, "M", distributed("M", jsonl+`,"End":true`)))
		s, err := x.StartExecution(t.Context(), workflow.Start{MachineARN: arn, Name: "r"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := x.RedriveExecution(t.Context(), s.ARN); !errors.Is(err, workflow.ErrNotRedrivable) {
			t.Errorf("a running one: %v", err)
		}
		if err := x.StopExecution(t.Context(), s.ARN, "Operator", "stop"); err != nil {
			t.Fatal(err)
		}
		if d, err := x.AwaitExecution(t.Context(), s.ARN); err != nil || d.Status != workflow.Aborted {
			t.Fatalf("%+v %v", d, err)
		}
		if err := x.RedriveExecution(t.Context(), s.ARN); err != nil {
			t.Fatal(err)
		}
		d, err := x.AwaitExecution(t.Context(), s.ARN)
		if err != nil || d.Status != workflow.Succeeded || string(d.Output) != `[{"i":1},{"i":2},{"i":3},{"i":4}]` {
			t.Fatalf("%+v %s %v", d, d.Output, err)
		}
		if n := len(w.called()); n != 6 {
			t.Errorf("%d calls: want 2 that were done, 2 that were stopped and made again", n)
		}
		time.Sleep(2 * time.Minute) // the workers that nobody listens to
	})
}

func TestNotRedrivable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := workflow.NewExecutions(newWorld().runtime(), nil)
		defer x.Close()
		good, bad, inline := workflow.LocalMachineARN("good"), workflow.LocalMachineARN("bad"), workflow.LocalMachineARN("inline")
		x.Define(good, machine(t, "S", `"S":{"Type":"Succeed"}`))
		x.Define(bad, machine(t, "F", `"F":{"Type":"Fail","Error":"E"}`))
		x.Define(inline, machine(t, "M", `"M":{"Type":"Map","Items":[1],"ItemProcessor":{"ProcessorConfig":{"Mode":"INLINE"},"StartAt":"F","States":{"F":{"Type":"Fail","Error":"E"}}},"End":true}`))
		if _, second := redriven(t, x, bad, `{}`, func() {}); second.Status != workflow.Failed || second.Error != "E" {
			t.Errorf("a Fail state fails again: %+v", second)
		}
		for _, arn := range []string{good, inline} {
			if err := x.RedriveExecution(t.Context(), start(t, x, arn, `{}`).ARN); !errors.Is(err, workflow.ErrNotRedrivable) {
				t.Errorf("%s: %v", arn, err)
			}
		}
		if err := x.RedriveExecution(t.Context(), "arn:none"); !errors.Is(err, workflow.ErrExecutionDoesNotExist) {
			t.Error(err)
		}
		s, err := x.StartExecution(t.Context(), workflow.Start{MachineARN: bad, Name: "old", Input: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.AwaitExecution(t.Context(), s.ARN); err != nil {
			t.Fatal(err)
		}
		time.Sleep(14*24*time.Hour + time.Second)
		if err := x.RedriveExecution(t.Context(), s.ARN); !errors.Is(err, workflow.ErrNotRedrivable) {
			t.Errorf("after 14 days: %v", err)
		}
	})
}
