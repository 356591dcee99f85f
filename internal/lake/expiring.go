package lake

import (
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/decide"
)

// Expiring is what an expiry would remove from a state of a table.
type Expiring struct {
	decide.SnapshotsPlan
	// ManifestLists are the lists of the expired snapshots, Statistics their statistics and partition statistics files.
	ManifestLists []string
	Statistics    []string
}

// Expiring applies the retention rules of decide.Snapshots to the state; ages of refs are measured by now.
func (t *Table) Expiring(opts decide.SnapshotsOptions, now time.Time) (Expiring, error) {
	in := decide.SnapshotsInput{NowMS: now.UnixMilli(), Options: opts}
	for _, s := range t.Metadata.Snapshots() {
		snap := decide.Snapshot{ID: s.SnapshotID, ParentID: s.ParentSnapshotID, TimestampMS: s.TimestampMs}
		if s.Summary != nil {
			snap.Summary = s.Summary.Properties
		}
		in.Snapshots = append(in.Snapshots, snap)
	}
	for name, ref := range t.Metadata.Refs() {
		in.Refs = append(in.Refs, decide.Ref{
			Name: name, SnapshotID: ref.SnapshotID, Branch: ref.SnapshotRefType == table.BranchRef, MinSnapshotsToKeep: ref.MinSnapshotsToKeep,
			MaxSnapshotAgeMS: ref.MaxSnapshotAgeMs, MaxRefAgeMS: ref.MaxRefAgeMs,
		})
	}
	slices.SortFunc(in.Refs, func(a, b decide.Ref) int { return strings.Compare(a.Name, b.Name) })
	plan, err := decide.Snapshots(in)
	if err != nil {
		return Expiring{}, err
	}
	e := Expiring{SnapshotsPlan: plan}
	gone := make(map[int64]bool, len(plan.ExpiredIDs))
	for _, id := range plan.ExpiredIDs {
		gone[id] = true
		if snap := t.Metadata.SnapshotByID(id); snap.ManifestList != "" {
			e.ManifestLists = append(e.ManifestLists, snap.ManifestList)
		}
	}
	for s := range t.Metadata.Statistics() {
		if gone[s.SnapshotID] {
			e.Statistics = append(e.Statistics, s.StatisticsPath)
		}
	}
	for s := range t.Metadata.PartitionStatistics() {
		if gone[s.SnapshotID] {
			e.Statistics = append(e.Statistics, s.StatisticsPath)
		}
	}
	return e, nil
}
