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
	"time"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/event"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/state"
	"firn/internal/store"
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
	// Events says which events are heard.
	Events  event.Rules
	State   state.Store
	Starter Starter
	Policy  policy.Document
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
	return &Function{deps: deps}
}

// Handle looks once at each table that the batch names. The answer lists messages to deliver again: those of tables whose look failed for a reason
// that may pass. A message that is no event never blocks the others.
func (f *Function) Handle(ctx context.Context, batch events.SQSEvent) (events.SQSEventResponse, error) {
	tables, messages, failed := f.group(ctx, batch)
	for _, id := range tables {
		if err := f.look(ctx, id); err != nil {
			f.deps.Log.ErrorContext(ctx, "look at table", "table", id.String(), "error", err)
			failed = append(failed, messages[id]...)
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

// group decodes the batch: tables in the order in which they are first named, and the messages that named each.
func (f *Function) group(ctx context.Context, batch events.SQSEvent) (tables []maintenance.TableID, messages map[maintenance.TableID][]string, failed []string) {
	messages = map[maintenance.TableID][]string{}
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
			if len(messages[id]) == 0 {
				tables = append(tables, id)
			}
			messages[id] = append(messages[id], message.MessageId)
		}
	}
	return tables, messages, failed
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

// look reads the table's state and acts on it.
func (f *Function) look(ctx context.Context, id maintenance.TableID) error {
	held, err := f.held(ctx, id)
	if err != nil || held {
		return err
	}
	view, err := f.read(ctx, id)
	if errors.Is(err, catalogs.ErrNoSuchTable) || errors.Is(err, catalogs.ErrNotIceberg) {
		return f.deps.State.DropTable(ctx, id)
	}
	if err != nil {
		return err
	}
	if view.policy.Mode() == policy.Off {
		return nil
	}
	head, shards, err := f.fold(ctx, view)
	if err != nil {
		return fmt.Errorf("fold ledger of %s: %w", id, err)
	}
	return f.decide(ctx, view, head, shards)
}

// held reports whether a run has the table. A run that may not have been started is started again with the same bytes, and the table is marked for
// another look when it is free.
func (f *Function) held(ctx context.Context, id maintenance.TableID) (bool, error) {
	lease, found, err := f.deps.State.Current(ctx, id)
	if err != nil || !found || f.deps.Now().After(lease.ExpiresAt) {
		return false, err
	}
	if lease.Phase == state.LeaseStarting {
		if err := f.deps.Starter.Start(ctx, string(lease.RunID), lease.Input); err != nil {
			return true, fmt.Errorf("start run %s again: %w", lease.RunID, err)
		}
	}
	_, err = f.deps.State.MarkPending(ctx, id)
	if errors.Is(err, state.ErrLeaseLost) {
		return false, nil // freed meanwhile
	}
	return true, err
}
