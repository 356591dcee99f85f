package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// maxFates bounds the entries of one fate log: a commit makes a few attempts, never thousands.
const maxFates = 10_000

// fates is the fate log of one batch as sweep sees it.
type fates struct {
	job   maintenance.Job
	batch int
	// result is the settled batch's result, nil while it is not settled.
	result   *handoff.CommitResult
	attempts []attempt
	closed   bool
}

// attempt is one announced call of the catalog; outcome is "" as long as nobody knows how it ended.
type attempt struct {
	handoff.Fate
	outcome maintenance.Outcome
	// over says that a head proves that the call cannot land any more: it is in that head, or nowhere.
	over bool
}

// settle notes which attempts without an answer are over, as a head shows it that was loaded after the log was closed.
func (l *fates) settle(head handoff.Head) {
	for n := range l.attempts {
		a := &l.attempts[n]
		a.over = a.outcome == "" && a.Moved(head)
	}
}

// in reports whether a head shows that the attempt landed. What an expiry would remove may also have been removed by somebody else: nothing is left to do
// then, which is the same.
func (a *attempt) in(head *lake.Table) bool {
	if a.Expired != nil {
		return head.Lacks(a.Expired.SnapshotIDs, a.Expired.Refs)
	}
	return a.SnapshotID != 0 && head.Metadata.SnapshotByID(a.SnapshotID) != nil
}

// free reports whether nothing but the head itself can hold the attempt's files.
func (a *attempt) free() bool { return a.over || refusedFor(a.outcome) }

// readFates reads a batch's fate log without changing it.
func (s *step) readFates(ctx context.Context, job maintenance.Job, batch int) (*fates, error) {
	l := &fates{job: job, batch: batch}
	var result handoff.CommitResult
	err := s.work.Read(ctx, s.work.Commit(job, batch), &result)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if err == nil {
		l.result = &result
	}
	return l, l.extend(ctx, s.work)
}

// extend reads the entries that are not known yet, and the ends that were not.
func (l *fates) extend(ctx context.Context, work *handoff.Work) error {
	for n := len(l.attempts); n < maxFates && !l.closed; n++ {
		var entry handoff.Fate
		err := work.Read(ctx, work.Fate(l.job, l.batch, n), &entry)
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
		l.take(entry)
	}
	for n := range l.attempts {
		var end handoff.FateEnd
		err := work.Read(ctx, work.FateEnd(l.job, l.batch, n), &end)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		l.attempts[n].outcome = end.Outcome
	}
	return nil
}

func (l *fates) take(entry handoff.Fate) {
	if entry.Abandoned {
		l.closed = true
		return
	}
	l.attempts = append(l.attempts, attempt{Fate: entry})
}

// close makes sure that the log ends with an abandoning entry: a commit that comes later finds it and stops before it calls the catalog. Whoever
// writes an entry first has it; then the log is read on.
func (l *fates) close(ctx context.Context, work *handoff.Work) error {
	for !l.closed {
		if len(l.attempts) >= maxFates {
			return fmt.Errorf("the fate log of batch %d of %s has %d entries", l.batch, l.job, len(l.attempts))
		}
		entry := handoff.Fate{V: contract.PayloadVersion, Abandoned: true}
		if _, err := work.WriteOnce(ctx, work.Fate(l.job, l.batch, len(l.attempts)), &entry); err != nil {
			return fmt.Errorf("abandon batch %d of %s: %w", l.batch, l.job, err)
		}
		l.take(entry)
	}
	return l.extend(ctx, work)
}

// perhaps reports whether an output may have landed without an answer.
func (l *fates) perhaps(location string) bool {
	return slices.ContainsFunc(l.attempts, func(a attempt) bool {
		return a.over && (slices.Contains(a.Paths, location) || slices.Contains(a.Metadata, location))
	})
}

// unknown reports whether the batch may have been committed without anybody having said so.
func (l *fates) unknown() bool {
	return l.result == nil && slices.ContainsFunc(l.attempts, func(a attempt) bool { return !a.free() && a.outcome != maintenance.Committed })
}

// letGo is what a head shows to have left the table by announced calls of an expiry, without a result that says so.
func (l *fates) letGo(head *lake.Table) []*handoff.Expired {
	if l.result != nil && l.result.Expired != nil {
		return nil
	}
	var out []*handoff.Expired
	for _, a := range l.attempts {
		if a.Expired != nil && !refusedFor(a.outcome) && head.Lacks(a.Expired.SnapshotIDs, nil) {
			out = append(out, a.Expired)
		}
	}
	return out
}

// refusedFor reports whether an outcome proves that the attempt did not land.
func refusedFor(o maintenance.Outcome) bool {
	return o == maintenance.Conflict || o == maintenance.Refused
}

// holding says in which way an output's attempts ended: "" when all of them were definitely refused or are over, or there was none; else why it
// must stay.
func (l *fates) holding(location string) string {
	for n, a := range l.attempts {
		if !slices.Contains(a.Paths, location) && !slices.Contains(a.Metadata, location) || a.free() {
			continue
		}
		if a.outcome == "" {
			return fmt.Sprintf("nobody knows how attempt %d of batch %d of %s ended", n, l.batch, l.job)
		}
		return fmt.Sprintf("attempt %d of batch %d of %s was %s", n, l.batch, l.job, a.outcome)
	}
	return ""
}
