package simulation

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	seedsFlag = flag.String("seeds", "1-30", "the seeds to play: a range as 1-1000, or one")
	budget    = flag.Duration("budget", 0, "stop taking seeds after this time; 0 plays the whole range")
	maxFail   = flag.Int("maxfail", 10, "stop after so many failing seeds")
	kinds     = flag.Bool("kinds", true, "fail when a kind of fault never happened in a long range")
	allTraces = flag.Bool("trace", false, "print the steps of every seed")
)

// enough is the number of seeds from which on every kind of fault must have happened.
const enough = 600

// tally gathers what seeds of a range did.
type tally struct {
	mu       sync.Mutex
	next     uint64
	last     uint64
	done     int
	steps    int
	hits     map[string]int
	failures []Result
}

// take hands out the next seed.
func (a *tally) take() (uint64, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next > a.last || len(a.failures) >= *maxFail {
		return 0, false
	}
	a.next++
	return a.next - 1, true
}

func (a *tally) add(r Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done++
	a.steps += r.Steps
	for kind, n := range r.Hits {
		a.hits[kind] += n
	}
	if r.Failure != "" {
		a.failures = append(a.failures, r)
	}
}

// TestSeeds plays a range of seeds and fails with the first broken invariants, or when a kind of fault never happened.
func TestSeeds(t *testing.T) {
	first, last, err := parseRange(*seedsFlag)
	if err != nil {
		t.Fatal(err)
	}
	all := &tally{next: first, last: last, hits: map[string]int{}}
	begun := time.Now()
	var player Player
	t.Run("range", func(t *testing.T) {
		for n := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("worker", n), func(t *testing.T) {
				t.Parallel()
				for *budget == 0 || time.Since(begun) < *budget {
					seed, more := all.take()
					if !more {
						return
					}
					r := player.Run(t, seed)
					all.add(r)
					if *allTraces {
						t.Logf("seed %d\n%s", seed, Told(r.Trace))
					}
				}
			})
		}
	})
	all.tell(t, time.Since(begun))
}

// tell prints the log of the range and fails where it has to.
func (a *tally) tell(t *testing.T, took time.Duration) {
	t.Helper()
	t.Logf("%d seeds, %d steps in %.1f s: %.0f ms a seed; next seed %d", a.done, a.steps, took.Seconds(),
		float64(took.Milliseconds())/float64(max(a.done, 1)), a.next)
	for _, kind := range slices.Sorted(maps.Keys(a.hits)) {
		t.Logf("%7d  %s", a.hits[kind], kind)
	}
	for _, kind := range Kinds() {
		if a.hits[kind] == 0 && a.done >= enough && *kinds {
			t.Errorf("%q never happened in %d seeds", kind, a.done)
		}
	}
	slices.SortFunc(a.failures, func(x, y Result) int { return len(x.Trace) - len(y.Trace) })
	for i, r := range a.failures {
		if i == 0 {
			t.Logf("seed %d, the shortest of those that failed:\n%s", r.Seed, Told(r.Trace))
		}
		t.Errorf("seed %d: %s (again: make sim SEEDS=%d)", r.Seed, r.Failure, r.Seed)
	}
}

func parseRange(text string) (first, last uint64, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	if first, err = strconv.ParseUint(from, 10, 64); err != nil {
		return 0, 0, fmt.Errorf("seeds %q: %w", text, err)
	}
	if last, err = strconv.ParseUint(to, 10, 64); err != nil {
		return 0, 0, fmt.Errorf("seeds %q: %w", text, err)
	}
	return first, last, nil
}

// TestSeedsThatFailed plays seeds again that once found a fault.
func TestSeedsThatFailed(t *testing.T) {
	t.Parallel()
	var player Player
	for seed, fault := range map[uint64]string{
		1675:  "the world's clock ran ahead of the bubble's after two cherry-picks",
		12772: "a search for orphans found the files of an expiry that landed after its run was closed",
		77485: "a commit that was given up landed behind the result that another execution of it had written",
		72511: "a writer took over the positions of a vector that did not apply to its file any more",
		10323: "a dropped column came back between the last look at a service's schema and the commit",
		7686:  "a late search for what an expiry let go of found files of a later one, whose grace period had begun",
		46332: "a search for orphans found the files of an expiry that landed in a run that died, and the metadata log was cut already",
		3589:  "files of an expiry waited for an attempt of the same run that nobody could settle",
	} {
		if r := player.Run(t, seed); r.Failure != "" {
			t.Errorf("seed %d (once: %s): %s\n%s", seed, fault, r.Failure, Told(r.Trace))
		}
	}
}

// TestSeedsRepeatExactly plays a few seeds twice: each step must be the same.
func TestSeedsRepeatExactly(t *testing.T) {
	t.Parallel()
	var player Player
	for seed := uint64(1); seed <= 4; seed++ {
		a, b := player.Run(t, seed), player.Run(t, seed)
		if a.Digest == b.Digest {
			continue
		}
		at := 0
		for at < min(len(a.Trace), len(b.Trace)) && a.Trace[at] == b.Trace[at] {
			at++
		}
		t.Errorf("seed %d takes another course at step %d:\n%s\n%s", seed, at, Told(a.Trace[max(0, at-3):min(at+3, len(a.Trace))]),
			Told(b.Trace[max(0, at-3):min(at+3, len(b.Trace))]))
	}
}
