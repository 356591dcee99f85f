package reach

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"

	"firn/internal/lake/manifest"
	"firn/internal/lake/peek"
	"firn/internal/store"
)

const (
	// DefaultConcurrency is how many manifests are read at once. A manifest of 8 MiB decodes in place: eight of them stay under 100 MiB.
	DefaultConcurrency = 8
	// listConcurrency is how many manifest lists are read at once: they are small, and an expiry after a long time has very many.
	listConcurrency = 16
	// listChunk is how many manifest lists are read before their new manifests are: it bounds the manifests held in memory.
	listChunk = 64
)

// Counts says what a walk read.
type Counts struct {
	// Lists, Manifests and Entries count what was read; a manifest that several snapshots share counts once.
	Lists, Manifests, Entries int64
}

// Walk reads manifest lists and manifests of one table. It remembers which manifests it has met, so that each is read once whatever number of
// snapshots share it.
type Walk struct {
	// Store reads the files.
	Store store.Reader
	// Concurrency bounds parallel reads of manifests; 0 means DefaultConcurrency.
	Concurrency int
	// Skip is asked when a list or manifest cannot be read: nil means that the walk goes on without it, an error ends the walk. Without Skip
	// every error ends it. It may be called concurrently.
	Skip func(location string, err error) error
	// Candidates says that the walk looks for what may be deleted. Manifests that hold only entries of removed files, by their lines in the lists, are then
	// not read: should a line be wrong, less is deleted. A walk for what must stay reads them all.
	Candidates bool

	mu        sync.Mutex
	manifests map[place]struct{}
	spelled   map[string]struct{}
	counts    Counts
	memo      manifest.Memo
}

// Counts says what was read so far.
func (w *Walk) Counts() Counts {
	return Counts{
		Lists:     atomic.LoadInt64(&w.counts.Lists),
		Manifests: atomic.LoadInt64(&w.counts.Manifests),
		Entries:   atomic.LoadInt64(&w.counts.Entries),
	}
}

// Met reports whether a manifest was met, and remembers it. Lists name the same manifests in the same words again and again, so that most are known
// before their location is looked into.
func (w *Walk) Met(manifest string) (bool, error) {
	w.mu.Lock()
	_, met := w.spelled[manifest]
	w.mu.Unlock()
	if met {
		return true, nil
	}
	p, err := placeOf(manifest)
	if err != nil {
		return false, fmt.Errorf("remember the manifest %q: %w", manifest, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.manifests == nil {
		w.manifests, w.spelled = map[place]struct{}{}, map[string]struct{}{}
	}
	_, met = w.manifests[p]
	w.manifests[p], w.spelled[manifest] = struct{}{}, struct{}{}
	return met, nil
}

// Sink takes the files that a walk finds. It must be safe for concurrent use.
type Sink func(ctx context.Context, f File) error

// ReadManifests says what Snapshots does with the manifests that it meets for the first time.
type ReadManifests bool

// The two depths of a walk.
const (
	// ListsOnly stops at the manifests' names.
	ListsOnly ReadManifests = false
	// WithEntries reads the manifests.
	WithEntries ReadManifests = true
)

// Snapshots hands every manifest that it meets for the first time to sink, and, if depth says so, the content files that are live in it.
func (w *Walk) Snapshots(ctx context.Context, snapshots []table.Snapshot, depth ReadManifests, sink Sink) error {
	for len(snapshots) > 0 {
		part := snapshots[:min(listChunk, len(snapshots))]
		snapshots = snapshots[len(part):]
		fresh, err := w.readLists(ctx, part, sink)
		if err != nil {
			return err
		}
		if depth == ListsOnly {
			continue
		}
		if err := w.Entries(ctx, fresh, sink); err != nil {
			return err
		}
	}
	return nil
}

// readLists reads lists in parallel and returns the manifests met for the first time.
func (w *Walk) readLists(ctx context.Context, snapshots []table.Snapshot, sink Sink) ([]iceberg.ManifestFile, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listConcurrency)
	var mu sync.Mutex
	var fresh []iceberg.ManifestFile
	for i := range snapshots {
		group.Go(func() error {
			manifests, err := w.list(ctx, &snapshots[i])
			if err != nil {
				return w.skip(ctx, snapshots[i].ManifestList, err)
			}
			for _, m := range manifests {
				met, err := w.Met(m.FilePath())
				if err != nil {
					return err
				}
				if met {
					continue
				}
				f, err := NewFile(m.FilePath(), Manifest, m.Length(), 0)
				if err != nil {
					return fmt.Errorf("read the manifest list of snapshot %d: %w", snapshots[i].SnapshotID, err)
				}
				if err := sink(ctx, f); err != nil {
					return err
				}
				mu.Lock()
				fresh = append(fresh, m)
				mu.Unlock()
			}
			return nil
		})
	}
	return fresh, group.Wait()
}

// knows reports whether a manifest was met in these words.
func (w *Walk) knows(manifest []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, met := w.spelled[string(manifest)]
	return met
}

// list reads the manifests of a snapshot, those that are new in it at least: its list, or the names that a snapshot of format version 1 may hold itself.
func (w *Walk) list(ctx context.Context, s *table.Snapshot) ([]iceberg.ManifestFile, error) {
	atomic.AddInt64(&w.counts.Lists, 1)
	if s.ManifestList == "" {
		manifests := make([]iceberg.ManifestFile, len(s.ManifestLocations))
		for i, location := range s.ManifestLocations {
			manifests[i] = iceberg.NewManifestFile(1, location, -1, 0, s.SnapshotID).AddedFiles(-1).ExistingFiles(-1).Build()
		}
		return manifests, nil
	}
	manifests, count, err := peek.ManifestListBut(ctx, w.Store, s.ManifestList, &w.memo, w.knows)
	if err != nil {
		return nil, fmt.Errorf("read snapshot %d: %w", s.SnapshotID, err)
	}
	// A list that lost all behind its header reads as an empty one.
	if s.Summary != nil && count == 0 && s.Summary.Properties.GetInt64("total-data-files", 0) > 0 {
		return nil, fmt.Errorf("read snapshot %d: the manifest list %s is empty, and the snapshot has data files: %w", s.SnapshotID, s.ManifestList,
			peek.ErrTableFault)
	}
	return manifests, nil
}

// Entries hands the content files that are live in the manifests to sink, several manifests at a time.
func (w *Walk) Entries(ctx context.Context, manifests []iceberg.ManifestFile, sink Sink) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(w.limit())
	for _, m := range manifests {
		if w.Candidates && m.AddedDataFiles() == 0 && m.ExistingDataFiles() == 0 {
			continue
		}
		group.Go(func() error {
			atomic.AddInt64(&w.counts.Manifests, 1)
			for f, err := range liveFiles(ctx, w.Store, m, &w.memo) {
				if err != nil {
					return w.skip(ctx, m.FilePath(), err)
				}
				atomic.AddInt64(&w.counts.Entries, 1)
				if err := sink(ctx, f); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// skip decides about a file that cannot be read. A cancelled walk is never told as a fault of the file.
func (w *Walk) skip(ctx context.Context, location string, err error) error {
	if w.Skip == nil || ctx.Err() != nil {
		return err
	}
	return w.Skip(location, err)
}

func (w *Walk) limit() int {
	if w.Concurrency > 0 {
		return w.Concurrency
	}
	return DefaultConcurrency
}
