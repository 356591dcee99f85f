package source

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"firn/internal/parquet/column"
	"firn/internal/parquet/footer"
	"firn/internal/store"
)

// dataPageHeader is the field of a page header that describes a data page; its field 1 is the number of values.
const dataPageHeader = 5

// mostBytes is what reading a kilobyte may allocate, however it lies.
const mostBytes = 100 << 20

// small is a file of one column and one page.
func small(tb testing.TB, codec compress.Compression) []byte {
	tb.Helper()
	root, err := schema.NewGroupNode("r", parquet.Repetitions.Required, schema.FieldList{schema.NewByteArrayNode("s", parquet.Repetitions.Required, 1)}, -1)
	must(tb, err)
	var buf bytes.Buffer
	w := file.NewParquetWriter(&buf, root, file.WithWriterProps(parquet.NewWriterProperties(parquet.WithCompression(codec), parquet.WithDictionaryDefault(false),
		parquet.WithStats(false))))
	rg, err := w.AppendRowGroupChecked()
	must(tb, err)
	c, err := rg.NextColumn()
	must(tb, err)
	_, err = c.(*file.ByteArrayColumnChunkWriter).WriteBatch([]parquet.ByteArray{[]byte("one"), []byte("two"), []byte("one")}, nil, nil)
	must(tb, err)
	must(tb, c.Close())
	must(tb, w.Close())
	return buf.Bytes()
}

// lie lets the page of a small file, and its chunk, claim a size and a number of values.
func lie(t *testing.T, data []byte, size, values int64) []byte {
	t.Helper()
	length, err := footer.Length(data, int64(len(data)))
	must(t, err)
	end := int64(len(data)) - footer.TrailerBytes
	meta, err := footer.DecodeFile(data[end-length : end])
	must(t, err)
	chunk := meta.RowGroups()[0].Columns()[0].Metadata()
	start, old := chunk.Span()
	page, err := footer.DecodePage(data[start:])
	must(t, err)
	body := data[start+int64(page.Length) : start+old]
	page.Put(footer.PageBytes, footer.Int32Value(size))
	if values > 0 {
		page.Record(dataPageHeader).Put(1, footer.Int32Value(values))
		chunk.Put(footer.ColumnValues, footer.Int64Value(values))
		meta.RowGroups()[0].Put(footer.GroupRows, footer.Int64Value(values))
		meta.Put(footer.FileRows, footer.Int64Value(values))
	}
	out := append(footer.Append(bytes.Clone(data[:start]), page.Struct), body...)
	chunk.Put(footer.ColumnCompressedBytes, footer.Int64Value(int64(len(out))-start))
	chunk.Put(footer.ColumnBytes, footer.Int64Value(size+int64(page.Length)))
	return footer.AppendFile(out, meta)
}

// TestKilobyteTakesNoMemory: whatever a small file claims of its page, reading it takes little. It runs alone, as it counts all allocations.
func TestKilobyteTakesNoMemory(t *testing.T) {
	for _, codec := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Zstd, compress.Codecs.Lz4Raw} {
		for _, size := range []int64{60 << 20, 500 << 20, 1<<31 - 1, -1} {
			for _, values := range []int64{0, 1 << 24, 1<<31 - 1} {
				t.Run(fmt.Sprintf("%v %d bytes %d values", codec, size, values), func(t *testing.T) {
					data := lie(t, small(t, codec), size, values)
					if len(data) > 1024 {
						t.Fatalf("%d bytes", len(data))
					}
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					if err := readAll(t, data); err == nil {
						t.Error("no error")
					}
					if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > mostBytes {
						t.Errorf("%d MB allocated", (after.TotalAlloc-before.TotalAlloc)>>20)
					}
				})
			}
		}
	}
}

func readAll(t *testing.T, data []byte) error {
	t.Helper()
	ctx := context.Background()
	st := store.NewMemory(time.Now)
	must(t, st.Put(ctx, "mem://b/f", data, store.WriteOptions{}))
	f, err := Open(ctx, st, "mem://b/f", Options{SizeBytes: int64(len(data)), WholeBelowBytes: 1 << 30})
	if err != nil {
		return err
	}
	for g, group := range f.Groups {
		for c := range f.Schema.NumColumns() {
			if err := f.Scan(g, c, column.Run{From: group.First, To: group.First + group.Rows}, func(*column.Batch) error { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}
