package deletes

import (
	"bytes"
	"context"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/sink"
	"firn/internal/store"
)

// write makes a Parquet file of one row group, a batch a column, and its manifest entry.
func write(tb testing.TB, st store.Writer, path string, content iceberg.ManifestEntryContent, fields []iceberg.NestedField, columns ...column.Batch,
) iceberg.DataFile {
	tb.Helper()
	data := parquetFile(tb, fields, columns...)
	must(tb, st.Put(context.Background(), path, data, store.WriteOptions{}))
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, content, path, iceberg.ParquetFile, nil, nil, nil, int64(columns[0].Rows), int64(len(data)))
	must(tb, err)
	if content == iceberg.EntryContentEqDeletes {
		var ids []int
		for _, f := range fields {
			ids = append(ids, f.ID)
		}
		b.EqualityFieldIDs(ids)
	}
	return b.Build()
}

func parquetFile(tb testing.TB, fields []iceberg.NestedField, columns ...column.Batch) []byte {
	tb.Helper()
	l, err := layout.New(iceberg.NewSchema(0, fields...), false)
	must(tb, err)
	opts, err := sink.ParseOptions(nil, l)
	must(tb, err)
	var buf bytes.Buffer
	f, err := sink.Create(&buf, l, opts)
	must(tb, err)
	must(tb, f.StartRowGroup())
	for i := range columns {
		c, err := f.NextColumn()
		must(tb, err)
		must(tb, c.Write(&columns[i]))
	}
	_, err = f.Close()
	must(tb, err)
	return buf.Bytes()
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// longs is a required column.
func longs(values ...int64) column.Batch {
	b := column.Batch{Rows: len(values), Levels: len(values)}
	b.Int64 = values
	return b
}

func texts(values ...string) column.Batch {
	b := column.Batch{Rows: len(values), Levels: len(values)}
	for _, v := range values {
		b.Bytes = append(b.Bytes, []byte(v))
	}
	return b
}

func long(id int, name string) iceberg.NestedField {
	return iceberg.NestedField{ID: id, Name: name, Type: iceberg.PrimitiveTypes.Int64, Required: true}
}

func positionFields() []iceberg.NestedField {
	return []iceberg.NestedField{
		{ID: pathField, Name: "file_path", Type: iceberg.PrimitiveTypes.String, Required: true},
		{ID: positionField, Name: "pos", Type: iceberg.PrimitiveTypes.Int64, Required: true},
	}
}
