package arrow

import (
	"context"
	"fmt"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/compact/metrics"
	"firn/internal/parquet/sink"
	"firn/internal/store"
)

// output is one data file being written.
type output struct {
	index    int
	location string
	upload   store.Upload
	file     *sink.File
	metrics  *metrics.File
	rows     int64
	size     int64
}

// create starts the next output of a partition.
func (r *rewrite) create(ctx context.Context, partition map[int]any) (*output, error) {
	n := len(r.mapper.outputs)
	at := engine.OutputLocation(r.job, n+1, partition)
	up, err := r.store.Create(ctx, at, store.WriteOptions{IfAbsent: true, ContentType: "application/vnd.apache.parquet"})
	if err != nil {
		return nil, fmt.Errorf("create output %s: %w", at, err)
	}
	o := &output{index: n, location: at, upload: up, metrics: metrics.New(r.job.Target.Layout, r.job.Modes)}
	r.mapper.outputs = append(r.mapper.outputs, at)
	if o.file, err = sink.Create(up, r.job.Target.Layout, r.job.Writer); err != nil {
		r.abort(ctx, o)
		return nil, fmt.Errorf("create output %s: %w", at, err)
	}
	return o, nil
}

// abort discards an output; what it cannot discard is left for the sweep of orphans.
func (r *rewrite) abort(ctx context.Context, o *output) {
	if o == nil {
		return
	}
	if err := o.upload.Abort(context.WithoutCancel(ctx)); err != nil {
		r.log.WarnContext(ctx, "abort output", "location", o.location, "error", err)
	}
}

// finish writes the footer, makes the object visible, reads it back and builds its manifest entry.
func (r *rewrite) finish(ctx context.Context, o *output, partition map[int]any) error {
	footer, err := o.file.Close()
	if err == nil && footer.Rows != o.rows {
		err = fmt.Errorf("the footer counts %d rows where %d were written", footer.Rows, o.rows)
	}
	if err == nil {
		err = o.upload.Commit(ctx)
	}
	if err != nil {
		r.abort(ctx, o)
		return fmt.Errorf("finish output %s: %w", o.location, err)
	}
	if err := engine.Verify(ctx, r.store, r.job, engine.Written{Location: o.location, Rows: o.rows, SizeBytes: footer.SizeBytes}); err != nil {
		return fmt.Errorf("read back output %s: %w", o.location, err)
	}
	f, err := r.dataFile(o, footer, partition)
	if err != nil {
		return fmt.Errorf("describe output %s: %w", o.location, err)
	}
	r.outputs = append(r.outputs, f)
	return nil
}

// dataFile builds the manifest entry's data file. It has no sort order: rows keep the order of the inputs.
func (r *rewrite) dataFile(o *output, footer sink.Footer, partition map[int]any) (iceberg.DataFile, error) {
	b, err := iceberg.NewDataFileBuilder(r.job.Spec, iceberg.EntryContentData, o.location, iceberg.ParquetFile, partition, nil, nil, o.rows,
		footer.SizeBytes)
	if err != nil {
		return nil, err
	}
	sizes := map[int]int64{}
	for i, leaf := range r.job.Target.Layout.Leaves {
		sizes[leaf.FieldID] += footer.ColumnSizes[i]
	}
	m := o.metrics.Result()
	b.ColumnSizes(sizes).ValueCounts(m.Values).NullValueCounts(m.Nulls).NaNValueCounts(m.NaNs)
	b.LowerBoundValues(m.Lower).UpperBoundValues(m.Upper).SplitOffsets(footer.SplitOffsets)
	return b.Build(), nil
}
