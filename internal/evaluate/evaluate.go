// Package evaluate looks at tables when somebody hints that they changed. It decodes messages into notices, groups them by table, folds what was
// committed since the last look into the table's ledger, decides which jobs are due, and starts a run.
//
// Events are hints: they may be lost, doubled, late, out of order or about nothing. Whatever they say, the look reads the catalog's pointer, and two
// looks at the same state do the same as one. It changes no table; all it writes is state. It must not link iceberg-go's table package.
package evaluate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/authority"
	"firn/internal/contract"
	"firn/internal/event"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/state"
	"firn/internal/store"
	"firn/internal/telemetry"
)

// Starter starts executions of the state machine. Starting one again with the same name and input, while it runs or after, is no error.
type Starter interface {
	Start(ctx context.Context, name string, input []byte) error
}

// Deps are what evaluate reaches.
type Deps struct {
	// Catalog opens a catalog and the store of its tables' metadata; "" is the default catalog.
	Catalog func(ctx context.Context, name string) (catalogs.Catalog, store.Reader, error)
	// DefaultCatalog is the name that notices without catalog mean.
	DefaultCatalog string
	// Catalogs are the configured catalogs beside the default one: notices of others are let go. Nil hears all.
	Catalogs []string
	// Authority is what the operator entrusted: notices of other tables are let go.
	Authority authority.Rules
	// Events says which events are heard.
	Events  event.Rules
	State   state.Store
	Starter Starter
	Policy  policy.Document
	// ObserveOnly keeps every table in mode observe, whatever its policy says: decisions are kept, no run is started.
	ObserveOnly bool
	// LookInterval bounds looks at one table: one that was looked at less than this ago is looked at again later, once, through Later. 0 is no bound.
	LookInterval time.Duration
	// Later puts a notice for the table on the queue that arrives after the delay.
	Later func(ctx context.Context, body []byte, delay time.Duration) error
	// Caps bound automatic runs at once.
	Caps Caps
	// Drift is told how many partitions of a reconciled ledger differed from the scan; nil for nobody.
	Drift func(at time.Time, table maintenance.TableID, partitions int64) error
	// Metrics takes what alarms watch, once a look; nil for nobody.
	Metrics telemetry.Sink
	// Cure says in one line what mends a permission that is missing, by the text of the error; nil for nothing to say.
	Cure func(text string, table maintenance.TableID) string
	// Refuse takes messages that are no events, with the reason; nil only logs them.
	Refuse func(ctx context.Context, message events.SQSMessage, reason error) error
	Now    func() time.Time
	Log    *slog.Logger
	// NewNonce makes what keeps the IDs of two runs apart (maintenance.UniqueRunID); nil means 128 random bits.
	NewNonce func() string
}

// Function is evaluate.
type Function struct {
	deps  Deps
	index index
}

// New returns the function.
func New(deps Deps) *Function {
	if deps.NewNonce == nil {
		deps.NewNonce = rand.Text
	}
	if deps.Later == nil {
		deps.LookInterval = 0
	}
	return &Function{deps: deps}
}

// Handle looks once at each table that the batch names. The answer lists messages to deliver again: those of tables whose look failed for a reason
// that may pass. A message that is no event never blocks the others.
func (f *Function) Handle(ctx context.Context, batch events.SQSEvent) (events.SQSEventResponse, error) {
	tables, failed := f.group(ctx, batch)
	for _, t := range tables {
		if err := f.look(ctx, t); err != nil {
			f.deps.Log.ErrorContext(ctx, "look at table", "table", t.id.String(), "error", err)
			failed = append(failed, t.messages...)
		}
	}
	response := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	seen := map[string]bool{}
	for _, id := range failed {
		if !seen[id] {
			seen[id] = true
			response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: id})
		}
	}
	return response, nil
}

// named is a table that a batch names.
type named struct {
	id       maintenance.TableID
	messages []string
	// sentAt is when the newest of the messages was sent: a look that began then or later has seen what they are about.
	sentAt time.Time
}

// group decodes the batch: tables in the order in which they are first named, and messages that could not be handled.
func (f *Function) group(ctx context.Context, batch events.SQSEvent) (tables []*named, failed []string) {
	byID := map[maintenance.TableID]*named{}
	for _, message := range batch.Records {
		notices, err := f.deps.Events.Decode(event.Message{Body: []byte(message.Body), Attributes: attributes(message)})
		if err != nil {
			f.deps.Log.WarnContext(ctx, "refuse message", "message_id", message.MessageId, "error", err)
			if f.deps.Refuse != nil {
				if err := f.deps.Refuse(ctx, message, err); err != nil {
					failed = append(failed, message.MessageId)
				}
			}
			continue
		}
		for _, notice := range notices {
			id, found, err := f.resolve(ctx, notice)
			if err == nil && found && notice.RunID != "" {
				err = f.settleEnded(ctx, id, notice)
			}
			if err != nil {
				f.deps.Log.ErrorContext(ctx, "act on notice", "message_id", message.MessageId, "error", err)
				failed = append(failed, message.MessageId)
				continue
			}
			if !found {
				continue
			}
			t := byID[id]
			if t == nil {
				t = &named{id: id}
				byID[id], tables = t, append(tables, t)
			}
			t.messages = append(t.messages, message.MessageId)
			sent := f.sentAt(message)
			if notice.Location != "" {
				sent = sent.Add(objectMargin)
			}
			if sent.After(t.sentAt) {
				t.sentAt = sent
			}
		}
	}
	return tables, failed
}

// sentAt is when SQS took the message; now where it does not say.
func (f *Function) sentAt(message events.SQSMessage) time.Time {
	if ms, err := strconv.ParseInt(message.Attributes["SentTimestamp"], 10, 64); err == nil {
		return time.UnixMilli(ms)
	}
	return f.deps.Now()
}

// attributes are the texts among a message's attributes.
func attributes(message events.SQSMessage) map[string]string {
	out := map[string]string{}
	for name, a := range message.MessageAttributes {
		if a.StringValue != nil {
			out[name] = *a.StringValue
		}
	}
	return out
}

// DefaultLookInterval bounds looks at one table. With a batch window of 20 s a commit is looked at within 55 s (a notice that was put off waits for a window
// again), and a burst of a minute costs two looks: one when the first window ends, one when the last does.
const DefaultLookInterval = 35 * time.Second

// objectMargin is by how much a look must have begun after the event of an object was sent to have seen its commit: writers put a metadata file first and
// move the pointer then. Other events come after their commits.
const objectMargin = 2 * time.Second

// maxClaims bounds how often a look that meets others tries again.
const maxClaims = 10

// look reads the table's state and acts on it. Of looks at the same time one goes on.
func (f *Function) look(ctx context.Context, t *named) error {
	for range maxClaims {
		began := f.deps.Now()
		last, err := f.deps.State.LastLook(ctx, t.id)
		if err != nil {
			return err
		}
		if held, err := f.held(ctx, last); err != nil || held {
			return err
		}
		if f.deps.LookInterval > 0 {
			if !last.At.IsZero() && !last.At.Before(t.sentAt) {
				return nil // somebody has begun to look since
			}
			if wait := f.deps.LookInterval - began.Sub(last.At); wait > 0 {
				return f.later(ctx, t.id, wait)
			}
		}
		switch err := f.deps.State.ClaimLook(ctx, last, began); {
		case errors.Is(err, state.ErrConditionFailed):
			continue
		case err != nil:
			return err
		}
		err = f.lookAt(ctx, t.id, began)
		switch why := refused(err); {
		case why == "":
			return err
		case denied(err):
			return errors.Join(f.skip(ctx, t.id, f.denial(t.id, err)), f.count(contract.MetricDenied, t.id))
		default:
			return f.skip(ctx, t.id, why)
		}
	}
	return fmt.Errorf("look at %s beside others: %w", t.id, state.ErrConditionFailed)
}

// later puts the table back on the queue. Whoever looks first covers all notices that were sent before.
func (f *Function) later(ctx context.Context, id maintenance.TableID, wait time.Duration) error {
	body, err := event.Encode(event.Notice{Source: event.SourceSchedule, EventID: fmt.Sprintf("later-%d", f.deps.Now().UnixMilli()), Table: id})
	if err == nil {
		err = f.deps.Later(ctx, body, wait)
	}
	if err != nil {
		return fmt.Errorf("put off look at %s: %w", id, err)
	}
	return nil
}

// lookAt is one look: pointer and metadata, ledger, decision; the head item is written once, after everything it speaks of. A run is started behind it: one
// that ends at once finds the head that it was started from.
func (f *Function) lookAt(ctx context.Context, id maintenance.TableID, began time.Time) error {
	head, err := f.deps.State.LoadHead(ctx, id)
	if err != nil {
		return err
	}
	v, err := f.read(ctx, id)
	if errors.Is(err, catalogs.ErrNoSuchTable) || errors.Is(err, catalogs.ErrNotIceberg) {
		if head.Version == 0 {
			return f.count(contract.MetricIgnored, id) // never heard of it: nothing to forget
		}
		return errors.Join(f.withdraw(ctx, id), f.deps.State.DropTable(ctx, id))
	}
	if err != nil {
		return err
	}
	if v.policy.Mode() == policy.Off {
		return f.skip(ctx, id, switchedOff(v.policy))
	}
	v.lookedAt = began
	before := head
	if head, err = f.fold(ctx, v, head); err != nil {
		return fmt.Errorf("fold ledger of %s: %w", id, err)
	}
	head, out, err := f.decide(ctx, v, head)
	if err != nil {
		return err
	}
	if _, err = f.deps.State.SaveHead(ctx, head); err != nil {
		if errors.Is(err, state.ErrConditionFailed) {
			return fmt.Errorf("another look at %s was faster: %w", id, err)
		}
		return err
	}
	if before.ShardCount > 0 && head.Generation != before.Generation {
		if err := f.deps.State.DropShards(ctx, id, head.Generation); err != nil {
			return err
		}
	}
	if err := f.signal(v, head, out); err != nil {
		return err
	}
	return f.act(ctx, v, head, out)
}

// held reports whether a run has the table. A run that may not have been started is started again with the same bytes, and the table is marked for
// another look when it is free.
func (f *Function) held(ctx context.Context, last state.Look) (bool, error) {
	if !last.Held || f.deps.Now().After(last.Lease.ExpiresAt) {
		return false, nil
	}
	if last.Lease.Phase == state.LeaseStarting && !f.deps.ObserveOnly {
		if err := f.deps.Starter.Start(ctx, string(last.Lease.RunID), last.Lease.Input); err != nil {
			return true, fmt.Errorf("start run %s again: %w", last.Lease.RunID, err)
		}
	}
	return f.deps.State.MarkPending(ctx, last.Table) // false: freed meanwhile
}
