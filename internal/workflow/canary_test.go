package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firn/internal/workflow"
)

// The canaries are inputs for which emulators of Step Functions succeed with a wrong result. Each has AWS's answer.

const countAndSum = `,"Output":{"n":"{% $count($states.result) %}","s":"{% $sum($states.result.i) %}"},"End":true`

func TestK1ReadsJSONLines(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	w.objects["b/k"] = append([]byte(`{"i":0}`+"\n"), numbers(36)...)
	wantOutput(t, run(t, w, machine(t, "M", distributed("M", jsonl+countAndSum)), `{}`), `{"n":37,"s":666}`)
}

func TestK2ReaderArgumentsAreEvaluated(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	w.objects["my-bucket/plans/p.jsonl"] = numbers(37)
	reader := `,"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Arguments":{"Bucket":"{% $states.input.bucket %}","Key":"{% 'plans/' & $states.input.key %}"},"ReaderConfig":{"InputType":"JSONL"}}`
	wantOutput(t, run(t, w, machine(t, "M", distributed("M", reader+countAndSum)), `{"bucket":"my-bucket","key":"p.jsonl"}`), `{"n":37,"s":703}`)
}

func TestK3ItemsOfADistributedMap(t *testing.T) {
	w := newWorld()
	w.functions["f"] = func(_ context.Context, p map[string]any) (any, error) { return p["value"], nil }
	wantOutput(t, run(t, w, machine(t, "M", distributed("M", `,"Items":"{% [1..3] %}","End":true`)), `{}`), `[1,2,3]`)
	if n := len(w.called()); n != 3 {
		t.Fatalf("got %d children, want 3", n)
	}
}

func batchSizes(t *testing.T, w *world) []int {
	t.Helper()
	var sizes []int
	for _, c := range w.called() {
		var p struct {
			Items []any
		}
		if err := json.Unmarshal(c.Payload, &p); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(p.Items))
	}
	slices.Sort(sizes)
	return sizes
}

func TestK4BatchesOfItems(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	w.objects["b/k"] = numbers(23)
	r := run(t, w, machine(t, "M", distributed("M", jsonl+`,"ItemBatcher":{"MaxItemsPerBatch":10,"BatchInput":{"run":"{% $states.input.run %}"}},"End":true`)), `{"run":"r7"}`)
	if got := batchSizes(t, w); !slices.Equal(got, []int{3, 10, 10}) {
		t.Fatalf("got batches %v", got)
	}
	var outputs []struct {
		BatchInput struct{ Run string }
		Items      []struct{ I int }
	}
	if err := json.Unmarshal(r.Output, &outputs); err != nil {
		t.Fatal(err)
	}
	next := 1
	for _, o := range outputs {
		if o.BatchInput.Run != "r7" {
			t.Fatalf("got BatchInput %+v", o.BatchInput)
		}
		for _, item := range o.Items {
			if item.I != next {
				t.Fatalf("got item %d, want %d: order is lost", item.I, next)
			}
			next++
		}
	}
	if next != 24 {
		t.Fatalf("got items up to %d", next-1)
	}
}

func TestK5BatchesOfBytes(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	w.objects["b/k"] = numbers(37)
	run(t, w, machine(t, "M", distributed("M", jsonl+`,"ItemBatcher":{"MaxInputBytesPerBatch":100},"End":true`)), `{}`)
	sizes := batchSizes(t, w)
	if len(sizes) < 2 || len(sizes) > 10 {
		t.Fatalf("got %d calls of sizes %v", len(sizes), sizes)
	}
	for _, c := range w.called() {
		if len(c.Payload) > 100 {
			t.Fatalf("batch of %d bytes: %s", len(c.Payload), c.Payload)
		}
	}
}

func TestK6ResultWriter(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	w.objects["b/k"] = numbers(3)
	r := run(t, w, machine(t, "M", distributed("M", jsonl+`,"ResultWriter":{"Resource":"arn:aws:states:::s3:putObject","Arguments":{"Bucket":"out","Prefix":"map-results"}},"End":true`)), `{}`)
	var output struct {
		MapRunArn           string
		ResultWriterDetails struct{ Bucket, Key string }
	}
	if err := json.Unmarshal(r.Output, &output); err != nil || output.ResultWriterDetails.Bucket != "out" || !strings.HasPrefix(output.ResultWriterDetails.Key, "map-results/") {
		t.Fatalf("got %s %s (%v)", r.Output, r.Cause, err)
	}
	var manifest struct {
		MapRunArn   string
		ResultFiles map[string][]struct {
			Key  string
			Size int
		}
	}
	if err := json.Unmarshal(w.objects["out/"+output.ResultWriterDetails.Key], &manifest); err != nil {
		t.Fatal(err)
	}
	succeeded := manifest.ResultFiles["SUCCEEDED"]
	if len(succeeded) != 1 || !strings.HasSuffix(succeeded[0].Key, "/SUCCEEDED_0.json") || manifest.MapRunArn != output.MapRunArn || len(manifest.ResultFiles["FAILED"]) != 0 {
		t.Fatalf("got manifest %+v", manifest)
	}
	var records []struct{ Input, Output, Status, ExecutionArn string }
	body := w.objects["out/"+succeeded[0].Key]
	if err := json.Unmarshal(body, &records); err != nil || len(body) != succeeded[0].Size {
		t.Fatalf("%d bytes, manifest says %d: %v", len(body), succeeded[0].Size, err)
	}
	if len(records) != 3 || records[2].Output != `{"i":3}` || records[2].Input != `{"i":3}` || records[2].Status != "SUCCEEDED" {
		t.Fatalf("got records %+v", records)
	}
}

func TestK7ToleratedFailureCountsItems(t *testing.T) {
	states := distributed("M", jsonl+`,"ItemBatcher":{"MaxItemsPerBatch":10},"ToleratedFailurePercentage":50,"Catch":[{"ErrorEquals":["States.ExceedToleratedFailureThreshold"],"Next":"Caught"}],"End":true`) +
		`,"Caught":{"Type":"Pass","Output":{"caught":"{% $states.input.Error %}"},"End":true}`
	failFull := func(_ context.Context, p map[string]any) (any, error) {
		if len(p["Items"].([]any)) == 10 {
			return nil, &workflow.TaskError{Name: "Boom", Cause: "batch of ten"}
		}
		return 1, nil
	}
	w := newWorld()
	w.functions["f"] = failFull
	w.objects["b/k"] = numbers(23)
	wantOutput(t, run(t, w, machine(t, "M", states), `{}`), `{"caught":"States.ExceedToleratedFailureThreshold"}`)
	w.objects["b/k"] = numbers(19) // 10 of 19 items fail, one of two batches
	wantOutput(t, run(t, w, machine(t, "M", states), `{}`), `{"caught":"States.ExceedToleratedFailureThreshold"}`)
	w = newWorld()
	w.functions["f"] = failFull
	w.objects["b/k"] = numbers(15)
	tolerant := strings.Replace(states, `"ToleratedFailurePercentage":50`, `"ToleratedFailurePercentage":67`, 1)
	wantOutput(t, run(t, w, machine(t, "M", tolerant), `{}`), `[1]`)
}

func TestK8ItemSelector(t *testing.T) {
	w := newWorld()
	w.functions["f"] = func(_ context.Context, p map[string]any) (any, error) { return p["value"], nil }
	w.objects["b/k"] = numbers(3)
	wantOutput(t, run(t, w, machine(t, "M", distributed("M", jsonl+`,"ItemSelector":"{% $states.context.Map.Item.Value.i %}","End":true`)), `{}`), `[1,2,3]`)
	outer := `"V":{"Type":"Pass","Assign":{"v":"o"},"Next":"M"},` + distributed("M", jsonl+`,"ItemSelector":"{% $v & $states.context.Map.Item.Value.i %}","End":true`)
	wantOutput(t, run(t, w, machine(t, "V", outer), `{}`), `["o1","o2","o3"]`)
	w.functions["f"] = echo
	selector := `,"ItemSelector":{"at":"{% $states.context.Map.Item.Index %}","run":"{% $states.input.run %}"},"End":true`
	wantOutput(t, run(t, w, machine(t, "M", distributed("M", jsonl+selector)), `{"run":"x"}`), `[{"at":0,"run":"x"},{"at":1,"run":"x"},{"at":2,"run":"x"}]`)
}

func TestK9SucceedWithOutput(t *testing.T) {
	w := newWorld()
	wantOutput(t, run(t, w, machine(t, "S", `"S":{"Type":"Succeed","Output":{"a":"{% $states.input.b %}"}}`), `{"b":2,"c":3}`), `{"a":2}`)
	wantOutput(t, run(t, w, machine(t, "S", `"S":{"Type":"Succeed"}`), `{"b":2,"c":3}`), `{"b":2,"c":3}`)
}

func TestK10ResultOverTheLimit(t *testing.T) {
	w := newWorld()
	w.functions["f"] = func(context.Context, map[string]any) (any, error) { return strings.Repeat("x", 300_000), nil }
	catchAll := `,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"C"}],"Retry":[{"ErrorEquals":["States.ALL"]}],"Output":1,"End":true`
	r := run(t, w, machine(t, "T", task("T", "f", catchAll)+`,"C":{"Type":"Succeed"}`), `{}`)
	wantError(t, r, "States.DataLimitExceeded", "at most 262144")
	if n := len(w.called()); n != 1 {
		t.Fatalf("States.ALL retried it: %d calls", n)
	}
	w.functions["f"] = func(context.Context, map[string]any) (any, error) { return strings.Repeat("x", 262_000), nil }
	if r := run(t, w, machine(t, "T", task("T", "f", catchAll)+`,"C":{"Type":"Succeed"}`), `{}`); r.Status != workflow.Succeeded {
		t.Fatalf("262,000 bytes: %s %s", r.Error, r.Cause)
	}
}

func TestK11RefusedAtLoad(t *testing.T) {
	for _, states := range []string{
		`"S":{"Type":"Succeed","Outpt":1}`,
		`"S":{"Type":"Pass","Next":"Nowhere"}`,
	} {
		if _, err := workflow.Load([]byte(`{"QueryLanguage":"JSONata","StartAt":"S","States":{`+states+`}}`), workflow.Options{}); err == nil {
			t.Errorf("%s was accepted", states)
		}
	}
}

func TestK12FailingNestedExecution(t *testing.T) {
	w := newWorld()
	x := workflow.NewExecutions(w.runtime(), nil)
	defer x.Close()
	child, parent := workflow.LocalMachineARN("child"), workflow.LocalMachineARN("parent")
	x.Define(child, machine(t, "F", `"F":{"Type":"Fail","Error":"Boom","Cause":"because"}`))
	x.Define(parent, machine(t, "N", fmt.Sprintf(`"N":{"Type":"Task","Resource":"arn:aws:states:::states:startExecution.sync:2","Arguments":{"StateMachineArn":%q,"Input":{"a":1}},"End":true}`, child)))
	r := start(t, x, parent, `{}`)
	if r.Status != workflow.Failed || r.Error != "States.TaskFailed" {
		t.Fatalf("got %s %s", r.Status, r.Error)
	}
	var cause struct {
		Error, Cause, Status string
		Input                map[string]any
	}
	if err := json.Unmarshal([]byte(r.Cause), &cause); err != nil || cause.Error != "Boom" || cause.Cause != "because" || cause.Status != "FAILED" || cause.Input["a"] != 1.0 {
		t.Fatalf("got cause %s (%v)", r.Cause, err)
	}
}

func start(t *testing.T, x *workflow.Executions, machineARN, input string) workflow.Description {
	t.Helper()
	s, err := x.StartExecution(t.Context(), workflow.Start{MachineARN: machineARN, Name: "p", Input: json.RawMessage(input)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := x.AwaitExecution(t.Context(), s.ARN)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestK13StartTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		x := workflow.NewExecutions(w.runtime(), nil)
		defer x.Close()
		arn := workflow.LocalMachineARN("m")
		x.Define(arn, machine(t, "W", `"W":{"Type":"Wait","Seconds":60,"End":true}`))
		again := func(input string) (workflow.Started, error) {
			return x.StartExecution(t.Context(), workflow.Start{MachineARN: arn, Name: "r", Input: json.RawMessage(input)})
		}
		first, err := again(`{"a":1}`)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if second, err := again(`{"a":1}`); err != nil || second != first {
			t.Fatalf("same bytes while running: got %v %v, want %v", second, err, first)
		}
		if _, err := again(`{"a":2}`); !errors.Is(err, workflow.ErrExecutionAlreadyExists) {
			t.Fatalf("other bytes: got %v", err)
		}
		if _, err := x.AwaitExecution(t.Context(), first.ARN); err != nil {
			t.Fatal(err)
		}
		if _, err := again(`{"a":1}`); !errors.Is(err, workflow.ErrExecutionAlreadyExists) {
			t.Fatalf("closed name: got %v", err)
		}
		if n := w.counted("ExecutionStarted"); n != 1 {
			t.Fatalf("%d executions ran", n)
		}
	})
}

func TestK14NestedDistributedMaps(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	inner := distributed("Inner", `,"Items":"{% [1..3].{'x': $} %}","End":true`)
	outer := `"Outer":{"Type":"Map","Items":[1,2],"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"Inner","States":{` + inner + `}},"End":true}`
	wantOutput(t, run(t, w, machine(t, "Outer", outer), `{}`), `[[{"x":1},{"x":2},{"x":3}],[{"x":1},{"x":2},{"x":3}]]`)
	if n := len(w.called()); n != 6 {
		t.Fatalf("got %d calls, want 6", n)
	}
}

func TestK15AccessDenied(t *testing.T) {
	w := newWorld()
	w.functions["f"] = func(context.Context, map[string]any) (any, error) {
		return nil, &workflow.TaskError{Name: workflow.ErrorAWSLambda, Cause: "not authorized to perform: lambda:InvokeFunction"}
	}
	wantError(t, run(t, w, machine(t, "T", task("T", "f", `,"End":true`)), `{}`), "Lambda.AWSLambdaException", "lambda:InvokeFunction")
	wantError(t, run(t, w, machine(t, "T", task("T", "absent", `,"End":true`)), `{}`), "Lambda.ResourceNotFoundException", "absent")
}

func TestK16ResponseOver6MB(t *testing.T) {
	w := newWorld()
	w.functions["f"] = func(context.Context, map[string]any) (any, error) { return strings.Repeat("x", 7<<20), nil }
	wantError(t, run(t, w, machine(t, "T", task("T", "f", `,"End":true`)), `{}`), "Function.ResponseSizeTooLarge", "at most 6291456")
}

func TestK20OuterVariableInsideADistributedProcessor(t *testing.T) {
	states := `"P":{"Type":"Pass","Assign":{"v":1},"Next":"M"},` + strings.Replace(distributed("M", `,"Items":[1],"End":true`), `$states.input`, `$v`, 1)
	_, err := workflow.Load([]byte(`{"QueryLanguage":"JSONata","StartAt":"P","States":{`+states+`}}`), workflow.Options{})
	if err == nil || !strings.Contains(err.Error(), "outer scope") {
		t.Fatalf("got %v", err)
	}
}

func TestK21ChildrenHaveTheirOwnIdentity(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	states := `"M":{"Type":"Map","Items":[1,2],"Label":"kids","ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"P","States":{"P":{"Type":"Pass","Output":{"id":"{% $states.context.Execution.Id %}","name":"{% $states.context.Execution.Name %}","input":"{% $states.context.Execution.Input %}","machine":"{% $states.context.StateMachine.Name %}"},"End":true}}},` +
		`"Output":{"parent":"{% $states.context.Execution.Id %}","children":"{% $states.result %}"},"End":true}`
	r := run(t, w, machine(t, "M", states), `{}`)
	var out struct {
		Parent   string
		Children []struct {
			ID, Name, Machine string
			Input             int
		}
	}
	if err := json.Unmarshal(r.Output, &out); err != nil || len(out.Children) != 2 {
		t.Fatalf("got %s %s (%v)", r.Output, r.Cause, err)
	}
	a, b := out.Children[0], out.Children[1]
	if a.ID == b.ID || a.ID == out.Parent || a.Name == b.Name || a.Name == "run-1" || a.Machine != "m/kids" || b.Input != 2 || !strings.HasSuffix(a.ID, "m/kids:"+a.Name) {
		t.Fatalf("got %+v", out)
	}
}

func TestK22TimeoutLeavesAZombie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var mu sync.Mutex
		var acted []string
		act := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			acted = append(acted, s)
		}
		w.functions["f"] = func(ctx context.Context, _ map[string]any) (any, error) {
			time.Sleep(90 * time.Second)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			act("zombie")
			return 1, nil
		}
		w.functions["after"] = func(context.Context, map[string]any) (any, error) { act("after"); return 2, nil }
		states := task("T", "f", `,"TimeoutSeconds":60,"Catch":[{"ErrorEquals":["States.Timeout"],"Next":"A"}],"End":true`) + "," +
			task("A", "after", `,"Output":"{% $states.result.Payload %}","Next":"W"`) + `,"W":{"Type":"Wait","Seconds":120,"End":true}`
		began := time.Now()
		wantOutput(t, run(t, w, machine(t, "T", states), `{}`), `2`)
		if took := time.Since(began); took != 180*time.Second {
			t.Fatalf("took %s", took)
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(acted, []string{"after", "zombie"}) {
			t.Fatalf("acted %v", acted)
		}
	})
}
