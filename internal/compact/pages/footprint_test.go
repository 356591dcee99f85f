package pages

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/compact/metrics"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/sink"
	"firn/internal/store"
)

// TestFootprint: what is kept of 2,000 inputs of 16 columns takes at most 40 MB. It is not parallel, since it counts what the whole process holds.
func TestFootprint(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var fields []iceberg.NestedField
	for i := range 16 {
		fields = append(fields, iceberg.NestedField{ID: i + 1, Name: fmt.Sprintf("column_%d", i), Type: iceberg.PrimitiveTypes.String})
	}
	l, err := layout.New(iceberg.NewSchema(0, fields...), false)
	must(err)
	var buf bytes.Buffer
	w := file.NewParquetWriter(&buf, l.Root, file.WithWriterProps(parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithPageIndexEnabled(true))))
	g, err := w.AppendRowGroupChecked()
	must(err)
	for i := range 16 {
		c, err := g.NextColumn()
		must(err)
		values := []parquet.ByteArray{[]byte(fmt.Sprint("a value of some length, number ", i)), []byte("another value of some length")}
		_, err = c.(*file.ByteArrayColumnChunkWriter).WriteBatch(values, []int16{1, 1}, nil)
		must(err)
	}
	must(w.Close())
	st := store.NewMemory(time.Now)
	const files, most = 2000, 40 << 20
	job := engine.Job{Target: &projection.Target{Layout: l}, Spec: *iceberg.UnpartitionedSpec}
	job.Writer, err = sink.ParseOptions(nil, l)
	must(err)
	job.Modes, err = metrics.Modes(nil, l, nil)
	must(err)
	must(st.Put(context.Background(), "mem://t/f.parquet", buf.Bytes(), store.WriteOptions{}))
	b, err := iceberg.NewDataFileBuilder(job.Spec, iceberg.EntryContentData, "mem://t/f.parquet", iceberg.ParquetFile, nil, nil, nil, 2, int64(buf.Len()))
	must(err)
	df := b.Build()
	for range files {
		job.Inputs = append(job.Inputs, engine.Input{DataFile: df})
	}
	e := New(st, slog.New(slog.DiscardHandler), Limits{FullPageRows: 1, HeldBytes: 1 << 20}, nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r, err := e.qualify(context.Background(), job)
	must(err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	n := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d bytes for %d inputs, %d each; footers of %d bytes", n, files, n/files, len(buf.Bytes()))
	if n > most {
		t.Errorf("%d bytes for %d inputs: want at most %d", n, files, int64(most))
	}
	runtime.KeepAlive(r)
}
