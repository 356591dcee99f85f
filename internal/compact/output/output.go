// Package output writes one data file through the arrow writer: it names and creates the object, counts what the manifest entry needs, reads the
// finished object back and builds the entry.
package output

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/compact/metrics"
	"firn/internal/parquet/sink"
	"firn/internal/store"
)

// File is a data file being written. Its methods serve one goroutine.
type File struct {
	// Index counts the outputs of an attempt from 0; Location is where this one goes.
	Index    int
	Location string
	// Parquet and Metrics take the columns; Rows is counted by the caller, SizeBytes is the length so far.
	Parquet   *sink.File
	Metrics   *metrics.File
	Rows      int64
	SizeBytes int64

	job       engine.Job
	partition map[int]any
	upload    store.Upload
}

// Create starts output n of an attempt, counted from 0, in a partition of the job's spec.
func Create(ctx context.Context, st store.Writer, job engine.Job, n int, partition map[int]any) (*File, error) {
	at := engine.OutputLocation(job, n+1, partition)
	up, err := st.Create(ctx, at, store.WriteOptions{IfAbsent: true, ContentType: "application/vnd.apache.parquet"})
	if err != nil {
		return nil, fmt.Errorf("create output %s: %w", at, err)
	}
	f := &File{Index: n, Location: at, upload: up, job: job, partition: partition, Metrics: metrics.New(job.Target.Layout, job.Modes)}
	if f.Parquet, err = sink.Create(up, job.Target.Layout, job.Writer); err != nil {
		_ = up.Abort(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("create output %s: %w", at, err)
	}
	return f, nil
}

// Abort discards an output, nil included; what it cannot discard is left for the sweep of orphans.
func (f *File) Abort(ctx context.Context, log *slog.Logger) {
	if f == nil {
		return
	}
	if err := f.upload.Abort(context.WithoutCancel(ctx)); err != nil {
		log.WarnContext(ctx, "abort output", "location", f.Location, "error", err)
	}
}

// Finish writes the footer, makes the object visible, reads it back and builds its manifest entry. After an error the caller aborts the file.
func (f *File) Finish(ctx context.Context, st store.Reader) (iceberg.DataFile, error) {
	footer, err := f.Parquet.Close()
	if err == nil && footer.Rows != f.Rows {
		err = fmt.Errorf("the footer counts %d rows where %d were written", footer.Rows, f.Rows)
	}
	if err == nil {
		err = f.upload.Commit(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("finish output %s: %w", f.Location, err)
	}
	if err := engine.Verify(ctx, st, f.job, engine.Written{Location: f.Location, Rows: f.Rows, SizeBytes: footer.SizeBytes}); err != nil {
		return nil, fmt.Errorf("read back output %s: %w", f.Location, err)
	}
	made, err := f.dataFile(footer)
	if err != nil {
		return nil, fmt.Errorf("describe output %s: %w", f.Location, err)
	}
	return made, nil
}

// dataFile builds the manifest entry's data file. It has a sort order only if the job follows one of the table.
func (f *File) dataFile(footer sink.Footer) (iceberg.DataFile, error) {
	b, err := iceberg.NewDataFileBuilder(f.job.Spec, iceberg.EntryContentData, f.Location, iceberg.ParquetFile, f.partition, nil, nil, f.Rows,
		footer.SizeBytes)
	if err != nil {
		return nil, err
	}
	sizes := map[int]int64{}
	for i, leaf := range f.job.Target.Layout.Leaves {
		sizes[leaf.FieldID] += footer.ColumnSizes[i]
	}
	m := f.Metrics.Result()
	b.ColumnSizes(sizes).ValueCounts(m.Values).NullValueCounts(m.Nulls).NaNValueCounts(m.NaNs)
	b.LowerBoundValues(m.Lower).UpperBoundValues(m.Upper).SplitOffsets(footer.SplitOffsets)
	if o := f.job.Ordering; o != nil && o.SortOrderID != 0 {
		b.SortOrderID(o.SortOrderID)
	}
	return b.Build(), nil
}
