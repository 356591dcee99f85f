package reach_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
	"firn/internal/lake/reach"
	"firn/internal/store"
)

// gather is a sink that remembers files by kind.
type gather struct {
	mu    sync.Mutex
	found map[reach.Kind][]string
}

func (g *gather) sink(_ context.Context, f reach.File) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.found == nil {
		g.found = map[reach.Kind][]string{}
	}
	if !slices.Contains(g.found[f.Kind], f.Location) {
		g.found[f.Kind] = append(g.found[f.Kind], f.Location)
	}
	return nil
}

// TestWalkReadsEachManifestOnce walks every reference table: exactly the live files of all snapshots are found, and each list and manifest
// costs one request.
func TestWalkReadsEachManifestOnce(t *testing.T) {
	t.Parallel()
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		meta := ref.Table(t).Metadata
		st := store.NewFaults(ref.Store)
		g := &gather{}
		walk := reach.Walk{Store: st}
		if err := walk.Snapshots(t.Context(), meta.Snapshots(), reach.WithEntries, g.sink); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c := walk.Counts()
		if c.Lists != int64(len(meta.Snapshots())) || c.Manifests != int64(len(g.found[reach.Manifest])) || st.Count(store.OpGet) != int(c.Lists+c.Manifests) {
			t.Errorf("%s: %+v with %d requests for %d snapshots and %d manifests", name, c, st.Count(store.OpGet), len(meta.Snapshots()), len(g.found[reach.Manifest]))
		}
		for kind, entries := range map[reach.Kind][]icebergtest.ExpectedEntry{
			reach.Data: ref.Expected.Live.DataFiles, reach.EqualityDeletes: ref.Expected.Live.EqualityDeleteFiles,
			reach.PositionDeletes: append(slices.Clone(ref.Expected.Live.PositionDeleteFiles), ref.Expected.Live.DeletionVectors...),
		} {
			for _, e := range entries {
				if !slices.Contains(g.found[kind], e.Path) {
					t.Errorf("%s: %s %s was not found", name, kind, e.Path)
				}
			}
		}
	}
}

// TestDeletedEntriesReachNothing: a deleted file is reachable as long as an older snapshot has it, and by its tombstone not.
func TestDeletedEntriesReachNothing(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	first := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}))
	tbl.Commit(icebergtest.Remove(first.DataFiles[0]))
	snaps := tbl.State().Metadata.Snapshots()
	for _, c := range []struct {
		snaps []table.Snapshot
		want  bool
	}{{snaps, true}, {snaps[1:], false}} {
		g := &gather{}
		walk := reach.Walk{Store: w.Store}
		if err := walk.Snapshots(t.Context(), c.snaps, reach.WithEntries, g.sink); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(g.found[reach.Data], first.DataFiles[0]); got != c.want {
			t.Errorf("of %d snapshots: found %v, want %v", len(c.snaps), got, c.want)
		}
	}
}

// TestEmbeddedManifests: a snapshot of format version 1 may name its manifests itself.
func TestEmbeddedManifests(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Version(1))
	c := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}))
	g := &gather{}
	walk := reach.Walk{Store: w.Store}
	if err := walk.Snapshots(t.Context(), []table.Snapshot{*c.Snapshot}, reach.ListsOnly, g.sink); err != nil {
		t.Fatal(err)
	}
	embedded := table.Snapshot{SnapshotID: 1, ManifestLocations: g.found[reach.Manifest]}
	g = &gather{}
	walk = reach.Walk{Store: w.Store, Candidates: true} // how many files they hold is not known
	if err := walk.Snapshots(t.Context(), []table.Snapshot{embedded}, reach.WithEntries, g.sink); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(g.found[reach.Data], c.DataFiles) {
		t.Errorf("found %v: want %v", g.found, c.DataFiles)
	}
}

// TestCandidates: a walk for what may be deleted leaves out manifests that list removed files only, one for what must stay reads them.
func TestCandidates(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	first := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}))
	tbl.Commit(icebergtest.Remove(first.DataFiles...))
	snaps := tbl.State().Metadata.Snapshots()
	for candidates, want := range map[bool]int64{true: 1, false: 2} {
		g := &gather{}
		walk := reach.Walk{Store: w.Store, Candidates: candidates}
		if err := walk.Snapshots(t.Context(), snaps, reach.WithEntries, g.sink); err != nil {
			t.Fatal(err)
		}
		if got := walk.Counts().Manifests; got != want || !slices.Equal(g.found[reach.Data], first.DataFiles) || len(g.found[reach.Manifest]) != 2 {
			t.Errorf("candidates %v: %d manifests read, want %d; found %v", candidates, got, want, g.found)
		}
	}
}

// TestShortManifestsAreFaults: a manifest that lost its end at any byte, or entries of it, never reads as a shorter one.
func TestShortManifestsAreFaults(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	var rows []icebergtest.Change
	for i := range 5 {
		rows = append(rows, icebergtest.Append(icebergtest.Row{i, "a", 0.5}))
	}
	snap := tbl.Commit(rows...).Snapshot
	ctx := t.Context()
	data, err := w.Store.Get(ctx, snap.ManifestList)
	if err != nil {
		t.Fatal(err)
	}
	list, err := iceberg.ReadManifestList(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	m := list[0]
	whole, err := w.Store.Get(ctx, m.FilePath())
	if err != nil {
		t.Fatal(err)
	}
	walk := &reach.Walk{Store: w.Store}
	for n := range whole {
		if err := w.Store.Put(ctx, m.FilePath(), whole[:n], store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if walk.Entries(ctx, list, (&gather{}).sink) == nil {
			t.Errorf("the first %d of %d bytes were read as a manifest", n, len(whole))
		}
	}
	if err := w.Store.Put(ctx, m.FilePath(), whole, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	more := iceberg.NewManifestFile(2, m.FilePath(), m.Length(), 0, m.SnapshotID()).SequenceNum(1, 1).AddedFiles(6).Build()
	if err := walk.Entries(ctx, []iceberg.ManifestFile{more}, (&gather{}).sink); err == nil || !strings.Contains(err.Error(), "5 live entries") {
		t.Errorf("a list that states six entries: %v", err)
	}
	if err := walk.Entries(ctx, list, (&gather{}).sink); err != nil {
		t.Error(err)
	}
}

// TestEmptyListIsAFault: a list that lost its blocks is not the list of an empty snapshot.
func TestEmptyListIsAFault(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	snap := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5})).Snapshot
	var empty bytes.Buffer
	list, err := iceberg.NewManifestListWriterV2(&empty, snap.SnapshotID, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Store.Put(t.Context(), snap.ManifestList, empty.Bytes(), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	walk := reach.Walk{Store: w.Store}
	if err := walk.Snapshots(t.Context(), []table.Snapshot{*snap}, reach.WithEntries, (&gather{}).sink); err == nil {
		t.Error("the list was read as empty")
	}
}

// TestSkip: with Skip the walk goes on without what it says may be skipped, and ends at what it does not.
func TestSkip(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	for i := range 3 {
		tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 0.5}))
	}
	snaps := tbl.State().Metadata.Snapshots()
	st := store.NewFaults(w.Store)
	st.Add(store.Rule{Operation: store.OpGet, Contains: snaps[0].ManifestList, Err: store.ErrNotFound})
	g := &gather{}
	walk := reach.Walk{Store: st, Skip: func(location string, err error) error {
		if location != snaps[0].ManifestList || !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("asked about %s: %w", location, err)
		}
		return nil
	}}
	if err := walk.Snapshots(t.Context(), snaps, reach.WithEntries, g.sink); err != nil || len(g.found[reach.Data]) != 3 {
		t.Errorf("found %v: %v", g.found, err)
	}
	walk = reach.Walk{Store: st}
	if err := walk.Snapshots(t.Context(), snaps, reach.WithEntries, g.sink); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("without Skip: %v", err)
	}
}
