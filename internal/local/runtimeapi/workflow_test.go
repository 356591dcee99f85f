package runtimeapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"firn/internal/local/runtimeapi"
	"firn/internal/workflow"
)

// host lets a state machine call real processes.
type host struct {
	*runtimeapi.Server
	calls map[string]int
	mu    sync.Mutex
}

func (h *host) Invoke(ctx context.Context, call workflow.Invocation) (json.RawMessage, error) {
	h.mu.Lock()
	h.calls[call.State]++
	h.mu.Unlock()
	return h.Server.Invoke(ctx, call.Function, call.Payload)
}

func (h *host) ReadObject(context.Context, string, string) (io.ReadCloser, error) {
	return nil, errors.New("no objects here")
}

func (h *host) WriteObject(context.Context, string, string, []byte) error {
	return errors.New("no objects here")
}

// TestStateMachineMatchesErrorsOfRealProcesses runs retries and catchers against the names that a process reports.
func TestStateMachineMatchesErrorsOfRealProcesses(t *testing.T) {
	s, _ := serve(t, func(f *runtimeapi.Function) { f.Timeout = time.Second })
	for do, name := range map[string]string{
		"pointer": "CommitConflict", "named": "Firn.Transient", "exit": "Runtime.ExitError", "sleep": "Sandbox.Timedout", "size": "Function.ResponseSizeTooLarge",
		"panic": "string",
	} {
		h := &host{Server: s, calls: map[string]int{}}
		definition := fmt.Sprintf(`{"QueryLanguage":"JSONata","StartAt":"T","States":{
			"T":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"f","Payload":{"do":%q,"ms":5000,"size":7340032}},
				"Retry":[{"ErrorEquals":[%q],"MaxAttempts":1}],"Catch":[{"ErrorEquals":[%q],"Output":"{%% $states.errorOutput.Error %%}","Next":"C"}],"End":true},
			"C":{"Type":"Succeed"}}}`, do, name, name)
		m, err := workflow.Load([]byte(definition), workflow.Options{Functions: s.Names()})
		if err != nil {
			t.Fatal(err)
		}
		e := workflow.Execution{MachineARN: workflow.LocalMachineARN("m"), Name: "r"}
		r, err := m.Run(t.Context(), e, workflow.Runtime{Host: h, Clock: quick{workflow.NewClock(time.Now)}})
		if err != nil || r.Status != workflow.Succeeded || string(r.Output) != fmt.Sprintf("%q", name) || h.calls["T"] != 2 {
			t.Errorf("%s: got %s %s %s after %d calls (%v)", do, r.Output, r.Error, r.Cause, h.calls["T"], err)
		}
	}
}

// quick is a clock that does not wait between attempts.
type quick struct{ workflow.Clock }

func (quick) Sleep(context.Context, time.Duration) error { return nil }
