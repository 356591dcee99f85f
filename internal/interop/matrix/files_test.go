//go:build interop

package matrix

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/parquettest"
)

// variant is one way of writing files.
type variant struct {
	writer, encoding string
	// version is that of data pages.
	version int
	codec   string
}

func (v variant) String() string {
	return fmt.Sprintf("%s,%s,v%d,%s", v.writer, v.encoding, v.version, v.codec)
}

// without lists the columns that the writer leaves out: DuckDB has no fixed.
func (v variant) without() []string {
	if v.writer == "duckdb" {
		return []string{"fixed"}
	}
	return nil
}

// variants are all ways of writing.
func variants() (out []variant) {
	add := func(writer string, codecs string, versions []int, encodings ...string) {
		for _, e := range encodings {
			for _, v := range versions {
				for codec := range strings.FieldsSeq(codecs) {
					out = append(out, variant{writer, e, v, codec})
				}
			}
		}
	}
	const all = "uncompressed snappy gzip brotli lz4_raw zstd"
	both := []int{1, 2}
	add("arrow", all, both, "dictionary", "plain", "fallback", "delta", "split")
	add("pyarrow", all, both, "dictionary", "plain", "fallback", "delta", "split")
	add("duckdb", all, both, "dictionary", "plain")
	const java = "uncompressed snappy gzip lz4_raw zstd" // Its brotli codec is no part of it.
	add("java", java, []int{1}, "legacy")
	add("java", java, []int{2}, "delta")
	add("java", java, both, "dictionary", "plain", "fallback", "split")
	return out
}

// native says that all columns have the physical types that Iceberg asks for: pyarrow and DuckDB have decimals of their own.
func (v variant) native() bool {
	return v.writer == "arrow" || (v.writer == "java" && v.encoding != "legacy")
}

// schema has columns of all types that the judges know, flat and nested. gone is 1 in rows that are deleted in some cells.
func schema(without ...string) *iceberg.Schema {
	p := iceberg.PrimitiveTypes
	field := func(id int, name string, t iceberg.Type) iceberg.NestedField {
		return iceberg.NestedField{ID: id, Name: name, Type: t}
	}
	structOf := func(f ...iceberg.NestedField) *iceberg.StructType { return &iceberg.StructType{FieldList: f} }
	list := func(id int, t iceberg.Type) *iceberg.ListType { return &iceberg.ListType{ElementID: id, Element: t} }
	fields := []iceberg.NestedField{
		field(1, "id", p.Int64), field(2, "gone", p.Int32), field(3, "country", p.String), field(4, "payload", p.String), field(5, "score", p.Float64),
		field(6, "ratio", p.Float32), field(7, "amount", iceberg.DecimalTypeOf(25, 2)), field(8, "price", iceberg.DecimalTypeOf(9, 2)),
		field(9, "total", iceberg.DecimalTypeOf(18, 4)), field(10, "ok", p.Bool), field(11, "day", p.Date), field(12, "clock", p.Time),
		field(13, "at", p.TimestampTz), field(14, "local", p.Timestamp), field(15, "nano", p.TimestampNs),
		field(16, "tags", list(17, p.String)), field(18, "props", &iceberg.MapType{KeyID: 19, KeyType: p.String, ValueID: 20, ValueType: p.Int32}),
		field(21, "nest", structOf(field(22, "x", p.Int32), field(23, "y", structOf(field(24, "z", p.String))))),
		field(25, "fixed", iceberg.FixedTypeOf(5)), field(26, "uuid", p.UUID), field(27, "nothing", p.String), field(28, "blob", p.Binary),
		field(29, "deep", list(30, list(31, p.Int32))), field(32, "items", list(33, structOf(field(34, "a", p.Int64), field(35, "b", p.Bool)))),
		field(36, "attrs", &iceberg.MapType{KeyID: 37, KeyType: p.Int32, ValueID: 38, ValueType: list(39, p.Float64)}),
	}
	fields = slices.DeleteFunc(fields, func(f iceberg.NestedField) bool { return slices.Contains(without, f.Name) })
	return iceberg.NewSchema(0, fields...)
}

// sizes are the rows of the files' row groups; those of the last file hold nulls only.
var sizes = [][]int{{170, 130}, {220}, {40}}

// generate makes the rows of a file. IDs are unique in all files; every fifth row is gone, and a run of them.
func generate(l *layout.Layout, file int) (groups [][]column.Batch) {
	rng := rand.New(rand.NewPCG(uint64(file), 11))
	row := 0
	for _, n := range sizes[file] {
		columns := parquettest.Rows(l, rng, parquettest.Shape{Rows: n, Kind: file, Empty: file == 2})
		columns[l.Leaf(27).Index] = nulls(n)
		id, gone := &columns[0], &columns[1]
		*id, *gone = column.Batch{Rows: n, Levels: n}, column.Batch{Rows: n, Levels: n}
		for range n {
			id.Def, gone.Def = append(id.Def, 1), append(gone.Def, 1)
			id.Int64 = append(id.Int64, int64(file*1_000_000+row))
			gone.Int32 = append(gone.Int32, deleted(row))
			row++
		}
		groups = append(groups, columns)
	}
	return groups
}

// deleted is column gone of a file's row.
func deleted(row int) int32 {
	if row%5 == 3 || row/30 == 2 {
		return 1
	}
	return 0
}

func nulls(n int) column.Batch {
	return column.Batch{Rows: n, Levels: n, Values: column.Values{}, Def: make([]int16, n)}
}

// seeds writes the files that other writers read.
func seeds(t *testing.T, dir string, without []string) (paths []string) {
	t.Helper()
	l, err := layout.New(schema(without...), false)
	must(t, err)
	for i := range sizes {
		data, err := parquettest.Encode(l, generate(l, i), parquet.WithCompression(compress.Codecs.Snappy))
		must(t, err)
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("seed-%d-%d.parquet", len(without), i)))
		must(t, os.WriteFile(paths[i], data, 0o600))
	}
	return paths
}

// write makes a variant's files.
func (v variant) write(t *testing.T, js map[string]*judge, dir string, from []string) (paths []string) {
	t.Helper()
	for i := range from {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("in-%d.parquet", i)))
	}
	if v.writer != "arrow" {
		_, err := js[v.writer].ask(request{Do: "write", By: v.writer, From: from, To: paths, Encoding: v.encoding, Version: v.version, Codec: v.codec})
		must(t, err)
		return paths
	}
	l, err := layout.New(schema(), false)
	must(t, err)
	for i, path := range paths {
		data, err := parquettest.Encode(l, generate(l, i), v.properties(l)...)
		must(t, err)
		must(t, os.WriteFile(path, data, 0o600))
	}
	return paths
}

// properties are arrow-go's.
func (v variant) properties(l *layout.Layout) []parquet.WriterProperty {
	var codec compress.Compression
	must2(codec.UnmarshalText([]byte(strings.ToUpper(v.codec))))
	props := []parquet.WriterProperty{
		parquet.WithDataPageSize(1500), parquet.WithBatchSize(50), parquet.WithCompression(codec), parquet.WithPageIndexEnabled(v.encoding != "dictionary"),
		parquet.WithDictionaryDefault(v.encoding == "dictionary" || v.encoding == "fallback"),
	}
	if v.version == 2 {
		props = append(props, parquet.WithDataPageVersion(parquet.DataPageV2))
	}
	if v.encoding == "fallback" {
		props = append(props, parquet.WithDictionaryPageSizeLimit(300))
	}
	for _, leaf := range l.Leaves {
		if e, ok := v.encodingOf(leaf); ok {
			props = append(props, parquet.WithEncodingFor(leaf.ColumnPath, e))
		}
	}
	return props
}

func (v variant) encodingOf(leaf *layout.Leaf) (parquet.Encoding, bool) {
	e, k := parquet.Encodings, leaf.Kind
	switch {
	case v.encoding == "split" && (k == layout.Float || k == layout.Double || (v.version == 2 && k != layout.Boolean && k != layout.Bytes)):
		return e.ByteStreamSplit, true
	case v.encoding != "delta":
		return e.Plain, false
	case k == layout.Boolean:
		return e.RLE, true
	case k == layout.Int32 || k == layout.Int64:
		return e.DeltaBinaryPacked, true
	case leaf.Path == "blob":
		return e.DeltaLengthByteArray, true
	case k == layout.Bytes: // arrow-go writes no fixed values so.
		return e.DeltaByteArray, true
	default:
		return e.Plain, false
	}
}

func must2(err error) {
	if err != nil {
		panic(err)
	}
}
