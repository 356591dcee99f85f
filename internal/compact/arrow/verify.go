package arrow

import (
	"context"
	"fmt"

	"firn/internal/parquet/column"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/sink"
	"firn/internal/parquet/source"
)

// sampleRows is how many rows of each column are decoded when an output is read back.
const sampleRows = 1000

// verify opens a finished output as a reader would: its length, its rows, every column under its field ID, and a decoded sample of each
// column must be as they were written. An output that fails is never handed on.
func (r *rewrite) verify(ctx context.Context, o *output, footer sink.Footer) error {
	f, err := source.Open(ctx, r.store, o.location, source.Options{SizeBytes: footer.SizeBytes, WholeBelowBytes: r.limits.WholeBelowBytes})
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Rows != o.rows {
		return fmt.Errorf("%d rows were written, %d are there", o.rows, f.Rows)
	}
	p, err := projection.New(r.job.Target, f, projection.Options{})
	if err != nil {
		return err
	}
	for _, leaf := range r.job.Target.Layout.Leaves {
		if !p.Has(leaf.Index) {
			return fmt.Errorf("column %s is not there", leaf.Path)
		}
		rows := 0
		err := p.Scan(leaf.Index, column.Run{To: min(sampleRows, f.Rows)}, func(b *column.Batch) error {
			rows += b.Rows
			return nil
		})
		if err != nil {
			return err
		}
		if int64(rows) != min(sampleRows, f.Rows) {
			return fmt.Errorf("column %s gave %d rows of the first %d", leaf.Path, rows, sampleRows)
		}
	}
	return nil
}
