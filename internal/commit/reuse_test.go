package commit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// counted counts what is asked of a store, by operation and the end of the name.
type counted struct {
	store.ReadWriter
	reads, writes []string
}

func (c *counted) Get(ctx context.Context, location string) ([]byte, error) {
	c.reads = append(c.reads, location)
	return c.ReadWriter.Get(ctx, location)
}

func (c *counted) GetRange(ctx context.Context, location string, offset, length int64) ([]byte, error) {
	c.reads = append(c.reads, location)
	return c.ReadWriter.GetRange(ctx, location, offset, length)
}

func (c *counted) Put(ctx context.Context, location string, data []byte, opts store.WriteOptions) error {
	c.writes = append(c.writes, location)
	return c.ReadWriter.Put(ctx, location, data, opts)
}

func manifestsIn(locations []string) int {
	n := 0
	for _, l := range locations {
		if strings.HasSuffix(l, ".avro") && !strings.Contains(l, "/snap-") {
			n++
		}
	}
	return n
}

// TestLostRacesAreCheap: an attempt after a lost race reads and writes what is new only, and what it lists again is in its entry of the fate log and
// is not left to sweep.
func TestLostRacesAreCheap(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2, 3} {
		x := newFixture(t, icebergtest.Version(version))
		paths := x.small(6)
		x.pin(false, paths[:4])
		x.compact()
		st := &counted{ReadWriter: x.world.Store}
		c, err := committer.New(x.world.Catalog, x.world.Store, committer.Options{Now: x.world.Clock.Now})
		x.check(err)
		var reads, writes []int
		out, err := x.function(st, &hooked{Committer: c, before: func(call int) error {
			reads, writes = append(reads, manifestsIn(st.reads)), append(writes, manifestsIn(st.writes))
			st.reads, st.writes = nil, nil
			if call < 4 {
				x.table.Commit(icebergtest.Append(numbered(int64(call)*100, int64(call)*100+3)...))
			}
			return nil
		}}).Handle(context.Background(), x.input())
		x.check(err)
		if out.Outcome != maintenance.Committed || len(x.rows()) != 27 {
			t.Fatalf("v%d: %+v, %d rows: want committed and 27", version, out, len(x.rows()))
		}
		if !slices.Equal(reads[1:], []int{1, 1, 1}) || !slices.Equal(writes, []int{writes[0], 0, 0, 0}) {
			t.Errorf("v%d: attempts read %v manifests and wrote %v: want 1 and 0 after the first", version, reads, writes)
		}
		x.recount()
		x.checkManifests()
		if n := x.result().Attempts; n != 4 {
			t.Errorf("v%d: %d attempts: want 4", version, n)
		}
		unneeded := x.result().Unneeded
		for _, m := range x.headManifests() {
			if slices.Contains(unneeded, m.FilePath()) {
				t.Errorf("v%d: %s is left to sweep and live", version, m.FilePath())
			}
		}
		var last handoff.Fate
		x.check(x.work.Read(context.Background(), x.work.Fate(maintenance.RewriteDataFiles, 0, 3), &last))
		for _, location := range x.metadataOf(x.run.RunID) {
			if slices.Contains(last.Metadata, location) == slices.Contains(unneeded, location) {
				t.Errorf("v%d: %s: in the snapshot, or unneeded?", version, location)
			}
		}
	}
}

// TestReuseStopsAtADifference: when another writer touches a manifest that the attempt replaces, or a group drops out, its manifests are made anew.
func TestReuseStopsAtADifference(t *testing.T) {
	t.Parallel()
	x := &rebaseWorld{fixture: newFixture(t)}
	x.paths = x.small(5)
	x.pin(true, x.paths[:2], x.paths[2:4])
	x.compact()
	var rows []string
	out := x.handle(func(call int) error {
		switch call {
		case 1:
			x.commits(icebergtest.Remove(x.paths[0]))
			rows = x.rows()
		case 2:
			return errors.New("connection reset")
		case 3:
			x.commits(icebergtest.Append(numbered(900, 901)...))
			rows = x.rows()
		}
		return nil
	})
	r := x.result()
	if out.Outcome != maintenance.Committed || !slices.Equal(r.Groups, []int{1}) || !slices.Equal(rows, x.rows()) || x.ours() != 1 {
		t.Fatalf("%+v, groups %v, %d snapshots, rows %q: want group 1 and %q", out, r.Groups, x.ours(), x.rows(), rows)
	}
	x.recount()
}

// TestNothingIsLeft: after lost races, carried deletes, a dropped group and the run's last sweep, every object that the run wrote under the table is
// reachable.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		x := &rebaseWorld{fixture: newFixture(t, icebergtest.Version(version))}
		x.paths = x.small(5)
		x.pin(true, x.paths[:2], x.paths[2:4])
		x.compact()
		del := func(path string, pos int64) {
			if version == 3 {
				x.commits(icebergtest.DeleteVector(path, pos))
			} else {
				x.commits(icebergtest.DeletePositions(path, pos))
			}
		}
		del(x.paths[0], 0)
		var rows []string
		out := x.handle(func(call int) error {
			switch call {
			case 1:
				del(x.paths[0], 1)
			case 2:
				x.commits(icebergtest.Remove(x.paths[3]))
			case 3:
				del(x.paths[1], 2)
				rows = x.rows()
			}
			return nil
		})
		if r := x.result(); out.Outcome != maintenance.Committed || len(r.Dropped) != 1 || r.Rebased.Positions != 3 {
			t.Fatalf("v%d: %+v, %+v", version, out, r)
		}
		x.sweepRun(x.world.Catalog)
		x.whole(x.world.Catalog, rows)
		reachable := map[string]bool{}
		for _, s := range x.table.State().Metadata.Snapshots() {
			reachable[s.ManifestList] = true
			manifests, err := lake.Manifests(context.Background(), x.world.Store, &s)
			x.check(err)
			for _, m := range manifests {
				reachable[m.FilePath()] = true
			}
			for _, e := range x.entryList(s.SnapshotID) {
				reachable[e.File.FilePath()] = true
			}
		}
		written := 0
		for info, err := range x.world.Store.List(context.Background(), x.table.State().Metadata.Location(), store.ListOptions{}) {
			x.check(err)
			if !strings.Contains(info.Location, string(x.run.RunID)) {
				continue
			}
			written++
			if !reachable[info.Location] {
				t.Errorf("v%d: %s is left", version, info.Location)
			}
		}
		if written < 4 { // an output, a delete file, two manifests or more, a list
			t.Errorf("v%d: %d objects of the run", version, written)
		}
	}
}
