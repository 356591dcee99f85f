package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"firn/internal/workflow"
)

func inline(fields, states string) string {
	return `"M":{"Type":"Map","ItemProcessor":{"StartAt":"P","States":{` + states + `}}` + fields + `}`
}

func TestInlineMap(t *testing.T) {
	states := `"A":{"Type":"Pass","Assign":{"v":"o"},"Next":"M"},` + inline(`,"Items":"{% $states.input.list %}","MaxConcurrency":2,"Output":{"r":"{% $states.result %}","v":"{% $v %}"},"End":true`,
		`"P":{"Type":"Pass","Assign":{"w":"{% $v & $states.context.Map.Item.Value %}"},"Next":"Q"},"Q":{"Type":"Pass","Output":"{% $w & $states.context.Map.Item.Index & $states.input & $states.context.Execution.Name %}","End":true}`)
	w := newWorld()
	wantOutput(t, run(t, w, machine(t, "A", states), `{"list":["a","b"]}`), `{"r":["oa0arun-1","ob1brun-1"],"v":"o"}`)
	if w.counted("MapIterationSucceeded") != 2 {
		t.Fatal("iterations are not in the history of the execution")
	}
	wantOutput(t, run(t, newWorld(), machine(t, "A", states), `{"list":[]}`), `{"r":[],"v":"o"}`)
	wantError(t, run(t, newWorld(), machine(t, "A", states), `{"list":5}`), "States.QueryEvaluationError", "must be an array")
}

func TestInlineMapFailsWithTheErrorOfTheIteration(t *testing.T) {
	states := inline(`,"Items":[1,2,3],"Catch":[{"ErrorEquals":["Two"],"Output":"{% $states.errorOutput.Cause %}","Next":"C"}],"End":true`,
		`"P":{"Type":"Choice","Choices":[{"Condition":"{% $states.input = 2 %}","Next":"F"}],"Default":"W"},"F":{"Type":"Fail","Error":"Two","Cause":"is bad"},"W":{"Type":"Wait","Seconds":100,"End":true}`) +
		`,"C":{"Type":"Succeed"}`
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		wantOutput(t, run(t, newWorld(), machine(t, "M", states), `{}`), `"is bad"`)
		if time.Since(began) != 0 {
			t.Fatalf("waited %s for the other iterations", time.Since(began))
		}
	})
}

func TestMaxConcurrencyAndParallelism(t *testing.T) {
	for _, c := range []struct {
		max         string
		parallelism int
		want        int64
	}{{"3", 100, 3}, {"0", 5, 5}, {"0", 0, 16}, {"50", 7, 7}} {
		synctest.Test(t, func(t *testing.T) {
			var now, most atomic.Int64
			w := newWorld()
			w.functions["f"] = func(context.Context, map[string]any) (any, error) {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Second)
				now.Add(-1)
				return 1, nil
			}
			rt := w.runtime()
			rt.Parallelism = c.parallelism
			m := machine(t, "M", distributed("M", `,"Items":"{% [1..60] %}","MaxConcurrency":`+c.max+`,"Output":1,"End":true`))
			if r, err := m.Run(t.Context(), workflow.Execution{MachineARN: workflow.LocalMachineARN("m"), Name: "r"}, rt); err != nil || r.Err() != nil {
				t.Fatal(err, r.Err())
			}
			if most.Load() != c.want {
				t.Errorf("MaxConcurrency %s, Parallelism %d: %d at once, want %d", c.max, c.parallelism, most.Load(), c.want)
			}
		})
	}
}

func TestTolerance(t *testing.T) {
	for _, c := range []struct {
		fields     string
		failing    int
		wantFailed bool
	}{
		{``, 0, false},
		{``, 1, true},
		{`,"ToleratedFailureCount":2`, 2, false},
		{`,"ToleratedFailureCount":2`, 3, true},
		{`,"ToleratedFailurePercentage":20`, 2, false},
		{`,"ToleratedFailurePercentage":20`, 3, true},
		{`,"ToleratedFailurePercentage":100`, 10, false},
		{`,"ToleratedFailurePercentage":50,"ToleratedFailureCount":1`, 2, true},
		{`,"ToleratedFailurePercentage":"{% $states.input.p %}"`, 3, false},
	} {
		w := newWorld()
		w.functions["f"] = func(_ context.Context, p map[string]any) (any, error) {
			if p["x"].(float64) <= float64(c.failing) {
				return nil, &workflow.TaskError{Name: "Boom", Cause: "no " + fmt.Sprint(p["x"])}
			}
			return p["x"], nil
		}
		r := run(t, w, machine(t, "M", distributed("M", `,"Items":"{% [1..10].{'x': $} %}"`+c.fields+`,"End":true`)), `{"p":30}`)
		if failed := r.Error == "States.ExceedToleratedFailureThreshold"; failed != c.wantFailed {
			t.Errorf("%s, %d fail: got %s %s", c.fields, c.failing, r.Status, r.Cause)
		}
		if c.wantFailed && !strings.Contains(r.Cause, "first Boom: no ") {
			t.Errorf("cause does not name the first failure: %s", r.Cause)
		}
		var out []int
		if !c.wantFailed && (json.Unmarshal(r.Output, &out) != nil || len(out) != 10-c.failing || !slices.IsSorted(out)) {
			t.Errorf("%s, %d fail: output %s", c.fields, c.failing, r.Output)
		}
	}
}

func TestChildrenLeftAloneWhenTheRunFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.functions["f"] = func(_ context.Context, p map[string]any) (any, error) {
			if p["x"] == 1.0 {
				return nil, &workflow.TaskError{Name: "Boom"}
			}
			time.Sleep(time.Hour)
			return 1, nil
		}
		began := time.Now()
		r := run(t, w, machine(t, "M", distributed("M", `,"Items":"{% [1..100].{'x': $} %}","End":true`)), `{}`)
		if r.Error != "States.ExceedToleratedFailureThreshold" || time.Since(began) != 0 {
			t.Fatalf("got %s after %s", r.Error, time.Since(began))
		}
		if n := len(w.called()); n > 17 {
			t.Fatalf("%d children were started", n)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestItemReaderFailures(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	m := machine(t, "M", distributed("M", jsonl+`,"Catch":[{"ErrorEquals":["States.ItemReaderFailed"],"Output":"{% $states.errorOutput.Cause %}","Next":"C"}],"End":true`)+`,"C":{"Type":"Succeed"}`)
	wantOutput(t, run(t, w, m, `{}`), `"open b/k: no object b/k"`)
	for body, want := range map[string]string{
		"{\"a\":1}\n{\"a\":\n": "line 2",
		`{"a":"` + strings.Repeat("x", workflow.MaxStateBytes) + `"}`: "line 1",
	} {
		w.objects["b/k"] = []byte(body)
		if r := run(t, w, m, `{}`); !strings.Contains(string(r.Output), want) {
			t.Errorf("%.20s: got %s %s", body, r.Output, r.Cause)
		}
	}
	w.objects["b/k"] = []byte("\n\n{\"a\":1}\n\n  \n{\"a\":2}")
	wantOutput(t, run(t, w, m, `{}`), `[{"a":1},{"a":2}]`)
	w.objects["b/k"] = nil
	wantOutput(t, run(t, w, m, `{}`), `[]`)
}

func TestItemReaderJSONAndMaxItems(t *testing.T) {
	w := newWorld()
	w.functions["f"] = func(_ context.Context, p map[string]any) (any, error) { return p["value"], nil }
	reader := strings.Replace(jsonl, `"InputType":"JSONL"`, `"InputType":"JSON","MaxItems":"{% $states.input.most %}"`, 1)
	m := machine(t, "M", distributed("M", reader+`,"End":true`))
	w.objects["b/k"] = []byte(`[1, 2 ,3]`)
	wantOutput(t, run(t, w, m, `{"most":2}`), `[1,2]`)
	wantOutput(t, run(t, w, m, `{"most":9}`), `[1,2,3]`)
	w.objects["b/k"] = []byte(`{"a":[1]}`)
	wantError(t, run(t, w, m, `{"most":2}`), "States.ItemReaderFailed", "want a JSON array")
	w.objects["b/k"] = []byte(`null`)
	wantError(t, run(t, w, m, `{"most":2}`), "States.ItemReaderFailed", "want a JSON array")
	lines := machine(t, "M", distributed("M", strings.Replace(jsonl, `"JSONL"`, `"JSONL","MaxItems":2`, 1)+`,"End":true`))
	w.objects["b/k"] = []byte("1\n2\n3\n")
	wantOutput(t, run(t, w, lines, `{}`), `[1,2]`)
}

func TestResultWriterWithFailures(t *testing.T) {
	w := newWorld()
	w.functions["f"] = func(_ context.Context, p map[string]any) (any, error) {
		if p["i"] == 2.0 {
			return nil, &workflow.TaskError{Name: "Boom", Cause: "<two>"}
		}
		return p, nil
	}
	w.objects["b/k"] = numbers(3)
	writer := `,"ResultWriter":{"Resource":"arn:aws:states:::s3:putObject","Arguments":{"Bucket":"out","Prefix":"p/"},"WriterConfig":{"Transformation":"COMPACT"}},"ToleratedFailureCount":1,"End":true`
	m := machine(t, "M", distributed("M", jsonl+writer))
	if r := run(t, w, m, `{}`); r.Status != workflow.Succeeded {
		t.Fatal(r.Cause)
	}
	var succeeded, failed string
	for key, body := range w.objects {
		if strings.HasSuffix(key, "SUCCEEDED_0.json") {
			succeeded = string(body)
		}
		if strings.HasSuffix(key, "FAILED_0.json") {
			failed = string(body)
		}
	}
	if succeeded != `[{"i":1},{"i":3}]` || !strings.Contains(failed, `"Error":"Boom","Cause":"<two>"`) {
		t.Fatalf("got %s and %s", succeeded, failed)
	}
	m = machine(t, "M", distributed("M", jsonl+strings.Replace(writer, `"ToleratedFailureCount":1`, `"ToleratedFailureCount":0`, 1)))
	wantError(t, run(t, w, m, `{}`), "States.ExceedToleratedFailureThreshold", "1 of 3")
	broken := &brokenStore{w}
	rt := w.runtime()
	rt.Host = broken
	r, err := machine(t, "M", distributed("M", jsonl+writer)).Run(t.Context(), workflow.Execution{MachineARN: workflow.LocalMachineARN("m"), Name: "r"}, rt)
	if err != nil || r.Error != "States.ResultWriterFailed" || !strings.Contains(r.Cause, "disk full") {
		t.Fatalf("got %+v, %v", r, err)
	}
}

type brokenStore struct{ *world }

func (b *brokenStore) WriteObject(context.Context, string, string, []byte) error {
	return errors.New("disk full")
}

func TestRetriedMapRunsHaveNewChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		fail := failTimes(1, "Boom")
		w.functions["f"] = fail
		r := run(t, w, machine(t, "M", distributed("M", `,"Items":[{"x":1}],"Retry":[{"ErrorEquals":["States.ALL"]}],"End":true`)), `{}`)
		wantOutput(t, r, `[{"ok":true}]`)
		calls := w.called()
		if len(calls) != 2 || calls[0].ExecutionARN == calls[1].ExecutionARN {
			t.Fatalf("got %+v", calls)
		}
	})
}

func TestProgressOfAMapRun(t *testing.T) {
	w := newWorld()
	w.functions["f"] = echo
	run(t, w, machine(t, "M", distributed("M", `,"Items":"{% [1..5] %}","ItemBatcher":{"MaxItemsPerBatch":2},"End":true`)), `{}`)
	var last workflow.Progress
	for _, e := range w.events {
		if e.Type == "MapRunProgress" {
			if e.Progress.Total != 5 || e.Progress.Succeeded <= last.Succeeded || e.ID != 0 {
				t.Fatalf("got %+v after %+v", e.Progress, last)
			}
			last = *e.Progress
		}
	}
	if last.Succeeded != 5 || w.counted("MapRunSucceeded") != 1 || w.counted("ExecutionStarted") != 4 {
		t.Fatalf("got %+v", last)
	}
}

func TestItemTooBigForABatch(t *testing.T) {
	w := newWorld()
	w.objects["b/k"] = []byte(`{"a":"` + strings.Repeat("x", 200) + `"}`)
	m := machine(t, "M", distributed("M", jsonl+`,"ItemBatcher":{"MaxInputBytesPerBatch":100},"End":true`))
	wantError(t, run(t, w, m, `{}`), "States.DataLimitExceeded", "item 0 alone")
	m = machine(t, "M", distributed("M", jsonl+`,"ItemSelector":"{% $states.input.big & $states.input.big %}","End":true`))
	wantError(t, run(t, w, m, `{"big":"`+strings.Repeat("x", 140_000)+`"}`), "States.DataLimitExceeded", "input of child 0")
}

// TestBatchesKeepEveryItemOnce checks order and limits of batches for any sizes.
func TestBatchesKeepEveryItemOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 60), 1, 60).Draw(rt, "sizes")
		maxItems := rapid.IntRange(1, 12).Draw(rt, "max items")
		maxBytes := rapid.IntRange(90, 400).Draw(rt, "max bytes")
		items := make([]string, len(sizes))
		for i, n := range sizes {
			items[i] = strings.Repeat(string(rune('a'+i%26)), n)
		}
		list, err := json.Marshal(items)
		if err != nil {
			rt.Fatal(err)
		}
		w := newWorld()
		w.functions["f"] = echo
		r := run(t, w, machine(t, "M", distributed("M", fmt.Sprintf(`,"Items":%s,"ItemBatcher":{"MaxItemsPerBatch":%d,"MaxInputBytesPerBatch":%d},"End":true`, list, maxItems, maxBytes))), `{}`)
		var out []struct{ Items []string }
		if err := json.Unmarshal(r.Output, &out); err != nil {
			rt.Fatalf("%s %s", r.Error, r.Cause)
		}
		var got []string
		for _, b := range out {
			if len(b.Items) == 0 || len(b.Items) > maxItems {
				rt.Fatalf("batch of %d items", len(b.Items))
			}
			got = append(got, b.Items...)
		}
		for _, c := range w.called() {
			if len(c.Payload) > maxBytes {
				rt.Fatalf("batch of %d bytes, limit %d", len(c.Payload), maxBytes)
			}
		}
		if !slices.Equal(got, items) {
			rt.Fatalf("got %v, want %v", got, items)
		}
	})
}

func BenchmarkDistributedMap(b *testing.B) {
	w := newWorld()
	w.functions["f"] = func(context.Context, map[string]any) (any, error) { return 1, nil }
	w.objects["b/k"] = numbers(2000)
	m := machine(b, "M", distributed("M", jsonl+`,"ItemSelector":{"i":"{% $states.context.Map.Item.Value.i %}"},"ItemBatcher":{"MaxItemsPerBatch":10},"Output":1,"End":true`))
	for b.Loop() {
		run(b, w, m, `{}`)
	}
}
