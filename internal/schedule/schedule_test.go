package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"firn/internal/authority"
	"firn/internal/event"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/schedule"
	"firn/internal/state"
	"firn/internal/store"
)

// queue collects messages; it fails from the given message on.
type queue struct {
	bodies []string
	fail   error
}

func (q *queue) Send(_ context.Context, body []byte) error {
	if q.fail != nil {
		return q.fail
	}
	q.bodies = append(q.bodies, string(body))
	return nil
}

// tables decodes the notices as evaluate does.
func (q *queue) tables(t *testing.T) string {
	t.Helper()
	var names []string
	for _, body := range q.bodies {
		notices, err := event.Decode([]byte(body))
		if err != nil || len(notices) != 1 || notices[0].Source != event.SourceSchedule {
			t.Fatalf("message %s: %v, %v", body, notices, err)
		}
		names = append(names, notices[0].Table.String())
	}
	q.bodies = nil
	return strings.Join(names, " ")
}

type clock struct {
	fn    *schedule.Function
	queue *queue
	state state.Store
	now   time.Time
}

// newClock has two tables in catalog lake, and a catalog that does not answer.
func newClock(t *testing.T) *clock {
	t.Helper()
	w := icebergtest.NewWorld(t)
	w.NewTable("db.a")
	w.NewTable("db.b")
	c := &clock{queue: &queue{}, state: state.New(state.NewMemory()), now: time.UnixMilli(1_800_000_000_000)}
	c.fn = schedule.New(schedule.Deps{
		Catalog: func(_ context.Context, name string) (catalogs.Catalog, store.Reader, error) {
			if name == "broken" {
				return nil, nil, errors.New("no answer")
			}
			return w.Catalog, w.Store, nil
		},
		Catalogs: []string{"broken", "lake"}, State: c.state, Queue: c.queue, Every: time.Hour,
		Now: func() time.Time { return c.now }, Log: slog.New(slog.DiscardHandler),
	})
	return c
}

// looked notes a look at a table.
func (c *clock) looked(t *testing.T, name string, at time.Time) {
	t.Helper()
	id := maintenance.TableID{Catalog: "lake", Namespace: "db", Name: name}
	head, err := c.state.LoadHead(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	head.Table, head.LookedAtMS = id, at.UnixMilli()
	if _, err := c.state.SaveHead(context.Background(), head); err != nil {
		t.Fatal(err)
	}
}

// TestWalkFindsTablesThatNobodyLookedAt: never seen, or not for a while. A catalog that does not answer is told and keeps nothing else back.
func TestWalkFindsTablesThatNobodyLookedAt(t *testing.T) {
	t.Parallel()
	c := newClock(t)
	for _, step := range []struct {
		look, want string
		later      time.Duration
	}{
		{"", "lake.db.a lake.db.b", 0},                  // a lost event of a new table
		{"", "lake.db.a lake.db.b", 0},                  // a second walk sends the same, which costs a look each
		{"a", "lake.db.b", 59 * time.Minute},            // looked at by an event meanwhile
		{"b", "lake.db.a", time.Minute},                 // the hour of a has passed: an idle table is found
		{"", "lake.db.a lake.db.b", 2 * 24 * time.Hour}, // so are both after days without a commit
	} {
		if step.look != "" {
			c.looked(t, step.look, c.now)
		}
		c.now = c.now.Add(step.later)
		out, err := c.fn.Handle(context.Background(), nil)
		if err == nil || !strings.Contains(err.Error(), "walk catalog broken") {
			t.Errorf("error %v: want the catalog that does not answer", err)
		}
		if got := c.queue.tables(t); got != step.want || out.Tables != 2 || out.Noticed != len(strings.Fields(step.want)) {
			t.Errorf("notices for %q, %+v: want %q", got, out, step.want)
		}
	}
}

// TestQueueDown: a notice that was not taken is an error, so that the walk is repeated.
func TestQueueDown(t *testing.T) {
	t.Parallel()
	c := newClock(t)
	c.queue.fail = errors.New("queue is down")
	if out, err := c.fn.Handle(context.Background(), nil); !errors.Is(err, c.queue.fail) || out.Noticed != 0 {
		t.Errorf("%+v, %v: want the queue's error", out, err)
	}
}

// TestTenThousandTablesInSmallSteps: invocations that have no time left go on where the last one stopped, and every table gets one notice. Notices spread.
func TestTenThousandTablesInSmallSteps(t *testing.T) {
	t.Parallel()
	cat, st := catalogs.NewMemory("lake"), state.New(state.NewMemory())
	const tables = 10_000
	for i := range tables {
		id := maintenance.TableID{Namespace: maintenance.NewNamespace(fmt.Sprint("db", i%7)), Name: fmt.Sprint("t", i)}
		if err := cat.Register(t.Context(), id, "mem://wh/x.json"); err != nil {
			t.Fatal(err)
		}
	}
	now, seen, delays, reads := time.UnixMilli(1_800_000_000_000), map[string]int{}, map[time.Duration]int{}, atomic.Int64{}
	fn := schedule.New(schedule.Deps{
		Catalog:  func(context.Context, string) (catalogs.Catalog, store.Reader, error) { return cat, nil, nil },
		Catalogs: []string{"lake"}, State: st, Every: time.Hour, Spread: 10 * time.Minute,
		Later: func(_ context.Context, body []byte, delay time.Duration) error {
			seen[string(body[strings.Index(string(body), "namespace"):])]++
			delays[delay.Truncate(time.Minute)]++
			return nil
		},
		Now: func() time.Time { return now.Add(time.Duration(reads.Add(1)) * time.Microsecond) }, Log: slog.New(slog.DiscardHandler),
	})
	steps := 0
	for {
		deadline := now.Add(10*time.Second + time.Duration(reads.Load()+3_000)*time.Microsecond)
		out, err := fn.Handle(limited{t.Context(), deadline}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if steps++; out.Cursor == "" {
			break
		}
	}
	if len(seen) != tables || steps < 3 || steps > 100 {
		t.Errorf("%d of %d tables got a notice in %d steps", len(seen), tables, steps)
	}
	for body, n := range seen {
		if n != 1 {
			t.Fatalf("%s: %d notices", body, n)
		}
	}
	for minute := range 10 {
		if n := delays[time.Duration(minute)*time.Minute]; n < tables/20 || n > tables/5 {
			t.Errorf("%d notices arrive in minute %d", n, minute)
		}
	}
}

// limited has a deadline on the test's clock.
type limited struct {
	context.Context
	deadline time.Time
}

func (l limited) Deadline() (time.Time, bool) { return l.deadline, true }

// TestTriggersThatGoByTheClock: a table that was looked at lately gets a notice when its next trigger has come, once.
func TestTriggersThatGoByTheClock(t *testing.T) {
	t.Parallel()
	c := newClock(t)
	for _, name := range []string{"a", "b"} {
		c.looked(t, name, c.now)
	}
	id := maintenance.TableID{Catalog: "lake", Namespace: "db", Name: "a"}
	head, err := c.state.LoadHead(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	head.NextLookMS = c.now.Add(10 * time.Minute).UnixMilli()
	if _, err := c.state.SaveHead(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		later time.Duration
		want  string
	}{{9 * time.Minute, ""}, {time.Minute, "lake.db.a"}, {time.Minute, "lake.db.a"}} {
		c.now = c.now.Add(step.later)
		if _, err := c.fn.Handle(t.Context(), nil); err == nil {
			t.Error("the broken catalog is not told")
		}
		if got := c.queue.tables(t); got != step.want {
			t.Errorf("notices for %q, want %q", got, step.want)
		}
	}
	c.looked(t, "a", c.now)
	if _, err := c.fn.Handle(t.Context(), nil); err == nil || c.queue.tables(t) != "" {
		t.Error("a table that was looked at gets another notice")
	}
}

// TestOnlyEntrustedTables: others are passed over.
func TestOnlyEntrustedTables(t *testing.T) {
	t.Parallel()
	w, q := icebergtest.NewWorld(t), &queue{}
	w.NewTable("db.a")
	w.NewTable("db.b")
	rules, err := authority.New([]string{"lake.*.b"}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	fn := schedule.New(schedule.Deps{
		Catalog:  func(context.Context, string) (catalogs.Catalog, store.Reader, error) { return w.Catalog, w.Store, nil },
		Catalogs: []string{"lake"}, Authority: rules, State: state.New(state.NewMemory()), Queue: q, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if _, err := fn.Handle(t.Context(), nil); err != nil || q.tables(t) != "lake.db.b" {
		t.Errorf("notices %v, %v", q.bodies, err)
	}
}
