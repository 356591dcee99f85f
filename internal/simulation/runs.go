package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/workflow"
)

const leaseTTL = state.LeaseTTL

// run is one execution of the state machine, or an attempt to start one.
type run struct {
	s    *Sim
	name string
	// state is the number of the state database, skew how wrong the run's clock is.
	state int
	skew  time.Duration
	// laptop runs die with their process; others are executed by a service that does not.
	laptop bool
	jobs   []maintenance.JobRequest
	ctx    context.Context
	cancel context.CancelFunc

	// Under the scheduler's lock: dead says that the laptop went, ended that the execution is over.
	dead, ended bool
	id          maintenance.RunID
	report      *maintenance.ReportOutput
	outcome     string

	mu    sync.Mutex
	times map[string]int
	rng   *rand.Rand
}

// runs are all runs of a seed.
type runs struct {
	all    []*run
	nextUp int
	// started are executions by name: starting one again is no second one.
	started map[string]*run
}

func (r *runs) init() { r.started = map[string]*run{} }

func (s *Sim) newRun(kind string, stateNumber int) *run {
	s.nextUp++
	r := &run{s: s, name: fmt.Sprintf("%s%d", kind, s.nextUp), state: stateNumber, times: map[string]int{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.rng = rand.New(rand.NewPCG(s.seed, 1<<40+uint64(s.nextUp)))
	if s.prof.skewed && !s.calm {
		r.skew = time.Duration(s.rng.IntN(7)-3) * 10 * time.Minute
		if s.busy(stateNumber) && s.rng.IntN(2) == 0 || s.rng.IntN(8) == 0 {
			r.skew = 25 * time.Hour
			s.hit("clock a day ahead")
		}
	}
	s.all = append(s.all, r)
	return r
}

// call starts a run as the command line does.
func (s *Sim) call(request maintenance.Request, stateNumber int) *run {
	r := s.newRun("call", stateNumber)
	r.laptop, r.jobs = true, request.Jobs
	s.note("%s starts: %s", r.name, jobs(request))
	s.spawn(func() {
		err := r.acquireAndRun(request)
		r.end(err)
	})
	return r
}

// launch starts an execution as the service does, once a name. It belongs to the scheduler.
func (s *Sim) launch(name string, input []byte, stateNumber int) {
	if s.started[name] != nil {
		s.hit("execution started again")
		return
	}
	r := s.newRun("run", stateNumber)
	s.started[name] = r
	s.note("%s starts for an event", r.name)
	s.spawn(func() { r.end(r.execute(input)) })
}

func jobs(request maintenance.Request) string {
	text, err := json.Marshal(request.Jobs)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (r *run) end(err error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.ended = true
	if r.outcome == "" && err != nil {
		r.outcome = err.Error()
	}
}

// acquireAndRun takes the lease, closing a dead holder's run, and executes.
func (r *run) acquireAndRun(request maintenance.Request) error {
	p := r.process("start", nil)
	st := p.state(r.state)
	t, err := lake.Load(p.ctx, p.catalog(), p.store(), r.s.table.ID)
	if err != nil {
		return err
	}
	uuid, head := t.Metadata.TableUUID().String(), int64(0)
	if snap := t.Metadata.CurrentSnapshot(); snap != nil {
		head = snap.SnapshotID
	}
	fill := func(token int64) (maintenance.RunID, []byte) {
		id := maintenance.Run{RunID: maintenance.UniqueRunID(uuid, head, token, p.uuidText()), Table: t.ID, TableUUID: uuid, Token: token}
		data, err := json.Marshal(maintenance.ExecutionInput{V: contract.PayloadVersion, Run: id, Request: request})
		if err != nil {
			panic(err)
		}
		r.setID(id.RunID)
		return id.RunID, data
	}
	for range 10 {
		lease, err := st.Acquire(p.ctx, t.ID, p.now(), leaseTTL, fill)
		if err == nil {
			return r.execute(lease.Input)
		}
		if !errors.Is(err, state.ErrLeaseHeld) {
			return err
		}
		held, found, err := st.Current(p.ctx, t.ID)
		if err != nil {
			return err
		}
		if found && r.s.living(held.RunID) {
			return fmt.Errorf("table is being maintained by %s", held.RunID)
		}
		if !found {
			continue
		}
		if err := r.closeDead(p.ctx, st, held); err != nil {
			return fmt.Errorf("close dead run: %w", err)
		}
	}
	return errors.New("the lease is never free")
}

func (r *run) setID(id maintenance.RunID) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.id = id
}

// living reports whether the run may still do something by itself.
func (s *Sim) living(id maintenance.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(r *run) bool { return r.id == id && !r.dead && !r.ended })
}

// busy reports whether a run of a state database is under way.
func (s *Sim) busy(stateNumber int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(r *run) bool { return r.state == stateNumber && !r.dead && !r.ended })
}

// underWay reports whether a run that was asked for a job has not ended.
func (s *Sim) underWay(job maintenance.Job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(r *run) bool {
		return !r.dead && !r.ended && slices.ContainsFunc(r.jobs, func(j maintenance.JobRequest) bool { return j.Job == job })
	})
}

// commitFinished commits what a dead run had finished, as package local does: only the death of this run's own process keeps it from going on.
func (r *run) commitFinished(id maintenance.RunID) error {
	look := r.process("finished", []byte(id))
	work := handoff.Open(look.store(), workLocation, id)
	batches, err := work.LastCommits(look.ctx)
	for _, batch := range batches {
		attempted := r.s.exists(work.Fate(batch.Job, batch.Batch, 0))
		payload, err := json.Marshal(batch)
		if err != nil {
			return err
		}
		p := r.process(contract.FunctionCommit, payload)
		answer, err := p.function(contract.FunctionCommit)(p.ctx, payload)
		var out maintenance.CommitOutput
		if err == nil && json.Unmarshal(answer, &out) == nil && out.Outcome == maintenance.Committed {
			r.s.counted(finishedByNext)
			if attempted {
				r.s.counted(attemptedByNext)
			}
		}
		if p.died() {
			return errDead
		}
	}
	if look.died() {
		return errors.Join(errDead, err)
	}
	return nil
}

// closeDead does for a dead run what its state machine would have done after a failure: abandon, then report.
func (r *run) closeDead(ctx context.Context, st state.Store, held state.Lease) error {
	var in maintenance.ExecutionInput
	if err := json.Unmarshal(held.Input, &in); err != nil {
		return err
	}
	if err := r.commitFinished(in.Run.RunID); err != nil {
		return err
	}
	failure := &maintenance.StepError{Error: "States.Runtime", Cause: "the process that executed the run died"}
	for _, c := range []struct {
		function string
		payload  any
	}{
		{contract.FunctionSweep, maintenance.SweepInput{V: contract.PayloadVersion, Step: maintenance.SweepAbandon, Run: in.Run}},
		{contract.FunctionReport, maintenance.ReportInput{V: contract.PayloadVersion, Run: in.Run, Request: in.Request, Error: failure}},
	} {
		payload, err := json.Marshal(c.payload)
		if err != nil {
			return err
		}
		p := r.process(c.function, payload)
		if _, err := p.function(c.function)(p.ctx, payload); err != nil {
			return err
		}
	}
	r.s.counted("dead run closed by the next")
	if _, err := st.Release(ctx, held.Table, held.Token); err != nil && !errors.Is(err, state.ErrLeaseLost) {
		return err
	}
	return nil
}

// counted is hit for processes.
func (s *Sim) counted(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits[kind]++
}

// execute runs the state machine to its end.
func (r *run) execute(input []byte) error {
	var in maintenance.ExecutionInput
	if err := json.Unmarshal(input, &in); err != nil {
		return err
	}
	r.setID(in.Run.RunID)
	result, err := machine().Run(r.ctx, workflow.Execution{MachineARN: workflow.LocalMachineARN("maintain"), Name: string(in.Run.RunID), Input: input},
		workflow.Runtime{
			Host: host{r}, Clock: workflow.NewClock(func() time.Time { return r.s.world.Clock.Now().Add(r.skew) }), Parallelism: 3,
			Jitter: func() float64 {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.rng.Float64()
			},
		})
	if err != nil {
		return err
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.outcome = string(result.Status) + " " + result.Error + " " + result.Cause
	if result.Status == workflow.Succeeded {
		r.report = &maintenance.ReportOutput{}
		return json.Unmarshal(result.Output, r.report)
	}
	return nil
}

// ended tells of runs that are over, in the order in which they were started.
func (s *Sim) tellEnds() {
	s.mu.Lock()
	var over []*run
	for _, r := range s.all {
		if r.ended && r.outcome != "told" {
			over = append(over, r)
		}
	}
	s.mu.Unlock()
	for _, r := range over {
		s.note("%s ended: %s", r.name, r.outcome)
		s.countEnd(r)
		r.outcome = "told"
	}
}

func (s *Sim) countEnd(r *run) {
	switch {
	case strings.Contains(r.outcome, "is being maintained"):
		s.hit("run refused: table is busy")
	case strings.HasPrefix(r.outcome, string(workflow.TimedOut)):
		s.hit("execution timed out")
	case strings.HasPrefix(r.outcome, string(workflow.Failed)):
		s.hit("run failed and was swept")
		if strings.Contains(r.outcome, contract.ErrorLeaseLost) {
			s.hit("lease lost")
		}
		if strings.Contains(r.outcome, contract.ErrorCommitStateUnknown) {
			s.hit("commit state unknown")
		}
	}
	if r.report == nil {
		return
	}
	for _, j := range r.report.Jobs {
		reason := j.Reason
		if j.Waiting != nil {
			reason = fmt.Sprintf("%d files wait", j.Waiting.Files) // their bytes are not the same each time: maps are written in any order
		}
		s.note("  %s %s %s %v %v", j.Job, j.Outcome, reason, j.Columns, j.Refusals)
		if s.calm {
			continue
		}
		s.hit(fmt.Sprintf("%s %s", j.Job, j.Outcome))
		if j.Job == maintenance.RewriteDataFiles && j.Outcome == maintenance.Committed && j.Columns["failed_data_files_count"] > 0 {
			s.hit("partial success")
		}
	}
}

// killLaptop ends a laptop run with all its processes.
func (s *Sim) killLaptop() {
	var living []*run
	s.mu.Lock()
	for _, r := range s.all {
		if r.laptop && !r.dead && !r.ended {
			living = append(living, r)
		}
	}
	s.mu.Unlock()
	if len(living) == 0 {
		return
	}
	r := living[s.rng.IntN(len(living))]
	s.hit("kill -9 of a run")
	s.note("%s is killed", r.name)
	s.killRun(r)
}

func (s *Sim) killRun(r *run) {
	s.mu.Lock()
	r.dead = true
	procs := slices.Clone(s.procs)
	s.mu.Unlock()
	for _, p := range procs {
		if p.run == r && !p.dead {
			s.kill(p)
		}
	}
	r.cancel()
}
