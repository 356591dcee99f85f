package local

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/aws/aws-lambda-go/events"
)

const (
	// maxReceive is how often a message is delivered before it goes to the dead letters.
	maxReceive = 3
	// batchSize is how many messages evaluate gets at once.
	batchSize = 10
)

// Queue is the twin of the queue before evaluate, with dead letters and the queue of refused messages. It lives in memory: what a process takes with
// it when it dies, the next walk by the clock finds. Its methods may be called concurrently.
type Queue struct {
	mu      sync.Mutex
	waiting []queued
	// failed are messages that are delivered again when Redeliver is called.
	failed  []queued
	next    int
	dead    []Letter
	refused []Letter
}

type queued struct {
	id         string
	body       string
	attributes map[string]events.SQSMessageAttribute
	received   int
}

// Letter is a message that nobody acted on, and why.
type Letter struct {
	Body   string
	Reason string
}

// Depth is how many messages wait, how many failed and wait for another delivery, and how many letters there are.
type Depth struct{ Waiting, Failed, Dead, Refused int }

// Send puts a message on the queue.
func (q *Queue) Send(_ context.Context, body []byte) error {
	q.Put(body, nil)
	return nil
}

// Put puts a message with attributes on the queue (CloudEvents in binary mode).
func (q *Queue) Put(body []byte, attributes map[string]string) {
	m := queued{body: string(body), attributes: map[string]events.SQSMessageAttribute{}}
	for name, value := range attributes {
		m.attributes[name] = events.SQSMessageAttribute{DataType: "String", StringValue: &value}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next++
	m.id = strconv.Itoa(q.next)
	q.waiting = append(q.waiting, m)
}

// Refuse keeps a message that is no event (evaluate.Deps.Refuse).
func (q *Queue) Refuse(_ context.Context, m events.SQSMessage, reason error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused = keep(q.refused, Letter{Body: m.Body, Reason: reason.Error()})
	return nil
}

// Refused returns the newest messages that were no events, with the reasons.
func (q *Queue) Refused() []Letter {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]Letter(nil), q.refused...)
}

// Dead returns the newest messages that were given up.
func (q *Queue) Dead() []Letter {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]Letter(nil), q.dead...)
}

// Depth counts messages.
func (q *Queue) Depth() Depth {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Depth{Waiting: len(q.waiting), Failed: len(q.failed), Dead: len(q.dead), Refused: len(q.refused)}
}

// Redeliver makes the messages that failed wait again, and reports whether there were any.
func (q *Queue) Redeliver() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, q.failed...)
	again := len(q.failed) > 0
	q.failed = nil
	return again
}

// Drain hands batches to evaluate until no message waits. An error of evaluate itself ends it; the batch is delivered again later. Messages that were
// given up are the errors it returns at the end.
func (q *Queue) Drain(ctx context.Context, evaluate func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)) error {
	var faults []error
	for batch := q.take(); len(batch) > 0; batch = q.take() {
		in := events.SQSEvent{Records: make([]events.SQSMessage, 0, len(batch))}
		for _, m := range batch {
			in.Records = append(in.Records, events.SQSMessage{MessageId: m.id, Body: m.body, MessageAttributes: m.attributes})
		}
		out, err := evaluate(ctx, in)
		if err != nil {
			for _, m := range batch {
				out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.id})
			}
			return errors.Join(append(faults, err, q.giveBack(batch, out))...)
		}
		faults = append(faults, q.giveBack(batch, out))
	}
	return errors.Join(faults...)
}

func (q *Queue) take() []queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), batchSize)
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return batch
}

// giveBack keeps failed messages for another delivery, or among the dead letters.
func (q *Queue) giveBack(batch []queued, out events.SQSEventResponse) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var faults []error
	for _, failure := range out.BatchItemFailures {
		for _, m := range batch {
			if m.id != failure.ItemIdentifier {
				continue
			}
			if m.received++; m.received >= maxReceive {
				reason := fmt.Sprintf("given up after %d deliveries", m.received)
				q.dead = keep(q.dead, Letter{Body: m.body, Reason: reason})
				faults = append(faults, fmt.Errorf("message %s: %s", m.id, reason))
				continue
			}
			q.failed = append(q.failed, m)
		}
	}
	return errors.Join(faults...)
}

// lettersKept bounds the memory that messages of strangers may take.
const lettersKept = 100

func keep(letters []Letter, l Letter) []Letter {
	const most = 4 << 10
	if len(l.Body) > most {
		l.Body = l.Body[:most]
	}
	letters = append(letters, l)
	return letters[max(0, len(letters)-lettersKept):]
}
