package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"firn/internal/commit"
	"firn/internal/compact"
	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/handoff"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/plan"
	"firn/internal/report"
	"firn/internal/store"
	"firn/internal/sweep"
	"firn/internal/telemetry"
	"firn/internal/workflow"
	"firn/internal/workflow/definition"
)

// workLocation is where plans and results lie: in the same store, outside of every table.
const workLocation = "s3://work/firn"

// machine is the state machine, loaded once.
var machine = sync.OnceValue(func() *workflow.Machine {
	m, err := workflow.Load(definition.Maintain, workflow.Options{Substitutions: map[string]string{
		"PlanFunction": contract.FunctionPlan, "CompactFunction": contract.FunctionCompact, "CommitFunction": contract.FunctionCommit,
		"SweepFunction": contract.FunctionSweep, "ReportFunction": contract.FunctionReport, "CompactConcurrency": "40", "SweepConcurrency": "40",
	}})
	if err != nil {
		panic(fmt.Sprintf("load state machine: %v", err))
	}
	return m
})

// quiet is the log of every function: the trace tells more.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// function makes one of the functions with the ports of a process and the powers of its role.
func (p *process) function(name string) edge.Raw {
	st := p.store()
	switch name {
	case contract.FunctionPlan:
		return edge.Handler(plan.New(plan.Deps{
			Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) { return p.catalog(), st, nil },
			Work:    st, WorkLocation: workLocation, Leases: p.state(p.run.state), Now: p.now, NewAttempt: p.uuidText, Log: quiet(),
		}).Handle)
	case contract.FunctionCompact:
		return edge.Handler(compact.New(compact.Deps{Store: st, WorkLocation: workLocation, NewAttempt: p.uuidText, Log: quiet()}).Handle)
	case contract.FunctionCommit:
		return edge.Handler(p.commit(st).Handle)
	case contract.FunctionSweep:
		return edge.Handler(sweep.New(sweep.Deps{
			Catalog: func(context.Context, string) (catalogs.Catalog, store.Full, error) { return p.catalog(), st, nil },
			Work:    st, WorkLocation: workLocation, Now: p.now, NewAttempt: p.uuidText, Log: quiet(), Grace: p.grace,
		}).Handle)
	default:
		return edge.Handler(report.New(report.Deps{
			Work: st, WorkLocation: workLocation, State: p.state(p.run.state), Metrics: telemetry.Discard{}, Notifier: report.Queue{Sender: sender{p}},
			Now: p.now, Log: quiet(),
		}).Handle)
	}
}

func (p *process) commit(st storePort) *commit.Function {
	return &commit.Function{
		Open: func(context.Context, maintenance.TableID) (commit.Port, error) {
			c, err := committer.New(p.catalog(), st, committer.Options{Now: p.commitNow, NewUUID: p.uuid})
			return commit.Port{Committer: c, Store: st}, err
		},
		Work: st, WorkLocation: workLocation, Now: p.commitNow, Random: p.random, NewUUID: func() (uuid.UUID, error) { return p.uuid(), nil },
		RenewLease: func(ctx context.Context, run maintenance.Run) error {
			return p.state(p.run.state).Renew(ctx, run.Table, run.Token, p.now(), leaseTTL)
		},
	}
}

// grace is how long expired files outlive an expiry on a service.
func (p *process) grace(string) time.Duration {
	if p.s.prof.rest {
		return 15 * time.Minute
	}
	return 0
}

// host is what an execution reaches: each call of a function is a process of its own.
type host struct{ r *run }

// answer is what a function returned.
type answer struct {
	out json.RawMessage
	err error
}

// Invoke implements workflow.Host.
func (h host) Invoke(ctx context.Context, in workflow.Invocation) (json.RawMessage, error) {
	p := h.r.process(in.Function, in.Payload)
	done := make(chan answer, 1)
	h.r.s.spawn(func() {
		out, err := p.function(in.Function)(p.ctx, in.Payload)
		done <- answer{out, err}
	})
	select {
	case a := <-done:
		return p.answer(a)
	case <-p.late:
		return nil, &workflow.TaskError{Name: "Sandbox.Timedout", Cause: "the function took too long"}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *process) answer(a answer) (json.RawMessage, error) {
	if p.died() {
		return nil, &workflow.TaskError{Name: "Runtime.ExitError", Cause: "the process died"}
	}
	if named, ok := errors.AsType[*edge.Error](a.err); ok {
		cause, err := json.Marshal(map[string]string{"errorType": named.Name, "errorMessage": named.Message})
		if err != nil {
			return nil, err
		}
		return nil, &workflow.TaskError{Name: named.Name, Cause: string(cause)}
	}
	return a.out, a.err
}

func (p *process) died() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.dead
}

// ReadObject implements workflow.Host.
func (h host) ReadObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	data, err := h.r.process("states", []byte(key)).store().Get(ctx, location(bucket, key))
	return io.NopCloser(bytes.NewReader(data)), err
}

// WriteObject implements workflow.Host.
func (h host) WriteObject(ctx context.Context, bucket, key string, body []byte) error {
	return h.r.process("states", []byte(key)).store().Put(ctx, location(bucket, key), body, store.WriteOptions{})
}

func location(bucket, key string) string {
	return handoff.Location("s3", maintenance.Object{Bucket: bucket, Key: key})
}

// process makes a process of the run. Its name, and with it its randomness, depends on what it is for, not on when it was made.
func (r *run) process(function string, payload []byte) *process {
	h := fnv.New32a()
	_, _ = h.Write(payload)
	name := fmt.Sprintf("%s %s-%03x", r.name, function, h.Sum32()&0xfff)
	r.mu.Lock()
	r.times[name]++
	n := r.times[name]
	r.mu.Unlock()
	if n > 1 {
		name = fmt.Sprintf("%s.%d", name, n)
	}
	return r.s.process(name, r, r.skew)
}
