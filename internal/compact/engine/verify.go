package engine

import (
	"context"
	"fmt"

	"firn/internal/parquet/column"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/source"
	"firn/internal/store"
)

const (
	// sampleRows is how many rows of each column are decoded when an output is read back.
	sampleRows = 1000
	// verifyWholeBelowBytes is the length up to which an output is read back with one request.
	verifyWholeBelowBytes = 8 << 20
)

// Written is an output as its engine wrote it.
type Written struct {
	Location        string
	Rows, SizeBytes int64
}

// Verify opens a finished output as a reader would: its length, its rows, every column under its field ID, and a decoded sample of each
// column must be as they were written. An output that fails is never handed on.
func Verify(ctx context.Context, st store.Reader, job Job, w Written) error {
	f, err := source.Open(ctx, st, w.Location, source.Options{SizeBytes: w.SizeBytes, WholeBelowBytes: verifyWholeBelowBytes})
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Rows != w.Rows {
		return fmt.Errorf("%d rows were written, %d are there", w.Rows, f.Rows)
	}
	p, err := projection.New(job.Target, f, projection.Options{})
	if err != nil {
		return err
	}
	for _, leaf := range job.Target.Layout.Leaves {
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
