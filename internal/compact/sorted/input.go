package sorted

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"firn/internal/compact/engine"
	"firn/internal/deletes"
	"firn/internal/parquet/column"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/source"
	"firn/internal/store"
)

// input is a data file of the group, open or not.
type input struct {
	engine.Input
	file *source.File
	proj *projection.Projection
}

// kept is the number of rows that deletes leave.
func (in *input) kept() int64 {
	n := in.Count()
	if in.Mask == nil || n == 0 {
		return n
	}
	return n - int64(in.Mask.Rank(uint64(n-1)))
}

// open reads the footer, and the whole file when it is shorter than wholeBelow.
func (in *input) open(ctx context.Context, st store.Reader, job *engine.Job, wholeBelow int64) error {
	if in.file != nil {
		return nil
	}
	f, err := source.Open(ctx, st, in.FilePath(), source.Options{SizeBytes: in.FileSizeBytes(), WholeBelowBytes: wholeBelow})
	if err != nil {
		return fmt.Errorf("open input: %w", err)
	}
	if f.Rows != in.Count() {
		f.Close()
		return fmt.Errorf("input %s has %d rows, its manifest entry says %d: %w", in.FilePath(), f.Rows, in.Count(), engine.ErrRefused)
	}
	p, err := projection.New(job.Target, f, projection.Options{Constants: in.Constants, FirstRowID: in.FirstRowID, Sequence: in.Sequence})
	if err != nil {
		f.Close()
		return fmt.Errorf("open input: %w", err)
	}
	in.file, in.proj = f, p
	return nil
}

func (in *input) close() {
	if in.file != nil {
		in.file.Close()
		in.file, in.proj = nil, nil
	}
}

// segment is a range of rows of one input.
type segment struct {
	in   *input
	rows column.Run
}

// reader hands out the rows of a part in windows that fit in memory.
type reader struct {
	store  store.Reader
	job    *engine.Job
	limits Limits
	inputs []*input
	// input and row are where the next window begins.
	input int
	row   int64
}

// window is a run of rows that are sorted at once.
type window struct {
	segments []segment
	kept     int64
}

// footerBytes is about what the parsed footer of an open file takes: with tiny files it is most of what is held.
const footerBytes = 128 << 10

// next gathers up to the given number of rows, and opens their files. A window without segments is the end.
func (r *reader) next(ctx context.Context, rows int64) (window, error) {
	var w window
	var opened []*input
	held, left := int64(0), rows
	for left > 0 && r.input < len(r.inputs) {
		in := r.inputs[r.input]
		if cost := min(in.FileSizeBytes(), r.limits.WholeBelowBytes) + footerBytes; in.file == nil {
			if held+cost > r.limits.HeldBytes && len(w.segments) > 0 {
				break
			}
			held += cost
			opened = append(opened, in)
		}
		n := min(in.Count()-r.row, left)
		if s := (segment{in, column.Run{From: r.row, To: r.row + n}}); n > 0 {
			w.segments = append(w.segments, s)
		}
		left -= n
		if r.row += n; r.row == in.Count() {
			r.input, r.row = r.input+1, 0
		}
	}
	g, _ := errgroup.WithContext(ctx)
	g.SetLimit(r.limits.FetchConcurrency)
	for _, in := range opened {
		// A file keeps its context for later reads, so it gets the caller's, not the group's.
		g.Go(func() error { return in.open(ctx, r.store, r.job, r.limits.WholeBelowBytes) })
	}
	if err := g.Wait(); err != nil {
		return w, err
	}
	for _, s := range w.segments {
		for _, run := range deletes.Live(nil, s.in.Mask, s.rows) {
			w.kept += run.To - run.From
		}
	}
	return w, nil
}

// back returns to the start of a window.
func (r *reader) back(w window) {
	first := w.segments[0]
	for i, in := range r.inputs {
		if in == first.in {
			r.input, r.row = i, first.rows.From
		}
	}
}

// release closes the inputs that are done.
func (r *reader) release() {
	for _, in := range r.inputs[:r.input] {
		in.close()
	}
}

// scan yields a leaf's kept rows in batches. A batch is only valid during the call of yield.
func (w window) scan(leaf int, maxDef int16, yield func(*column.Batch) error) error {
	var kept column.Batch
	var runs []column.Run
	for _, s := range w.segments {
		err := s.in.proj.Scan(leaf, s.rows, func(b *column.Batch) error {
			all := column.Run{From: b.First, To: b.First + int64(b.Rows)}
			runs = deletes.Live(runs[:0], s.in.Mask, all)
			if len(runs) == 1 && runs[0] == all {
				return yield(b)
			}
			if len(runs) == 0 {
				return nil
			}
			kept.Reset()
			b.Keep(&kept, runs, maxDef)
			return yield(&kept)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
