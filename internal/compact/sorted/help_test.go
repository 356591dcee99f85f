package sorted_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/compact/metrics"
	"firn/internal/compact/sorted"
	"firn/internal/maintenance"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/sink"
	"firn/internal/parquet/source"
	"firn/internal/store"
)

// failer is what testing.TB and rapid.T share.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(tb failer, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

var types = iceberg.PrimitiveTypes

func field(id int, name string, t iceberg.Type) iceberg.NestedField {
	return iceberg.NestedField{ID: id, Name: name, Type: t}
}

// schema has key columns, and a leaf of every form that must be carried along.
func schema() *iceberg.Schema {
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: types.Int64, Required: true},
		field(2, "k", types.Int32), field(3, "s", types.String), field(4, "d", types.Float64), field(5, "ok", types.Bool),
		field(6, "amount", iceberg.DecimalTypeOf(25, 2)), field(7, "nothing", types.Date),
		field(8, "tags", &iceberg.ListType{ElementID: 9, Element: types.String}),
		field(10, "props", &iceberg.MapType{KeyID: 11, KeyType: types.Int32, ValueID: 12, ValueType: types.Bool}),
		field(13, "nest", &iceberg.StructType{FieldList: []iceberg.NestedField{field(14, "x", types.Int64)}}),
	)
}

// world is a group of files in memory, with each row as text.
type world struct {
	store  *store.Memory
	layout *layout.Layout
	job    engine.Job
	// rows are the texts of the leaves of each row, file after file.
	rows [][]string
	// from says which file and position a row came from.
	from []place
}

type place struct {
	file int
	row  int64
}

func newWorld(tb failer, sc *iceberg.Schema, props map[string]string) *world {
	tb.Helper()
	l, err := layout.New(sc, false)
	must(tb, err)
	w := &world{store: store.NewMemory(time.Now), layout: l}
	w.job = engine.Job{
		Run: "run", Attempt: "attempt", Target: &projection.Target{Layout: l}, Spec: *iceberg.UnpartitionedSpec, Location: "mem://t/data",
		Properties: props, MaxOutputFileSizeBytes: 512 << 20, Permutation: "mem://t/work/permutation", ExpectedOutputFiles: 1,
	}
	w.job.Writer, err = sink.ParseOptions(props, l)
	must(tb, err)
	w.job.Modes, err = metrics.Modes(props, l, nil)
	must(tb, err)
	return w
}

// addQuietly writes a file of the group without remembering its rows.
func (w *world) addQuietly(tb failer, groups ...[]column.Batch) (path string, size int64) {
	tb.Helper()
	var buf bytes.Buffer
	f, err := sink.Create(&buf, w.layout, w.job.Writer)
	must(tb, err)
	rows := int64(0)
	for _, columns := range groups {
		must(tb, f.StartRowGroup())
		for i := range columns {
			c, err := f.NextColumn()
			must(tb, err)
			must(tb, c.Write(&columns[i]))
		}
		rows += int64(columns[0].Rows)
	}
	_, err = f.Close()
	must(tb, err)
	path = fmt.Sprintf("mem://t/data/in-%d.parquet", len(w.job.Inputs))
	must(tb, w.store.Put(context.Background(), path, buf.Bytes(), store.WriteOptions{}))
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, path, iceberg.ParquetFile, nil, nil, nil, rows, int64(buf.Len()))
	must(tb, err)
	w.job.Inputs = append(w.job.Inputs, engine.Input{DataFile: b.Build()})
	return path, int64(buf.Len())
}

// add writes row groups of all leaves into a file of the group; deleted are positions.
func (w *world) add(tb failer, deleted []uint64, groups ...[]column.Batch) {
	tb.Helper()
	path, size := w.addQuietly(tb, groups...)
	file := len(w.job.Inputs) - 1
	in := &w.job.Inputs[file]
	if deleted != nil {
		in.Mask = roaring64.BitmapOf(deleted...)
	}
	for row, text := range w.read(tb, path, size) {
		if in.Mask == nil || !in.Mask.Contains(uint64(row)) {
			w.rows, w.from = append(w.rows, text), append(w.from, place{file, int64(row)})
		}
	}
}

// read returns the rows of a file, each with the text of each leaf.
func (w *world) read(tb failer, path string, size int64) [][]string {
	tb.Helper()
	f, err := source.Open(context.Background(), w.store, path, source.Options{SizeBytes: size, WholeBelowBytes: size})
	must(tb, err)
	defer f.Close()
	p, err := projection.New(w.job.Target, f, projection.Options{})
	must(tb, err)
	out := make([][]string, f.Rows)
	for _, leaf := range w.layout.Leaves {
		must(tb, p.Scan(leaf.Index, column.Run{To: f.Rows}, func(b *column.Batch) error {
			value, row := 0, b.First-1
			var text strings.Builder
			flush := func() {
				if row >= b.First {
					out[row] = append(out[row], text.String())
				}
				text.Reset()
			}
			for i := range b.Levels {
				if leaf.MaxRep == 0 || b.Rep[i] == 0 {
					flush()
					row++
				}
				if leaf.MaxRep > 0 {
					fmt.Fprintf(&text, "/%d", b.Rep[i])
				}
				if leaf.MaxDef > 0 && b.Def[i] < leaf.MaxDef {
					fmt.Fprintf(&text, "null%d", b.Def[i])
					continue
				}
				v := b.Slice(value, value+1)
				value++
				fmt.Fprintf(&text, "%v%v%v%v%v%q%x", v.Bool, v.Int32, v.Int64, v.Float, v.Double, v.Bytes, v.Fixed)
			}
			flush()
			return nil
		}))
	}
	return out
}

// rewrite sorts the group.
func (w *world) rewrite(tb failer, limits sorted.Limits, spill sorted.Spill) (engine.Result, error) {
	tb.Helper()
	return sorted.New(w.store, slog.New(slog.DiscardHandler), limits, spill).Rewrite(context.Background(), w.job)
}

// outputs reads all outputs of a result, row after row.
func (w *world) outputs(tb failer, r engine.Result) (out [][]string) {
	tb.Helper()
	for _, f := range r.Outputs {
		out = append(out, w.read(tb, f.FilePath(), f.FileSizeBytes())...)
	}
	return out
}

// by orders by columns ascending, nulls first.
func by(ids ...int) *maintenance.Ordering {
	o := &maintenance.Ordering{}
	for _, id := range ids {
		o.Fields = append(o.Fields, maintenance.OrderingField{SourceID: id, Transform: "identity"})
	}
	return o
}

// generate makes rows of all leaves of schema. keys is the number of values of k and s.
func generate(l *layout.Layout, rng *rand.Rand, rows, keys int) []column.Batch {
	out := make([]column.Batch, len(l.Leaves))
	entries := make([]int, rows) // Of lists and maps; -1 is null.
	for i := range entries {
		entries[i] = rng.IntN(5) - 1
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
				appendValue(leaf, b, rng, keys)
			}
		}
		for r := range rows {
			switch {
			case leaf.MaxRep == 0 && leaf.Path == "nothing":
				entry(0, 0)
			case leaf.MaxRep == 0 && leaf.MaxDef > 0 && rng.IntN(6) == 0:
				entry(int16(rng.IntN(int(leaf.MaxDef))), 0)
			case leaf.MaxRep == 0:
				entry(leaf.MaxDef, 0)
			case entries[r] <= 0:
				entry(int16(entries[r]+1), 0)
			default:
				for e := range entries[r] {
					def := leaf.MaxDef
					if def == 3 && rng.IntN(4) == 0 {
						def = 2
					}
					entry(def, int16(min(e, 1)))
				}
			}
		}
	}
	return out
}

func appendValue(leaf *layout.Leaf, b *column.Batch, rng *rand.Rand, keys int) {
	n := rng.IntN(keys) - keys/2
	switch leaf.Kind {
	case layout.Boolean:
		b.Bool = append(b.Bool, n&1 == 0)
	case layout.Int32:
		b.Int32 = append(b.Int32, int32(n))
	case layout.Int64:
		b.Int64 = append(b.Int64, rng.Int64())
	case layout.Double:
		b.Double = append(b.Double, float64(n))
	case layout.Fixed:
		v := make([]byte, leaf.Width)
		binary.BigEndian.PutUint32(v[leaf.Width-4:], rng.Uint32())
		b.Fixed = append(b.Fixed, v)
	default:
		b.Bytes = append(b.Bytes, parquet.ByteArray(fmt.Sprintf("a long common prefix of all values-%0*d", rng.IntN(3), n)))
	}
}

func seeded(tb testing.TB, seed uint64) *rand.Rand {
	tb.Helper()
	tb.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}
