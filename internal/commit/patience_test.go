package commit

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"firn/internal/contract"
	"firn/internal/icebergtest"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
)

// TestPatience: how often and how long a commit is tried is the table's to say, for lost races by commit.retry.* and for unknown states by
// commit.status-check.*, with Java's defaults. Waits double between their bounds and have jitter of half.
func TestPatience(t *testing.T) {
	t.Parallel()
	ms := func(n ...int) []time.Duration {
		var out []time.Duration
		for _, n := range n {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	for name, c := range map[string]struct {
		props  []string
		random uint64
		// unknown loses each answer, before any effect, instead of the race.
		unknown bool
		calls   int
		waits   []time.Duration
	}{
		"defaults, the least jitter":   {nil, 0, false, 5, ms(50, 100, 200, 400, 800)},
		"defaults, the most jitter":    {nil, math.MaxUint64, false, 5, ms(100, 200, 400, 800, 1600)},
		"no retry":                     {[]string{"commit.retry.num-retries", "0"}, 0, false, 1, ms(50)},
		"short waits":                  {[]string{"commit.retry.min-wait-ms", "10", "commit.retry.max-wait-ms", "40"}, 0, false, 5, ms(5, 10, 20, 20, 20)},
		"a total that ends the trying": {[]string{"commit.retry.total-timeout-ms", "300"}, 0, false, 3, ms(50, 100, 200)},
		"nonsense is the default":      {[]string{"commit.retry.num-retries", "many"}, 0, false, 5, ms(50, 100, 200, 400, 800)},
		"unknown, defaults":            {nil, 0, true, 4, nil},
		"unknown, one check":           {[]string{"commit.status-check.num-retries", "1", "commit.status-check.min-wait-ms", "10"}, 0, true, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newFixture(t)
			paths := x.small(3)
			for i := 0; i < len(c.props); i += 2 {
				x.table.SetProperty(c.props[i], c.props[i+1])
			}
			x.pin(false, paths)
			x.compact()
			inner, err := committer.New(x.world.Catalog, x.world.Store, committer.Options{Now: x.world.Clock.Now})
			x.check(err)
			hook := &hooked{Committer: inner, before: func(call int) error {
				if c.unknown {
					return errors.New("connection reset")
				}
				x.table.Commit(icebergtest.Append(row(int64(1000+call), "z")))
				return nil
			}}
			f := x.function(nil, hook)
			now := x.world.Clock.Now()
			ids := uint64(0)
			f.Now = func() time.Time { return now }
			f.Random = func() (uint64, error) { // jitter, and the snapshot's ID once
				if ids++; ids == 1 {
					return 1 << 40, nil
				}
				return c.random, nil
			}
			f.Sleep = func(_ context.Context, d time.Duration) error {
				x.waits, now = append(x.waits, d.Round(time.Millisecond)), now.Add(d)
				return nil
			}
			out, err := f.Handle(context.Background(), x.input())
			if c.unknown {
				var named *maintenance.NamedError
				if !errors.As(err, &named) || named.Name != contract.ErrorCommitStateUnknown || hook.calls != c.calls {
					t.Errorf("%v after %d calls: want an unknown state after %d", err, hook.calls, c.calls)
				}
				return
			}
			if err != nil || out.Outcome != maintenance.Conflict || hook.calls != c.calls || !slices.Equal(x.waits, c.waits) {
				t.Errorf("%+v, %v after %d calls and waits %v: want a conflict after %d and %v", out, err, hook.calls, x.waits, c.calls, c.waits)
			}
		})
	}
}
