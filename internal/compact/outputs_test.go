package compact_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"

	"firn/internal/compact/arrow"
	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/sink"
	"firn/internal/store"
)

// TestRollingOutputs is case A61: a group that gives several outputs, each of about the wanted size, each entry equal to its own file. Inputs
// that may not all be held, and row groups that are cut in the middle, change nothing.
func TestRollingOutputs(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long", "s string", "n double"), icebergtest.Version(3))
	rng := rand.New(rand.NewPCG(1, 2))
	for f := range 4 {
		var rows []icebergtest.Row
		for i := range 5000 {
			row := icebergtest.Row{f*5000 + i, fmt.Sprintf("%x", rng.Uint64()), rng.Float64()}
			if f == 0 {
				row[1] = nil
			}
			rows = append(rows, row)
		}
		tbl.Commit(icebergtest.Append(rows...))
	}
	before, lineage := tbl.Rows(), tbl.Lineage()
	const limit = 100_000
	b := newBench(t, w.Store, tbl.State(), maxOutput(limit), property("write.parquet.row-group-size-bytes", "40000"),
		limits(arrow.Limits{HeldBytes: 1, WholeBelowBytes: 1}))
	results := b.rewriteAll()
	checkProof(t, b, 0, results[0])
	out := b.outputs(results)
	if len(out) < 3 {
		t.Fatalf("%d outputs", len(out))
	}
	for i, f := range out {
		if f.FileSizeBytes() > limit*5/4 || (i < len(out)-1 && f.FileSizeBytes() < limit/2) {
			t.Errorf("output %d has %d bytes, wanted about %d", i, f.FileSizeBytes(), limit)
		}
		checkEntry(t, w.Store, f)
	}
	b.commit(tbl, results)
	if after := tbl.Rows(); after.Digest != before.Digest {
		t.Error("the rows changed")
	}
	if after := tbl.Lineage(); after.Digest != lineage.Digest {
		t.Error("row lineage changed")
	}
}

// checkEntry compares a manifest entry with the file's footer and length, read with arrow-go alone.
func checkEntry(t *testing.T, st store.Reader, f iceberg.DataFile) {
	t.Helper()
	data, err := st.Get(context.Background(), f.FilePath())
	if err != nil {
		t.Fatal(err)
	}
	r, err := file.NewParquetReader(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(data)) != f.FileSizeBytes() || r.NumRows() != f.Count() {
		t.Errorf("%s: entry says %d bytes and %d rows, the file has %d and %d", f.FilePath(), f.FileSizeBytes(), f.Count(), len(data), r.NumRows())
	}
	sizes, nulls := map[int]int64{}, map[int]int64{}
	var offsets []int64
	for g := range r.NumRowGroups() {
		rg := r.MetaData().RowGroup(g)
		for c := range rg.NumColumns() {
			chunk, err := rg.ColumnChunk(c)
			if err != nil {
				t.Fatal(err)
			}
			id := int(r.MetaData().Schema.Column(c).SchemaNode().FieldID())
			sizes[id] += chunk.TotalCompressedSize()
			if stats, err := chunk.Statistics(); err == nil && stats != nil {
				nulls[id] += stats.NullCount()
			}
			if c == 0 {
				offsets = append(offsets, max(chunk.DictionaryPageOffset(), 0))
				if offsets[g] == 0 {
					offsets[g] = chunk.DataPageOffset()
				}
			}
		}
	}
	if fmt.Sprint(f.ColumnSizes()) != fmt.Sprint(sizes) || fmt.Sprint(f.NullValueCounts()) != fmt.Sprint(nulls) || fmt.Sprint(f.SplitOffsets()) != fmt.Sprint(offsets) {
		t.Errorf("%s: entry says sizes %v, nulls %v, offsets %v; the file %v, %v, %v", f.FilePath(), f.ColumnSizes(), f.NullValueCounts(),
			f.SplitOffsets(), sizes, nulls, offsets)
	}
}

// add writes a data file of a schema with the sink, and adds it to a table: for types that the test writer lacks.
func add(t *testing.T, w *icebergtest.World, tbl *icebergtest.Table, name string, columns ...column.Batch) {
	t.Helper()
	l, err := layout.New(tbl.State().Metadata.CurrentSchema(), false)
	if err != nil {
		t.Fatal(err)
	}
	opts, err := sink.ParseOptions(nil, l)
	if err != nil {
		t.Fatal(err)
	}
	var data strings.Builder
	f, err := sink.Create(&data, l, opts)
	if err == nil {
		err = f.StartRowGroup()
	}
	for i := range columns {
		var c *sink.Column
		if err == nil {
			c, err = f.NextColumn()
		}
		if err == nil {
			err = c.Write(&columns[i])
		}
	}
	if err == nil {
		_, err = f.Close()
	}
	path := store.Join(tbl.State().Metadata.Location(), "data", name)
	if err == nil {
		err = w.Store.Put(context.Background(), path, []byte(data.String()), store.WriteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, path, iceberg.ParquetFile, nil, nil, nil,
		int64(columns[0].Rows), int64(data.Len()))
	if err != nil {
		t.Fatal(err)
	}
	tbl.Commit(icebergtest.AddFile(b.Build(), nil))
}

// TestVariantAndGeometry is case A53: an unshredded variant and a geometry are carried byte for byte, nulls too; unknown columns, which hold
// nothing, are not stored. Geography is refused with a reason.
func TestVariantAndGeometry(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Version(3), icebergtest.Schema(iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "v", Type: iceberg.VariantType{}},
		iceberg.NestedField{ID: 2, Name: "g", Type: iceberg.GeometryType{}},
		iceberg.NestedField{ID: 3, Name: "u", Type: iceberg.PrimitiveTypes.Unknown},
	)))
	bytes := func(def []int16, values ...string) column.Batch {
		b := column.Batch{Rows: len(def), Levels: len(def), Def: def}
		for _, v := range values {
			b.Bytes = append(b.Bytes, []byte(v))
		}
		return b
	}
	for n := range 2 {
		meta := strings.Repeat("m", 200+n)
		add(t, w, tbl, fmt.Sprintf("f%d.parquet", n), bytes([]int16{1, 0, 1}, meta, "x"), bytes([]int16{1, 0, 1}, "value", "\x00"),
			bytes([]int16{0, 1, 1}, "\x01wkb", "wkb2"))
	}
	b := newBench(t, w.Store, tbl.State())
	r := b.rewriteAll()[0]
	checkProof(t, b, 0, r)
	f := b.outputs(b.rewriteAll())[0]
	if f.ValueCounts()[1] != 6 || f.NullValueCounts()[1] != 2 || f.NullValueCounts()[2] != 2 || len(f.LowerBoundValues()[1])+len(f.LowerBoundValues()[2]) != 0 {
		t.Errorf("counts %v, nulls %v, bounds %v", f.ValueCounts(), f.NullValueCounts(), f.LowerBoundValues())
	}
	// Rewritten again from its own output the counts must be the same. Hashes need not: pages that are copied count by their bytes.
	b.commit(tbl, []handoff.GroupResult{r})
	again := newBench(t, w.Store, tbl.State()).rewriteAll()[0]
	for i, c := range again.Proof.Columns {
		if c.NullsIn != r.Proof.Columns[i].NullsOut {
			t.Errorf("column %d: %+v, before %+v", i, c, r.Proof.Columns[i])
		}
	}
	geography, err := iceberg.GeographyTypeOf("OGC:CRS84", "spherical")
	if err != nil {
		t.Fatal(err)
	}
	other := w.NewTable("db.g", icebergtest.Version(3), icebergtest.Schema(iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64}, iceberg.NestedField{ID: 2, Name: "g", Type: geography})))
	b2 := newBench(t, w.Store, tbl.State())
	b2.pinned.Schemas = append(b2.pinned.Schemas, b2.json(iceberg.NewSchema(9, other.State().Metadata.CurrentSchema().Fields()...)))
	b2.pinned.SchemaID = 9
	b2.runAs(strings.Repeat("z", 26))
	if r := b2.rewrite(0); r.Outcome != maintenance.Refused || !strings.Contains(r.Reason, "geography") {
		t.Errorf("%s: %s", r.Outcome, r.Reason)
	}
}

// TestLargeValues is case A44 in small: rows of a megabyte each are cut into pages and batches by bytes, and survive.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long", "s string"))
	for f := range 3 {
		var rows []icebergtest.Row
		for i := range 12 {
			rows = append(rows, icebergtest.Row{f*12 + i, strings.Repeat(fmt.Sprintf("%08d", f*100+i), 1<<17)})
		}
		tbl.Commit(icebergtest.Append(rows...))
	}
	before := tbl.Rows()
	b := newBench(t, w.Store, tbl.State(), property("write.parquet.compression-codec", "uncompressed"))
	results := b.rewriteAll()
	checkProof(t, b, 0, results[0])
	f := b.outputs(results)[0]
	data, err := w.Store.Get(context.Background(), f.FilePath())
	if err != nil {
		t.Fatal(err)
	}
	r, err := file.NewParquetReader(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := r.RowGroup(0).GetColumnPageReader(1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for pages.Next() {
		n++
	}
	if n < 36/3 {
		t.Errorf("36 MB of values lie in %d pages", n)
	}
	b.commit(tbl, results)
	if after := tbl.Rows(); after.Digest != before.Digest {
		t.Error("the rows changed")
	}
}
