package workflow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"firn/internal/workflow"
)

// world is a Host with state: functions, objects, and a record of what was called.
type world struct {
	functions map[string]function
	clock     workflow.Clock

	mu      sync.Mutex
	calls   []workflow.Invocation
	objects map[string][]byte
	events  []workflow.Event
}

type function func(ctx context.Context, payload map[string]any) (any, error)

func newWorld() *world {
	return &world{functions: map[string]function{}, objects: map[string][]byte{}, clock: workflow.NewClock(time.Now)}
}

func (w *world) Invoke(ctx context.Context, call workflow.Invocation) (json.RawMessage, error) {
	w.mu.Lock()
	w.calls = append(w.calls, call)
	f := w.functions[call.Function]
	w.mu.Unlock()
	if f == nil {
		return nil, &workflow.TaskError{Name: workflow.ErrorNotFound, Cause: "function not found: " + call.Function}
	}
	var payload map[string]any
	if err := json.Unmarshal(call.Payload, &payload); err != nil {
		payload = map[string]any{"value": call.Payload}
	}
	v, err := f(ctx, payload)
	if err != nil {
		return nil, err
	}
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	return json.Marshal(v)
}

func (w *world) ReadObject(_ context.Context, bucket, key string) (io.ReadCloser, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	body, ok := w.objects[bucket+"/"+key]
	if !ok {
		return nil, fmt.Errorf("no object %s/%s", bucket, key)
	}
	return io.NopCloser(bytes.NewReader(body)), nil
}

func (w *world) WriteObject(_ context.Context, bucket, key string, body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[bucket+"/"+key] = bytes.Clone(body)
	return nil
}

// called lists the calls of function f.
func (w *world) called() []workflow.Invocation {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []workflow.Invocation
	for _, c := range w.calls {
		if c.Function == "f" {
			out = append(out, c)
		}
	}
	return out
}

func (w *world) runtime() workflow.Runtime {
	return workflow.Runtime{Host: w, Clock: w.clock, Observe: func(e workflow.Event) { w.events = append(w.events, e) }}
}

func (w *world) counted(typ string) int {
	n := 0
	for _, e := range w.events {
		if e.Type == typ {
			n++
		}
	}
	return n
}

// numbers is JSONL of {"i":1} to {"i":n}.
func numbers(n int) []byte {
	var b bytes.Buffer
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "{\"i\":%d}\n", i)
	}
	return b.Bytes()
}

// machine loads a definition whose top level is the given states.
func machine(t testing.TB, startAt, states string) *workflow.Machine {
	t.Helper()
	text := fmt.Sprintf(`{"QueryLanguage":"JSONata","StartAt":%q,"States":{%s}}`, startAt, states)
	m, err := workflow.Load([]byte(text), workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func run(t testing.TB, w *world, m *workflow.Machine, input string) workflow.Result {
	t.Helper()
	r, err := m.Run(t.Context(), workflow.Execution{MachineARN: workflow.LocalMachineARN("m"), Name: "run-1", Input: json.RawMessage(input)}, w.runtime())
	if err != nil {
		t.Fatal(err)
	}
	if last := w.events[len(w.events)-1]; last.ExecutionARN != r.ARN || last.ID != r.Events {
		t.Fatalf("last event %+v does not end the execution with %d events", last, r.Events)
	}
	return r
}

func wantOutput(t testing.TB, r workflow.Result, want string) {
	t.Helper()
	if r.Status != workflow.Succeeded || string(r.Output) != want {
		t.Fatalf("got %s %s %s %s\nwant %s", r.Status, r.Output, r.Error, r.Cause, want)
	}
}

func wantError(t testing.TB, r workflow.Result, name, cause string) {
	t.Helper()
	if r.Status != workflow.Failed || r.Error != name || !strings.Contains(r.Cause, cause) {
		t.Fatalf("got %s %q %q %.200s\nwant %s %s", r.Status, r.Error, r.Cause, r.Output, name, cause)
	}
}

// task is a Task state that invokes a function with its input; fields begins with a comma or is empty.
func task(name, function, fields string) string {
	return fmt.Sprintf(`%q:{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":%q,"Payload":"{%% $states.input %%}"}%s}`,
		name, function, fields)
}

// distributed is a DISTRIBUTED Map over one Task "Work" that invokes function f and outputs its payload.
func distributed(name, fields string) string {
	return fmt.Sprintf(`%q:{"Type":"Map","ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"Work","States":{%s}}%s}`,
		name, task("Work", "f", `,"Output":"{% $states.result.Payload %}","End":true`), fields)
}

const jsonl = `,"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Arguments":{"Bucket":"b","Key":"k"},"ReaderConfig":{"InputType":"JSONL"}}`

func echo(_ context.Context, payload map[string]any) (any, error) { return payload, nil }
