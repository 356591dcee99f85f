package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
)

func numbered(from, to int64) []icebergtest.Row {
	var out []icebergtest.Row
	for i := from; i < to; i++ {
		out = append(out, icebergtest.Row{i, fmt.Sprint("g", i%3), float64(i) / 2})
	}
	return out
}

// scene is a table of three files of three rows, the first two of which a rewrite replaces.
type scene struct {
	t     *testing.T
	world *icebergtest.World
	table *icebergtest.Table
	paths []string
}

func newScene(t *testing.T, opts ...icebergtest.TableOption) *scene {
	t.Helper()
	w := icebergtest.NewWorld(t)
	x := &scene{t: t, world: w, table: w.NewTable("db.t", opts...)}
	for i := range int64(3) {
		x.paths = append(x.paths, x.table.Commit(icebergtest.Append(numbered(i*3, i*3+3)...)).DataFiles...)
	}
	return x
}

// replace commits a rewrite.
func (x *scene) replace(changes ...icebergtest.Change) {
	x.t.Helper()
	x.table.Commit(append(changes, icebergtest.Operation(table.OpReplace))...)
}

func (x *scene) verifier() *Verifier { return &Verifier{Store: x.world.Store, Seed: 7, Samples: 3} }

func (x *scene) verify() Report {
	x.t.Helper()
	r, err := x.verifier().Snapshot(context.Background(), x.table.State(), 0)
	if err != nil {
		x.t.Fatal(err)
	}
	return r
}

// TestEqual: rewrites that keep every row are found to, and only what differs is read.
func TestEqual(t *testing.T) {
	t.Parallel()
	sequence := int64(3)
	for name, c := range map[string]struct {
		opts    []icebergtest.TableOption
		rewrite func(x *scene)
		files   [2]int
		rows    int64
	}{
		"merged, in another order": {nil, func(x *scene) {
			rows := numbered(0, 6)
			slices.Reverse(rows)
			x.replace(icebergtest.Remove(x.paths[:2]...), icebergtest.AppendAt(&sequence, rows...))
		}, [2]int{2, 1}, 6},
		"with deletes applied": {nil, func(x *scene) {
			x.table.Commit(icebergtest.DeletePositions(x.paths[0], 1))
			x.table.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(4)}))
			x.replace(icebergtest.Remove(x.paths[:2]...), icebergtest.Append(slices.Concat(numbered(0, 1), numbered(2, 4), numbered(5, 6))...))
		}, [2]int{2, 1}, 4},
		"position deletes merged": {nil, func(x *scene) {
			a := x.table.Commit(icebergtest.DeletePositions(x.paths[0], 1))
			b := x.table.Commit(icebergtest.DeletePositions(x.paths[0], 0))
			x.replace(icebergtest.Remove(a.DeleteFiles[0], b.DeleteFiles[0]), icebergtest.DeletePositions(x.paths[0], 0, 1))
		}, [2]int{1, 1}, 1},
		"nothing": {nil, func(x *scene) { x.replace() }, [2]int{0, 0}, 0},
		"vectors": {[]icebergtest.TableOption{icebergtest.Version(3)}, func(x *scene) {
			x.table.Commit(icebergtest.DeleteVector(x.paths[0], 1, 2))
			x.replace(icebergtest.Remove(x.paths[:2]...), icebergtest.Append(slices.Concat(numbered(0, 1), numbered(3, 6))...))
		}, [2]int{2, 1}, 4},
		"after a change of the schema": {nil, func(x *scene) {
			x.table.Evolve(icebergtest.AddColumn("extra", "string"), icebergtest.RenameColumn("g", "h"))
			var rows []icebergtest.Row
			for _, r := range numbered(0, 6) {
				rows = append(rows, append(r, nil))
			}
			x.replace(icebergtest.Remove(x.paths[:2]...), icebergtest.AppendAt(&sequence, rows...))
		}, [2]int{2, 1}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, c.opts...)
			c.rewrite(x)
			r := x.verify()
			if r.Verdict != Equal || r.FilesBefore != c.files[0] || r.FilesAfter != c.files[1] || r.RowsBefore != c.rows || r.RowsAfter != c.rows {
				t.Errorf("%+v: want equal, files %v, %d rows", r, c.files, c.rows)
			}
		})
	}
}

// TestDifferent: what a rewrite did to rows is told, with the rows.
func TestDifferent(t *testing.T) {
	t.Parallel()
	merged := func(x *scene, rows ...icebergtest.Row) {
		x.replace(icebergtest.Remove(x.paths[:2]...), icebergtest.Append(rows...))
	}
	for name, c := range map[string]struct {
		rewrite func(x *scene)
		counts  map[Kind]int64
		rows    []string
		columns []string
	}{
		"lost": {
			func(x *scene) { merged(x, numbered(0, 4)...) },
			map[Kind]int64{Lost: 2},
			[]string{`lost {"id":4,"g":"g1","val":2}`, `lost {"id":5,"g":"g2","val":2.5}`},
			[]string{"id", "g", "val"},
		},
		"doubled": {
			func(x *scene) { merged(x, append(numbered(0, 6), numbered(2, 3)...)...) },
			map[Kind]int64{Duplicated: 1},
			[]string{`duplicated {"id":2,"g":"g2","val":1}`},
			[]string{"id", "g", "val"},
		},
		"revived": {func(x *scene) {
			x.table.Commit(icebergtest.DeletePositions(x.paths[1], 0))
			merged(x, numbered(0, 6)...)
		}, map[Kind]int64{Resurrected: 1}, []string{`resurrected {"id":3,"g":"g0","val":1.5}`}, []string{"id", "g", "val"}},
		"revived outside of the rewrite": {func(x *scene) {
			d := x.table.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: x.paths[0], Pos: 0},
				icebergtest.Position{Path: x.paths[2], Pos: 2}))
			x.replace(icebergtest.Remove(x.paths[:2]...), icebergtest.Remove(d.DeleteFiles...), icebergtest.Append(numbered(1, 6)...))
		}, map[Kind]int64{Resurrected: 1}, []string{`resurrected {"id":8,"g":"g2","val":4}`}, []string{"id", "g", "val"}},
		"a changed value": {func(x *scene) {
			rows := numbered(0, 6)
			rows[4][1] = nil
			merged(x, rows...)
		}, map[Kind]int64{Lost: 1, Appeared: 1}, []string{`lost {"id":4,"g":"g1","val":2}`, `appeared {"id":4,"g":null,"val":2}`}, []string{"g"}},
		"values that changed places": {func(x *scene) { // every column has its values
			rows := numbered(0, 6)
			rows[0][2], rows[5][2] = rows[5][2], rows[0][2]
			merged(x, rows...)
		}, map[Kind]int64{Lost: 2, Appeared: 2}, nil, nil},
		"applied twice": {func(x *scene) { // an equality delete hits the output that already lacks the row, and one more
			x.table.Commit(icebergtest.DeleteEqual([]string{"g"}, icebergtest.Row{"g0"}))
			x.replace(icebergtest.Remove(x.paths[0]), icebergtest.Append(numbered(0, 3)...))
		}, map[Kind]int64{Resurrected: 1}, []string{`resurrected {"id":0,"g":"g0","val":0}`}, []string{"id", "g", "val"}},
		"more rows than are named": {func(x *scene) { x.replace(icebergtest.Remove(x.paths...)) }, map[Kind]int64{Lost: 9}, []string{
			`lost {"id":0,"g":"g0","val":0}`, `lost {"id":1,"g":"g1","val":0.5}`, `lost {"id":2,"g":"g2","val":1}`,
		}, []string{"id", "g", "val"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t)
			c.rewrite(x)
			r := x.verify()
			if r.Verdict != Different || !maps.Equal(r.Counts, c.counts) {
				t.Fatalf("%s, counts %v: want %v", r.Verdict, r.Counts, c.counts)
			}
			var rows, columns []string
			for _, row := range r.Rows {
				rows = append(rows, fmt.Sprintf("%s %s", row.Kind, row.Values))
			}
			slices.SortStableFunc(rows, func(a, b string) int { return strings.Compare(b[:4], a[:4]) })
			want := slices.Clone(c.rows)
			slices.SortStableFunc(want, func(a, b string) int { return strings.Compare(b[:4], a[:4]) })
			if c.rows != nil && !slices.Equal(rows, want) {
				t.Errorf("rows %q: want %q", rows, c.rows)
			}
			for _, col := range r.Columns {
				columns = append(columns, col.Name)
			}
			if !slices.Equal(columns, c.columns) {
				t.Errorf("columns %q: want %q", columns, c.columns)
			}
			var text bytes.Buffer
			if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "different") {
				t.Errorf("text %q, %v", text.String(), err)
			}
		})
	}
}

// TestHistory: an audit passes over what is no rewrite, goes on after what cannot be verified, and finds the one that is at fault.
func TestHistory(t *testing.T) {
	t.Parallel()
	x := newScene(t)
	first := x.table.State().Metadata.CurrentSnapshot().SnapshotID
	x.replace(icebergtest.Remove(x.paths[0]), icebergtest.Append(numbered(0, 3)...))
	x.table.Commit(icebergtest.Append(numbered(20, 22)...))
	x.replace(icebergtest.Remove(x.paths[1]), icebergtest.Append(numbered(3, 6)...))
	x.replace(icebergtest.Remove(x.paths[2]), icebergtest.Append(numbered(7, 9)...))
	x.table.Update(func(b *table.MetadataBuilder) error { return b.RemoveSnapshots([]int64{first}, false) })
	a, err := x.verifier().History(context.Background(), x.table.State())
	if err != nil {
		t.Fatal(err)
	}
	if a.Equal != 1 || a.Different != 1 || a.Unverifiable != 1 || len(a.Snapshots) != 3 || a.Snapshots[2].Counts[Lost] != 1 ||
		!strings.Contains(a.Snapshots[0].Reason, "has expired") {
		t.Errorf("%+v", a)
	}
	var text bytes.Buffer
	if err := a.Text(&text); err != nil || !strings.Contains(text.String(), "1 equal, 1 different, 1 unverifiable") {
		t.Errorf("text %q, %v", text.String(), err)
	}
	if _, err := x.verifier().Snapshot(context.Background(), x.table.State(), a.Snapshots[0].SnapshotID); !errors.Is(err, ErrUnverifiable) {
		t.Errorf("%v: want unverifiable", err)
	}
	for _, id := range []int64{17, first} {
		if _, err := x.verifier().Snapshot(context.Background(), x.table.State(), id); !errors.Is(err, ErrUnverifiable) {
			t.Errorf("snapshot %d: %v: want unverifiable", id, err)
		}
	}
}

// TestMissingFile: a file that is gone makes a snapshot unverifiable, not different.
func TestMissingFile(t *testing.T) {
	t.Parallel()
	x := newScene(t)
	x.replace(icebergtest.Remove(x.paths[0]), icebergtest.Append(numbered(0, 3)...))
	if _, _, err := x.world.Store.Delete(context.Background(), x.paths[:1]); err != nil {
		t.Fatal(err)
	}
	if _, err := x.verifier().Snapshot(context.Background(), x.table.State(), 0); !errors.Is(err, ErrUnverifiable) {
		t.Errorf("%v: want unverifiable", err)
	}
}

// TestReferenceHistories: what Spark rewrote kept its rows, by its own account and by this one.
func TestReferenceHistories(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		w := ref.World(t)
		state := ref.Table(t)
		a, err := (&Verifier{Store: w.Store}).History(context.Background(), state)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		compared += a.Equal
		for _, r := range a.Snapshots {
			if r.Verdict == Different || r.Verdict == Unverifiable && !strings.Contains(r.Reason, "has expired") && !strings.Contains(r.Reason, "format") {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	if compared == 0 {
		t.Error("no rewrite of the reference was compared")
	}
}
