package commit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
)

// argDeleteOutside is an argument of expire_snapshots that only sweep reads (sweep.ArgDeleteOutside).
const argDeleteOutside = "delete_outside_location"

// expire commits an expiry: the metadata without the snapshots and refs that the retention rules drop, decided anew on each head.
func (s *session) expire(ctx context.Context) (handoff.CommitResult, error) {
	if err := s.readIndex(ctx); err != nil {
		return handoff.CommitResult{}, err
	}
	e := &expirer{session: s, now: time.UnixMilli(s.index.PlannedAtMS).UTC()}
	if len(s.index.Detail) > 0 {
		if err := json.Unmarshal(s.index.Detail, &e.guards); err != nil {
			return handoff.CommitResult{}, maintenance.Named(contract.ErrorBadInput, fmt.Errorf("read plan's detail: %w", err))
		}
	}
	return s.drive(ctx, e)
}

// expirer is the undertaking of an expiry. It makes no snapshot: an attempt is settled by the snapshots that it removes, and may be repeated,
// since removing what is gone changes nothing.
type expirer struct {
	*session
	// now is the time from which ages are measured.
	now    time.Time
	guards handoff.ExpireGuards
}

func (e *expirer) settle(ctx context.Context, head *lake.Table) (standing, int, error) {
	for n, f := range e.fates {
		if f.end == maintenance.Committed {
			return landed, n, nil
		}
	}
	for _, n := range slices.Backward(e.open()) {
		if e.fates[n].detail.gone(head) {
			return landed, n, e.conclude(ctx, n, maintenance.Committed)
		}
	}
	return clearToGo, -1, e.concludeMoved(ctx, head, table.MainBranch)
}

// gone reports whether everything that an attempt would remove is gone.
func (d fateDetail) gone(head *lake.Table) bool {
	if d.Expired == nil || len(d.Expired.SnapshotIDs)+len(d.Expired.Refs) == 0 {
		return false
	}
	for _, id := range d.Expired.SnapshotIDs {
		if head.Metadata.SnapshotByID(id) != nil {
			return false
		}
	}
	for name := range head.Metadata.Refs() {
		if slices.Contains(d.Expired.Refs, name) {
			return false
		}
	}
	return true
}

func (e *expirer) resend(ctx context.Context, head *lake.Table, _ int) (*request, error) {
	r, _, err := e.build(ctx, head)
	return r, err
}

// build decides on the head and makes the request.
func (e *expirer) build(ctx context.Context, head *lake.Table) (*request, *handoff.CommitResult, error) {
	opts, err := e.options(head)
	var plan lake.Expiring
	if err == nil {
		plan, err = head.Expiring(opts, e.now)
	}
	if errors.Is(err, decide.ErrOption) || errors.Is(err, decide.ErrRefused) {
		return nil, &handoff.CommitResult{Outcome: maintenance.Refused, Reason: err.Error()}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	detail := fateDetail{Refs: map[string]int64{}, Expired: &handoff.Expired{
		SnapshotIDs: plan.ExpiredIDs, ManifestLists: plan.ManifestLists, Statistics: plan.Statistics, Refs: plan.RemovedRefs,
	}}
	change := committer.Change{Requirements: []table.Requirement{table.AssertTableUUID(head.Metadata.TableUUID())}}
	for name, ref := range head.Metadata.Refs() {
		detail.Refs[name] = ref.SnapshotID
	}
	for _, name := range slices.Sorted(maps.Keys(detail.Refs)) {
		id := detail.Refs[name]
		change.Requirements = append(change.Requirements, table.AssertRefSnapshotID(name, &id))
	}
	change.Updates = expiryUpdates(head, plan)
	if opts.CleanExpiredMetadata {
		more, err := e.cleanMetadata(ctx, head, plan.ExpiredIDs)
		if err != nil {
			return nil, nil, err
		}
		change.Updates = append(change.Updates, more...)
	}
	if len(change.Updates) == 0 {
		return nil, &handoff.CommitResult{Outcome: maintenance.NothingToDo, Reason: "no snapshot, ref or unused metadata is past its retention"}, nil
	}
	r := &request{detail: detail, change: change}
	if snap := head.Metadata.CurrentSnapshot(); snap != nil {
		r.fate.AssertedSnapshotID = snap.SnapshotID
	}
	return r, nil, nil
}

// options reads the call's arguments; an automatic run has guards on top.
func (e *expirer) options(head *lake.Table) (decide.SnapshotsOptions, error) {
	args := maps.Clone(e.index.Request.Args)
	delete(args, argDeleteOutside)
	opts, err := decide.ParseSnapshotsOptions(args, e.index.Request.SnapshotIDs, head.Metadata.Properties(), e.now)
	if err != nil {
		return opts, err
	}
	if e.guards.Automatic {
		opts.Guard(time.Duration(e.guards.MinAgeMS)*time.Millisecond, e.guards.Unsafe)
	}
	opts.Pinned, opts.BookmarkKeys, opts.Limit = e.guards.Pinned, e.guards.BookmarkKeys, e.guards.Limit
	return opts, nil
}

// expiryUpdates removes refs first: removing a snapshot takes its refs along, and a ref that is gone cannot be removed.
func expiryUpdates(head *lake.Table, plan lake.Expiring) []table.Update {
	var updates []table.Update
	for _, name := range plan.RemovedRefs {
		updates = append(updates, table.NewRemoveSnapshotRefUpdate(name))
	}
	if len(plan.ExpiredIDs) == 0 {
		return updates
	}
	gone := map[int64]bool{}
	for _, id := range plan.ExpiredIDs {
		gone[id] = true
	}
	for s := range head.Metadata.Statistics() {
		if gone[s.SnapshotID] {
			updates = append(updates, table.NewRemoveStatisticsUpdate(s.SnapshotID))
		}
	}
	for s := range head.Metadata.PartitionStatistics() {
		if gone[s.SnapshotID] {
			updates = append(updates, table.NewRemovePartitionStatisticsUpdate(s.SnapshotID))
		}
	}
	return append(updates, table.NewRemoveSnapshotsUpdate(plan.ExpiredIDs, false))
}

// result describes an expiry that landed, after it compared the refs of the metadata that was really replaced with those that it knew.
func (e *expirer) result(ctx context.Context, after *lake.Table, n int) (handoff.CommitResult, error) {
	f := e.fates[n]
	r := handoff.CommitResult{Outcome: maintenance.Committed}
	if f.detail.Expired == nil {
		return r, nil
	}
	stray, why, err := e.unknownRefs(ctx, after, f)
	if err != nil {
		return r, err
	}
	if why != "" {
		r.Reason = why
		if len(stray) > 0 {
			r.Reason += "; " + e.restore(ctx, after, stray)
		}
		return r, nil
	}
	expired := *f.detail.Expired
	expired.CommittedAtMS = e.f.Now().UnixMilli()
	r.Expired = &expired
	return r, nil
}
