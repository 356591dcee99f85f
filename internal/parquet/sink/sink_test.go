package sink_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/sink"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func lay(tb testing.TB, fields ...iceberg.NestedField) *layout.Layout {
	tb.Helper()
	l, err := layout.New(iceberg.NewSchema(0, fields...), false)
	must(tb, err)
	return l
}

// write makes a file of row groups, each a list of columns, each a list of batches.
func write(tb testing.TB, l *layout.Layout, props map[string]string, groups ...[][]column.Batch) ([]byte, sink.Footer) {
	tb.Helper()
	opts, err := sink.ParseOptions(props, l)
	must(tb, err)
	opts.Metadata = map[string]string{"iceberg.schema": "{}"}
	var buf bytes.Buffer
	f, err := sink.Create(&buf, l, opts)
	must(tb, err)
	for _, columns := range groups {
		must(tb, f.StartRowGroup())
		for _, batches := range columns {
			c, err := f.NextColumn()
			must(tb, err)
			for i := range batches {
				must(tb, c.Write(&batches[i]))
			}
		}
	}
	footer, err := f.Close()
	must(tb, err)
	if footer.SizeBytes != int64(buf.Len()) {
		tb.Fatalf("footer says %d bytes of %d", footer.SizeBytes, buf.Len())
	}
	return buf.Bytes(), footer
}

// levels reads a column with parquet-go, which shares no code with arrow-go: definition and repetition level and value of each entry.
func levels(tb testing.TB, data []byte, leaf int) string {
	tb.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	must(tb, err)
	var out strings.Builder
	for _, rg := range f.RowGroups() {
		pages := rg.ColumnChunks()[leaf].Pages()
		for {
			p, err := pages.ReadPage()
			if errors.Is(err, io.EOF) {
				break
			}
			must(tb, err)
			values := make([]parquet.Value, p.NumValues())
			n, err := p.Values().ReadValues(values)
			if err != nil && !errors.Is(err, io.EOF) {
				tb.Fatal(err)
			}
			for _, v := range values[:n] {
				fmt.Fprintf(&out, "%d/%d:%v ", v.DefinitionLevel(), v.RepetitionLevel(), v)
			}
		}
		must(tb, pages.Close())
	}
	return out.String()
}

// TestSparseColumns is case A43: sparse values, nulls at each level of nested columns and all-null pages are read back by another library
// exactly as they were written, whatever the size of pages and batches.
func TestSparseColumns(t *testing.T) {
	t.Parallel()
	l := lay(t, iceberg.NestedField{ID: 1, Name: "m", Type: &iceberg.MapType{
		KeyID: 2, KeyType: iceberg.PrimitiveTypes.Int32, ValueID: 3,
		ValueType: &iceberg.ListType{ElementID: 4, Element: iceberg.PrimitiveTypes.Int64},
	}}, iceberg.NestedField{ID: 5, Name: "n", Type: iceberg.PrimitiveTypes.Int64})
	tb := t
	rapid.Check(t, func(t *rapid.T) {
		props := map[string]string{"write.parquet.page-row-limit": fmt.Sprint(rapid.IntRange(1, 5).Draw(t, "page rows"))}
		want := make([]strings.Builder, 3)
		columns := make([][]column.Batch, 3)
		for range rapid.IntRange(1, 6).Draw(t, "batches") {
			var b [3]column.Batch
			for range rapid.IntRange(1, 6).Draw(t, "rows") {
				row(t, &b, want)
			}
			for i := range columns {
				columns[i] = append(columns[i], b[i])
			}
		}
		data, _ := write(tb, l, props, columns)
		for i := range columns {
			if got := levels(tb, data, i); got != want[i].String() {
				t.Fatalf("column %d\n got %s\nwant %s", i, got, want[i].String())
			}
		}
	})
}

// row appends a random row to the columns m.key, m.value.element and n.
func row(t *rapid.T, b *[3]column.Batch, want []strings.Builder) {
	put := func(i int, def, rep, full int16, v int64) {
		c := &b[i]
		c.Def = append(c.Def, def)
		if i < 2 {
			c.Rep = append(c.Rep, rep)
		}
		c.Levels++
		text := "<null>"
		if def == full {
			text = fmt.Sprint(v)
			if i == 0 {
				c.Int32 = append(c.Int32, int32(v))
			} else {
				c.Int64 = append(c.Int64, v)
			}
		}
		fmt.Fprintf(&want[i], "%d/%d:%s ", def, rep, text)
	}
	value := rapid.Int64Range(0, 9)
	for i := range b {
		b[i].Rows++
	}
	switch entries := rapid.IntRange(-1, 3).Draw(t, "entries"); entries {
	case -1, 0: // A null map, an empty map.
		put(0, int16(entries+1), 0, 2, 0)
		put(1, int16(entries+1), 0, 5, 0)
	default:
		for e := range entries {
			rep := int16(min(e, 1))
			put(0, 2, rep, 2, value.Draw(t, "key"))
			switch n := rapid.IntRange(-1, 3).Draw(t, "elements"); n {
			case -1, 0: // A null list, an empty list.
				put(1, int16(n+3), rep, 5, 0)
			default:
				for i := range n {
					if i > 0 {
						rep = 2
					}
					put(1, rapid.Int16Range(4, 5).Draw(t, "element"), rep, 5, value.Draw(t, "value"))
				}
			}
		}
	}
	put(2, rapid.Int16Range(0, 1).Draw(t, "n"), 0, 1, value.Draw(t, "value"))
}

// TestSchema: field IDs on every node that has one, repetition as the table says, logical types as the specification says.
func TestSchema(t *testing.T) {
	t.Parallel()
	types := iceberg.PrimitiveTypes
	req := func(id int, name string, typ iceberg.Type) iceberg.NestedField {
		return iceberg.NestedField{ID: id, Name: name, Type: typ, Required: true}
	}
	l := lay(
		t, req(1, "i", types.Int32), req(2, "d", types.Date), req(3, "ts", types.Timestamp), req(4, "tz", types.TimestampTz),
		req(5, "ns", types.TimestampNs), req(6, "time", types.Time), req(7, "u", types.UUID), req(8, "f", iceberg.FixedTypeOf(3)),
		req(9, "d9", iceberg.DecimalTypeOf(9, 2)), req(10, "d18", iceberg.DecimalTypeOf(18, 2)), req(11, "d38", iceberg.DecimalTypeOf(38, 2)),
		req(12, "with space", types.String), req(13, "l", &iceberg.ListType{ElementID: 14, Element: types.Binary}),
		iceberg.NestedField{ID: 15, Name: "9", Type: types.Bool},
	)
	var out bytes.Buffer
	schema.PrintSchema(l.Root, &out, 1)
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"required int32 field_id=1 i;", "required int32 field_id=2 d (Date);",
		"required int64 field_id=3 ts (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds",
		"required int64 field_id=4 tz (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds",
		"required int64 field_id=5 ns (Timestamp(isAdjustedToUTC=false, timeUnit=nanoseconds",
		"required int64 field_id=6 time (Time(isAdjustedToUTC=false, timeUnit=microseconds));",
		"required fixed_len_byte_array field_id=7 u (UUID);", "required fixed_len_byte_array field_id=8 f;",
		"required int32 field_id=9 d9 (Decimal(precision=9, scale=2));", "required int64 field_id=10 d18", "fixed_len_byte_array field_id=11 d38",
		"field_id=12 with_x20space (String);", "required group field_id=13 l (List) { repeated group field_id=-1 list { optional byte_array field_id=14 element; } }",
		"optional boolean field_id=15 _9;",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}

// TestProperties: page rows, dictionary, codec, bloom filter and footer metadata are as the table asks.
func TestProperties(t *testing.T) {
	t.Parallel()
	l := lay(t, iceberg.NestedField{ID: 1, Name: "a", Type: iceberg.PrimitiveTypes.Int64, Required: true})
	var b column.Batch
	for i := range 1000 {
		b.Int64 = append(b.Int64, int64(i%10))
	}
	b.Rows, b.Levels = 1000, 1000
	for codec, want := range map[string]string{"": "ZSTD", "gzip": "GZIP", "snappy": "SNAPPY", "lz4": "LZ4_RAW", "brotli": "BROTLI", "uncompressed": "UNCOMPRESSED"} {
		props := map[string]string{
			"write.parquet.page-row-limit": "100", "write.parquet.bloom-filter-enabled.column.a": "true", "write.parquet.bloom-filter-fpp.column.a": "0.05",
			"write.parquet.bloom-filter-max-bytes": "1024",
		}
		if codec != "" {
			props["write.parquet.compression-codec"] = codec
		}
		data, footer := write(t, l, props, [][]column.Batch{{b}}, [][]column.Batch{{b}})
		f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
		must(t, err)
		if v, _ := f.Lookup("iceberg.schema"); v != "{}" {
			t.Errorf("footer metadata %q", v)
		}
		for g, rg := range f.RowGroups() {
			c := rg.ColumnChunks()[0]
			meta := f.Metadata().RowGroups[g].Columns[0].MetaData
			if meta.Codec.String() != want {
				t.Errorf("codec %q: %s", codec, meta.Codec)
			}
			index, err := c.OffsetIndex()
			if err != nil || index.NumPages() != 10 {
				t.Errorf("codec %q: %v pages, %v", codec, index, err)
			}
			bloom := c.BloomFilter()
			if bloom == nil {
				t.Fatalf("codec %q: no bloom filter", codec)
			}
			if ok, err := bloom.Check(parquet.Int64Value(7)); !ok || err != nil {
				t.Errorf("codec %q: the bloom filter lacks 7: %v", codec, err)
			}
		}
		if len(footer.SplitOffsets) != 2 || footer.SplitOffsets[0] != 4 || footer.Rows != 2000 || footer.ColumnSizes[0] <= 0 {
			t.Errorf("footer %+v", footer)
		}
		r, err := file.NewParquetReader(bytes.NewReader(data))
		must(t, err)
		if v := r.MetaData().GetCreatedBy(); !strings.HasPrefix(v, "firn version ") {
			t.Errorf("created by %q", v)
		}
	}
	for key, bad := range map[string]string{
		"write.parquet.compression-codec": "lzo", "write.parquet.row-group-size-bytes": "0", "write.parquet.page-size-bytes": "big",
		"write.parquet.compression-level": "high",
	} {
		if _, err := sink.ParseOptions(map[string]string{key: bad}, l); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s = %s: %v", key, bad, err)
		}
	}
}
