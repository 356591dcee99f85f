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
