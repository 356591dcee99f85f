package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"firn/internal/contract"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/store"
)

const (
	// workRetention is how long a run's work objects stay on a laptop: deletion manifests and lists of files are read days after a run.
	workRetention = 30 * 24 * time.Hour
	// maxTidied bounds how many old runs one run clears away.
	maxTidied = 20
)

// tidy removes the work folders of this machine's old runs, unfinished writes in them included. A run qualifies that has a record in this machine's
// history, is not alive, and is settled. Work in a bucket is left to a lifecycle rule. Trouble is logged: it is not the coming run's.
func (r *Runner) tidy(ctx context.Context, st state.Store) {
	loc, err := store.ParseLocation(r.Clients.Settings().WorkLocation)
	if err != nil || loc.Scheme != "file" {
		return
	}
	removed := 0
	for _, folder := range oldFolders(filepath.Join(loc.Key, contract.WorkPrefix), time.Now().Add(-workRetention)) {
		if removed == maxTidied || ctx.Err() != nil {
			return
		}
		gone, err := r.tidyRun(ctx, st, loc.Key, folder)
		if err != nil {
			r.Log.WarnContext(ctx, "an old run's work stays", "folder", folder, "error", err)
			return
		}
		if gone {
			removed++
		}
	}
}

// oldFolders lists the folders in a folder in which nothing was made since a time, oldest first.
func oldFolders(root string, since time.Time) []string {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil // nothing ran yet
	}
	ages := map[string]time.Time{}
	var out []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !info.ModTime().Before(since) {
			continue
		}
		path := filepath.Join(root, e.Name())
		ages[path] = info.ModTime()
		out = append(out, path)
	}
	slices.SortFunc(out, func(a, b string) int { return ages[a].Compare(ages[b]) })
	return out
}

// tidyRun removes a run's folder if the run is ours and at its end.
func (r *Runner) tidyRun(ctx context.Context, st state.Store, work, folder string) (bool, error) {
	id := maintenance.RunID(filepath.Base(folder))
	if id.Validate() != nil {
		return false, nil
	}
	record, found, err := st.FindRun(ctx, id)
	if err != nil || !found {
		return false, err
	}
	mark := filepath.Join(work, contract.UnsettledPrefix, record.Run.TableUUID, string(id)+".json")
	if _, err := os.Stat(mark); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if held, found, err := st.Current(ctx, record.Run.Table); err != nil || found && held.RunID == id {
		return false, err
	}
	lock, err := r.lock(id)
	if err != nil {
		return false, nil //nolint:nilerr // a living process has it
	}
	defer r.unlock(lock)
	return true, os.RemoveAll(folder)
}
