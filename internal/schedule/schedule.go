// Package schedule makes correctness independent of events: it walks all tables of the catalogs and puts a notice on the queue for each that nobody
// has looked at for a while, so that lost events, idle tables and time triggers are found. It decides nothing else: the look does.
package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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
	// Later sends a message that arrives after a delay; nil sends at once. Spread is the time over which the notices of one walk are spread by it: a
	// table's place in it is always the same.
	Later  func(ctx context.Context, body []byte, delay time.Duration) error
	Spread time.Duration
	Now    func() time.Time
	Log    *slog.Logger
}

// Function is schedule.
type Function struct{ deps Deps }

// New returns the function.
func New(deps Deps) *Function { return &Function{deps: deps} }

const (
	// reserve is the part of an invocation's time that is left for telling where the walk goes on.
	reserve = 10 * time.Second
	// headReads is how many heads are read at once, pageSize how many tables between two looks at the clock.
	headReads, pageSize = 16, 128
	// spreadSteps is into how many steps the spread is cut.
	spreadSteps = 1000
	// walkName is the cursor's name.
	walkName = "schedule"
)

// Output counts what one invocation did.
type Output struct {
	Tables  int `json:"tables"`
	Noticed int `json:"noticed"`
	// Cursor is where the next invocation goes on; "" when the walk has ended.
	Cursor string `json:"cursor,omitempty"`
}

// cursor is a place in a walk: behind a table of a catalog.
type cursor struct {
	Catalog string `json:"catalog"`
	After   string `json:"after"`
}

// Handle walks the catalogs, from where the last invocation stopped. The payload is ignored: a schedule says only that it is time. A second walk at the
// same time sends the same notices, which cost a look each and nothing else. A catalog that does not answer does not keep the others from being walked.
func (f *Function) Handle(ctx context.Context, _ json.RawMessage) (Output, error) {
	var out Output
	text, err := f.deps.State.LoadCursor(ctx, walkName)
	if err != nil {
		return out, err
	}
	var from cursor
	if text != "" && json.Unmarshal([]byte(text), &from) != nil {
		from = cursor{} // of another version: walk anew
	}
	names := slices.Sorted(slices.Values(f.deps.Catalogs))
	var faults []error
	for _, name := range names {
		if name < from.Catalog {
			continue
		}
		after := ""
		if name == from.Catalog {
			after = from.After
		}
		stopped, err := f.walk(ctx, name, after, &out)
		if err != nil {
			faults = append(faults, fmt.Errorf("walk catalog %s: %w", name, err))
		}
		if stopped != "" {
			data, err := json.Marshal(cursor{Catalog: name, After: stopped})
			faults = append(faults, err)
			out.Cursor = string(data)
			break
		}
	}
	if out.Cursor != text {
		faults = append(faults, f.deps.State.SaveCursor(ctx, walkName, out.Cursor))
	}
	f.deps.Log.InfoContext(ctx, "walked catalogs", "tables", out.Tables, "noticed", out.Noticed, "cursor", out.Cursor)
	return out, errors.Join(faults...)
}

// walk looks at the tables of one catalog behind a name; stopped is the last one when time ran out.
func (f *Function) walk(ctx context.Context, name, after string, out *Output) (stopped string, err error) {
	cat, _, err := f.deps.Catalog(ctx, name)
	if err != nil {
		return "", err
	}
	var ids []maintenance.TableID
	for id, err := range cat.Tables(ctx, "") {
		if err != nil {
			return "", err
		}
		id.Catalog = name
		if f.deps.Authority.Table(id) == nil && place(id) > after {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b maintenance.TableID) int { return strings.Compare(place(a), place(b)) })
	for page := range slices.Chunk(ids, pageSize) {
		if f.late(ctx) {
			return cmp.Or(after, " "), nil
		}
		due, err := f.due(ctx, page)
		if err != nil {
			return "", err
		}
		for i, id := range page {
			if !due[i] {
				continue
			}
			if err := f.notice(ctx, id); err != nil {
				return "", err
			}
			out.Noticed++
		}
		out.Tables += len(page)
		after = place(page[len(page)-1])
	}
	return "", nil
}

// place orders tables; no table's is empty, and one of a walk that was stopped before the first table is a space.
func place(id maintenance.TableID) string { return string(id.Namespace) + "\x1e" + id.Name }

// late reports whether the invocation's time is nearly used up.
func (f *Function) late(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return limited && f.deps.Now().Add(reserve).After(deadline)
}

// due reads the heads of a page: a table is due that nobody has looked at for the period, or of which a trigger that goes by the clock has come since.
func (f *Function) due(ctx context.Context, page []maintenance.TableID) ([]bool, error) {
	due := make([]bool, len(page))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(headReads)
	for i, id := range page {
		group.Go(func() error {
			head, err := f.deps.State.LoadHead(gctx, id)
			now := f.deps.Now().UnixMilli()
			due[i] = head.Version == 0 || now-head.LookedAtMS >= f.deps.Every.Milliseconds() ||
				head.NextLookMS > head.LookedAtMS && head.NextLookMS <= now
			return err
		})
	}
	return due, group.Wait()
}

func (f *Function) notice(ctx context.Context, id maintenance.TableID) error {
	body, err := event.Encode(event.Notice{Source: event.SourceSchedule, EventID: fmt.Sprintf("schedule-%d", f.deps.Now().UnixMilli()), Table: id})
	if err != nil {
		return fmt.Errorf("encode notice of %s: %w", id, err)
	}
	if f.deps.Later != nil && f.deps.Spread > 0 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(id.String()))
		err = f.deps.Later(ctx, body, time.Duration(h.Sum32()%spreadSteps)*f.deps.Spread/spreadSteps)
	} else {
		err = f.deps.Queue.Send(ctx, body)
	}
	if err != nil {
		return fmt.Errorf("send notice of %s: %w", id, err)
	}
	return nil
}
