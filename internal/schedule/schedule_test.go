package schedule_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

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
