package commit

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// standing is how the batch stands after its earlier attempts, as a head shows it.
type standing int

const (
	// clear: no attempt landed, and none can land any more.
	clearToGo standing = iota
	// landed: an attempt is in the table.
	landed
	// pending: an attempt may still land: only the same snapshot may be sent again.
	pending
)

// settleSnapshot looks at a head for the batch's attempts and writes down what it proves. n is the attempt that landed or is pending.
func (s *session) settleSnapshot(ctx context.Context, head *lake.Table, branch string, sinceSequence int64) (st standing, n int, err error) {
	for n, f := range s.fates {
		if f.end == maintenance.Committed {
			return landed, n, nil
		}
	}
	open := s.open()
	if len(open) == 0 {
		return clearToGo, -1, nil
	}
	n, err = s.find(ctx, head, open, sinceSequence)
	if err != nil {
		return pending, -1, fmt.Errorf("look for earlier attempts: %w", err)
	}
	if n >= 0 {
		if err := s.conclude(ctx, n, maintenance.Committed); err != nil {
			return pending, n, err
		}
		return landed, n, s.concludeMoved(ctx, head, branch)
	}
	if err := s.concludeMoved(ctx, head, branch); err != nil {
		return pending, -1, err
	}
	if open = s.open(); len(open) > 0 {
		return pending, open[len(open)-1], nil
	}
	return clearToGo, -1, nil
}

// concludeMoved settles every open attempt that got a definite no, or whose asserted pointer has moved: it did not land and cannot land.
func (s *session) concludeMoved(ctx context.Context, head *lake.Table, branch string) error {
	now := handoff.Head{Version: pointerText(head), LastSequenceNumber: head.Metadata.LastSequenceNumber()}
	if snap, err := head.Head(branch); err == nil && snap != nil {
		now.BranchHead = snap.SnapshotID
	}
	for _, n := range s.open() {
		end := s.fates[n].said
		if end == "" && s.fates[n].Moved(now) {
			end = maintenance.Conflict
		}
		if end == "" {
			continue
		}
		if err := s.conclude(ctx, n, end); err != nil {
			return err
		}
	}
	return nil
}

// find looks for an open attempt in the retained snapshots: by its commit ID in a summary, else by one of its manifests in any list, or one of its
// outputs in any manifest, that was written after T0, since the snapshot itself may have expired while its files live on.
func (s *session) find(ctx context.Context, head *lake.Table, open []int, sinceSequence int64) (int, error) {
	for _, snap := range head.Metadata.Snapshots() {
		for _, n := range open {
			if s.fates[n].SnapshotID != 0 && snap.SnapshotID == s.fates[n].SnapshotID {
				return n, nil
			}
		}
		if snap.Summary != nil && snap.Summary.Properties[contract.SummaryCommitID] == string(s.commitID()) {
			return -1, fmt.Errorf("snapshot %d carries commit ID %s but no attempt of the fate log has its ID", snap.SnapshotID, s.commitID())
		}
	}
	outputs, written := map[string]bool{}, map[string]int{}
	open = slices.DeleteFunc(open, func(n int) bool { return s.fates[n].said != "" })
	for _, n := range open {
		for _, path := range s.fates[n].Paths {
			outputs[path] = true
		}
		for _, path := range s.fates[n].Metadata {
			written[path] = n
		}
	}
	if len(open) == 0 {
		return -1, nil
	}
	seen := map[string]bool{}
	for _, snap := range head.Metadata.Snapshots() {
		if head.Metadata.Version() > 1 && snap.SequenceNumber <= sinceSequence {
			continue
		}
		manifests, err := lake.Manifests(ctx, s.port.Store, &snap)
		if err != nil {
			return -1, err
		}
		for _, m := range manifests {
			if n, ours := written[m.FilePath()]; ours {
				return n, nil
			}
			old := head.Metadata.Version() > 1 && m.SequenceNum() <= sinceSequence
			if len(outputs) == 0 || seen[m.FilePath()] || old || m.ManifestContent() != s.outputContent() {
				continue
			}
			seen[m.FilePath()] = true
			if n, err := s.findIn(ctx, m, open, outputs); n >= 0 || err != nil {
				return n, err
			}
		}
	}
	return -1, nil
}

// outputContent is the kind of manifest that lists the job's outputs.
func (s *session) outputContent() iceberg.ManifestContent {
	if s.in.Job == maintenance.RewritePositionDeleteFiles || s.in.Job == maintenance.RewriteEqualityDeleteFiles {
		return iceberg.ManifestContentDeletes
	}
	return iceberg.ManifestContentData
}

// findIn looks for the outputs in one manifest. A tombstone proves a commit as well as a live entry does.
func (s *session) findIn(ctx context.Context, m iceberg.ManifestFile, open []int, outputs map[string]bool) (int, error) {
	for e, err := range lake.Entries(ctx, s.port.Store, m, lake.EntryOptions{IncludeDeleted: true, WithoutStats: true}) {
		if err != nil {
			return -1, err
		}
		if !outputs[e.File.FilePath()] {
			continue
		}
		found := -1
		for _, n := range open {
			for _, path := range s.fates[n].Paths {
				// Attempts hold different groups, hence different outputs; the entry's snapshot tells two attempts with the same ones apart.
				if path == e.File.FilePath() && (found < 0 || s.fates[n].SnapshotID == e.SnapshotID) {
					found = n
				}
			}
		}
		return found, nil
	}
	return -1, nil
}
