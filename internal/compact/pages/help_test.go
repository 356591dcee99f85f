package pages_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/compact/metrics"
	"firn/internal/compact/pages"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/parquettest"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/sink"
	"firn/internal/parquet/source"
	"firn/internal/store"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// schema has a leaf of every physical form, flat and nested, and one whose values are all null.
func schema() *iceberg.Schema {
	p := iceberg.PrimitiveTypes
	field := func(id int, name string, t iceberg.Type) iceberg.NestedField {
		return iceberg.NestedField{ID: id, Name: name, Type: t}
	}
	inner := &iceberg.StructType{FieldList: []iceberg.NestedField{field(21, "z", p.String)}}
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: p.Int64, Required: true},
		field(2, "country", p.String), field(3, "payload", p.String), field(4, "score", p.Float64), field(5, "ratio", p.Float32),
		field(6, "amount", iceberg.DecimalTypeOf(25, 2)), field(7, "ok", p.Bool), field(8, "day", p.Date), field(9, "at", p.TimestampTz),
		field(10, "tags", &iceberg.ListType{ElementID: 11, Element: p.String}),
		field(12, "props", &iceberg.MapType{KeyID: 13, KeyType: p.String, ValueID: 14, ValueType: p.Int32}),
		field(15, "nest", &iceberg.StructType{FieldList: []iceberg.NestedField{field(16, "x", p.Int32), field(17, "y", inner)}}),
		field(18, "fixed", iceberg.FixedTypeOf(5)), field(19, "uuid", p.UUID), field(20, "nothing", p.String),
	)
}

// generate makes rows of all leaves. kind shifts the values, so that dictionaries of files differ.
func generate(l *layout.Layout, rng *rand.Rand, rows, kind int) []column.Batch {
	out := make([]column.Batch, len(l.Leaves))
	shape := map[int][]int{} // Entries a row of a list or map, by its leaf's path up to the first dot; -1 is null.
	for _, top := range []string{"tags", "props"} {
		for range rows {
			shape[len(top)] = append(shape[len(top)], rng.IntN(5)-1)
		}
	}
	for i, leaf := range l.Leaves {
		b := &out[i]
		b.Rows = rows
		entry := func(def, rep int16) {
			b.Levels++
			if leaf.MaxDef > 0 {
				b.Def = append(b.Def, def)
			}
			if leaf.MaxRep > 0 {
				b.Rep = append(b.Rep, rep)
			}
			if def == leaf.MaxDef {
				parquettest.AppendValue(leaf, b, rng, kind)
			}
		}
		for r := range rows {
			if leaf.MaxRep == 0 {
				def := leaf.MaxDef
				if leaf.Path == "nothing" {
					def = 0
				} else if leaf.MaxDef > 0 && rng.IntN(6) == 0 {
					def = int16(rng.IntN(int(leaf.MaxDef)))
				}
				entry(def, 0)
				continue
			}
			n := shape[len(leaf.Path[:bytes.IndexByte([]byte(leaf.Path), '.')])][r]
			if n <= 0 {
				entry(int16(n+1), 0)
			}
			for e := range n {
				def := leaf.MaxDef
				if def == 3 && rng.IntN(4) == 0 {
					def = 2
				}
				entry(def, int16(min(e, 1)))
			}
		}
	}
	return out
}

// encode writes row groups with arrow-go.
func encode(tb testing.TB, l *layout.Layout, groups [][]column.Batch, props ...parquet.WriterProperty) []byte {
	tb.Helper()
	data, err := parquettest.Encode(l, groups, props...)
	must(tb, err)
	return data
}

// world is a group of files in memory.
type world struct {
	tb     testing.TB
	store  *store.Memory
	layout *layout.Layout
	job    engine.Job
	// mixed says that inputs have other codecs than the table.
	mixed bool
	files map[string]*source.File
}

func newWorld(tb testing.TB, sc *iceberg.Schema, props map[string]string) *world {
	tb.Helper()
	l, err := layout.New(sc, false)
	must(tb, err)
	w := &world{tb: tb, store: store.NewMemory(time.Now), layout: l, files: map[string]*source.File{}}
	w.job = engine.Job{
		Run: "run", Attempt: "attempt", Target: &projection.Target{Layout: l}, Spec: *iceberg.UnpartitionedSpec, Location: "mem://t/data",
		Properties: props, MaxOutputFileSizeBytes: 512 << 20,
	}
	w.job.Writer, err = sink.ParseOptions(props, l)
	must(tb, err)
	w.job.Writer.Metadata = map[string]string{"iceberg.schema": "{}"}
	w.job.Modes, err = metrics.Modes(props, l, nil)
	must(tb, err)
	return w
}

// add puts a file into the group.
func (w *world) add(data []byte, rows int64) {
	w.tb.Helper()
	path := fmt.Sprintf("mem://t/data/in-%d.parquet", len(w.job.Inputs))
	must(w.tb, w.store.Put(context.Background(), path, data, store.WriteOptions{}))
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, path, iceberg.ParquetFile, nil, nil, nil, rows, int64(len(data)))
	must(w.tb, err)
	w.job.Inputs = append(w.job.Inputs, engine.Input{DataFile: b.Build()})
}

// rewrite copies the group; limits may be zero.
func (w *world) rewrite(limits pages.Limits) (engine.Result, error) {
	if limits.FullPageRows == 0 {
		limits.FullPageRows = 1
	}
	return pages.Spoil(pages.New(w.store, slog.New(slog.DiscardHandler), limits, nil)).Rewrite(context.Background(), w.job)
}

// masked says that rows are deleted.
func (w *world) masked() bool {
	for _, in := range w.job.Inputs {
		if in.Mask != nil {
			return true
		}
	}
	return false
}

// open opens a file with arrow-go, once.
func (w *world) open(path string) *source.File {
	w.tb.Helper()
	f, ok := w.files[path]
	if !ok {
		data := w.get(path)
		var err error
		f, err = source.Open(context.Background(), w.store, path, source.Options{SizeBytes: int64(len(data)), WholeBelowBytes: 1 << 30})
		must(w.tb, err)
		w.tb.Cleanup(func() { f.Close() })
		w.files[path] = f
	}
	return f
}

func (w *world) get(path string) []byte {
	w.tb.Helper()
	data, err := w.store.Get(context.Background(), path)
	must(w.tb, err)
	return data
}

// piece is a run of rows of a file.
type piece struct {
	path string
	column.Run
}

// compareRows compares the outputs with the inputs in the order in which the row map says that rows went out.
func compareRows(t *testing.T, w *world, result engine.Result) {
	t.Helper()
	var out []piece
	in := make([][]piece, len(result.Outputs))
	for i, s := range result.RowMap.Sources {
		next := int64(0)
		mask := w.job.Inputs[i].Mask
		for _, r := range s.Ranges {
			for ; mask != nil && mask.Contains(uint64(next)); next++ {
			}
			if r.First != next {
				t.Errorf("row map of input %d: %+v", i, s.Ranges)
			}
			if mask != nil && mask.Rank(uint64(next+r.Count-1)) != mask.Rank(uint64(next)) {
				t.Errorf("row map of input %d has rows that are deleted: %+v", i, r)
			}
			next += r.Count
			in[r.Output] = append(in[r.Output], piece{s.Path, column.Run{From: r.First, To: r.First + r.Count}})
		}
		for ; mask != nil && mask.Contains(uint64(next)); next++ {
		}
		if next != w.job.Inputs[i].Count() || s.Path != w.job.Inputs[i].FilePath() {
			t.Errorf("row map of input %d ends at %d", i, next)
		}
	}
	for _, f := range result.Outputs {
		out = append(out, piece{f.FilePath(), column.Run{To: f.Count()}})
	}
	ordered := true
	for i, pieces := range in {
		offsets := map[piece]int64{}
		for _, s := range result.RowMap.Sources {
			for _, r := range s.Ranges {
				if r.Output == i {
					offsets[piece{s.Path, column.Run{From: r.First, To: r.First + r.Count}}] = r.Offset
				}
			}
		}
		by := func(a, b piece) int { return cmp.Compare(offsets[a], offsets[b]) }
		ordered = ordered && slices.IsSortedFunc(pieces, by)
		slices.SortFunc(pieces, by)
		next := int64(0)
		for _, p := range pieces {
			if offsets[p] != next {
				t.Errorf("row map: rows of output %d at %d, want %d", i, offsets[p], next)
			}
			next += p.To - p.From
		}
	}
	all := slices.Concat(in...)
	for _, leaf := range w.layout.Leaves {
		if a, b := arrowText(w, leaf, all), arrowText(w, leaf, out); a != b {
			t.Errorf("column %s: arrow-go reads other values", leaf.Path)
		}
		if !ordered || w.masked() || w.mixed {
			continue // parquet-go is asked for whole files only, and cannot read some LZ4 blocks of arrow-go.
		}
		if a, b := parquetText(w, leaf, all), parquetText(w, leaf, out); a != b {
			t.Errorf("column %s: parquet-go reads other values", leaf.Path)
		}
	}
}
