package simulation

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// effect is what a call may do to the world; faults are drawn by it.
type effect int

const (
	reads effect = iota
	writes
	swaps
	removes
	stateReads
	stateWrites
	starts
)

// call is one call of a port that waits for the scheduler.
type call struct {
	p      *process
	op, at string
	effect effect
	// transient is what a failed call answers, lost what a call with unknown effect answers.
	transient, lost error
	apply           func() error
	answer          chan error
	serial          int
	// notBefore holds the call back until that step; held says that it was.
	notBefore int
	held      bool
	// sent says that the call is on its way and outlives its process.
	sent bool
}

// process is one execution of a function, or a part of a host: what dies as a whole.
type process struct {
	s    *Sim
	name string
	run  *run
	// ctx ends when the process dies.
	ctx    context.Context
	cancel context.CancelFunc
	dead   bool
	// late is closed when the host stops waiting for the process.
	late   chan struct{}
	gaveUp bool
	begun  time.Time
	skew   time.Duration
	// half lets the next deletion stop in its middle.
	half bool

	mu  sync.Mutex
	rng *rand.Rand
}

// errDead is what a dead process's calls answer: they never happen.
var errDead = errors.New("the process died")

// sched holds the calls that wait. mu guards pending and live, which processes touch while the scheduler waits for them.
type sched struct {
	step int
	over bool
	// envLeft is how many actions of the world are still to come; calm ends all faults.
	envLeft int
	calm    bool
	detour  *detour
	// found is a process that has just written down what may be deleted.
	found *process
	last  *process
	procs []*process

	mu      sync.Mutex
	pending []*call
	serial  int
	live    int
}

// process makes a process of a run; r is nil for what belongs to none.
func (s *Sim) process(name string, r *run, skew time.Duration) *process {
	p := &process{s: s, name: name, run: r, late: make(chan struct{}), begun: s.world.Clock.Now(), skew: skew}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	p.rng = rand.New(rand.NewPCG(s.seed, h.Sum64()))
	s.procs = append(s.procs, p)
	if r != nil && r.dead {
		p.dead = true
		p.cancel()
	}
	return p
}

// spawn runs f beside the scheduler.
func (s *Sim) spawn(f func()) {
	s.mu.Lock()
	s.live++
	s.mu.Unlock()
	go func() {
		defer func() {
			r := recover()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.live--
			if r != nil {
				s.failf("panic: %v\n%s", r, debug.Stack())
			}
		}()
		f()
	}()
}

// do waits until the scheduler grants the call, and answers with what it made of it.
func (p *process) do(c call) error {
	c.p, c.answer = p, make(chan error, 1)
	s := p.s
	s.mu.Lock()
	if p.dead || s.over {
		s.mu.Unlock()
		return errDead
	}
	s.serial++
	c.serial = s.serial
	s.pending = append(s.pending, &c)
	s.mu.Unlock()
	return <-c.answer
}

// turn makes one decision; false when nothing is left to do.
func (s *Sim) turn() bool {
	s.keepTime()
	synctest.Wait()
	s.step++
	s.tellEnds()
	s.comeBack()
	s.revive()
	ready, held := s.waiting()
	switch {
	case s.envLeft > 0 && s.detour == nil && (len(ready) == 0 && s.rng.Float64() < 0.5 || s.rng.Float64() < s.prof.envRate):
		s.envLeft--
		s.act()
	case len(ready) > 0:
		s.serve(s.choose(ready))
	case len(held) > 0 && s.rng.Float64() < 0.5:
		// Everybody waits for a call that hangs: its host may run out of patience first.
		s.note("time passes until a timeout")
		s.pass(961 * time.Second)
	case len(held) > 0:
		held[s.rng.IntN(len(held))].notBefore = 0
	case s.alive() > 0:
		s.pass(5 * time.Second)
	case s.envLeft > 0:
	default:
		return false
	}
	return true
}

// waiting lists the calls that may be granted and those that are held back, in an order that does not depend on how they were queued.
func (s *Sim) waiting() (ready, held []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.pending {
		if c.notBefore > s.step {
			held = append(held, c)
		} else {
			ready = append(ready, c)
		}
	}
	for _, list := range [][]*call{ready, held} {
		slices.SortFunc(list, func(a, b *call) int {
			if a.p != b.p {
				return strings.Compare(a.p.name, b.p.name)
			}
			if a.op != b.op {
				return strings.Compare(a.op, b.op)
			}
			if a.at != b.at {
				return strings.Compare(a.at, b.at)
			}
			return a.serial - b.serial
		})
	}
	return ready, held
}

func (s *Sim) alive() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}

// choose takes a call: mostly of the process that had the last one, as much as the seed's stickiness asks.
func (s *Sim) choose(ready []*call) *call {
	if s.rng.Float64() < s.prof.stick {
		for _, c := range ready {
			if c.p == s.last {
				return c
			}
		}
	}
	c := ready[s.rng.IntN(len(ready))]
	s.last = c.p
	return c
}

// forget takes a call out of the queue.
func (s *Sim) forget(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = slices.DeleteFunc(s.pending, func(o *call) bool { return o == c })
}

// kill ends a process: what it has not done yet it never does.
func (s *Sim) kill(p *process) {
	s.mu.Lock()
	p.dead = true
	var mine []*call
	s.pending = slices.DeleteFunc(s.pending, func(c *call) bool {
		dies := c.p == p && (!c.sent || s.over)
		if dies {
			mine = append(mine, c)
		}
		return dies
	})
	s.mu.Unlock()
	p.cancel()
	for _, c := range mine {
		c.answer <- errDead
	}
}

// giveUp lets the process's host stop waiting for it.
func (p *process) giveUp() {
	if !p.gaveUp {
		p.gaveUp = true
		close(p.late)
	}
}

// shutdown ends everything that still runs, so that the bubble may end.
func (s *Sim) shutdown() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for _, p := range s.procs {
		s.kill(p)
	}
	for _, r := range s.all {
		r.cancel()
	}
	for s.alive() > 0 {
		synctest.Wait()
		time.Sleep(time.Hour)
	}
}
