package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"firn/internal/evaluate"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/report"
)

// Twin is the whole system in one process: a queue, evaluate, and the state machine. Messages are handled in batches when Drain is called; a test or
// the demo decides when.
type Twin struct {
	*Queue

	runner   *Runner
	evaluate *evaluate.Function

	mu      sync.Mutex
	reports []maintenance.ReportOutput
}

// NewTwin wires a twin over the clients. newRunner is given the notifier that puts tables back on
// the twin's own queue.
func NewTwin(ctx context.Context, newRunner func(notifier report.Notifier) (*Runner, error), document policy.Document) (*Twin, error) {
	t := &Twin{Queue: &Queue{}}
	runner, err := newRunner(report.Queue{Sender: t})
	if err != nil {
		return nil, err
	}
	t.runner = runner
	st, err := runner.Clients.State(ctx)
	if err != nil {
		return nil, err
	}
	t.evaluate = evaluate.New(evaluate.Deps{
		Catalog:        runner.Clients.Reader,
		DefaultCatalog: runner.Clients.DefaultCatalog(), Authority: runner.Clients.Authority(), State: st, Starter: t, Policy: document,
		Refuse: t.Refuse, Now: runner.Now, Log: runner.Log,
	})
	return t, nil
}

// Start implements evaluate.Starter: the run is executed at once.
func (t *Twin) Start(ctx context.Context, _ string, input []byte) error {
	var in maintenance.ExecutionInput
	if err := json.Unmarshal(input, &in); err != nil {
		return fmt.Errorf("decode execution input: %w", err)
	}
	report, err := t.runner.Execute(ctx, in, input)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reports = append(t.reports, report)
	return nil
}

// Drain handles messages until the queue is empty, and returns the reports of the runs that were started.
func (t *Twin) Drain(ctx context.Context) ([]maintenance.ReportOutput, error) {
	var faults []error
	for again := true; again; again = t.Redeliver() {
		faults = append(faults, t.Queue.Drain(ctx, t.evaluate.Handle))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	reports := t.reports
	t.reports = nil
	return reports, errors.Join(faults...)
}
