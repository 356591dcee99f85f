package pages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/iceberg-go"

	"firn/internal/compact/arrow"
	"firn/internal/compact/content"
	"firn/internal/compact/engine"
	"firn/internal/compact/metrics"
	"firn/internal/compact/pages"
	"firn/internal/parquet/bloom"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/parquettest"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/sink"
)

// evolution is a table's schema and the older ones that its files have.
type evolution struct {
	table     []iceberg.NestedField
	files     [][]iceberg.NestedField
	defaults  map[int]string
	constants map[int]any
	lineage   bool
	// raw says that no column has to be converted.
	raw bool
}

func opt(id int, name string, t iceberg.Type) iceberg.NestedField {
	return iceberg.NestedField{ID: id, Name: name, Type: t}
}

func req(id int, name string, t iceberg.Type) iceberg.NestedField {
	return iceberg.NestedField{ID: id, Name: name, Type: t, Required: true}
}

func structOf(fields ...iceberg.NestedField) *iceberg.StructType {
	return &iceberg.StructType{FieldList: fields}
}

func evolutions() map[string]evolution {
	p := iceberg.PrimitiveTypes
	list := func(id int, e iceberg.NestedField) *iceberg.ListType {
		return &iceberg.ListType{ElementID: id, Element: e.Type, ElementRequired: e.Required}
	}
	base := []iceberg.NestedField{req(1, "id", p.Int64), opt(2, "s", p.String)}
	with := func(fields ...iceberg.NestedField) []iceberg.NestedField {
		return append(slices.Clone(base), fields...)
	}
	dec := iceberg.DecimalTypeOf
	return map[string]evolution{
		"added": {
			table: with(opt(3, "a", p.String), opt(4, "b", structOf(opt(5, "x", p.Int32), req(6, "y", p.Bool))), opt(7, "l", list(8, opt(0, "", p.Date)))),
			files: [][]iceberg.NestedField{base, with(opt(3, "a", p.String)), with(opt(7, "l", list(8, opt(0, "", p.Date))), opt(3, "a", p.String))},
		},
		"defaults": {
			table:    with(opt(3, "a", p.String), req(4, "b", p.Int64), req(5, "c", p.Bool), opt(6, "d", p.Float64), opt(7, "e", dec(20, 2))),
			files:    [][]iceberg.NestedField{base, with(opt(3, "a", p.String), req(4, "b", p.Int64), opt(6, "d", p.Float64))},
			defaults: map[int]string{3: `"a-3"`, 4: "7", 5: "true", 6: "-0.5", 7: `"-1.25"`},
		},
		"dropped, renamed, reordered": {
			raw:   true,
			table: []iceberg.NestedField{opt(2, "text", p.String), opt(4, "x", p.Int32), req(1, "id", p.Int64)},
			files: [][]iceberg.NestedField{with(opt(3, "gone", p.String), opt(4, "old", p.Int32)), with(opt(4, "x", p.Int32))},
		},
		"promoted": {
			table: []iceberg.NestedField{
				req(1, "id", p.Int64), opt(2, "f", p.Float64), opt(3, "d1", dec(9, 2)), opt(4, "d2", dec(18, 2)), opt(5, "d3", dec(30, 2)), opt(6, "d4", dec(38, 2)),
				opt(7, "t", p.Timestamp),
			},
			files: [][]iceberg.NestedField{
				{req(1, "id", p.Int32), opt(2, "f", p.Float32), opt(3, "d1", dec(4, 2)), opt(4, "d2", dec(9, 2)), opt(5, "d3", dec(9, 2)), opt(6, "d4", dec(20, 2)), opt(7, "t", p.Date)},
				{req(1, "id", p.Int64), opt(2, "f", p.Float64), opt(3, "d1", dec(9, 2)), opt(4, "d2", dec(18, 2)), opt(5, "d3", dec(18, 2)), opt(6, "d4", dec(38, 2)), opt(7, "t", p.Timestamp)},
			},
		},
		"required in some files": {
			table: []iceberg.NestedField{opt(1, "id", p.Int64), opt(2, "s", p.String), opt(3, "n", structOf(opt(4, "x", p.Int32), opt(5, "y", p.String)))},
			files: [][]iceberg.NestedField{
				{req(1, "id", p.Int64), req(2, "s", p.String), req(3, "n", structOf(req(4, "x", p.Int32), opt(5, "y", p.String)))},
				{opt(1, "id", p.Int64), req(2, "s", p.String), opt(3, "n", structOf(req(4, "x", p.Int32), opt(5, "y", p.String)))},
			},
		},
		"nested": {
			table: with(
				opt(3, "n", structOf(opt(6, "z", p.Int64), opt(4, "x", p.Int64), opt(9, "w", structOf(opt(10, "v", p.Int32))))),
				opt(11, "l", list(12, opt(0, "", structOf(opt(13, "a", p.Int64), opt(14, "b", p.String), req(16, "d", p.Int32))))),
				opt(20, "m", &iceberg.MapType{KeyID: 21, KeyType: p.String, ValueID: 22, ValueType: structOf(opt(23, "q", p.Int32), opt(24, "r", p.Float64))})),
			files: [][]iceberg.NestedField{
				with(opt(3, "n", structOf(opt(4, "x", p.Int32), opt(5, "y", p.String))),
					opt(11, "l", list(12, opt(0, "", structOf(opt(13, "a", p.Int32), opt(15, "c", p.String))))),
					opt(20, "m", &iceberg.MapType{KeyID: 21, KeyType: p.String, ValueID: 22, ValueType: structOf(opt(23, "q", p.Int32))})),
				with(opt(3, "n", structOf(opt(4, "x", p.Int64), opt(6, "z", p.Int64)))),
			},
			defaults: map[int]string{16: "5"},
		},
		"constants": {
			table:     with(opt(3, "day", p.Date), opt(4, "region", p.String), opt(5, "gone", p.String)),
			files:     [][]iceberg.NestedField{base, with(opt(3, "day", p.Date))},
			constants: map[int]any{3: iceberg.Date(19_000), 4: "eu", 5: nil},
		},
		"variant, geometry, unknown": {
			raw:   true,
			table: with(opt(3, "v", iceberg.VariantType{}), opt(4, "g", iceberg.GeometryType{}), opt(5, "u", iceberg.UnknownType{})),
			files: [][]iceberg.NestedField{with(opt(3, "v", iceberg.VariantType{}), opt(4, "g", iceberg.GeometryType{}))},
		},
		"variant and geometry added": {
			table: with(opt(3, "v", iceberg.VariantType{}), opt(4, "g", iceberg.GeometryType{})),
			files: [][]iceberg.NestedField{with(opt(3, "v", iceberg.VariantType{})), with(opt(4, "g", iceberg.GeometryType{}))},
		},
		"lineage": {
			table: base, lineage: true,
			files: [][]iceberg.NestedField{
				base, with(opt(layout.RowIDField, "_row_id", p.Int64), opt(layout.LastUpdatedField, "_last_updated_sequence_number", p.Int64)),
			},
		},
	}
}

// TestConverted: files of other schemas become what the arrow engine makes of them, with deleted rows and without, whatever their pages are like. What
// does not have to be decoded is not.
func TestConverted(t *testing.T) {
	t.Parallel()
	for name, e := range evolutions() {
		for _, writer := range []string{"dictionary v1 index", "dictionary v2", "plain v1", "one page"} {
			t.Run(name+"/"+writer, func(t *testing.T) {
				t.Parallel()
				for _, masked := range []bool{false, true} {
					convert(t, e, append(writers()[writer], parquet.WithCompression(compress.Codecs.Zstd)), masked)
				}
			})
		}
	}
}

func convert(t *testing.T, e evolution, props []parquet.WriterProperty, masked bool) {
	t.Helper()
	w := newWorld(t, iceberg.NewSchema(1, e.table...), nil)
	var err error
	w.layout, err = layout.New(iceberg.NewSchema(1, e.table...), e.lineage)
	must(t, err)
	w.job.Target.Layout = w.layout
	w.job.Target.Defaults = map[int]json.RawMessage{}
	for id, text := range e.defaults {
		w.job.Target.Defaults[id] = json.RawMessage(text)
	}
	w.job.Writer, err = sink.ParseOptions(nil, w.layout)
	must(t, err)
	w.job.Modes, err = metrics.Modes(nil, w.layout, nil)
	must(t, err)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 4 {
		l, err := layout.New(iceberg.NewSchema(1, e.files[i%len(e.files)]...), false)
		must(t, err)
		groups := [][]column.Batch{random(l, rng, 120, i), random(l, rng, 80, i)}
		w.add(encode(t, l, groups, props...), 200)
		in := &w.job.Inputs[i]
		in.Constants, in.Sequence = e.constants, int64(10+i)
		if e.lineage {
			first := int64(1000 * i)
			in.FirstRowID = &first
		}
		if masked {
			in.Mask = roaring64.New()
			for range 30 * i {
				in.Mask.Add(uint64(rng.IntN(200)))
			}
			in.Mask.AddRange(90, uint64(100+30*i))
		}
	}
	result, err := w.rewrite(pages.Limits{})
	must(t, err)
	if result.Name != "pages" {
		t.Fatal(result.Name)
	}
	if n := result.Tiers[engine.TierRecode]; e.raw && !masked && n > 0 {
		t.Errorf("%d bytes were decoded: %v", n, result.Tiers)
	}
	proveContents(t, w, result)
	job := w.job
	job.Attempt = "arrow"
	want, err := arrow.New(w.store, slog.New(slog.DiscardHandler), arrow.Limits{}).Rewrite(context.Background(), job)
	must(t, err)
	for i, leaf := range w.layout.Leaves {
		if a, b := projected(w, i, want.Outputs), projected(w, i, result.Outputs); a != b {
			t.Errorf("column %s is not what the arrow engine makes of it\n%s", leaf.Path, firstDifference(a, b))
		}
	}
	a, b := want.Outputs[0], result.Outputs[0]
	if !maps.Equal(a.ValueCounts(), b.ValueCounts()) {
		t.Errorf("value counts %v, by the arrow engine %v", b.ValueCounts(), a.ValueCounts())
	}
	for id, n := range b.NullValueCounts() {
		if a.NullValueCounts()[id] != n {
			t.Errorf("field %d: %d nulls, by the arrow engine %d", id, n, a.NullValueCounts()[id])
		}
	}
	for id, bound := range b.LowerBoundValues() {
		if want := a.LowerBoundValues()[id]; !masked && string(bound) != string(want) && len(want) > 0 {
			t.Errorf("field %d: lower bound %x, by the arrow engine %x", id, bound, want)
		}
	}
}

// proveContents reads inputs and outputs again; a row more or less, or another value of a column, is an error.
func proveContents(t *testing.T, w *world, result engine.Result) {
	t.Helper()
	proof, err := content.Prove(context.Background(), w.store, w.job, result.Outputs)
	if err != nil || len(proof) != len(w.layout.Leaves) {
		t.Errorf("%d columns: %v", len(proof), err)
	}
	other := w.job
	other.Inputs = slices.Clone(w.job.Inputs)
	other.Inputs[1].Mask = roaring64.BitmapOf(17)
	if _, err := content.Prove(context.Background(), w.store, other, result.Outputs); err == nil || !strings.Contains(err.Error(), "of column") {
		t.Errorf("a row that is deleted in the inputs: %v", err)
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d: want %q, got %q", i, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines, %d lines", len(x), len(y))
}

// projected spells a column of outputs as the table's schema has it.
func projected(w *world, leaf int, files []iceberg.DataFile) string {
	w.tb.Helper()
	var text strings.Builder
	l := w.layout.Leaves[leaf]
	for _, df := range files {
		f := w.open(df.FilePath())
		p, err := projection.New(w.job.Target, f, projection.Options{})
		must(w.tb, err)
		must(w.tb, p.Scan(leaf, column.Run{To: f.Rows}, func(b *column.Batch) error {
			v := 0
			for i := range b.Levels {
				rep, def := int16(0), int16(0)
				if l.MaxRep > 0 {
					rep = b.Rep[i]
				}
				if l.MaxDef > 0 {
					def = b.Def[i]
				}
				if fmt.Fprintf(&text, "%d %d", rep, def); def == l.MaxDef {
					spell(&text, &b.Values, v)
					v++
				}
				text.WriteByte('\n')
			}
			return nil
		}))
	}
	return text.String()
}

// random makes rows of all leaves, null and nested at random.
func random(l *layout.Layout, rng *rand.Rand, rows, kind int) []column.Batch {
	return parquettest.Rows(l, rng, parquettest.Shape{Rows: rows, Kind: kind})
}

// TestBloomFilters: a column has a bloom filter if the table asks for one or an input has one; it knows every value, and few others.
func TestBloomFilters(t *testing.T) {
	t.Parallel()
	for name, props := range writers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, schema(), map[string]string{
				"write.parquet.bloom-filter-enabled.column.id": "true", "write.parquet.bloom-filter-enabled.column.country": "true",
				"write.parquet.bloom-filter-fpp.column.country": "0.001", "write.parquet.bloom-filter-enabled.column.uuid": "true",
				"write.parquet.bloom-filter-ndv.column.uuid": "5000",
			})
			rng := rand.New(rand.NewPCG(3, 4))
			props := append(slices.Clone(props), parquet.WithCompression(compress.Codecs.Zstd))
			for i := range 3 {
				more := props
				if i == 1 {
					more = append(slices.Clone(props), parquet.WithBloomFilterEnabledFor("payload", true))
				}
				w.add(encode(t, w.layout, [][]column.Batch{generate(w.layout, rng, 400, i)}, more...), 400)
			}
			result, err := w.rewrite(pages.Limits{})
			must(t, err)
			checkBlooms(t, w, result, map[string]bool{"id": true, "country": true, "payload": true, "uuid": true})
		})
	}
}

func checkBlooms(t *testing.T, w *world, result engine.Result, want map[string]bool) {
	t.Helper()
	data := w.get(result.Outputs[0].FilePath())
	g := decodeFooter(t, data).RowGroups()[0]
	f := w.open(result.Outputs[0].FilePath())
	for i, leaf := range w.layout.Leaves {
		at, n := g.Columns()[i].Metadata().Bloom()
		if (at > 0) != want[leaf.Path] {
			t.Errorf("column %s: bloom filter %t, want %t", leaf.Path, at > 0, want[leaf.Path])
		}
		if at == 0 {
			continue
		}
		filter, err := bloom.Read(data[at : at+n])
		must(t, err)
		if leaf.Path == "uuid" && int64(filter.SizeBytes()) != bloom.Bytes(5000, 0.01) {
			t.Errorf("the table tells the number of values: %d bytes", filter.SizeBytes())
		}
		if rate := filter.Rate(); rate > 0.01 {
			t.Errorf("column %s: rate %v", leaf.Path, rate)
		}
		must(t, f.Scan(0, i, column.Run{To: f.Rows}, func(b *column.Batch) error {
			for n := range b.Len() {
				one := b.Slice(n, n+1)
				plain := one.AppendPlain(nil)
				if leaf.Kind == layout.Bytes {
					plain = plain[4:]
				}
				if !filter.Has(bloom.Hash(plain)) {
					t.Errorf("column %s: value %x is not in the filter", leaf.Path, plain)
				}
			}
			return nil
		}))
	}
}

// TestDamageInConvertedColumns: damage and values that do not fit are found while a column is converted, and named by their place.
func TestDamageInConvertedColumns(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	p := iceberg.PrimitiveTypes
	old, err := layout.New(iceberg.NewSchema(0, opt(1, "n", p.Int32), opt(2, "s", p.String)), false)
	must(t, err)
	props := map[string]string{"write.parquet.compression-codec": "uncompressed"}
	good := encode(t, old, [][]column.Batch{random(old, rng, 500, 1)}, parquet.WithDictionaryFor("n", false))
	at, n := decodeFooter(t, good).RowGroups()[0].Columns()[0].Metadata().Span()
	seen := map[string]int{}
	for range 150 {
		bad := slices.Clone(good)
		bad[at+rng.Int64N(min(n, 60))] ^= byte(1 + rng.IntN(255)) // In the page's header and its first levels.
		w := newWorld(t, iceberg.NewSchema(1, opt(1, "n", p.Int64), opt(2, "s", p.String)), props)
		w.add(good, 500)
		w.add(bad, 500)
		_, err := w.rewrite(pages.Limits{})
		switch {
		case err == nil:
			seen["copied"]++ // A level or value that is as good as another.
		case strings.Contains(err.Error(), "in-1.parquet: row group 0, column n, page 0: ") && errors.Is(err, engine.ErrRefused),
			strings.Contains(err.Error(), "copy pages: "): // What this engine cannot read is for another one to name.
			seen["refused"]++
		default:
			t.Fatal(err)
		}
	}
	if seen["refused"] < 50 {
		t.Errorf("damage goes unseen: %v", seen)
	}
	w := newWorld(t, iceberg.NewSchema(1, req(1, "n", p.Int64), opt(2, "s", p.String)), props)
	w.add(good, 500)
	if _, err := w.rewrite(pages.Limits{}); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "a null in a required column") ||
		!strings.Contains(err.Error(), "in-0.parquet: row group 0, column n, page 0") {
		t.Errorf("nulls in a required column: %v", err)
	}
}
