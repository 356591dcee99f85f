package produce

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/store"
)

// attempt is an attempt on a table's head with all its live entries at hand.
type attempt struct {
	Attempt
	live []lake.Entry
}

func onHead(t *testing.T, w *icebergtest.World, tbl *icebergtest.Table) attempt {
	t.Helper()
	ctx, state := context.Background(), tbl.State()
	a := attempt{Attempt: Attempt{Table: state, Parent: state.Metadata.CurrentSnapshot(), SnapshotID: 77, Now: w.Clock.Now()}}
	var err error
	if a.Manifests, err = lake.Manifests(ctx, w.Store, a.Parent); err != nil {
		t.Fatal(err)
	}
	for _, m := range a.Manifests {
		for e, err := range lake.Entries(ctx, w.Store, m, lake.EntryOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			a.live = append(a.live, e)
		}
	}
	return a
}

func (a attempt) snapshot(w *icebergtest.World) (*Product, error) {
	p := &Producer{Store: w.Store, NewUUID: uuid.NewRandom}
	return p.Snapshot(context.Background(), a.Attempt)
}

func row(id int64, g string) icebergtest.Row { return icebergtest.Row{id, g, nil} }

func TestRemoveMustBeLive(t *testing.T) {
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	tbl.Commit(icebergtest.Append(row(1, "a")))
	tbl.Commit(icebergtest.Append(row(2, "a")))
	a := onHead(t, w, tbl)
	// The entry of the first manifest is looked for in the second.
	wrong := a.live[0]
	wrong.Manifest = a.live[1].Manifest
	a.Remove = []lake.Entry{wrong}
	product, err := a.snapshot(w)
	if !errors.Is(err, ErrMismatch) || product.Snapshot != nil || len(product.Written) == 0 {
		t.Errorf("%+v, %v: want %v, and what was written", product, err, ErrMismatch)
	}
	a.Remove = []lake.Entry{a.live[0], a.live[0]}
	if _, err := a.snapshot(w); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("%v: want an error about a file that is removed twice", err)
	}
}

func TestWriteFaults(t *testing.T) {
	for n := 1; ; n++ {
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t", icebergtest.Version(3))
		first := tbl.Commit(icebergtest.Append(row(1, "a"), row(2, "a")))
		tbl.Commit(icebergtest.DeleteVector(first.DataFiles[0], 0))
		a := onHead(t, w, tbl)
		a.Remove = a.live
		faults := store.NewFaults(w.Store, store.FailNth(store.OpPut, n, store.ErrTransient))
		product, err := (&Producer{Store: faults, NewUUID: uuid.NewRandom}).Snapshot(context.Background(), a.Attempt)
		if faults.Fired() == 0 {
			if n != 4 || err != nil || len(product.Written) != 3 {
				t.Errorf("%d writes, %v: want data manifest, delete manifest and list", n-1, err)
			}
			return
		}
		if !errors.Is(err, store.ErrTransient) || len(product.Written) != n {
			t.Errorf("write %d fails: %v, written %q: want the error and every name that was tried", n, err, product.Written)
		}
	}
}

// TestRewriteManifests writes every manifest again: entries keep status EXISTING and their numbers, and delete manifests stay delete manifests.
func TestRewriteManifests(t *testing.T) {
	for _, version := range []int{1, 2, 3} {
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t", icebergtest.Version(version), icebergtest.Partitioned("g"))
		first := tbl.Commit(icebergtest.Append(row(1, "a"), row(2, "a"), row(3, "b")))
		tbl.Commit(icebergtest.Append(row(4, "a")))
		switch version {
		case 2:
			tbl.Commit(icebergtest.DeletePositions(first.DataFiles[0], 0))
			tbl.Commit(icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{int64(3), "b"}))
		case 3:
			tbl.Commit(icebergtest.DeleteVector(first.DataFiles[0], 0))
		}
		tbl.Commit(icebergtest.Append(row(5, "c")), icebergtest.Remove(first.DataFiles[1]))
		a := onHead(t, w, tbl)
		a.Rewrite = map[string]bool{}
		for _, m := range a.Manifests {
			a.Rewrite[m.FilePath()] = true
		}
		product, err := a.snapshot(w)
		if err != nil {
			t.Fatal(err)
		}
		var after []lake.Entry
		manifests, err := lake.Manifests(context.Background(), w.Store, product.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manifests {
			data, err := w.Store.Get(context.Background(), m.FilePath())
			if err != nil {
				t.Fatal(err)
			}
			r, err := iceberg.NewManifestReader(m, bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if r.ManifestContent() != m.ManifestContent() || m.DeletedDataFiles() != 0 {
				t.Errorf("v%d: manifest %s is %v in the list, %v in the file, with %d tombstones", version, m.FilePath(), m.ManifestContent(),
					r.ManifestContent(), m.DeletedDataFiles())
			}
			for e, err := range lake.Entries(context.Background(), w.Store, m, lake.EntryOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				after = append(after, e)
			}
		}
		if len(after) != len(a.live) {
			t.Fatalf("v%d: %d live entries became %d", version, len(a.live), len(after))
		}
		for _, e := range after {
			i := slices.IndexFunc(a.live, func(b lake.Entry) bool { return FileOf(b.File) == FileOf(e.File) })
			b := a.live[i]
			same := e.FirstRowID == nil && b.FirstRowID == nil || e.FirstRowID != nil && b.FirstRowID != nil && *e.FirstRowID == *b.FirstRowID
			if e.Status != iceberg.EntryStatusEXISTING || e.DataSequence != b.DataSequence || e.FileSequence != b.FileSequence ||
				e.SnapshotID != b.SnapshotID || !same {
				t.Errorf("v%d: entry changed from %+v to %+v", version, b, e)
			}
		}
	}
}

func TestDangling(t *testing.T) {
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	a := tbl.Commit(icebergtest.Append(row(1, "a"), row(2, "a"))).DataFiles[0]
	b := tbl.Commit(icebergtest.Append(row(3, "b"))).DataFiles[0]
	scoped := tbl.Commit(icebergtest.DeletePositions(a, 0)).DeleteFiles[0]
	spanning := tbl.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: a, Pos: 1})).DeleteFiles[0]
	equal := tbl.Commit(icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{int64(9), "a"})).DeleteFiles[0]
	h := onHead(t, w, tbl)
	deletes := slices.DeleteFunc(h.live, func(e lake.Entry) bool { return e.File.ContentType() == iceberg.EntryContentData })
	find := func(asked bool, replaced ...string) []string {
		q := Question{Paths: map[string]bool{a: true, b: true}, Targets: map[string]bool{}}
		if asked {
			q.Targets[lake.SameFile(a)] = true
		}
		survey, err := Look(context.Background(), w.Store, h.Table, h.Manifests, q)
		if err != nil {
			t.Fatal(err)
		}
		r := Result{Table: h.Table, Survey: survey, Replaced: map[string]bool{}, NewSequence: 9}
		for _, path := range replaced {
			r.Replaced[path] = true
		}
		r.Targets = func(f File) ([]string, bool) { return []string{lake.SameFile(a)}, f.Path == spanning }
		dangling, err := r.Dangling(deletes)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, d := range dangling {
			paths = append(paths, d.File.FilePath())
		}
		slices.Sort(paths)
		return paths
	}
	all := []string{scoped, spanning, equal}
	slices.Sort(all)
	for _, c := range []struct {
		name string
		got  []string
		want []string
	}{
		{"nothing replaced", find(true), nil},
		{"another file replaced", find(true, b), nil},
		{"the target replaced", find(true, a), all},
		{"the target replaced, which needs no question", find(false, a), all},
		{"another file replaced, and the survey was not asked whether the target is live", find(false, b), nil},
		{"everything replaced", find(false, a, b), all},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %q dangle: want %q", c.name, c.got, c.want)
		}
	}
}
