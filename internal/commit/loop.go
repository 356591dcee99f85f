package commit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// request is one catalog call with its entry of the fate log.
type request struct {
	fate   handoff.Fate
	detail fateDetail
	change committer.Change
}

// undertaking is what the loop drives: a rewrite or an expiry.
type undertaking interface {
	// settle tells how earlier attempts stand, as a head shows it; n is the attempt that landed or is pending.
	settle(ctx context.Context, head *lake.Table) (st standing, n int, err error)
	// build makes the request of a new attempt; a result instead says that there is nothing to send.
	build(ctx context.Context, head *lake.Table) (*request, *handoff.CommitResult, error)
	// resend makes the request that repeats attempt n.
	resend(ctx context.Context, head *lake.Table, n int) (*request, error)
	// result describes attempt n, which landed; after is the head on which that was seen.
	result(ctx context.Context, after *lake.Table, n int) (handoff.CommitResult, error)
}

// loop repeats attempts until one has landed, or provably none can, or the patience ends.
type loop struct {
	*session
	work  undertaking
	begun time.Time
	// races counts attempts that lost against other writers, unknown those without answer; cause is the last one's error.
	races, unknown int64
	cause          error
	// refusal is a definite no of the catalog.
	refusal error
	// leftovers are metadata files of attempts that the committer says nothing will ask for.
	leftovers []string
}

func (s *session) drive(ctx context.Context, work undertaking) (handoff.CommitResult, error) {
	l := &loop{session: s, work: work, begun: s.f.Now()}
	for {
		result, done, err := l.attempt(ctx)
		if err != nil {
			return handoff.CommitResult{}, l.name(err)
		}
		if done {
			return result, nil
		}
	}
}

// name makes "unknown" of an error that leaves an attempt unsettled.
func (l *loop) name(err error) error {
	if l.unknown > 0 && len(l.open()) > 0 {
		return maintenance.Named(contract.ErrorCommitStateUnknown, fmt.Errorf("commit state unknown after %w: %w", l.cause, err))
	}
	return err
}

// attempt is one turn: look how earlier attempts stand, then send one request if one may be sent.
func (l *loop) attempt(ctx context.Context) (handoff.CommitResult, bool, error) {
	none := handoff.CommitResult{}
	if err := l.readFates(ctx); err != nil {
		return none, false, err
	}
	if result := l.conclusion(); result != nil {
		return *result, true, nil
	}
	head, err := l.port.Committer.Head(ctx, l.in.Run.Table)
	if gone := l.gone(head, err); gone != nil {
		if len(l.open()) > 0 { // renamed perhaps, with our commit in it
			l.unknown, l.cause = max(l.unknown, 1), errors.Join(l.cause, errors.New(gone.Reason))
			return none, false, errors.New("the table of that name is not the one that the attempt was sent to")
		}
		return *gone, true, nil
	}
	if err != nil {
		return none, false, l.headless(ctx, err)
	}
	st, n, err := l.work.settle(ctx, head)
	if err != nil {
		return none, false, err
	}
	var r *request
	var result *handoff.CommitResult
	switch st {
	case landed:
		return l.landed(ctx, head, n)
	case pending:
		r, err = l.again(ctx, head, n)
	case clearToGo:
		r, result, err = l.next(ctx, head)
	}
	switch {
	case err != nil:
		return none, false, err
	case result != nil:
		result.Unneeded, result.Attempts = append(l.unneeded(-1), l.leftovers...), l.attempts()
		ours, err := l.finish(ctx, result)
		return *result, ours, err
	case r == nil:
		return none, false, nil
	}
	return l.send(ctx, head, r)
}

// attempts counts the calls that the fate log announces.
func (s *session) attempts() int {
	n := 0
	for _, f := range s.fates {
		if !f.Abandoned {
			n++
		}
	}
	return n
}

// headless waits for a catalog that does not answer while an attempt is unsettled; without one the caller may repeat the whole call. A metadata
// file that vanished between the pointer and the read is a race like any other: fast writers drop old ones.
func (l *loop) headless(ctx context.Context, err error) error {
	if r := retryPatience(nil); errors.Is(err, store.ErrNotFound) && l.races < r.retries {
		l.races, l.cause = l.races+1, err
		return l.pause(ctx, r, l.races)
	}
	p := statusPatience(nil)
	if l.unknown == 0 || l.unknown > p.retries || !errors.Is(err, catalogs.ErrTransient) && !errors.Is(err, store.ErrTransient) {
		return err
	}
	l.unknown++
	return l.pause(ctx, p, l.unknown-1)
}

// gone is the result when there is no table, or another one of its name: nothing can land any more.
func (l *loop) gone(head *lake.Table, err error) *handoff.CommitResult {
	reason := ""
	switch {
	case errors.Is(err, catalogs.ErrNoSuchTable), errors.Is(err, catalogs.ErrNotIceberg):
		reason = err.Error()
	case err == nil && head.Metadata.TableUUID().String() != l.in.Run.TableUUID:
		reason = fmt.Sprintf("table %s was made anew: its UUID is %s", l.in.Run.Table, head.Metadata.TableUUID())
	default:
		return nil
	}
	return &handoff.CommitResult{Outcome: maintenance.Refused, Reason: reason}
}

// again repeats a pending attempt.
func (l *loop) again(ctx context.Context, head *lake.Table, n int) (*request, error) {
	if err := l.wait(ctx, head); err != nil {
		return nil, err
	}
	return l.work.resend(ctx, head, n)
}

// wait pauses before a request is sent while an earlier one is unsettled, as long as there is patience and nobody has closed the log.
func (l *loop) wait(ctx context.Context, head *lake.Table) error {
	p := statusPatience(head.Metadata.Properties())
	if l.cause == nil {
		l.cause = errors.New("an earlier execution")
	}
	l.unknown = max(l.unknown, 1)
	if l.abandoned() {
		return ErrAbandoned
	}
	if l.unknown > p.retries || l.late(p) {
		return fmt.Errorf("asked %d times", l.unknown)
	}
	return l.pause(ctx, p, l.unknown)
}

// next makes a new attempt: earlier ones provably cannot land, or it does no harm if they do.
func (l *loop) next(ctx context.Context, head *lake.Table) (*request, *handoff.CommitResult, error) {
	if len(l.open()) > 0 {
		if err := l.wait(ctx, head); err != nil {
			return nil, nil, err
		}
	}
	p := retryPatience(head.Metadata.Properties())
	switch {
	case l.abandoned():
		return nil, nil, maintenance.Named(contract.ErrorConflict, ErrAbandoned)
	case l.refusal != nil:
		return nil, &handoff.CommitResult{Outcome: maintenance.Refused, Reason: l.refusal.Error()}, nil
	case l.races > p.retries, l.races > 0 && l.late(p):
		return nil, &handoff.CommitResult{
			Outcome: maintenance.Conflict, Reason: fmt.Sprintf("%d attempts lost against other writers, the last: %v", l.races, l.cause),
		}, nil
	}
	r, result, err := l.work.build(ctx, head)
	if errors.Is(err, store.ErrNotFound) && l.races < p.retries {
		// A file of the head vanished while it was read: another maintainer may have expired it. A moved head tells.
		if now, headErr := l.port.Committer.Head(ctx, l.in.Run.Table); headErr == nil &&
			now.Pointer.MetadataLocation != head.Pointer.MetadataLocation {
			l.races, l.cause = l.races+1, err
			return nil, nil, nil
		}
	}
	return r, result, err
}

func (l *loop) late(p patience) bool { return l.f.Now().Sub(l.begun) > p.within }

// send announces the request in the fate log and makes the call.
func (l *loop) send(ctx context.Context, head *lake.Table, r *request) (handoff.CommitResult, bool, error) {
	none := handoff.CommitResult{}
	r.fate.AssertedPointer = pointerText(head)
	var err error
	if r.fate.SequenceNumber, err = r.detail.sequenceNumber(); err != nil {
		return none, false, err
	}
	n, ours, err := l.announce(ctx, r.fate, r.detail)
	if err != nil || !ours {
		l.discarded = append(l.discarded, r.fate.Metadata...)
		return none, false, err
	}
	answer, err := l.port.Committer.Commit(ctx, head, r.change)
	l.leftovers = append(l.leftovers, answer.Unneeded...)
	p := retryPatience(head.Metadata.Properties())
	switch {
	case err == nil:
		// It landed, whether that can be written down or not: a later execution finds the snapshot in the head.
		l.unwritten = errors.Join(l.conclude(ctx, n, maintenance.Committed), l.concludeOthers(ctx, n))
		return l.landed(ctx, answer.Table, n)
	case errors.Is(err, catalogs.ErrConflict):
		l.fates[n].said = maintenance.Conflict
		l.races, l.cause = l.races+1, err
		return none, false, l.pause(ctx, p, l.races)
	case errors.Is(err, catalogs.ErrRefused):
		l.fates[n].said = maintenance.Refused
		if ctx.Err() != nil {
			return none, false, err
		}
		if errors.Is(err, store.ErrTransient) {
			l.races, l.cause = l.races+1, err
			return none, false, l.pause(ctx, p, l.races)
		}
		l.refusal = err
		return none, false, nil
	default:
		// It counts as a race too: when a head shows that it is absent, the next attempt is one of the bounded number.
		l.unknown, l.races, l.cause = l.unknown+1, l.races+1, err
		return none, false, l.pause(ctx, p, l.races)
	}
}

// concludeOthers settles earlier attempts that asserted the pointer which this execution's attempt has just moved.
func (l *loop) concludeOthers(ctx context.Context, landed int) error {
	for _, n := range l.open() {
		if n < landed {
			if err := l.conclude(ctx, n, maintenance.Conflict); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loop) landed(ctx context.Context, after *lake.Table, n int) (handoff.CommitResult, bool, error) {
	result, err := l.work.result(ctx, after, n)
	if err != nil {
		return result, false, err
	}
	result.Unneeded = append(result.Unneeded, append(l.unneeded(n), l.leftovers...)...)
	result.Attempts = l.attempts()
	return result, true, nil
}

// patience is how often and how long something is repeated: the table's commit.retry.* or commit.status-check.* with Java's defaults.
type patience struct {
	retries             int64
	least, most, within time.Duration
}

func retryPatience(p iceberg.Properties) patience {
	return patienceOf(p, "commit.retry.", 4, 100*time.Millisecond)
}

func statusPatience(p iceberg.Properties) patience {
	return patienceOf(p, "commit.status-check.", 3, time.Second)
}

func patienceOf(p iceberg.Properties, prefix string, retries int64, least time.Duration) patience {
	duration := func(key string, fallback time.Duration) time.Duration {
		return time.Duration(max(p.GetInt64(prefix+key, fallback.Milliseconds()), 0)) * time.Millisecond
	}
	return patience{
		retries: max(p.GetInt64(prefix+"num-retries", retries), 0),
		least:   duration("min-wait-ms", least), most: duration("max-wait-ms", time.Minute), within: duration("total-timeout-ms", 30*time.Minute),
	}
}

// pause waits before the n-th repetition (from 1): twice as long each time, between the bounds, with jitter of half of it.
func (s *session) pause(ctx context.Context, p patience, n int64) error {
	wait := p.least << min(n-1, 20)
	wait = max(min(wait, p.most), 0)
	if wait > 1 {
		r, err := s.f.random()
		if err != nil {
			return err
		}
		hi, _ := bits.Mul64(r, uint64(wait/2)) // not negative
		wait = wait/2 + time.Duration(hi)      // below wait
	}
	return s.f.sleep(ctx, wait)
}

func (f *Function) sleep(ctx context.Context, d time.Duration) error {
	if f.Sleep != nil {
		return f.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *Function) random() (uint64, error) {
	if f.Random != nil {
		return f.Random()
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("read randomness: %w", err)
	}
	return binary.BigEndian.Uint64(b[:]), nil
}

func (f *Function) newUUID() (uuid.UUID, error) {
	if f.NewUUID != nil {
		return f.NewUUID()
	}
	return uuid.NewRandom()
}

// snapshotID makes an ID that the table does not have: 63 random bits, not 0.
func (f *Function) snapshotID(meta table.Metadata) (int64, error) {
	for {
		r, err := f.random()
		if err != nil {
			return 0, err
		}
		if id := int64(r >> 1); id > 0 && meta.SnapshotByID(id) == nil { // 63 bits
			return id, nil
		}
	}
}
