package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"firn/internal/workflow"
)

func failTimes(n int, name string) function {
	return func(context.Context, map[string]any) (any, error) {
		if n > 0 {
			n--
			return nil, &workflow.TaskError{Name: name, Cause: `{"errorType":"` + name + `"}`}
		}
		return map[string]any{"ok": true}, nil
	}
}

// TestRetry runs in fake time: took is the sum of the delays.
func TestRetry(t *testing.T) {
	for _, c := range []struct {
		name, retry string
		failures    int
		errorName   string
		calls       int
		took        time.Duration
		wantError   string
	}{
		{"defaults: 1, 2 and 4 seconds", `{"ErrorEquals":["X"]}`, 3, "X", 4, 7 * time.Second, ""},
		{"exhausted", `{"ErrorEquals":["X"]}`, 4, "X", 4, 7 * time.Second, "X"},
		{"other error", `{"ErrorEquals":["Y"]}`, 1, "X", 1, 0, "X"},
		{"no attempts", `{"ErrorEquals":["X"],"MaxAttempts":0}`, 1, "X", 1, 0, "X"},
		{"capped delay", `{"ErrorEquals":["X"],"IntervalSeconds":10,"BackoffRate":3,"MaxDelaySeconds":20,"MaxAttempts":3}`, 3, "X", 4, 50 * time.Second, ""},
		{"constant delay", `{"ErrorEquals":["X"],"IntervalSeconds":5,"BackoffRate":1}`, 2, "X", 3, 10 * time.Second, ""},
		{"full jitter", `{"ErrorEquals":["X"],"IntervalSeconds":8,"JitterStrategy":"FULL"}`, 2, "X", 3, 12 * time.Second, ""},
		{"States.ALL", `{"ErrorEquals":["Y"]},{"ErrorEquals":["States.ALL"]}`, 1, "X", 2, time.Second, ""},
		{"States.ALL not DataLimitExceeded", `{"ErrorEquals":["States.ALL"]}`, 1, "States.DataLimitExceeded", 1, 0, "States.DataLimitExceeded"},
		{"States.ALL not Runtime", `{"ErrorEquals":["States.ALL"]}`, 1, "States.Runtime", 1, 0, "States.Runtime"},
		{"States.TaskFailed not Timeout", `{"ErrorEquals":["States.TaskFailed"]}`, 1, "States.Timeout", 1, 0, "States.Timeout"},
		{"States.TaskFailed other errors", `{"ErrorEquals":["States.TaskFailed"]}`, 1, "X", 2, time.Second, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.functions["f"] = failTimes(c.failures, c.errorName)
				rt := w.runtime()
				rt.Jitter = func() float64 { return 0.5 }
				began := time.Now()
				m := machine(t, "T", task("T", "f", `,"Retry":[`+c.retry+`],"Output":"{% $states.context.State.RetryCount %}","End":true`))
				r, err := m.Run(t.Context(), workflow.Execution{MachineARN: workflow.LocalMachineARN("m"), Name: "r"}, rt)
				if err != nil {
					t.Fatal(err)
				}
				if r.Error != c.wantError {
					t.Errorf("got %s %s, want %q", r.Error, r.Cause, c.wantError)
				}
				if c.wantError == "" && string(r.Output) != fmt.Sprint(c.calls-1) {
					t.Errorf("RetryCount %s, want %d", r.Output, c.calls-1)
				}
				if n := len(w.called()); n != c.calls {
					t.Errorf("%d calls, want %d", n, c.calls)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
			})
		})
	}
}

func TestEachRetrierCountsItsOwnAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		names := []string{"X", "Y", "X", "Y", "X"}
		w.functions["f"] = func(context.Context, map[string]any) (any, error) {
			name := names[0]
			names = names[1:]
			return nil, &workflow.TaskError{Name: name}
		}
		retry := `,"Retry":[{"ErrorEquals":["X"],"MaxAttempts":2},{"ErrorEquals":["Y"],"MaxAttempts":2}],"End":true`
		wantError(t, run(t, w, machine(t, "T", task("T", "f", retry)), `{}`), "X", "")
		if len(names) != 0 {
			t.Fatalf("%v were not reached", names)
		}
	})
}

func TestCatch(t *testing.T) {
	w := newWorld()
	w.functions["f"] = failTimes(1, "Firn.Refused")
	states := task("T", "f", `,"Catch":[{"ErrorEquals":["Other"],"Next":"B"},{"ErrorEquals":["Firn.Refused"],"Assign":{"why":"{% $parse($states.errorOutput.Cause).errorType %}"},"Output":{"in":"{% $states.input.a %}","error":"{% $states.errorOutput %}"},"Next":"B"}],"End":true`) +
		`,"B":{"Type":"Pass","Output":{"got":"{% $states.input %}"},"End":true}`
	wantOutput(t, run(t, w, machine(t, "T", states), `{"a":1}`), `{"got":{"in":1,"error":{"Error":"Firn.Refused","Cause":"{\"errorType\":\"Firn.Refused\"}"}}}`)
	w.functions["f"] = failTimes(1, "X")
	wantOutput(t, run(t, w, machine(t, "T", task("T", "f", `,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"B"}],"End":true`)+`,"B":{"Type":"Succeed"}`), `{}`),
		`{"Error":"X","Cause":"{\"errorType\":\"X\"}"}`)
}

func TestAssignAndOutputSeeTheOldVariables(t *testing.T) {
	w := newWorld()
	states := `"A":{"Type":"Pass","Assign":{"n":1,"m":1},"Next":"B"},` +
		`"B":{"Type":"Pass","Assign":{"n":"{% $n + 1 %}","m":"{% $n %}"},"Output":{"n":"{% $n %}"},"Next":"C"},` +
		`"C":{"Type":"Pass","Output":{"n":"{% $n %}","m":"{% $m %}","in":"{% $states.input.n %}"},"End":true}`
	wantOutput(t, run(t, w, machine(t, "A", states), `{}`), `{"n":2,"m":1,"in":1}`)
}

func TestChoice(t *testing.T) {
	states := `"C":{"Type":"Choice","Choices":[{"Condition":"{% $states.input.n > 5 %}","Assign":{"size":"big"},"Output":"{% 'was ' & $states.input.n %}","Next":"E"},{"Condition":"{% $states.input.n > 2 %}","Assign":{"size":"mid"},"Next":"E"}],"Default":"D","Assign":{"size":"small"},"Output":0},` +
		`"D":{"Type":"Pass","Next":"E"},"E":{"Type":"Pass","Output":["{% $size %}","{% $states.input %}"],"End":true}`
	for input, want := range map[string]string{`{"n":9}`: `["big","was 9"]`, `{"n":3}`: `["mid",{"n":3}]`, `{"n":1}`: `["small",0]`} {
		wantOutput(t, run(t, newWorld(), machine(t, "C", states), input), want)
	}
	wantError(t, run(t, newWorld(), machine(t, "C", states), `{"n":"x"}`), "States.QueryEvaluationError", "cannot be ordered")
	wantError(t, run(t, newWorld(), machine(t, "C", states), `{}`), "States.QueryEvaluationError", "returned nothing")
	noDefault := `"C":{"Type":"Choice","Choices":[{"Condition":"{% $states.input = 1 %}","Next":"E"}]},"E":{"Type":"Succeed"}`
	wantError(t, run(t, newWorld(), machine(t, "C", noDefault), `2`), "States.NoChoiceMatched", "state C")
	noBoolean := strings.Replace(noDefault, "$states.input = 1", "$states.input", 1)
	wantError(t, run(t, newWorld(), machine(t, "C", noBoolean), `2`), "States.QueryEvaluationError", "want true or false")
}

func TestUndefinedResultIsAnError(t *testing.T) {
	for field, state := range map[string]string{
		"Output.a":          `"S":{"Type":"Pass","Output":{"a":"{% $states.input.missing %}"},"End":true}`,
		"Assign.a":          `"S":{"Type":"Pass","Assign":{"a":"{% $states.input.missing %}"},"End":true}`,
		"Seconds":           `"S":{"Type":"Wait","Seconds":"{% $states.input.missing %}","End":true}`,
		"Error":             `"S":{"Type":"Fail","Error":"{% $states.input.missing %}"}`,
		"Items":             `"S":{"Type":"Map","Items":"{% $states.input.missing %}","ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Pass","End":true}}},"End":true}`,
		"Arguments.Payload": task("S", "f", `,"End":true`),
	} {
		r := run(t, newWorld(), machine(t, "S", strings.ReplaceAll(state, "$states.input %}", "$states.input.missing %}")), `{}`)
		wantError(t, r, "States.QueryEvaluationError", field)
	}
}

func TestQueryErrorOfATaskCanBeCaught(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	states := task("T", "f", `,"Output":"{% $states.result.Payload.missing %}","Catch":[{"ErrorEquals":["States.QueryEvaluationError"],"Output":"caught","Next":"B"}],"End":true`) + `,"B":{"Type":"Succeed"}`
	wantOutput(t, run(t, w, machine(t, "T", states), `{}`), `"caught"`)
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		states := `"A":{"Type":"Wait","Seconds":90,"Next":"B"},"B":{"Type":"Wait","Seconds":"{% $states.input.s %}","Next":"C"},"C":{"Type":"Wait","Timestamp":"{% $states.input.at %}","Next":"D"},"D":{"Type":"Wait","Timestamp":"1999-01-01T00:00:00Z","End":true}`
		at := began.Add(time.Hour).UTC().Format(time.RFC3339)
		wantOutput(t, run(t, newWorld(), machine(t, "A", states), `{"s":5,"at":"`+at+`"}`), `{"s":5,"at":"`+at+`"}`)
		if took := time.Since(began); took != time.Hour {
			t.Fatalf("took %s", took)
		}
		wantError(t, run(t, newWorld(), machine(t, "B", states[len(`"A":{"Type":"Wait","Seconds":90,"Next":"B"},`):]), `{"s":-1}`), "States.QueryEvaluationError", "outside 0")
	})
}

func TestFail(t *testing.T) {
	wantError(t, run(t, newWorld(), machine(t, "F", `"F":{"Type":"Fail","Error":"{% 'E-' & $states.input.n %}","Cause":"why"}`), `{"n":1}`), "E-1", "why")
	wantError(t, run(t, newWorld(), machine(t, "F", `"F":{"Type":"Fail"}`), `{}`), "", "")
}

func TestTaskResultWithoutOutput(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	wantOutput(t, run(t, w, machine(t, "T", task("T", "f", `,"End":true`)), `{"b":1,"a":2}`), `{"ExecutedVersion":"$LATEST","Payload":{"a":2,"b":1},"StatusCode":200}`)
	w.functions["f"] = func(context.Context, map[string]any) (any, error) { return json.RawMessage(nil), nil }
	wantOutput(t, run(t, w, machine(t, "T", task("T", "f", `,"Output":"{% $states.result.Payload %}","End":true`)), `{}`), `null`)
	w.functions["f"] = func(context.Context, map[string]any) (any, error) { return json.RawMessage(`{"a"`), nil }
	wantError(t, run(t, w, machine(t, "T", task("T", "f", `,"End":true`)), `{}`), "Lambda.Unknown", "no JSON")
	w.functions["f"] = func(context.Context, map[string]any) (any, error) { return nil, errors.New("wires are cut") }
	wantError(t, run(t, w, machine(t, "T", task("T", "f", `,"End":true`)), `{}`), "Lambda.Unknown", "wires are cut")
}

// TestBigIntegers shows what happens to integers that a double cannot hold: untouched they survive, touched they are refused.
func TestBigIntegers(t *testing.T) {
	const input = `{"id":9007199254740993,"n":3.0}`
	w := newWorld()
	w.functions["f"] = func(context.Context, map[string]any) (any, error) {
		return json.RawMessage(`{"id":9223372036854775807}`), nil
	}
	wantOutput(t, run(t, w, machine(t, "A", `"A":{"Type":"Pass","Assign":{"n":"{% $states.input.n %}"},"Next":"B"},"B":{"Type":"Wait","Seconds":0,"End":true}`), input), input)
	wantOutput(t, run(t, w, machine(t, "T", task("T", "f", `,"End":true`)), `{}`), `{"ExecutedVersion":"$LATEST","Payload":{"id":9223372036854775807},"StatusCode":200}`)
	wantError(t, run(t, w, machine(t, "T", task("T", "f", `,"End":true`)), input), "States.QueryEvaluationError", "would be rounded")
	wantError(t, run(t, w, machine(t, "T", task("T", "f", `,"Output":"{% $states.result.Payload %}","End":true`)), `{}`), "States.QueryEvaluationError", "would be rounded")
	wantOutput(t, run(t, w, machine(t, "A", `"A":{"Type":"Pass","Output":{"n":"{% $states.input.n %}","half":"{% $states.input.n / 2 %}"},"End":true}`), input), `{"n":3,"half":1.5}`)
	w.functions["f"] = func(_ context.Context, p map[string]any) (any, error) { return p["value"], nil }
	w.objects["b/k"] = []byte("9007199254740993\n")
	m := machine(t, "M", `"M":{"Type":"Map","ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"P","States":{"P":{"Type":"Pass","End":true}}}`+jsonl+`,"End":true}`)
	wantOutput(t, run(t, w, m, `{}`), `[9007199254740993]`)
}

func TestHistoryLimit(t *testing.T) {
	loop := `"A":{"Type":"Pass","Assign":{"n":"{% $exists($states.input.n) ? $states.input.n : 0 %}"},"Next":"B"},"B":{"Type":"Choice","Choices":[{"Condition":"{% $states.context.Execution.Name = 'never' %}","Next":"C"}],"Default":"A"},"C":{"Type":"Succeed"}`
	w := newWorld()
	r := run(t, w, machine(t, "A", loop), `{}`)
	wantError(t, r, "States.Runtime", "maximum number of history events (25000)")
	if r.Events != workflow.MaxEvents || len(w.events) != workflow.MaxEvents {
		t.Fatalf("got %d events, %d observed", r.Events, len(w.events))
	}
}

func TestHistoryCountsAsStepFunctions(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	r := run(t, w, machine(t, "A", `"A":{"Type":"Pass","Next":"T"},`+task("T", "f", `,"Next":"S"`)+`,"S":{"Type":"Succeed"}`), `{}`)
	var types []string
	for _, e := range w.events {
		types = append(types, e.Type)
	}
	want := "ExecutionStarted PassStateEntered PassStateExited TaskStateEntered TaskScheduled TaskStarted TaskSucceeded TaskStateExited SucceedStateEntered SucceedStateExited ExecutionSucceeded"
	if got := strings.Join(types, " "); got != want || r.Events != 11 {
		t.Fatalf("got %s", got)
	}
}

func TestSizeLimits(t *testing.T) {
	big := strings.Repeat("x", workflow.MaxStateBytes)
	m := machine(t, "A", `"A":{"Type":"Pass","Output":"{% $states.input & $states.input %}","End":true}`)
	wantError(t, run(t, newWorld(), m, `"`+big[:200_000]+`"`), "States.DataLimitExceeded", "output of state A")
	_, err := m.Run(t.Context(), workflow.Execution{Name: "r", Input: json.RawMessage(`"` + big + `"`)}, newWorld().runtime())
	if !errors.Is(err, workflow.ErrInvalidInput) {
		t.Fatalf("got %v", err)
	}
	w := newWorld()
	w.functions["f"] = echo
	wantError(t, run(t, w, machine(t, "T", task("T", "f", `,"End":true`)), `"`+big[:262_120]+`"`), "States.DataLimitExceeded", "arguments of state T")
	m = machine(t, "A", `"A":{"Type":"Pass","Assign":{"v":"{% $states.input & $states.input %}"},"End":true}`)
	wantError(t, run(t, newWorld(), m, `"`+big[:200_000]+`"`), "States.DataLimitExceeded", "variable $v")
}

func TestSizeOfAllVariables(t *testing.T) {
	many := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"v%d":"{%% $states.input & $states.input %%}"`, i))
		}
		return `"A":{"Type":"Pass","Assign":{` + strings.Join(list, ",") + `},"Output":1,"End":true}`
	}
	input := `"` + strings.Repeat("x", 130_000) + `"`
	wantOutput(t, run(t, newWorld(), machine(t, "A", many(40)), input), `1`)
	wantError(t, run(t, newWorld(), machine(t, "A", many(41)), input), "States.DataLimitExceeded", "variables have")
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"run-1": true, strings.Repeat("x", 80): true, strings.Repeat("x", 81): false, "": false, "a b": false, "a/b": false, "a:b": false, "a*": false, "grün": true, "a\x7f": false,
	} {
		if err := workflow.CheckName(name); (err == nil) != ok {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestExecutionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := workflow.Load([]byte(`{"QueryLanguage":"JSONata","StartAt":"W","TimeoutSeconds":60,"States":{"W":{"Type":"Wait","Seconds":90,"End":true}}}`), workflow.Options{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r := run(t, newWorld(), m, `{}`)
		if r.Status != workflow.TimedOut || r.Error != "States.Timeout" || time.Since(began) != time.Minute {
			t.Fatalf("got %+v after %s", r, time.Since(began))
		}
	})
}

func TestHostErrorThatOnlyLooksLikeAnEnd(t *testing.T) {
	w := newWorld()
	w.functions["f"] = func(context.Context, map[string]any) (any, error) { return nil, context.Canceled }
	wantError(t, run(t, w, machine(t, "T", task("T", "f", `,"End":true`)), `{}`), "Lambda.Unknown", "canceled")
}

func TestEndOfTheProcessReachesFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ended := make(chan error, 1)
		w.functions["f"] = func(ctx context.Context, _ map[string]any) (any, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := machine(t, "T", task("T", "f", `,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"C"}],"End":true`)+`,"C":{"Type":"Succeed"}`).
			Run(ctx, workflow.Execution{MachineARN: workflow.LocalMachineARN("m"), Name: "r"}, w.runtime())
		if !errors.Is(err, context.DeadlineExceeded) || r.Status != workflow.Aborted {
			t.Fatalf("got %+v, %v", r, err)
		}
		if err := <-ended; err == nil {
			t.Fatal("function's context did not end")
		}
	})
}
