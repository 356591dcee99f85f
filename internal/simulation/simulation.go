// Package simulation runs the whole system against itself: writers, maintenance runs, events and faults on memory twins of the store, the catalog and
// the state, in an order that a seed decides. It exists to find the orders in which rows get lost, doubled or resurrected, or a file is deleted that
// somebody needs.
//
// A seed is one small world. Every call of a port (an object, the catalog's pointer, a state item) is a request to the scheduler, which grants one at a
// time, so that between two grants only one thing happens. In place of granting it may fail the call, lose its answer, let the process die before or
// after it, or hold it back until nobody waits for it any more (a zombie). Between calls it lets writers commit, delivers events late, twice or never,
// lets time pass, and starts further runs. After each commit and before each deletion the invariants are checked against a model of the rows.
//
// The world lives in a synctest bubble: timers of the product (backoff, a state's timeout) run on the bubble's clock, which moves only when nothing else
// can. One seed therefore always takes the same course, and a failing one is repeated exactly by its number.
//
// What is real: the state machine's definition and interpreter, the functions' logic with its Parquet engine, metadata, manifests and data files. What is
// not: the store, the catalog and the state's backend are in memory, and retries inside of a client are left out, so that each fault reaches the logic.
package simulation

import (
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/parquet/compress"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/avro"
	"firn/internal/state"
)

// Result is what became of one seed.
type Result struct {
	// Seed repeats the run.
	Seed uint64
	// Failure is the broken invariant, "" when all held. Trace are the steps up to it.
	Failure string
	Trace   []Step
	// Digest is a hash of all steps: equal digests are equal courses.
	Digest uint64
	// Steps counts scheduling decisions, Hits what happened, by kind.
	Steps int
	Hits  map[string]int
}

// Step is one thing that happened.
type Step struct {
	// Number counts the scheduler's decisions, At is the world's clock.
	Number int
	At     time.Time
	Text   string
}

// String spells the step as traces show it.
func (s Step) String() string {
	return fmt.Sprintf("%5d %s %s", s.Number, s.At.Format("01-02T15:04:05"), s.Text)
}

// Told spells steps, one a line.
func Told(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// Player plays seeds. It keeps what their worlds read and write manifests with: encoders of a world of its own would outlive it until the collector comes,
// each of them larger than the world. The zero value is ready; it is safe for concurrent use.
type Player struct {
	memo     lake.Memo
	encoders avro.Deflaters
}

// Sim is one world under one seed. Its fields are touched by the scheduler, and by one process at a time between two grants.
type Sim struct {
	seed  uint64
	rng   *rand.Rand
	prof  profile
	world *icebergtest.World
	table *icebergtest.Table

	sched
	queue
	runs
	model

	states []state.Items
	hits   map[string]int
	hash   hash.Hash64
	trace  []Step
	fault  string
}

// Run plays one seed to its end. It must not be called within a bubble.
func (p *Player) Run(t *testing.T, seed uint64) Result {
	t.Helper()
	var result Result
	warm()
	synctest.Test(t, func(t *testing.T) {
		s := p.newSim(t, seed)
		s.guard(s.play)
		s.shutdown()
		result = Result{Seed: seed, Failure: s.fault, Trace: s.trace, Digest: s.hash.Sum64(), Steps: s.step, Hits: s.hits}
	})
	return result
}

func (p *Player) newSim(t *testing.T, seed uint64) *Sim {
	s := &Sim{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), hits: map[string]int{}, hash: fnv.New64a()}
	s.prof = newProfile(s.rng)
	s.world = icebergtest.NewWorld(panicking{t})
	// A fault of our manifest writer must not hide behind its own reader: iceberg-go writes one commit of eight.
	s.world.StockEvery, s.world.Memo, s.world.Encoders = 8, &p.memo, &p.encoders
	s.world.Store = &keeping{Full: s.world.Store, known: s.world.Known, held: map[[2]string]any{}}
	opts := []icebergtest.TableOption{
		icebergtest.Columns("id long", "g string", "val int", "extra long"), icebergtest.Version(s.prof.version),
		icebergtest.Property("write.parquet.compression-codec", "uncompressed"),
		icebergtest.Property("write.metadata.compression-codec", "none"),
	}
	for k, v := range s.prof.properties {
		opts = append(opts, icebergtest.Property(k, v))
	}
	if s.prof.partitioned {
		opts = append(opts, icebergtest.Partitioned("g"))
	}
	s.table = s.world.NewTable("db.t", opts...)
	for range 2 {
		s.states = append(s.states, state.NewMemory())
	}
	s.runs.init()
	s.model.init()
	return s
}

// panicking ends a simulation when the world's helpers meet an error: they run outside of any test's goroutine rules.
type panicking struct{ testing.TB }

type worldFault string

func (panicking) Helper()                         {}
func (panicking) Fatal(args ...any)               { panic(worldFault(fmt.Sprintln(args...))) }
func (panicking) Fatalf(text string, args ...any) { panic(worldFault(fmt.Sprintf(text, args...))) }

// guard runs f and makes a failure of a panic of the world.
func (s *Sim) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			fault, ok := r.(worldFault)
			if !ok {
				panic(r)
			}
			s.failf("the world: %s", string(fault))
		}
	}()
	f()
}

// play is the course of a seed: the busy part with faults, then the end, in which everything must become clean.
func (s *Sim) play() {
	s.keepTime()
	s.prepare()
	for s.fault == "" && s.turn() {
		if s.step > maxSteps {
			s.failf("no end after %d steps", s.step)
		}
	}
	if s.fault == "" {
		s.finish()
	}
}

// maxSteps is far more than any seed takes: beyond it something repeats itself for ever.
const maxSteps = 60_000

// failf notes the first broken invariant.
func (s *Sim) failf(text string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf(text, args...)
		s.note("FAILED: %s", s.fault)
	}
}

// hit counts something that happened.
func (s *Sim) hit(kind string) { s.hits[kind]++ }

// note adds a line to the trace.
func (s *Sim) note(text string, args ...any) {
	line := fmt.Sprintf(text, args...)
	_, _ = s.hash.Write([]byte(line))
	s.trace = append(s.trace, Step{s.step, s.world.Clock.Now(), line})
}

// state reads the table's state as it is now.
func (s *Sim) state() *lake.Table { return s.table.State() }

// warm makes, outside of any bubble, what libraries make once and keep: channels of one bubble must not be met in another.
var warm = sync.OnceFunc(func() {
	machine()
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(2 << 30) // pools live until the collector comes, and the more lives the later it comes
	codec, err := compress.GetCodec(compress.Codecs.Zstd)
	if err != nil {
		panic(err)
	}
	codec.Decode(make([]byte, 4), codec.Encode(nil, []byte("warm")))
	compress.RegisterCodec(compress.Codecs.Zstd, sharedZstd{codec.(compress.ErrorCodec)})
})

// sharedZstd is arrow-go's codec without its pool: an encoder that one bubble put there may not be used in another.
type sharedZstd struct{ compress.ErrorCodec }

// EncodeLevel compresses at the default level, with the one encoder that was made outside of all bubbles.
func (z sharedZstd) EncodeLevel(dst, src []byte, _ int) []byte { return z.Encode(dst, src) }

// short cuts a location to what tells it from others.
func short(location string) string {
	location = strings.TrimPrefix(location, "s3://world/db/t/")
	return strings.TrimPrefix(location, workLocation+"/")
}

// pass lets time go by.
func (s *Sim) pass(d time.Duration) {
	s.world.Clock.Set(s.world.Clock.Now().Add(d))
	s.keepTime()
}

// keepTime lets the bubble's clock, by which timers fire, follow the world's, which a writer's commit moves.
func (s *Sim) keepTime() { time.Sleep(time.Until(s.world.Clock.Now())) }
