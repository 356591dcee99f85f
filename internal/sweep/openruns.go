package sweep

import (
	"context"
	"fmt"
	"path"
	"strings"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// openRuns recognises outputs of our own runs by the run ID in their names.
type openRuns struct {
	*step
	// seen remembers which run IDs have a folder in the work location.
	seen map[string]bool
}

// protects says why a file must stay although nothing reaches it: a run of ours that the work location still knows wrote it, and it is younger
// than the default horizon. Such a run may not be settled; its commit may still land.
func (o *openRuns) protects(ctx context.Context, f reach.File, plannedAtMS int64) (string, error) {
	if f.ModifiedAtMS < plannedAtMS-decide.DefaultOrphanAge.Milliseconds() {
		return "", nil
	}
	for _, id := range runIDs(path.Base(f.Path())) {
		known, ok := o.seen[id]
		if !ok {
			for _, err := range o.deps.Work.List(ctx, store.Join(o.deps.WorkLocation, contract.WorkPrefix, id, ""), store.ListOptions{}) {
				if err != nil {
					return "", fmt.Errorf("look for run %s: %w", id, err)
				}
				known = true
				break
			}
			o.seen[id] = known
		}
		if known {
			return "run " + id + " wrote it, which may not be settled", nil
		}
	}
	return "", nil
}

// runIDs finds the run IDs in a file name: parts of it that could be one.
func runIDs(name string) []string {
	var ids []string
	for _, part := range strings.FieldsFunc(name, func(c rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz234567", c) }) {
		if maintenance.RunID(part).Validate() == nil {
			ids = append(ids, part)
		}
	}
	return ids
}

// abortUploads gives up the incomplete multipart uploads under the swept folder that are older than the horizon. They are invisible to every
// reader; only the age tells whether their writer is still at work.
func (o *orphanSearch) abortUploads(ctx context.Context) (int64, error) {
	return o.eachUpload(ctx, o.swept, func(u store.IncompleteUpload) (bool, error) {
		f, err := reach.NewFile(u.Location, reach.Listed, -1, 0)
		if err != nil {
			return false, err
		}
		if u.StartedAt.UnixMilli() >= o.rules.OlderThanMS || u.StartedAt.UnixMilli() <= 0 || reach.Inside(f, o.others.nested) || o.inWork(f) {
			return false, nil
		}
		f.ModifiedAtMS = u.StartedAt.UnixMilli()
		open, err := o.runs.protects(ctx, f, o.index.PlannedAtMS)
		return open == "", err
	})
}

// eachUpload aborts the incomplete uploads under a prefix that want asks for, and counts them. In a dry run it only counts.
func (s *step) eachUpload(ctx context.Context, prefix string, want func(store.IncompleteUpload) (bool, error)) (int64, error) {
	var found []store.IncompleteUpload
	for u, err := range s.st.Uploads(ctx, prefix) {
		if err != nil {
			return 0, err
		}
		yes, err := want(u)
		if err != nil {
			return 0, err
		}
		if yes {
			found = append(found, u)
		}
	}
	if s.index.DryRun {
		return int64(len(found)), nil
	}
	aborted := int64(0)
	for _, u := range found {
		if err := s.st.AbortUpload(ctx, u); err != nil {
			s.log.WarnContext(ctx, "an incomplete upload stays", "location", u.Location, "error", err.Error())
			continue
		}
		s.log.InfoContext(ctx, "an incomplete upload was given up", "location", u.Location, "started_at", u.StartedAt.UTC().String())
		aborted++
	}
	return aborted, nil
}

// ofRun reports whether an object's name holds the run's ID.
func (s *step) ofRun(location string) bool {
	return strings.Contains(path.Base(location), string(s.in.Run.RunID))
}
