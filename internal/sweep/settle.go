package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/reach"
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
		if a.outcome != "" || !a.in(head) {
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

// marks are the runs on the same table that left something to later ones, this run aside.
func (s *step) marks(ctx context.Context) ([]handoff.UnsettledRun, error) {
	var out []handoff.UnsettledRun
	for info, err := range s.deps.Work.List(ctx, store.Join(handoff.Unsettled(s.deps.WorkLocation, s.in.Run.TableUUID), ""), store.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list earlier runs that left something: %w", err)
		}
		var mark handoff.UnsettledRun
		err := s.work.Read(ctx, info.Location, &mark)
		if errors.Is(err, store.ErrNotFound) {
			continue // somebody settled it meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read a mark: %w", err)
		}
		out = append(out, mark)
	}
	return out, nil
}

// as is this step for another run.
func (s *step) as(run maintenance.Run) *step {
	return &step{
		Function: s.Function, in: maintenance.SweepInput{V: s.in.V, Step: s.in.Step, Run: run}, attempt: s.attempt,
		work: handoff.Open(s.deps.Work, s.deps.WorkLocation, run.RunID), log: s.log.With("earlier_run_id", string(run.RunID)),
	}
}

// settleEarlier looks again at runs on the same table that left something. Meanwhile the pointer may have moved, by this run's own commit for one:
// then what an unsettled run left is in the head, or may go; or the grace period of an expiry is over. Their trouble is not this run's: it is logged, and
// the next run tries again.
func (s *step) settleEarlier(ctx context.Context) error {
	if dry, err := s.dry(ctx); err != nil || dry {
		return err
	}
	marks, err := s.marks(ctx)
	if err != nil {
		s.log.WarnContext(ctx, "earlier runs stay unsettled", "error", err.Error())
		return nil
	}
	done := handoff.EarlierDeletions{V: contract.PayloadVersion}
	looked := 0
	for _, mark := range marks {
		if mark.Run.RunID == s.in.Run.RunID || s.deps.Now().UnixMilli() < mark.NotBeforeMS {
			continue
		}
		if looked++; looked > maxEarlier {
			break
		}
		earlier := s.as(mark.Run)
		if err := earlier.endAgain(ctx, mark); err != nil {
			s.log.WarnContext(ctx, "an earlier run stays unsettled", "earlier_run_id", string(mark.Run.RunID), "error", err.Error())
		}
		if earlier.deleted.Deleted+earlier.deleted.Failed > 0 {
			done.Runs = append(done.Runs, handoff.EarlierDeletion{RunID: mark.Run.RunID, Deleted: earlier.deleted})
		}
	}
	if len(done.Runs) == 0 {
		return nil
	}
	_, err = s.work.WriteOnce(ctx, s.work.Earlier(), &done)
	return err
}

// dry reports whether the run changes nothing: it is a dry run, or ended before it planned anything.
func (s *step) dry(ctx context.Context) (bool, error) {
	for _, job := range maintenance.Jobs() {
		var index handoff.Index
		if err := s.work.Read(ctx, s.work.Index(job), &index); !errors.Is(err, store.ErrNotFound) {
			return index.DryRun, err
		}
	}
	return true, nil
}

// endAgain ends a run's abandoned jobs if a fresh head settles all of them, deletes what waited for the end of an expiry's grace period, and removes the
// mark when nothing is left to look at: for an expiry that landed without a result that is one grace period after it was settled. An expiry's files do not
// wait for the settling: they were let go of whether or not another attempt landed. A second execution finds nothing left to do.
func (s *step) endAgain(ctx context.Context, mark handoff.UnsettledRun) error {
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
	settled, err := s.endSettled(ctx, head, ends)
	if err != nil {
		return err
	}
	if over, err := s.finishExpiry(ctx, head); err != nil || !over || !settled {
		return err
	}
	if until := s.waitsUntil(head, ends); until > 0 && mark.NotBeforeMS == 0 {
		mark.NotBeforeMS = until
		return s.work.Replace(ctx, s.mark(s.in.Run), &mark)
	}
	_, failures, err := s.deps.Work.Delete(ctx, []string{s.mark(s.in.Run)})
	for _, f := range failures {
		return f.Err
	}
	return err
}

// endSettled ends the jobs if the head settles all of them, and says whether it did.
func (s *step) endSettled(ctx context.Context, head *lake.Table, ends []*jobEnd) (bool, error) {
	for _, e := range ends {
		if err := s.settle(ctx, head, e); err != nil || e.unsettled() {
			return false, err
		}
	}
	for _, e := range ends {
		var sum handoff.SweepSummary
		if err := s.endJob(ctx, head, e, &sum); err != nil {
			return false, fmt.Errorf("sweep what %s left: %w", e.job, err)
		}
		s.log.InfoContext(ctx, "an earlier run is settled", "of", string(e.job), "deleted", sum.Deleted, "failed", sum.Failed)
	}
	return true, nil
}

// early reports whether the grace period after an expiry is not over.
func (s *step) early(found handoff.SweepReach) bool {
	return s.deps.Now().UnixMilli() < found.NotBeforeMS
}

// leave marks the run, so that a later one goes on with it.
func (s *step) leave(ctx context.Context, notBeforeMS int64) error {
	mark := handoff.UnsettledRun{V: contract.PayloadVersion, Run: s.in.Run, NotBeforeMS: notBeforeMS}
	_, err := s.work.WriteOnce(ctx, s.mark(s.in.Run), &mark)
	return err
}

// leaveEnds marks a run of which nobody knows how a batch ended: the next run on the table settles it. It also marks one whose expiry landed without a
// result: nobody deletes by that what it removed, and until the grace period is over nobody else may either. Both before anything of the run is deleted.
func (s *step) leaveEnds(ctx context.Context, head *lake.Table, ends []*jobEnd) error {
	if slices.ContainsFunc(ends, (*jobEnd).unsettled) {
		return s.leave(ctx, 0)
	}
	if until := s.waitsUntil(head, ends); until > 0 {
		return s.leave(ctx, until)
	}
	return nil
}

// waitsUntil is when the grace period ends of what an expiry without a result removed, in Unix milliseconds; 0 when nothing waits.
func (s *step) waitsUntil(head *lake.Table, ends []*jobEnd) int64 {
	until := s.graceAfter(head)
	if until > 0 && slices.ContainsFunc(ends, func(e *jobEnd) bool {
		return slices.ContainsFunc(e.logs, func(l *fates) bool { return len(l.letGo(head)) > 0 })
	}) {
		return until
	}
	return 0
}

// graceAfter is when the grace period ends of what left the table with the head's commit at the latest, in Unix milliseconds; 0 when it is over.
func (s *step) graceAfter(head *lake.Table) int64 {
	if s.deps.Grace == nil || head == nil { // no head: the table is gone
		return 0
	}
	until := head.Metadata.LastUpdatedMillis() + s.deps.Grace(s.in.Run.Table.Catalog).Milliseconds()
	if s.deps.Now().UnixMilli() >= until {
		return 0
	}
	return until
}

// leaveExpiry marks a run whose expiry was committed, and that ended before all files that only its snapshots reached were deleted.
func (s *step) leaveExpiry(ctx context.Context) error {
	expiry := s.as(s.in.Run)
	found, gone, err := expiry.expiryFound(ctx)
	if err != nil || gone == nil {
		return err
	}
	if found == nil {
		return s.leave(ctx, 0) // later runs find out when its time has come
	}
	left, err := expiry.undeleted(ctx, *found)
	if err != nil || len(left) == 0 {
		return err
	}
	return s.leave(ctx, found.NotBeforeMS)
}

// expiryFound reads what became of the run's expiry: what it expired, nil when it did not commit or has nothing to delete, and what reach found, nil
// when it did not come that far.
func (s *step) expiryFound(ctx context.Context) (found *handoff.SweepReach, gone *handoff.Expired, err error) {
	s.in.Job, s.in.Batch = maintenance.ExpireSnapshots, 0
	err = s.work.Read(ctx, s.work.Index(s.in.Job), &s.index)
	if errors.Is(err, store.ErrNotFound) || err == nil && s.index.DryRun {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if gone, err = s.whatExpired(ctx); err != nil || gone == nil {
		return nil, nil, err
	}
	found = &handoff.SweepReach{}
	err = s.work.Read(ctx, s.work.Reach(s.in.Job, s.in.Batch), found)
	if errors.Is(err, store.ErrNotFound) {
		return nil, gone, nil
	}
	return found, gone, err
}

// findNow looks for what the run's expiry let go of, since the run itself died before it did. The first result stands, as in a run.
func (s *step) findNow(ctx context.Context) (*handoff.SweepReach, error) {
	if _, err := s.reach(ctx); err != nil {
		return nil, err
	}
	found := &handoff.SweepReach{}
	return found, s.work.Read(ctx, s.work.Reach(s.in.Job, s.in.Batch), found)
}

// undeleted are the numbers of the ranges without a result.
func (s *step) undeleted(ctx context.Context, found handoff.SweepReach) ([]int, error) {
	var left []int
	for n := range found.Ranges {
		var done handoff.SweepDeleted
		err := s.work.Read(ctx, s.work.Deleted(s.in.Job, s.in.Batch, n), &done)
		if errors.Is(err, store.ErrNotFound) {
			left = append(left, n)
		} else if err != nil {
			return nil, err
		}
	}
	return left, nil
}

// finishExpiry deletes what an earlier run's expiry left, once its grace period is over. It is over when nothing is left to do; what cannot be done
// within the horizon of the orphan removal is left to that.
func (s *step) finishExpiry(ctx context.Context, head *lake.Table) (over bool, err error) {
	found, gone, err := s.expiryFound(ctx)
	if err != nil || gone == nil {
		return err == nil, err
	}
	if over, err = s.deleteLeft(ctx, head, found); err == nil {
		return over, nil
	}
	reason, refused := refusal(err)
	if refused || s.deps.Now().UnixMilli()-gone.CommittedAtMS > decide.DefaultOrphanAge.Milliseconds() {
		s.log.WarnContext(ctx, "files of an expiry are left to remove_orphan_files", "error", err.Error(), "reason", reason)
		return true, nil
	}
	return false, err
}

// deleteLeft proves again what may have changed since reach, and deletes the ranges that have no result.
func (s *step) deleteLeft(ctx context.Context, head *lake.Table, found *handoff.SweepReach) (over bool, err error) {
	if found == nil {
		if found, err = s.findNow(ctx); err != nil {
			return false, err
		}
	}
	left, err := s.undeleted(ctx, *found)
	if err != nil || len(left) == 0 || s.early(*found) {
		return err == nil && len(left) == 0, err
	}
	if err := ownsFiles(head); err != nil {
		return false, err
	}
	home, err := reach.Folder(head.Metadata.Location())
	if err != nil {
		return false, err
	}
	if _, err := s.neighbours(ctx, head, home); err != nil {
		return false, err
	}
	for _, n := range left {
		if deadline, ok := ctx.Deadline(); ok && deadline.Sub(s.deps.Now()) < spareTime {
			return false, nil
		}
		s.in.Item = &maintenance.SweepItem{Range: n, Batch: s.in.Batch, Location: found.Ranges[n]}
		if _, err := s.delete(ctx); err != nil {
			return false, err
		}
		var part handoff.SweepDeleted
		if err := s.work.Read(ctx, s.work.Deleted(s.in.Job, s.in.Batch, n), &part); err != nil {
			return false, err
		}
		s.deleted.Add(part)
	}
	return true, nil
}

// waiting tells a sink of all files that expiries of the table have let go of and whose grace period is not over: nobody else may delete them either.
// An expiry of this run whose outcome is not written down is one of them.
func (s *step) waiting(ctx context.Context, head *lake.Table, sink reach.Sink) error {
	marks, err := s.marks(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(marks, func(m handoff.UnsettledRun) bool { return m.Run.RunID == s.in.Run.RunID }) {
		if err := s.unsaid(ctx, head, sink); err != nil {
			return err
		}
	}
	for _, mark := range marks {
		if mark.NotBeforeMS != 0 && s.deps.Now().UnixMilli() >= mark.NotBeforeMS {
			continue
		}
		expiry := s.as(mark.Run)
		expiry.cat, expiry.st = s.cat, s.st
		if err := errors.Join(expiry.waits(ctx, sink), expiry.unsaid(ctx, head, sink)); err != nil {
			return fmt.Errorf("find the files that run %s has let go of: %w", mark.Run.RunID, err)
		}
	}
	return nil
}

// waits tells a sink of the files that the run's expiry let go of, as long as its grace period lasts.
func (s *step) waits(ctx context.Context, sink reach.Sink) error {
	found, gone, err := s.expiryFound(ctx)
	if err == nil && gone != nil && found == nil {
		found, err = s.findNow(ctx)
	}
	if err != nil || found == nil || !s.early(*found) {
		return err
	}
	for _, location := range found.Ranges {
		for f, err := range reach.ReadRun(ctx, s.deps.Work, location) {
			if err == nil {
				err = sink(ctx, f)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// unsaid tells a sink of everything that the snapshots reached which an expiry of the run removed without a result that says so.
func (s *step) unsaid(ctx context.Context, head *lake.Table, sink reach.Sink) error {
	if s.graceAfter(head) == 0 {
		return nil
	}
	l, err := s.readFates(ctx, maintenance.ExpireSnapshots, 0)
	if err != nil {
		return err
	}
	walk := &reach.Walk{Store: s.st}
	for _, expired := range l.letGo(head) {
		if err := s.keepGone(ctx, byLists(expired), walk, reach.WithEntries, sink); err != nil {
			return err
		}
	}
	return nil
}
