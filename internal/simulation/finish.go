package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/store"
)

// finish is the end of a seed: the faults are over, what runs comes to its end, and then everything must be clean.
func (s *Sim) finish() {
	s.calm = true
	clear(s.inFlight)
	s.note("calm")
	s.drain()
	s.pass(25 * time.Hour)
	if s.seed%3 == 0 {
		s.must("the last compaction", maintenance.JobRequest{Job: maintenance.RewriteDataFiles, Options: map[string]string{"rewrite-all": "true"}})
	}
	s.checkSettled()
	s.pass(4 * 24 * time.Hour)
	s.must("the last sweep", maintenance.JobRequest{Job: maintenance.RemoveOrphanFiles})
	s.checkEnd()
	s.checkLedger()
}

// drain lets everything that runs come to its end.
func (s *Sim) drain() {
	s.envLeft = 0
	for s.fault == "" && s.turn() {
		if s.step > maxSteps {
			s.failf("no end after %d steps", s.step)
		}
	}
}

// must runs a job that has to succeed.
func (s *Sim) must(what string, job maintenance.JobRequest) {
	if s.fault != "" {
		return
	}
	r := s.call(maintenance.Request{Trigger: "call", Jobs: []maintenance.JobRequest{job}}, 0)
	s.drain()
	switch {
	case s.fault != "":
	case r.report == nil:
		s.failf("%s has no report: %s", what, r.outcome)
	case len(r.report.Jobs) != 1:
		s.failf("%s reports %d jobs", what, len(r.report.Jobs))
	case r.report.Jobs[0].Outcome != maintenance.Committed && r.report.Jobs[0].Outcome != maintenance.NothingToDo:
		s.failf("%s ended %s: %s %v", what, r.report.Jobs[0].Outcome, r.report.Jobs[0].Reason, r.report.Jobs[0].Refusals)
	}
}

// checkEnd compares what lies under the table with what it needs, and every kept snapshot with the model.
func (s *Sim) checkEnd() {
	if s.fault != "" {
		return
	}
	t := s.state()
	s.checkFiles(t)
	needed := s.reach()
	for _, location := range s.objects() {
		if !needed[location] {
			s.failf("%s is left after the last sweep", short(location))
		}
	}
	for u, err := range s.world.Store.Uploads(context.Background(), "s3://world/") {
		if err != nil || u.Location != "" {
			s.failf("the upload of %s is left after the last sweep (error %v)", short(u.Location), err)
		}
	}
	s.checkMarks()
	if s.seed%4 > 0 {
		return // most files were read when they were made; a quarter of the seeds reads all of them again
	}
	s.reader = newReader(s)
	for _, snap := range t.Metadata.Snapshots() {
		s.checkSnapshot(t, &snap)
	}
}

// checkLedger compares the ledger, folded commit by commit as events came, with one that sees the table for the first time.
func (s *Sim) checkLedger() {
	if s.fault != "" {
		return
	}
	s.states = append(s.states, state.NewMemory())
	fresh := len(s.states) - 1
	for _, n := range []int{0, fresh} {
		s.looks++
		p := s.process(fmt.Sprintf("last look %d", n), nil, 0)
		batch := events.SQSEvent{Records: []events.SQSMessage{{MessageId: "last", Body: s.notice(0)}}}
		s.spawn(func() {
			if response, err := p.evaluateOn(n, "mode: observe\n").Handle(p.ctx, batch); err != nil || len(response.BatchItemFailures) > 0 {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.failf("the last look at state %d failed: %v", n, err)
			}
		})
		s.drain()
	}
	folded, scanned := s.counters(0), s.counters(fresh)
	if folded != scanned {
		s.failf("the ledger says\n%s, a full scan says\n%s", folded, scanned)
	}
}

// counters spells a ledger's partitions.
func (s *Sim) counters(n int) string {
	shards, err := state.New(s.states[n]).LoadShards(context.Background(), s.table.ID)
	if err != nil {
		s.failf("load ledger: %v", err)
	}
	var lines []string
	for _, shard := range shards {
		for _, p := range shard.Partitions {
			p.LastWriteMS = 0
			lines = append(lines, fmt.Sprintf("%+v", p))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// checkSettled looks at runs that were swept: what an attempt wrote that never landed is gone, or its run is marked as unsettled, so that the next
// one looks again. Nothing waits for the orphans' horizon but what nobody could know.
func (s *Sim) checkSettled() {
	seen := map[maintenance.RunID]bool{}
	for _, r := range s.all {
		if s.fault != "" || r.id == "" || seen[r.id] {
			continue
		}
		seen[r.id] = true
		mark := store.Join(handoff.Unsettled(workLocation, s.state().Metadata.TableUUID().String()), string(r.id)+".json")
		if s.exists(mark) {
			s.hit("run unsettled at the end")
			continue
		}
		work := handoff.Open(s.world.Store, workLocation, r.id)
		for _, job := range maintenance.Jobs() {
			s.checkJobSettled(work, r, job)
		}
	}
}

// checkMarks looks at the marks that the last run left: no files of an expiry wait any more, and no run is marked whose attempts are all over.
func (s *Sim) checkMarks() {
	ctx, meta := context.Background(), s.state().Metadata
	folder := handoff.Unsettled(workLocation, meta.TableUUID().String())
	for info, err := range s.world.Store.List(ctx, folder+"/", store.ListOptions{}) {
		var mark handoff.UnsettledRun
		if err == nil {
			err = handoff.Open(s.world.Store, workLocation, s.all[0].id).Read(ctx, info.Location, &mark)
		}
		switch {
		case err != nil:
			s.failf("the mark %s cannot be read: %v", short(info.Location), err)
		case s.waits(mark.Run.RunID):
			s.failf("files of the expiry of run %s still wait after the last sweep", mark.Run.RunID)
		case !s.open(mark.Run.RunID):
			s.failf("run %s is still marked as unsettled, and none of its attempts can land any more", mark.Run.RunID)
		}
	}
}

// waits reports whether files that a run's expiry let go of have no outcome.
func (s *Sim) waits(id maintenance.RunID) bool {
	work := handoff.Open(s.world.Store, workLocation, id)
	var found handoff.SweepReach
	if work.Read(context.Background(), work.Reach(maintenance.ExpireSnapshots, 0), &found) != nil {
		return false // it did not expire anything
	}
	for n := range found.Ranges {
		if !s.exists(work.Deleted(maintenance.ExpireSnapshots, 0, n)) {
			return true
		}
	}
	return false
}

// open reports whether an attempt of a run may still land, as the table's own numbers tell.
func (s *Sim) open(id maintenance.RunID) bool {
	ctx, t := context.Background(), s.state()
	work := handoff.Open(s.world.Store, workLocation, id)
	for info, err := range s.world.Store.List(ctx, work.Location()+"/", store.ListOptions{}) {
		if err != nil || !strings.Contains(info.Location, "/fate-") || strings.HasSuffix(info.Location, ".end.json") {
			continue
		}
		var f handoff.Fate
		if work.Read(ctx, info.Location, &f) != nil || f.Abandoned || s.exists(strings.TrimSuffix(info.Location, ".json")+".end.json") {
			continue
		}
		moved := f.AssertedPointer != t.Pointer.Version
		if s.prof.rest {
			moved = t.Metadata.LastSequenceNumber() >= f.SequenceNumber
			if f.SnapshotID == 0 {
				moved = t.Metadata.CurrentSnapshot() == nil || t.Metadata.CurrentSnapshot().SnapshotID != f.AssertedSnapshotID
			}
		}
		if !moved {
			return true
		}
	}
	return false
}

func (s *Sim) exists(location string) bool {
	_, err := s.world.Store.Head(context.Background(), location)
	return err == nil
}

func (s *Sim) checkJobSettled(work *handoff.Work, r *run, job maintenance.Job) {
	ctx := context.Background()
	var index handoff.Index
	var done handoff.SweepSummary
	if errors.Join(work.Read(ctx, work.Index(job), &index), work.Read(ctx, work.Abandoned(job), &done)) != nil || done.Failed > 0 {
		return // not swept yet
	}
	for b := range max(1, len(index.Batches)) {
		if s.exists(work.Commit(job, b)) {
			continue // commit itself listed what may go
		}
		for n := 0; ; n++ {
			var fate handoff.Fate
			if work.Read(ctx, work.Fate(job, b, n), &fate) != nil {
				break
			}
			if s.wasThere(fate.SnapshotID) {
				continue // expiry takes its files
			}
			for _, location := range append(fate.Paths, fate.Metadata...) {
				if s.exists(location) && !s.reach()[location] {
					s.failf("attempt %d of batch %d of %s of %s never landed, the run is settled, and %s is left", n, b, job, r.name, short(location))
				}
			}
		}
	}
}

// wasThere reports whether a snapshot is or was in the table.
func (s *Sim) wasThere(id int64) bool {
	return s.expected[id] != nil || s.gone[id] != nil
}
