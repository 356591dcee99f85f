package simulation

import (
	"context"
	"errors"

	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
)

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
