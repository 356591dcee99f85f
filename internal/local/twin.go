package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/evaluate"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/report"
)

// maxReceive is how often a message is delivered before it goes to the dead letters.
const maxReceive = 3

// Twin is the whole system in one process: a queue, evaluate, and the state machine. Messages are handled in batches when Drain is called; a test or
// the demo decides when.
type Twin struct {
	runner   *Runner
	evaluate *evaluate.Function

	mu      sync.Mutex
	queue   []queued
	next    int
	dead    []string
	refused []string
	reports []maintenance.ReportOutput
}

type queued struct {
	id       string
	body     string
	received int
}

// NewTwin wires a twin over the clients. newRunner is given the notifier that puts tables back on
// the twin's own queue.
func NewTwin(ctx context.Context, newRunner func(notifier report.Notifier) (*Runner, error), document policy.Document) (*Twin, error) {
	t := &Twin{}
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
		DefaultCatalog: runner.Clients.DefaultCatalog(), State: st, Starter: t, Policy: document,
		Refuse: func(_ context.Context, m events.SQSMessage, reason error) error {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.refused = append(t.refused, m.Body+": "+reason.Error())
			return nil
		},
		Now: runner.Now, Log: runner.Log,
	})
	return t, nil
}

// Send puts a message on the queue.
func (t *Twin) Send(_ context.Context, body []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	t.queue = append(t.queue, queued{id: strconv.Itoa(t.next), body: string(body)})
	return nil
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
	for batch := t.take(); len(batch) > 0; batch = t.take() {
		var in events.SQSEvent
		for _, m := range batch {
			in.Records = append(in.Records, events.SQSMessage{MessageId: m.id, Body: m.body})
		}
		out, err := t.evaluate.Handle(ctx, in)
		if err != nil {
			return nil, err
		}
		faults = append(faults, t.giveBack(batch, out)...)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	reports := t.reports
	t.reports = nil
	return reports, errors.Join(faults...)
}

// take takes up to ten messages.
func (t *Twin) take() []queued {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.queue), 10)
	batch := t.queue[:n:n]
	t.queue = t.queue[n:]
	return batch
}

// giveBack puts failed messages back on the queue, or among the dead letters.
func (t *Twin) giveBack(batch []queued, out events.SQSEventResponse) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var faults []error
	for _, failure := range out.BatchItemFailures {
		for _, m := range batch {
			if m.id != failure.ItemIdentifier {
				continue
			}
			if m.received++; m.received >= maxReceive {
				t.dead = append(t.dead, m.body)
				faults = append(faults, fmt.Errorf("give up message %s after %d deliveries", m.id, m.received))
				continue
			}
			t.queue = append(t.queue, m)
		}
	}
	return faults
}

// Refused returns the messages that were no events, with the reasons.
func (t *Twin) Refused() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused
}
