package sweep

import (
	"context"
	"fmt"
	"slices"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// maxEarlier bounds how many unsettled runs one run looks at.
const maxEarlier = 20

// settle notes which attempts of a job are over on a head that was loaded after its logs were closed.
func (s *step) settle(ctx context.Context, head *lake.Table, e *jobEnd) error {
	if !e.unsettled() {
		return nil
	}
	branch := ""
	if e.index.PinnedLocation != "" {
		var pinned handoff.Pinned
		if err := s.work.Read(ctx, e.index.PinnedLocation, &pinned); err != nil {
			return fmt.Errorf("read pinned state: %w", err)
		}
		branch = pinned.Branch
	}
	now := handoff.Head{Version: head.Pointer.Version, LastSequenceNumber: head.Metadata.LastSequenceNumber()}
	snap, err := head.Head(branch)
	if err != nil {
		return err
	}
	if snap != nil {
		now.BranchHead = snap.SnapshotID
	}
	for _, l := range e.logs {
		if err := s.landed(ctx, head, l); err != nil {
			return err
		}
		l.settle(now)
	}
	return nil
}

// landed writes down which attempt without an answer is in the head: the run's report says so then.
func (s *step) landed(ctx context.Context, head *lake.Table, l *fates) error {
	for n := range l.attempts {
		a := &l.attempts[n]
		if a.outcome != "" || a.SnapshotID == 0 || head.Metadata.SnapshotByID(a.SnapshotID) == nil {
			continue
		}
		end := handoff.FateEnd{V: contract.PayloadVersion, Outcome: maintenance.Committed}
		if _, err := s.work.WriteOnce(ctx, s.work.FateEnd(l.job, l.batch, n), &end); err != nil {
			return err
		}
		a.outcome = end.Outcome
	}
	return nil
}

// unsettled reports whether nobody knows how one of the job's batches ended.
func (e *jobEnd) unsettled() bool {
	return slices.ContainsFunc(e.logs, (*fates).unknown)
}

// abandoned reports whether one of the job's batches was abandoned with attempts: the run may have been marked because of it. Its commit may have
// learnt afterwards how they ended.
func (e *jobEnd) abandoned() bool {
	return slices.ContainsFunc(e.logs, func(l *fates) bool { return l.closed && len(l.attempts) > 0 })
}

// mark is where a run is marked as unsettled.
func (s *step) mark(run maintenance.Run) string {
	return store.Join(handoff.Unsettled(s.deps.WorkLocation, run.TableUUID), string(run.RunID)+".json")
}

// settleEarlier looks again at runs on the same table that ended unsettled. Meanwhile the pointer may have moved, by this run's own commit for one:
// then what they left is in the head, or may go. Their trouble is not this run's: it is logged, and the next run tries again.
func (s *step) settleEarlier(ctx context.Context) {
	looked := 0
	for info, err := range s.deps.Work.List(ctx, store.Join(handoff.Unsettled(s.deps.WorkLocation, s.in.Run.TableUUID), ""), store.ListOptions{}) {
		if err != nil {
			s.log.WarnContext(ctx, "unsettled runs stay", "error", err.Error())
			return
		}
		var mark handoff.UnsettledRun
		if err := s.work.Read(ctx, info.Location, &mark); err != nil {
			s.log.WarnContext(ctx, "an unsettled run stays", "mark", info.Location, "error", err.Error())
			continue
		}
		if mark.Run.RunID == s.in.Run.RunID {
			continue
		}
		if looked++; looked > maxEarlier {
			return
		}
		earlier := &step{
			Function: s.Function, in: maintenance.SweepInput{V: s.in.V, Step: s.in.Step, Run: mark.Run}, attempt: s.attempt,
			work: handoff.Open(s.deps.Work, s.deps.WorkLocation, mark.Run.RunID), log: s.log.With("earlier_run_id", string(mark.Run.RunID)),
		}
		if err := earlier.endAgain(ctx); err != nil {
			s.log.WarnContext(ctx, "an unsettled run stays", "earlier_run_id", string(mark.Run.RunID), "error", err.Error())
		}
	}
}

// endAgain ends a run's abandoned jobs if a fresh head settles all of them, and removes the mark. A second execution finds nothing left to do.
func (s *step) endAgain(ctx context.Context) error {
	var ends []*jobEnd
	for _, job := range maintenance.Jobs() {
		e, err := s.jobEnd(ctx, job, true)
		if err != nil {
			return err
		}
		if e != nil && e.abandoned() {
			ends = append(ends, e)
		}
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	head, err := s.head(ctx)
	if err != nil {
		return err
	}
	for _, e := range ends {
		if err := s.settle(ctx, head, e); err != nil || e.unsettled() {
			return err
		}
	}
	for _, e := range ends {
		var sum handoff.SweepSummary
		if err := s.endJob(ctx, head, e, &sum); err != nil {
			return fmt.Errorf("sweep what %s left: %w", e.job, err)
		}
		s.log.InfoContext(ctx, "an earlier run is settled", "of", string(e.job), "deleted", sum.Deleted, "failed", sum.Failed)
	}
	_, failures, err := s.deps.Work.Delete(ctx, []string{s.mark(s.in.Run)})
	for _, f := range failures {
		return f.Err
	}
	return err
}
