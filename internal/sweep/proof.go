package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/apache/iceberg-go/table"

	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/reach"
	"firn/internal/store"
)

// prove writes down which snapshots and manifests of a table were walked, so that delete can extend the proof by what came since. kept are the
// snapshots that were walked, manifests the set of their manifests.
func (s *step) prove(ctx context.Context, t *lake.Table, kept []table.Snapshot, manifests iter.Seq2[reach.File, error]) (handoff.SweepProof, error) {
	proof := handoff.SweepProof{
		Table: t.ID, UUID: t.Metadata.TableUUID().String(), MetadataLocation: t.Pointer.MetadataLocation,
		Manifests: s.part("manifests-" + t.Metadata.TableUUID().String() + ".run"),
	}
	for i := range kept {
		proof.SnapshotIDs = append(proof.SnapshotIDs, kept[i].SnapshotID)
	}
	_, err := reach.WriteRun(ctx, s.deps.Work, proof.Manifests, manifests)
	return proof, err
}

// guard watches candidates against what is committed after the proof. Its candidates are one range, so that it stays small.
type guard struct {
	*step
	proofs []handoff.SweepProof
	// checked is, for each proof, the metadata file up to which the candidates were checked: at first the proof's own.
	checked    []string
	candidates map[string]struct{}

	mu      sync.Mutex
	reached map[string]string
}

func (s *step) newGuard(proofs []handoff.SweepProof, candidates []reach.File) *guard {
	g := &guard{step: s, proofs: proofs, candidates: make(map[string]struct{}, len(candidates)), reached: map[string]string{}}
	for _, p := range proofs {
		g.checked = append(g.checked, p.MetadataLocation)
	}
	for _, f := range candidates {
		g.candidates[f.Path()] = struct{}{}
	}
	return g
}

// reason says why a candidate must stay, "" when it may go.
func (g *guard) reason(f reach.File) string { return g.reached[f.Path()] }

// refresh loads each proof's table fresh and finds which candidates are reachable from it: from its metadata file, its log, its statistics, and
// from every snapshot that the proof has not walked. A head that was checked before costs one call of the catalog.
func (g *guard) refresh(ctx context.Context) error {
	for i, proof := range g.proofs {
		ptr, err := g.cat.Load(ctx, proof.Table)
		if err != nil {
			return fmt.Errorf("load table %s: %w", proof.Table, err)
		}
		if ptr.MetadataLocation == g.checked[i] {
			continue
		}
		t, err := lake.Read(ctx, g.st, proof.Table, ptr)
		if err != nil {
			return err
		}
		if have := t.Metadata.TableUUID().String(); have != proof.UUID {
			return refusef("table %s was made anew: its UUID is %s, the proof is about %s", proof.Table, have, proof.UUID)
		}
		if err := g.check(ctx, proof, t); err != nil {
			return err
		}
		g.checked[i] = ptr.MetadataLocation
	}
	return nil
}

// hit remembers a candidate that is reachable.
func (g *guard) hit(reason string) reach.Sink {
	return func(_ context.Context, f reach.File) error {
		if _, ok := g.candidates[f.Path()]; !ok {
			return nil
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.reached[f.Path()] = reason
		return nil
	}
}

// check walks a head: its own files, the snapshots that the proof has not walked, and of their manifests those that it has not read.
func (g *guard) check(ctx context.Context, proof handoff.SweepProof, t *lake.Table) error {
	hit := g.hit("reachable again from " + t.Pointer.MetadataLocation)
	roots, err := reach.Roots(t.Metadata, t.Pointer.MetadataLocation)
	if err != nil {
		return err
	}
	for _, f := range roots {
		_ = hit(ctx, f) // never fails
	}
	walked := make(map[int64]struct{}, len(proof.SnapshotIDs))
	for _, id := range proof.SnapshotIDs {
		walked[id] = struct{}{}
	}
	var fresh []table.Snapshot
	for _, snap := range t.Metadata.Snapshots() {
		if _, ok := walked[snap.SnapshotID]; !ok {
			fresh = append(fresh, snap)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	walk := reach.Walk{Store: g.st}
	for f, err := range reach.ReadRun(ctx, g.deps.Work, proof.Manifests) {
		if err != nil {
			return err
		}
		if _, err := walk.Met(f.Location); err != nil {
			return err
		}
	}
	return walk.Snapshots(ctx, fresh, reach.WithEntries, hit)
}

// lately tells a sink of the files of snapshots that left a table within the grace period, whoever expired them: also another engine, and a request of ours that
// landed after its run was closed. The metadata files that were current within the period name them.
func (s *step) lately(ctx context.Context, t *lake.Table, walk *reach.Walk, depth reach.ReadManifests, sink reach.Sink) error {
	if s.deps.Grace == nil {
		return nil
	}
	begin := s.deps.Now().Add(-s.deps.Grace(t.ID.Catalog)).UnixMilli()
	until := t.Metadata.LastUpdatedMillis()
	log := slices.SortedStableFunc(t.Metadata.PreviousFiles(), func(a, b table.MetadataLogEntry) int { return cmp.Compare(b.TimestampMs, a.TimestampMs) })
	snapshots, statistics := map[int64]table.Snapshot{}, map[string]struct{}{}
	for _, e := range log {
		if until <= begin {
			break // what follows was replaced before the period
		}
		until = e.TimestampMs
		before, err := lake.Read(ctx, s.st, t.ID, catalogs.Pointer{MetadataLocation: e.MetadataFile})
		if errors.Is(err, store.ErrNotFound) {
			continue // the log is being cut
		}
		if err != nil {
			return err
		}
		for _, snap := range before.Metadata.Snapshots() {
			if t.Metadata.SnapshotByID(snap.SnapshotID) == nil {
				snapshots[snap.SnapshotID] = snap
			}
		}
		for f := range statisticsOf(before.Metadata) {
			statistics[f] = struct{}{}
		}
	}
	for f := range statisticsOf(t.Metadata) {
		delete(statistics, f)
	}
	byID := slices.SortedFunc(maps.Values(snapshots), func(a, b table.Snapshot) int { return cmp.Compare(a.SnapshotID, b.SnapshotID) })
	return s.keepGone(ctx, gone{byID, slices.Sorted(maps.Keys(statistics))}, walk, depth, sink)
}

// statisticsOf are the locations of a table's statistics files.
func statisticsOf(meta table.Metadata) iter.Seq[string] {
	return func(yield func(string) bool) {
		for f := range meta.Statistics() {
			if !yield(f.StatisticsPath) {
				return
			}
		}
		for f := range meta.PartitionStatistics() {
			if !yield(f.StatisticsPath) {
				return
			}
		}
	}
}

// keepGone tells a sink of what a table no longer has. What of that is deleted already needs no protection.
func (s *step) keepGone(ctx context.Context, g gone, walk *reach.Walk, depth reach.ReadManifests, sink reach.Sink) error {
	walk.Skip = func(location string, err error) error {
		if errors.Is(err, store.ErrNotFound) {
			s.log.InfoContext(ctx, "a file of a snapshot that expired is gone", "location", location)
			return nil
		}
		return err
	}
	return walkGone(ctx, g, walk, depth, sink)
}
