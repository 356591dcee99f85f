package arrow

import (
	"context"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// write writes one row group: column after column, each from all segments in order.
func (l *lane) write(ctx context.Context, group []segment) error {
	before := l.out.SizeBytes
	var estimate int64
	for _, s := range group {
		estimate += s.bytes
	}
	if err := l.out.Parquet.StartRowGroup(); err != nil {
		return err
	}
	for _, leaf := range l.job.Target.Layout.Leaves {
		if err := l.column(ctx, leaf, group); err != nil {
			return err
		}
	}
	size, err := l.out.Parquet.EndRowGroup()
	if err != nil {
		return err
	}
	l.out.SizeBytes = size
	l.place(group)
	l.ratio = max(float64(size-before)/float64(max(estimate, 1)), 0.01)
	return nil
}

// column streams one column of a row group.
func (l *lane) column(ctx context.Context, leaf *layout.Leaf, group []segment) error {
	dst, err := l.out.Parquet.NextColumn()
	if err != nil {
		return err
	}
	l.scratch.kept = column.Batch{} // Levels of another column must not linger.
	for _, s := range group {
		if err := ctx.Err(); err != nil {
			return err
		}
		w := s.sel.walk()
		err := s.input.proj.Scan(leaf.Index, s.rows, func(b *column.Batch) error {
			kept := l.keep(leaf, b, w)
			if kept == nil {
				return nil
			}
			l.ledger.out[leaf.Index].Add(leaf, kept, []column.Run{{From: kept.First, To: kept.First + int64(kept.Rows)}})
			l.out.Metrics.Add(leaf.Index, kept)
			return dst.Write(kept)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keep returns the selected rows of a batch, nil if there are none, and enters what was selected into the ledger's side of the inputs.
func (l *lane) keep(leaf *layout.Leaf, b *column.Batch, w *walker) *column.Batch {
	all := column.Run{From: b.First, To: b.First + int64(b.Rows)}
	runs := w.runs(l.scratch.runs[:0], all)
	l.scratch.runs = runs
	if len(runs) == 0 {
		return nil
	}
	l.ledger.in[leaf.Index].Add(leaf, b, runs)
	if len(runs) == 1 && runs[0] == all {
		return b
	}
	l.scratch.kept.Reset()
	b.Keep(&l.scratch.kept, runs, leaf.MaxDef)
	return &l.scratch.kept
}

// place records where the rows of a row group went.
func (l *lane) place(group []segment) {
	for _, s := range group {
		l.scratch.runs = s.sel.walk().runs(l.scratch.runs[:0], s.rows)
		for _, run := range l.scratch.runs {
			l.mapper.add(s.input.index, run, l.out.Index, l.out.Rows)
			l.out.Rows += run.To - run.From
		}
	}
}
