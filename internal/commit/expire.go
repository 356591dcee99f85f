package commit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/lake/peek"
	"firn/internal/maintenance"
	"firn/internal/store"
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
	// present are the manifests that are known to be there.
	present map[string]bool
}

func (e *expirer) settle(ctx context.Context, head *lake.Table) (standing, int, error) {
	for n, f := range e.fates {
		if f.end == maintenance.Committed {
			return landed, n, nil
		}
	}
	for _, n := range slices.Backward(e.open()) {
		if gone(e.fates[n].Expired, head) {
			return landed, n, e.conclude(ctx, n, maintenance.Committed)
		}
	}
	return clearToGo, -1, e.concludeMoved(ctx, head, table.MainBranch)
}

// gone reports whether everything that an attempt would remove is gone.
func gone(expired *handoff.Expired, head *lake.Table) bool {
	return expired != nil && head.Lacks(expired.SnapshotIDs, expired.Refs)
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
	detail := fateDetail{Refs: map[string]int64{}}
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
	if len(plan.ExpiredIDs) > 0 {
		if err := e.whole(ctx, head); err != nil {
			return nil, nil, err
		}
	}
	r := &request{detail: detail, change: change}
	r.fate.Expired = &handoff.Expired{
		SnapshotIDs: plan.ExpiredIDs, ManifestLists: plan.ManifestLists, Statistics: plan.Statistics, Refs: plan.RemovedRefs,
	}
	if snap := head.Metadata.CurrentSnapshot(); snap != nil {
		r.fate.AssertedSnapshotID = snap.SnapshotID
	}
	return r, nil, nil
}

// whole makes sure that every manifest list can be read and every manifest is there. Sweep could not tell what may be deleted otherwise, and it
// comes after the commit, when the expired snapshots' lists are known to nobody else any more.
func (e *expirer) whole(ctx context.Context, head *lake.Table) error {
	if e.present == nil {
		e.present = map[string]bool{}
	}
	var unknown []string
	for _, snap := range head.Metadata.Snapshots() {
		manifests, err := lake.Manifests(ctx, e.port.Store, &snap)
		if err != nil {
			return err
		}
		for _, m := range manifests {
			if !e.present[m.FilePath()] {
				e.present[m.FilePath()] = true
				unknown = append(unknown, m.FilePath())
			}
		}
	}
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(objectReaders)
	for _, location := range unknown {
		readers.Go(func() error {
			_, err := e.port.Store.Head(ctx, location)
			if err != nil {
				return fmt.Errorf("look for manifest: %w", peek.Named(err))
			}
			return nil
		})
	}
	return readers.Wait()
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
		opts.KeepBookmarks = !e.guards.IgnoreBookmarks
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
	if f.Expired == nil {
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
	expired := *f.Expired
	expired.CommittedAtMS = e.f.Now().UnixMilli()
	r.Expired = &expired
	return r, nil
}

// strayRef is a ref to an expired snapshot that the expiry did not know.
type strayRef struct {
	name     string
	ref      table.SnapshotRef
	snapshot table.Snapshot
}

// maxLogFiles bounds how far back the metadata log is read for the file that an expiry replaced.
const maxLogFiles = 50

// unknownRefs finds refs to expired snapshots that somebody made between our look and our commit. Where the catalog compares the pointer (SQL,
// Glue) there can be none: what was replaced is what we saw. A service checks only the refs that it is told, so the metadata that it replaced is
// read. The text says why nothing may be deleted, "" when all is well.
func (e *expirer) unknownRefs(ctx context.Context, after *lake.Table, f fate) ([]strayRef, string, error) {
	if f.AssertedPointer != "" || len(f.Expired.SnapshotIDs) == 0 {
		return nil, "", nil
	}
	replaced, err := e.replaced(ctx, after, f.Expired.SnapshotIDs)
	if err != nil {
		if errors.Is(err, store.ErrTransient) || ctx.Err() != nil {
			return nil, "", err
		}
		return nil, fmt.Sprintf("nothing is deleted: the metadata file that the expiry replaced cannot be read: %v", err), nil
	}
	var stray []strayRef
	for name, ref := range replaced.Refs() {
		known, ok := f.detail.Refs[name]
		if ok && known == ref.SnapshotID || !slices.Contains(f.Expired.SnapshotIDs, ref.SnapshotID) {
			continue
		}
		if snap := replaced.SnapshotByID(ref.SnapshotID); snap != nil {
			stray = append(stray, strayRef{name, ref, *snap})
		}
	}
	if len(stray) == 0 {
		return nil, "", nil
	}
	names := make([]string, len(stray))
	for i, s := range stray {
		names[i] = s.name
	}
	slices.Sort(names)
	return stray, "nothing is deleted: refs were made to expired snapshots meanwhile: " + strings.Join(names, ", "), nil
}

// replaced finds the metadata that the expiry replaced: the newest file of the log that still has one of the expired snapshots.
func (e *expirer) replaced(ctx context.Context, after *lake.Table, ids []int64) (table.Metadata, error) {
	log := slices.Collect(after.Metadata.PreviousFiles())
	for i, entry := range slices.Backward(log) {
		if len(log)-i > maxLogFiles {
			break
		}
		data, err := peek.ReadMetadataFile(ctx, e.port.Store, entry.MetadataFile)
		if err != nil {
			return nil, err
		}
		meta, err := lake.ParseMetadata(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.MetadataFile, err)
		}
		if slices.ContainsFunc(ids, func(id int64) bool { return meta.SnapshotByID(id) != nil }) {
			return meta, nil
		}
	}
	return nil, errors.New("it is not among the last files of the metadata log")
}

// restore tries to add snapshots and refs again and says how that went. Services refuse old sequence numbers, so that it may be impossible.
func (e *expirer) restore(ctx context.Context, after *lake.Table, stray []strayRef) string {
	change := committer.Change{Requirements: []table.Requirement{table.AssertTableUUID(after.Metadata.TableUUID())}}
	added := map[int64]bool{}
	for _, s := range stray {
		if !added[s.snapshot.SnapshotID] {
			added[s.snapshot.SnapshotID] = true
			change.Updates = append(change.Updates, table.NewAddSnapshotUpdate(&s.snapshot))
		}
		change.Requirements = append(change.Requirements, table.AssertRefSnapshotID(s.name, nil))
		change.Updates = append(change.Updates, table.NewSetSnapshotRefUpdate(s.name, s.ref.SnapshotID, s.ref.SnapshotRefType,
			value(s.ref.MaxRefAgeMs), value(s.ref.MaxSnapshotAgeMs), value(s.ref.MinSnapshotsToKeep)))
	}
	if _, err := e.port.Committer.Commit(ctx, after, change); err != nil {
		return fmt.Sprintf("they could not be added again: %v", err)
	}
	return "they were added again"
}

func value[T int | int64](p *T) T {
	if p == nil {
		return 0
	}
	return *p
}

// cleanMetadata removes partition specs that no manifest of a kept snapshot uses and schemas that no kept snapshot has, the current ones aside.
// A schema that holds a source column of a kept spec stays, although Java drops it: without it the spec's partition values lose their types.
func (e *expirer) cleanMetadata(ctx context.Context, head *lake.Table, expired []int64) ([]table.Update, error) {
	meta := head.Metadata
	specs, schemas := map[int]bool{meta.DefaultPartitionSpec(): true}, map[int]bool{meta.CurrentSchema().ID: true}
	for _, snap := range meta.Snapshots() {
		if slices.Contains(expired, snap.SnapshotID) {
			continue
		}
		if snap.SchemaID != nil {
			schemas[*snap.SchemaID] = true
		}
		manifests, err := lake.Manifests(ctx, e.port.Store, &snap)
		if err != nil {
			return nil, fmt.Errorf("find used partition specs: %w", err)
		}
		for _, m := range manifests {
			specs[int(m.PartitionSpecID())] = true
		}
	}
	var updates []table.Update
	var unused []int
	for _, spec := range meta.PartitionSpecs() {
		if !specs[spec.ID()] {
			unused = append(unused, spec.ID())
			continue
		}
		if schema, err := head.SpecSchema(spec); err == nil {
			schemas[schema.ID] = true
		}
	}
	if len(unused) > 0 {
		updates = append(updates, table.NewRemoveSpecUpdate(unused))
	}
	unused = nil
	for _, schema := range meta.Schemas() {
		if !schemas[schema.ID] {
			unused = append(unused, schema.ID)
		}
	}
	if len(unused) > 0 {
		updates = append(updates, table.NewRemoveSchemasUpdate(unused))
	}
	return updates, nil
}
