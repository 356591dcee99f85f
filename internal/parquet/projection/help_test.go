package projection_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/source"
	"firn/internal/store"
)

// chunk is one column of a file: levels and values as arrow-go takes them.
type chunk struct {
	def, rep []int16
	values   any
}

// group makes a node of a file's schema.
func group(name string, rep parquet.Repetition, id int32, logical schema.LogicalType, fields ...schema.Node) schema.Node {
	return schema.Must(schema.NewGroupNodeLogical(name, rep, fields, logical, id))
}

func leaf(name string, rep parquet.Repetition, id int32, logical schema.LogicalType, physical parquet.Type, width int) schema.Node {
	return schema.Must(schema.NewPrimitiveNodeLogical(name, rep, logical, physical, width, id))
}

// parquetFile writes one row group a set of chunks.
func parquetFile(tb testing.TB, fields []schema.Node, groups ...[]chunk) []byte {
	tb.Helper()
	root, err := schema.NewGroupNode("root", parquet.Repetitions.Required, fields, -1)
	must(tb, err)
	var buf bytes.Buffer
	w := file.NewParquetWriter(&buf, root)
	for _, chunks := range groups {
		rg, err := w.AppendRowGroupChecked()
		must(tb, err)
		for _, c := range chunks {
			cw, err := rg.NextColumn()
			must(tb, err)
			switch w := cw.(type) {
			case *file.BooleanColumnChunkWriter:
				_, err = w.WriteBatch(c.values.([]bool), c.def, c.rep)
			case *file.Int32ColumnChunkWriter:
				_, err = w.WriteBatch(c.values.([]int32), c.def, c.rep)
			case *file.Int64ColumnChunkWriter:
				_, err = w.WriteBatch(c.values.([]int64), c.def, c.rep)
			case *file.Int96ColumnChunkWriter:
				_, err = w.WriteBatch(c.values.([]parquet.Int96), c.def, c.rep)
			case *file.Float32ColumnChunkWriter:
				_, err = w.WriteBatch(c.values.([]float32), c.def, c.rep)
			case *file.Float64ColumnChunkWriter:
				_, err = w.WriteBatch(c.values.([]float64), c.def, c.rep)
			case *file.ByteArrayColumnChunkWriter:
				_, err = w.WriteBatch(c.values.([]parquet.ByteArray), c.def, c.rep)
			case *file.FixedLenByteArrayColumnChunkWriter:
				_, err = w.WriteBatch(c.values.([]parquet.FixedLenByteArray), c.def, c.rep)
			}
			must(tb, err)
		}
	}
	must(tb, w.Close())
	return buf.Bytes()
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// open reads a file as a schema of the table.
func open(tb testing.TB, data []byte, target *projection.Target, opts projection.Options) (*source.File, *projection.Projection, error) {
	tb.Helper()
	ctx := context.Background()
	st := store.NewMemory(time.Now)
	must(tb, st.Put(ctx, "mem://b/f", data, store.WriteOptions{}))
	f, err := source.Open(ctx, st, "mem://b/f", source.Options{SizeBytes: int64(len(data)), WholeBelowBytes: 1 << 20})
	must(tb, err)
	p, err := projection.New(target, f, opts)
	if err == nil {
		sameByMapping(tb, data, f, p, target, opts)
	}
	return f, p, err
}

func target(tb testing.TB, fields ...iceberg.NestedField) *projection.Target {
	tb.Helper()
	l, err := layout.New(iceberg.NewSchema(1, fields...), false)
	must(tb, err)
	return &projection.Target{Layout: l}
}

// read spells a leaf: definition levels, repetition levels, values.
func read(tb testing.TB, f *source.File, p *projection.Projection, leaf int) string {
	tb.Helper()
	text, err := tryRead(f, p, leaf)
	must(tb, err)
	return text
}

func tryRead(f *source.File, p *projection.Projection, leaf int) (string, error) {
	var def, rep []int16
	var values []string
	err := p.Scan(leaf, column.Run{To: f.Rows}, func(b *column.Batch) error {
		def, rep = append(def, b.Def...), append(rep, b.Rep...)
		for _, v := range b.Bool {
			values = append(values, fmt.Sprint(v))
		}
		for _, v := range b.Int32 {
			values = append(values, fmt.Sprint(v))
		}
		for _, v := range b.Int64 {
			values = append(values, fmt.Sprint(v))
		}
		for _, v := range b.Float {
			values = append(values, fmt.Sprint(v))
		}
		for _, v := range b.Double {
			values = append(values, fmt.Sprint(v))
		}
		for _, v := range b.Bytes {
			values = append(values, string(v))
		}
		for _, v := range b.Fixed {
			values = append(values, fmt.Sprintf("%x", []byte(v)))
		}
		return nil
	})
	return strings.Trim(fmt.Sprint(def), "[]") + " | " + strings.Trim(fmt.Sprint(rep), "[]") + " | " + strings.Join(values, " "), err
}
