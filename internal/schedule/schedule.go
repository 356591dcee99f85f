// Package schedule makes correctness independent of events: it walks all tables of the catalogs and puts a notice on the queue for each that nobody
// has looked at for a while, so that lost events, idle tables and time triggers are found. It decides nothing else: the look does.
package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"firn/internal/authority"
	"firn/internal/event"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/store"
)

// Queue takes messages for evaluate.
type Queue interface {
	// Send puts one message on the queue; it is durable on return.
	Send(ctx context.Context, body []byte) error
}

// Deps are what schedule reaches.
type Deps struct {
	// Catalog opens a catalog; Catalogs are the names to walk.
	Catalog  func(ctx context.Context, name string) (catalogs.Catalog, store.Reader, error)
	Catalogs []string
	// Authority is what the operator entrusted: other tables are passed over.
	Authority authority.Rules
	State     state.Store
	Queue     Queue
	// Every is how long a table may go without a look.
	Every time.Duration
	Now   func() time.Time
	Log   *slog.Logger
}

// Function is schedule.
type Function struct{ deps Deps }

// New returns the function.
func New(deps Deps) *Function { return &Function{deps: deps} }

// Output counts what one walk did.
type Output struct {
	Tables  int `json:"tables"`
	Noticed int `json:"noticed"`
}

// Handle walks the catalogs. The payload is ignored: a schedule says only that it is time. A second walk at the same time sends the same notices,
// which cost a look each and nothing else. A catalog that does not answer does not keep the others from being walked.
func (f *Function) Handle(ctx context.Context, _ json.RawMessage) (Output, error) {
	var out Output
	var faults []error
	for _, name := range f.deps.Catalogs {
		if err := f.walk(ctx, name, &out); err != nil {
			faults = append(faults, fmt.Errorf("walk catalog %s: %w", name, err))
		}
	}
	f.deps.Log.InfoContext(ctx, "walked catalogs", "tables", out.Tables, "noticed", out.Noticed)
	return out, errors.Join(faults...)
}

func (f *Function) walk(ctx context.Context, name string, out *Output) error {
	cat, _, err := f.deps.Catalog(ctx, name)
	if err != nil {
		return err
	}
	for id, err := range cat.Tables(ctx, "") {
		if err != nil {
			return err
		}
		id.Catalog = name
		if f.deps.Authority.Table(id) != nil {
			continue
		}
		out.Tables++
		head, err := f.deps.State.LoadHead(ctx, id)
		if err != nil {
			return err
		}
		now := f.deps.Now()
		if head.Version > 0 && now.Sub(time.UnixMilli(head.LookedAtMS)) < f.deps.Every {
			continue
		}
		if err := f.notice(ctx, id, now); err != nil {
			return err
		}
		out.Noticed++
	}
	return nil
}

func (f *Function) notice(ctx context.Context, id maintenance.TableID, now time.Time) error {
	body, err := event.Encode(event.Notice{Source: event.SourceSchedule, EventID: fmt.Sprintf("schedule-%d", now.UnixMilli()), Table: id})
	if err != nil {
		return fmt.Errorf("encode notice of %s: %w", id, err)
	}
	if err := f.deps.Queue.Send(ctx, body); err != nil {
		return fmt.Errorf("send notice of %s: %w", id, err)
	}
	return nil
}
