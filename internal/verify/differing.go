package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
	"firn/internal/lake/produce"
)

// liveFile is a live data file of one of the two snapshots with the delete files that apply to it.
type liveFile struct {
	lake.Entry
	deletes []lake.Entry
}

// state is one of the two snapshots.
type state struct {
	manifests []iceberg.ManifestFile
	deletes   *lake.DeleteIndex
	// live names its delete files.
	live map[produce.File]bool
}

func (v *Verifier) state(ctx context.Context, t *lake.Table, snap *table.Snapshot) (state, error) {
	var s state
	var err error
	if s.manifests, err = lake.Manifests(ctx, v.Store, snap); err != nil {
		return s, err
	}
	if s.deletes, err = lake.BuildDeleteIndex(ctx, v.Store, t, s.manifests); err != nil {
		return s, err
	}
	s.live = map[produce.File]bool{}
	for _, d := range s.deletes.All() {
		s.live[produce.FileOf(d.File)] = true
	}
	return s, nil
}

// differing are the files of each snapshot that the other lacks, and those that are live in both with other deletes. Files of manifests that both
// list are looked at only when the snapshots differ in delete files.
func (v *Verifier) differing(ctx context.Context, t *lake.Table, parent, snap *table.Snapshot) (before, after []liveFile, err error) {
	old, err := v.state(ctx, t, parent)
	if err != nil {
		return nil, nil, err
	}
	now, err := v.state(ctx, t, snap)
	if err != nil {
		return nil, nil, err
	}
	shared := map[string]bool{}
	for _, m := range old.manifests {
		shared[m.FilePath()] = false
	}
	for _, m := range now.manifests {
		if _, both := shared[m.FilePath()]; both {
			shared[m.FilePath()] = true
		}
	}
	sameDeletes := maps.Equal(old.live, now.live)
	olds, err := v.own(ctx, old, shared)
	if err != nil {
		return nil, nil, err
	}
	for e, err := range v.entries(ctx, now.manifests, func(m string) bool { return !shared[m] || !sameDeletes }) {
		if err != nil {
			return nil, nil, err
		}
		f := liveFile{Entry: e}
		if f.deletes, err = now.deletes.For(e); err != nil {
			return nil, nil, err
		}
		was := liveFile{Entry: e}
		if !shared[e.Manifest] {
			twins := olds[identity(e)]
			if len(twins) == 0 {
				after = append(after, f)
				continue
			}
			was, olds[identity(e)] = twins[0], twins[1:]
		}
		if was.deletes, err = old.deletes.For(was.Entry); err != nil {
			return nil, nil, err
		}
		if !slices.Equal(names(f.deletes), names(was.deletes)) {
			before, after = append(before, was), append(after, f)
		}
	}
	for _, left := range olds {
		for _, f := range left {
			if f.deletes, err = old.deletes.For(f.Entry); err != nil {
				return nil, nil, err
			}
			before = append(before, f)
		}
	}
	byPlace := func(a, b liveFile) int { return strings.Compare(a.File.FilePath(), b.File.FilePath()) }
	slices.SortFunc(before, byPlace)
	slices.SortFunc(after, byPlace)
	return before, after, nil
}

// own are the live files of manifests that the other snapshot does not list, by identity.
func (v *Verifier) own(ctx context.Context, s state, shared map[string]bool) (map[string][]liveFile, error) {
	out := map[string][]liveFile{}
	for e, err := range v.entries(ctx, s.manifests, func(m string) bool { return !shared[m] }) {
		if err != nil {
			return nil, err
		}
		out[identity(e)] = append(out[identity(e)], liveFile{Entry: e})
	}
	return out, nil
}

// entries streams the live data files of the chosen manifests.
func (v *Verifier) entries(ctx context.Context, manifests []iceberg.ManifestFile, chosen func(location string) bool,
) func(yield func(lake.Entry, error) bool) {
	return func(yield func(lake.Entry, error) bool) {
		var memo lake.Memo
		for _, m := range manifests {
			if m.ManifestContent() != iceberg.ManifestContentData || !chosen(m.FilePath()) {
				continue
			}
			for e, err := range lake.Entries(ctx, v.Store, m, lake.EntryOptions{WithoutStats: true, PruningStats: true, Memo: &memo}) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// identity is what must agree for two entries to mean the same rows, deletes aside.
func identity(e lake.Entry) string {
	return fmt.Sprintf("%d %d %d %s", e.SpecID, e.File.Count(), e.File.FileSizeBytes(), e.File.FilePath())
}

// names spells a set of delete files in a form that compares.
func names(deletes []lake.Entry) []string {
	out := make([]string, len(deletes))
	for i, d := range deletes {
		f := produce.FileOf(d.File)
		out[i] = fmt.Sprintf("%d %s", f.Offset, f.Path)
	}
	slices.Sort(out)
	return out
}
