package evaluate_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/contract"
	"firn/internal/evaluate"
	"firn/internal/event"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/state"
	"firn/internal/store"
)

// sent is a message on the burst's queue.
type sent struct {
	body      string
	at, until time.Time
}

// burst is a queue on a clock of its own, and a catalog that notes the looks.
type burst struct {
	catalogs.Catalog
	mu    sync.Mutex
	now   time.Time
	queue []sent
	looks map[string][]time.Time
}

func (b *burst) Load(ctx context.Context, id maintenance.TableID) (catalogs.Pointer, error) {
	b.mu.Lock()
	b.looks[id.Name] = append(b.looks[id.Name], b.now)
	b.mu.Unlock()
	return b.Catalog.Load(ctx, id)
}

func (b *burst) later(_ context.Context, body []byte, delay time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, sent{string(body), b.now, b.now.Add(delay)})
	return nil
}

// take deals the messages that are visible to n pollers at random, some of them twice.
func (b *burst) take(rng *rand.Rand, n int) [][]sent {
	b.mu.Lock()
	defer b.mu.Unlock()
	hands := make([][]sent, n)
	var rest []sent
	for _, m := range b.queue {
		if m.until.After(b.now) {
			rest = append(rest, m)
			continue
		}
		for range 1 + rng.IntN(10)/9 {
			hand := rng.IntN(n)
			hands[hand] = append(hands[hand], m)
		}
	}
	b.queue = rest
	return hands
}

// TestBurst: 10,000 events for 1,000 tables in one minute, five pollers with windows of 20 s, random splits, duplicates. Each table is looked at twice at most,
// and within 60 s after each of its events; the queue drains.
func TestBurst(t *testing.T) {
	t.Parallel()
	const tables, messages, pollers, window = 1000, 10_000, 5, contract.BatchWindowSeconds * time.Second
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t0")
	tbl.Commit(icebergtest.Append(ids(1)...))
	for i := 1; i < tables; i++ {
		id := maintenance.TableID{Namespace: "db", Name: fmt.Sprint("t", i)}
		if err := w.Catalog.Register(t.Context(), id, tbl.Pointer().MetadataLocation); err != nil {
			t.Fatal(err)
		}
	}
	start := time.UnixMilli(1_800_000_000_000)
	b := &burst{Catalog: w.Catalog, now: start, looks: map[string][]time.Time{}}
	rng := rand.New(rand.NewPCG(1, 2))
	lastEvent := map[string][]time.Time{}
	for i := range messages {
		name := fmt.Sprint("t", i%tables)
		at := start.Add(time.Duration(rng.Int64N(int64(time.Minute))))
		body, err := event.Encode(event.Notice{Source: event.SourceCommitted, Table: maintenance.TableID{Namespace: "db", Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		b.queue = append(b.queue, sent{string(body), at, at})
		lastEvent[name] = append(lastEvent[name], at)
	}
	document, err := policy.ParseYAML([]byte(observe))
	if err != nil {
		t.Fatal(err)
	}
	fn := evaluate.New(evaluate.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) { return b, w.Store, nil },
		State:   state.New(state.NewMemory()), Policy: document, LookInterval: evaluate.DefaultLookInterval, Later: b.later,
		Now: func() time.Time { b.mu.Lock(); defer b.mu.Unlock(); return b.now }, Log: slog.New(slog.DiscardHandler),
	})
	windows := 0
	for ; len(b.queue) > 0; windows++ {
		b.now = b.now.Add(window)
		var wg sync.WaitGroup
		for _, hand := range b.take(rng, pollers) {
			wg.Go(func() { deliverHand(t, fn, hand) })
		}
		wg.Wait()
	}
	for name, at := range lastEvent {
		looks := b.looks[name]
		if len(looks) == 0 || len(looks) > 2 {
			t.Fatalf("table %s was looked at %d times: %v", name, len(looks), looks)
		}
		for _, e := range at {
			covered := false
			for _, l := range looks {
				covered = covered || !l.Before(e) && l.Sub(e) <= time.Minute
			}
			if !covered {
				t.Fatalf("table %s: no look within a minute after its event at %s: %v", name, e.Sub(start), looks)
			}
		}
	}
	if windows > 6 {
		t.Errorf("the queue took %d windows to drain", windows)
	}
}

func deliverHand(t *testing.T, fn *evaluate.Function, hand []sent) {
	t.Helper()
	var batch events.SQSEvent
	for i, m := range hand {
		batch.Records = append(batch.Records, events.SQSMessage{
			MessageId: strconv.Itoa(i), Body: m.body, Attributes: map[string]string{"SentTimestamp": strconv.FormatInt(m.at.UnixMilli(), 10)},
		})
	}
	out, err := fn.Handle(context.Background(), batch)
	if err != nil || len(out.BatchItemFailures) > 0 {
		t.Errorf("to deliver again: %d, %v", len(out.BatchItemFailures), err)
	}
}
