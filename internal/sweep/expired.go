package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/apache/iceberg-go/table"

	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// expired finds the files that only expired snapshots reached: everything reachable from them, minus everything reachable from the head that is
// loaded now.
func (s *step) expired(ctx context.Context) (handoff.SweepReach, error) {
	gone, err := s.whatExpired(ctx)
	if err != nil || gone == nil {
		return handoff.SweepReach{Summary: handoff.SweepSummary{Outcome: maintenance.NothingToDo, Columns: expiryColumns()}}, err
	}
	head, err := s.head(ctx)
	if err != nil {
		return handoff.SweepReach{}, err
	}
	e := &expiry{step: s, head: head, gone: *gone, skipped: map[string]string{}}
	if err := e.prepare(ctx); err != nil {
		return handoff.SweepReach{}, err
	}
	result, err := e.find(ctx)
	if err != nil {
		return handoff.SweepReach{}, err
	}
	if s.deps.Grace != nil && result.ItemCount > 0 {
		// What this head does not reach was let go of by this expiry or by a later one, up to the head: a search after a crash comes late.
		letGo := max(gone.CommittedAtMS, head.Metadata.LastUpdatedMillis())
		result.NotBeforeMS = letGo + s.deps.Grace(s.in.Run.Table.Catalog).Milliseconds()
	}
	return result, nil
}

// whatExpired reads what the commit expired, or in a dry run what it would expire. nil: nothing, or a commit whose state nobody knows.
func (s *step) whatExpired(ctx context.Context) (*handoff.Expired, error) {
	if s.index.DryRun {
		var detail handoff.ExpireDetail
		if len(s.index.Detail) == 0 {
			return nil, nil //nolint:nilnil // nothing would expire
		}
		if err := json.Unmarshal(s.index.Detail, &detail); err != nil {
			return nil, fmt.Errorf("read the detail of %s: %w", s.work.Index(s.in.Job), err)
		}
		return &detail.Expired, nil
	}
	var commit handoff.CommitResult
	err := s.work.Read(ctx, s.work.Commit(s.in.Job, s.in.Batch), &commit)
	if errors.Is(err, store.ErrNotFound) || err == nil && commit.Outcome != maintenance.Committed {
		return nil, nil //nolint:nilnil // not provably committed
	}
	return commit.Expired, err
}

// expiry is one search for the files of expired snapshots.
type expiry struct {
	*step
	head *lake.Table
	gone handoff.Expired
	// kept are the head's snapshots that stay: all of them, but in a dry run those that would expire.
	kept    []table.Snapshot
	places  []string
	outside bool

	mu      sync.Mutex
	skipped map[string]string
}

// prepare finds what stays, and refuses when the head contradicts the expiry.
func (e *expiry) prepare(ctx context.Context) error {
	if err := ownsFiles(e.head); err != nil {
		return err
	}
	// Another entry of the catalog may need what this one let go: a table that was registered twice.
	home, err := reach.Folder(e.head.Metadata.Location())
	if err != nil {
		return err
	}
	if _, err := e.neighbours(ctx, e.head, home); err != nil {
		return err
	}
	expired := make(map[int64]bool, len(e.gone.SnapshotIDs))
	for _, id := range e.gone.SnapshotIDs {
		expired[id] = true
	}
	present := map[int64]bool{}
	for _, snap := range e.head.Metadata.Snapshots() {
		if e.index.DryRun && expired[snap.SnapshotID] {
			continue
		}
		present[snap.SnapshotID] = true
		e.kept = append(e.kept, snap)
	}
	for name, ref := range e.head.Metadata.Refs() {
		if !expired[ref.SnapshotID] || present[ref.SnapshotID] || e.index.DryRun && slices.Contains(e.gone.Refs, name) {
			continue
		}
		return refusef("ref %s points to snapshot %d, which has expired: somebody made it meanwhile", name, ref.SnapshotID)
	}
	e.places, err = reach.Places(e.head.Metadata.Location(), e.head.Metadata.Properties())
	e.outside = e.index.Request.Args[handoff.ArgDeleteOutside] == "true"
	return err
}

func (e *expiry) find(ctx context.Context) (handoff.SweepReach, error) {
	found := reach.NewSorter(e.space("expired"))
	walk := &reach.Walk{Store: e.st, Candidates: true}
	manifests := reach.NewSorter(e.space("kept-manifests"))
	// The kept manifests are met first: the walk then never reads them on the expired side.
	if err := walk.Snapshots(ctx, e.kept, reach.ListsOnly, manifests.Add); err != nil {
		return handoff.SweepReach{}, err
	}
	if err := e.walkExpired(ctx, walk, found.Add); err != nil {
		return handoff.SweepReach{}, err
	}
	reached := reach.NewSorter(e.space("reached"))
	if keys := found.Keys(); keys != nil {
		reached.KeepOnly(func(f reach.File) bool { _, ok := keys[f.Path()]; return ok })
	}
	full := &reach.Walk{Store: e.st}
	if err := e.walkKept(ctx, full, reached.Add); err != nil {
		return handoff.SweepReach{}, err
	}
	result, err := e.subtract(ctx, found, reached)
	if err != nil {
		return result, err
	}
	proof, err := e.prove(ctx, e.head, e.kept, manifests.Files(ctx))
	result.Proofs = []handoff.SweepProof{proof}
	a, b := walk.Counts(), full.Counts()
	result.Summary.Lists, result.Summary.Manifests, result.Summary.Entries = a.Lists+b.Lists, a.Manifests+b.Manifests, a.Entries+b.Entries
	return result, err
}

// walkExpired finds what the expired snapshots reached. A list or manifest that is gone or broken is skipped and reported: it stays, and so does
// what only it named.
func (e *expiry) walkExpired(ctx context.Context, walk *reach.Walk, sink reach.Sink) error {
	walk.Skip = e.skip
	return walkGone(ctx, byLists(&e.gone), walk, reach.WithEntries, sink)
}

// gone is what a table no longer has: snapshots, with as much of them as is known, and statistics files.
type gone struct {
	snapshots  []table.Snapshot
	statistics []string
}

// byLists is what an expiry wrote down: of snapshots their lists only.
func byLists(e *handoff.Expired) gone {
	g := gone{snapshots: make([]table.Snapshot, len(e.ManifestLists)), statistics: e.Statistics}
	for i, location := range e.ManifestLists {
		g.snapshots[i].ManifestList = location
	}
	return g
}

// walkGone tells a sink of what the snapshots reached, their lists with it, and of the statistics.
func walkGone(ctx context.Context, g gone, walk *reach.Walk, depth reach.ReadManifests, sink reach.Sink) error {
	if err := walk.Snapshots(ctx, g.snapshots, depth, sink); err != nil {
		return err
	}
	var lists []string
	for _, snap := range g.snapshots {
		if snap.ManifestList != "" { // version 1 has snapshots without a list
			lists = append(lists, snap.ManifestList)
		}
	}
	for kind, locations := range map[reach.Kind][]string{reach.ManifestList: lists, reach.Statistics: g.statistics} {
		for _, location := range locations {
			f, err := reach.NewFile(location, kind, -1, 0)
			if err != nil {
				return err
			}
			if err := sink(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// skip remembers an expired list or manifest that cannot be read. What may pass by itself ends the search instead.
func (e *expiry) skip(location string, err error) error {
	if errors.Is(err, store.ErrTransient) || errors.Is(err, store.ErrPermission) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e.log.Warn("an expired file cannot be read and is left", "location", location, "error", err.Error())
	e.mu.Lock()
	defer e.mu.Unlock()
	e.skipped[location] = err.Error()
	return nil
}

// walkKept finds everything that the head reaches. Here every error ends the search.
func (e *expiry) walkKept(ctx context.Context, walk *reach.Walk, sink reach.Sink) error {
	roots, err := reach.Roots(e.head.Metadata, e.head.Pointer.MetadataLocation)
	if err != nil {
		return err
	}
	gone := map[string]bool{}
	if e.index.DryRun {
		for _, location := range append(e.gone.ManifestLists, e.gone.Statistics...) {
			gone[location] = true
		}
	}
	for _, f := range roots {
		if gone[f.Location] {
			continue
		}
		if err := sink(ctx, f); err != nil {
			return err
		}
	}
	return walk.Snapshots(ctx, e.kept, reach.WithEntries, sink)
}

// subtract writes the candidates.
func (e *expiry) subtract(ctx context.Context, found, reached *reach.Sorter) (handoff.SweepReach, error) {
	c, err := e.newCandidates(ctx)
	if err != nil {
		return handoff.SweepReach{}, err
	}
	c.summary.Columns = expiryColumns()
	for m, err := range reach.Join(found.Files(ctx), reached.Files(ctx)) {
		if err == nil {
			err = e.judge(ctx, c, m)
		}
		if err != nil {
			c.abort(ctx)
			return handoff.SweepReach{}, err
		}
	}
	return c.finish(ctx)
}

func (e *expiry) judge(ctx context.Context, c *candidates, m reach.Match) error {
	fault, skipped := e.skipped[m.Location]
	switch {
	case len(m.Reached) > 0:
		for _, r := range m.Reached {
			if r.Canonical() == m.Canonical() {
				return nil // in use
			}
		}
		c.summary.Keep(m.Location, "the table reaches "+m.Reached[0].Location+", which differs in scheme or bucket only")
	case skipped:
		c.summary.Keep(m.Location, "it cannot be read: "+fault)
	case !e.outside && !reach.Inside(m.File, e.places):
		c.summary.Keep(m.Location, "it lies outside of the table's folders ("+handoff.ArgDeleteOutside+" allows it)")
	default:
		return c.add(ctx, m.File)
	}
	return nil
}

// ownsFiles refuses tables whose files are not ours to delete.
func ownsFiles(t *lake.Table) error {
	if gc, ok := t.Metadata.Properties()["gc.enabled"]; ok && !strings.EqualFold(gc, "true") { // as Java's parseBoolean
		return refusef("gc.enabled is false: the table may share its files with other tables")
	}
	return nil
}
