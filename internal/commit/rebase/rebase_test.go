package rebase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/iceberg-go"
	"pgregory.net/rapid"

	"firn/internal/deletes"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/produce"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// scene is a rewrite told row by row: where each row of each source went, -1 when a delete of T0 removed it.
type scene struct {
	places  [][]int64
	outputs []int64 // rows by output
	st      *store.Memory
	work    *handoff.Work
	files   int
}

func file(path string, rows int64) iceberg.DataFile {
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, path, iceberg.ParquetFile, nil, nil, nil, max(rows, 1), 100)
	if err != nil {
		panic(err)
	}
	return b.Build()
}

func sourcePath(i int) string { return fmt.Sprintf("mem://b/data/s%d.parquet", i) }
func outputPath(i int) string { return fmt.Sprintf("mem://b/data/o%d.parquet", i) }

func newScene(places [][]int64, outputs []int64) *scene {
	st := store.NewMemory(time.Now)
	return &scene{places: places, outputs: outputs, st: st, work: handoff.Open(st, "mem://work/firn", maintenance.NewRunID("t", 1, 1))}
}

// group writes the row map, as ranges or as a permutation, and describes the group.
func (s *scene) group(t testing.TB, sorted bool) Group {
	t.Helper()
	var g Group
	m := handoff.RowMap{V: 1}
	var buf bytes.Buffer
	w := handoff.PermutationTo(&buf, 100)
	var sources, outputs []handoff.RowCounts
	for i, rows := range s.outputs {
		g.Outputs = append(g.Outputs, produce.Addition{File: file(outputPath(i), rows)})
		m.Outputs = append(m.Outputs, outputPath(i))
		outputs = append(outputs, handoff.RowCounts{Path: outputPath(i), Rows: rows})
	}
	for i, places := range s.places {
		g.Sources = append(g.Sources, Source{File: lake.Entry{File: file(sourcePath(i), int64(len(places))), DataSequence: 1}})
		sources = append(sources, handoff.RowCounts{Path: sourcePath(i), Rows: int64(len(places))})
		src := handoff.SourceRowMap{Path: sourcePath(i)}
		for pos, at := range places {
			if at >= 0 {
				output, offset := s.place(at)
				src.Ranges = append(src.Ranges, handoff.RowRange{First: int64(pos), Count: 1, Output: output, Offset: offset})
			}
		}
		m.Sources = append(m.Sources, src)
		must(t, w.Append(places))
	}
	if sorted {
		must(t, w.Close(sources, outputs))
		g.Permutation = s.work.Permutation(maintenance.RewriteDataFiles, 0, "a")
		must(t, s.st.Put(context.Background(), g.Permutation, buf.Bytes(), store.WriteOptions{}))
		return g
	}
	g.RowMap = s.work.RowMap(maintenance.RewriteDataFiles, 0, "a")
	_, err := s.work.WriteOnce(context.Background(), g.RowMap, &m)
	must(t, err)
	return g
}

// place turns a place counted through all outputs into output and offset.
func (s *scene) place(at int64) (int, int64) {
	for i, rows := range s.outputs {
		if at < rows {
			return i, at
		}
		at -= rows
	}
	panic("beyond the outputs")
}

// positions writes a position delete file.
func (s *scene) positions(t testing.TB, rows map[int][]uint64) lake.Entry {
	t.Helper()
	s.files++
	var sets []deletes.FileDeletes
	for i, p := range rows {
		sets = append(sets, deletes.FileDeletes{Path: sourcePath(i), Positions: roaring64.BitmapOf(p...), Spec: *iceberg.UnpartitionedSpec})
	}
	f, err := deletes.WritePositions(context.Background(), s.st, fmt.Sprintf("mem://b/d%d.parquet", s.files), sets)
	must(t, err)
	return lake.Entry{File: f, DataSequence: 2}
}

func (s *scene) translate(t testing.TB, limit int64, groups ...Group) []Translation {
	t.Helper()
	tr := Translator{Store: s.st, Work: s.work, Maps: s.st, Limit: limit}
	first, err := tr.Translate(context.Background(), groups)
	must(t, err)
	again, err := tr.Translate(context.Background(), groups)
	must(t, err)
	for i := range first {
		if first[i].Conflict != again[i].Conflict || first[i].Positions != again[i].Positions {
			t.Errorf("the second translation differs: %+v, %+v", first[i], again[i])
		}
	}
	return first
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTranslation holds both kinds of row maps against a model: every deleted row that is in an output is deleted there, and nothing else is.
func TestTranslation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		sorted := rapid.Bool().Draw(rt, "sorted")
		var places [][]int64
		total := int64(0)
		for range rapid.IntRange(1, 4).Draw(rt, "sources") {
			kept := rapid.SliceOfN(rapid.Bool(), 1, 30).Draw(rt, "kept")
			rows := make([]int64, len(kept))
			for i := range rows {
				rows[i] = -1
				if kept[i] {
					rows[i] = total
					total++
				}
			}
			places = append(places, rows)
		}
		if sorted && total > 0 {
			order := rapid.Permutation(slices.Collect(func(yield func(int64) bool) {
				for i := int64(0); i < total && yield(i); i++ {
				}
			})).Draw(rt, "order")
			for _, rows := range places {
				for i, at := range rows {
					if at >= 0 {
						rows[i] = order[at]
					}
				}
			}
		}
		var outputs []int64
		for left := total; left > 0; {
			n := rapid.Int64Range(1, left).Draw(rt, "rows")
			outputs, left = append(outputs, n), left-n
		}
		s := newScene(places, outputs)
		g := s.group(t, sorted)
		want := make([]map[uint64]bool, len(outputs))
		for i := range want {
			want[i] = map[uint64]bool{}
		}
		// One file for all sources, and one for each of some.
		together := map[int][]uint64{}
		for i, rows := range places {
			gone := rapid.SliceOfN(rapid.Uint64Range(0, uint64(len(rows)+2)), 0, 10).Draw(rt, "gone")
			if len(gone) == 0 {
				continue
			}
			together[i] = gone[:1]
			g.Sources[i].Arrived = append(g.Sources[i].Arrived, s.positions(t, map[int][]uint64{i: gone}))
			for _, p := range gone {
				if p < uint64(len(rows)) && rows[p] >= 0 {
					output, offset := s.place(rows[p])
					want[output][uint64(offset)] = true
				}
			}
		}
		if len(together) > 0 {
			both := s.positions(t, together)
			for i := range together {
				g.Sources[i].Arrived = append(g.Sources[i].Arrived, both)
			}
		}
		got := s.translate(t, 0, g)[0]
		if got.Conflict != "" {
			rt.Fatal(got.Conflict)
		}
		for i, m := range got.Outputs {
			if m == nil {
				m = roaring64.New()
			}
			if int(m.GetCardinality()) != len(want[i]) {
				rt.Fatalf("output %d: rows %v: want %v", i, m.ToArray(), want[i])
			}
			for p := range want[i] {
				if !m.Contains(p) {
					rt.Fatalf("output %d: rows %v: want %v", i, m.ToArray(), want[i])
				}
			}
		}
	})
}

// TestLimits: groups share what is read in one attempt, and the first ones have it.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := newScene([][]int64{{0, 1, 2, 3}}, []int64{4})
	g := s.group(t, false)
	g.Sources[0].Arrived = []lake.Entry{s.positions(t, map[int][]uint64{0: {1, 2, 3}})}
	other := g
	other.Sources = slices.Clone(g.Sources)
	other.Sources[0].Arrived = []lake.Entry{s.positions(t, map[int][]uint64{0: {1, 2}})}
	for limit, want := range map[int64][2]string{0: {"", ""}, 5: {"", ""}, 4: {"", "more than"}, 2: {"more than", ""}} {
		got := s.translate(t, limit, g, other)
		for i := range got {
			if (got[i].Conflict == "") != (want[i] == "") || !strings.Contains(got[i].Conflict, want[i]) {
				t.Errorf("limit %d, group %d: %q: want %q", limit, i, got[i].Conflict, want[i])
			}
		}
	}
	// The same file costs once.
	if got := s.translate(t, 3, g, g); got[0].Conflict != "" || got[1].Conflict != "" {
		t.Errorf("%+v", got)
	}
}

// TestUnreadableDeletes: a delete file that nobody can read costs the groups that need it; a store that does not answer is an error.
func TestUnreadableDeletes(t *testing.T) {
	t.Parallel()
	s := newScene([][]int64{{0, 1}, {2, 3}}, []int64{4})
	g := s.group(t, true)
	good, bad := g, g
	good.Sources, bad.Sources = slices.Clone(g.Sources), slices.Clone(g.Sources)
	good.Sources[0].Arrived = []lake.Entry{s.positions(t, map[int][]uint64{0: {1}})}
	bad.Sources[1].Arrived = []lake.Entry{s.positions(t, map[int][]uint64{1: {1}})}
	_, _, err := s.st.Delete(context.Background(), []string{bad.Sources[1].Arrived[0].File.FilePath()})
	must(t, err)
	got := s.translate(t, 0, bad, good)
	if !strings.Contains(got[0].Conflict, "cannot be read") || got[1].Conflict != "" || got[1].Positions != 1 {
		t.Errorf("%+v", got)
	}
	for name, part := range map[string]string{"delete file": "mem://b/d", "row map": "permutation-"} {
		faults := store.NewFaults(s.st)
		for _, op := range []store.Operation{store.OpGet, store.OpGetRange, store.OpHead} {
			faults.Add(store.Rule{Operation: op, Contains: part, Err: store.ErrTransient})
		}
		tr := Translator{Store: faults, Work: s.work, Maps: faults}
		if _, err := tr.Translate(context.Background(), []Group{good}); !errors.Is(err, store.ErrTransient) {
			t.Errorf("%s: %v: want a transient error", name, err)
		}
	}
}

// TestForeignPermutation: a permutation of other files, or of other rows, is not used.
func TestForeignPermutation(t *testing.T) {
	t.Parallel()
	for reason, edit := range map[string]func(g *Group){
		"lacks source":   func(g *Group) { g.Sources[0].File.File = file("mem://b/data/x", 2) },
		"of 3 rows":      func(g *Group) { g.Sources[0].File.File = file(sourcePath(0), 3) },
		"names output":   func(g *Group) { g.Outputs[0].File = file("mem://b/data/x", 2) },
		"lacks output":   func(g *Group) { g.Outputs = append(g.Outputs, produce.Addition{File: file("mem://b/data/x", 1)}) },
		"not found":      func(g *Group) { g.Permutation += "x" },
		"left no row ma": func(g *Group) { g.Permutation = "" },
	} {
		s := newScene([][]int64{{1, 0}}, []int64{2})
		g := s.group(t, true)
		g.Sources[0].Arrived = []lake.Entry{s.positions(t, map[int][]uint64{0: {1}})}
		edit(&g)
		if got := s.translate(t, 0, g); !strings.Contains(got[0].Conflict, reason) {
			t.Errorf("%q: want %q", got[0].Conflict, reason)
		}
	}
}
