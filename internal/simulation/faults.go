package simulation

import (
	"math/rand/v2"
	"slices"
	"strconv"
)

// Kinds of faults that the scheduler makes.
const (
	failBefore  = "store call failed"
	failAfter   = "store call carried out, answer lost"
	crashBefore = "crash before a write"
	crashAfter  = "crash after a write"
	crashRead   = "crash at a read"
	slow        = "slow call"
	zombie      = "function given up at a call, which happens late"
	swapLost    = "catalog swap carried out, answer lost"
	swapUnknown = "catalog swap not carried out, answer lost"
	swapCrash0  = "crash before a catalog swap"
	swapCrash1  = "crash after a catalog swap"
	swapZombie  = "function given up at a catalog swap, which happens late"
	partDelete  = "crash in the middle of a deletion"
	stateFail   = "state call failed"
	stateLost   = "state write carried out, answer lost"
	stateCrash  = "crash at a state call"
	startLost   = "execution started, answer lost"
)

// finishedByNext is a batch that a dead run had finished and the next one committed; attemptedByNext is one that the dead run had tried to commit itself, so
// that its fate log decides.
const (
	finishedByNext  = "batch of a dead run committed by the next"
	attemptedByNext = "batch of a dead run committed by the next, after an attempt of its own"
)

// profile is what kind of world a seed is.
type profile struct {
	version     int
	partitioned bool
	properties  map[string]string
	// stick is how likely the process that was granted a call gets the next one, envRate how likely the world acts instead of a call.
	stick, envRate float64
	// actions is how often the world acts; rates are the faults' chances by kind.
	actions int
	rates   map[string]float64
	skewed  bool
	// events says that commits are told to evaluate; twoStates that runs are started from two state databases.
	events, twoStates bool
	// rest says that the catalog is a service.
	rest bool
}

// faultRates are the chances of each kind at a call that it may strike.
func faultRates() map[string]float64 {
	return map[string]float64{
		failBefore: 0.006, failAfter: 0.02, crashBefore: 0.02, crashAfter: 0.02, crashRead: 0.002, slow: 0.005, zombie: 0.008,
		swapLost: 0.25, swapUnknown: 0.2, swapCrash0: 0.15, swapCrash1: 0.15, swapZombie: 0.25, partDelete: 0.2,
		stateFail: 0.03, stateLost: 0.03, stateCrash: 0.03,
		startLost: 0.4,
	}
}

func newProfile(rng *rand.Rand) profile {
	p := profile{
		version: 2 + rng.IntN(2), partitioned: rng.IntN(2) == 0, stick: []float64{0, 0.5, 0.9, 0.97}[rng.IntN(4)],
		envRate: []float64{0.01, 0.03, 0.06, 0.1}[rng.IntN(4)], actions: 6 + rng.IntN(16), rates: map[string]float64{},
		properties: map[string]string{}, skewed: rng.IntN(4) == 0, events: rng.IntN(2) == 0, twoStates: rng.IntN(2) == 0,
		rest: rng.IntN(3) == 0,
	}
	if rng.IntN(3) == 0 {
		p.properties["write.metadata.delete-after-commit.enabled"] = "true"
		p.properties["write.metadata.previous-versions-max"] = strconv.Itoa(1 + rng.IntN(4))
	}
	if rng.IntN(3) == 0 {
		p.properties["commit.retry.num-retries"] = strconv.Itoa(rng.IntN(3))
	}
	if rng.IntN(3) == 0 {
		p.properties["commit.status-check.num-retries"] = "0"
	}
	all := faultRates()
	for _, kind := range sortedKeys(all) {
		if rng.IntN(3) == 0 {
			p.rates[kind] = all[kind]
		}
	}
	return p
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// draw decides what befalls a call.
func (s *Sim) draw(c *call) string {
	if s.calm || c.held {
		return ""
	}
	var kinds []string
	switch c.effect {
	case reads:
		kinds = []string{failBefore, crashRead, slow}
	case writes:
		kinds = []string{failBefore, failAfter, crashBefore, crashAfter, zombie}
	case swaps:
		kinds = []string{swapLost, swapUnknown, swapCrash0, swapCrash1, swapZombie}
	case removes:
		kinds = []string{failBefore, failAfter, crashBefore, crashAfter, partDelete, zombie}
	case stateReads:
		kinds = []string{stateFail, stateCrash}
	case stateWrites:
		kinds = []string{stateFail, stateLost, stateCrash, slow}
	case starts:
		kinds = []string{startLost, stateFail, stateCrash, slow}
	}
	for _, kind := range kinds {
		if rate := s.prof.rates[kind]; rate > 0 && s.rng.Float64() < rate {
			return kind
		}
	}
	return ""
}

// serve grants a call, or lets something befall it.
func (s *Sim) serve(c *call) {
	kind := s.draw(c)
	if kind != "" {
		s.hit(kind)
	}
	late := ""
	if c.p.gaveUp {
		late = " (nobody waits for it)"
	}
	s.note("%s%s: %s %s %s", c.p.name, late, c.op, c.at, kind)
	switch kind {
	case slow, zombie, swapZombie:
		c.held, c.notBefore = true, s.step+20+s.rng.IntN(600)
		if kind == swapZombie && s.prof.rest && c.p.run.laptop && s.rng.IntN(2) == 0 && s.goAway(c) {
			return
		}
		if kind == swapZombie && c.p.run.laptop && s.rng.IntN(4) == 0 && s.outlive(c) {
			return
		}
		if kind != slow && s.rng.IntN(2) == 0 {
			c.p.giveUp()
		}
		return
	case swapCrash0:
		s.die(c.p)
		return
	case crashBefore, crashRead, stateCrash:
		s.kill(c.p)
		return
	}
	s.forget(c)
	switch kind {
	case failBefore, stateFail:
		c.answer <- c.transient
	case swapUnknown:
		c.answer <- c.lost
	case failAfter, stateLost, startLost, swapLost:
		_ = s.carryOut(c)
		c.answer <- c.lost
	case crashAfter:
		_ = s.carryOut(c)
		s.kill(c.p)
		c.answer <- errDead
	case swapCrash1:
		_ = s.carryOut(c)
		s.die(c.p)
		c.answer <- errDead
	case partDelete:
		c.p.half = true
		_ = s.carryOut(c)
		s.kill(c.p)
		c.answer <- errDead
	default:
		c.answer <- s.carryOut(c)
	}
}

// carryOut applies a call. A world that breaks by it is a failure, and the caller is answered all the same: it would never end.
func (s *Sim) carryOut(c *call) error {
	err := errDead
	s.guard(func() { err = c.apply() })
	return err
}

// die ends a process at a swap: alone, so that its run goes on, or with a whole laptop.
func (s *Sim) die(p *process) {
	if p.run.laptop && s.rng.IntN(2) == 0 {
		s.hit("kill -9 of a run")
		s.killRun(p.run)
		return
	}
	s.kill(p)
}

// Kinds lists what must happen in a long range of seeds: every fault, and what the system makes of them.
func Kinds() []string {
	return append(sortedKeys(faultRates()),
		"branch fast-forward", "cherry-pick", "clock a day ahead", "column dropped", "commit state unknown", "dead run closed by the next", "deletes carried over to outputs",
		"dropped column came back", "event delivered again", "event doubled",
		"event lost", "event reordered", detoured, "execution started again", "execution timed out", "fate log closed by sweep", "file re-added", finishedByNext, "files of an expiry deleted by a later run",
		"files of an expiry wait", "format upgrade", "kill -9 of a run",
		"lease lost", "object deleted", outlived, "partial success", "rewrite_data_files conflict", revived, "run failed and was swept", "rollback undone", "run refused: table is busy",
		"snapshot expired", "tag set during an expiry", "zombie commit landed", "zombie lost the race",
	)
}
