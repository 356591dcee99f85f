package arrow

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"firn/internal/compact/engine"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/source"
)

// input is a data file of the group, open or not.
type input struct {
	engine.Input
	index int
	file  *source.File
	proj  *projection.Projection
}

// selection is what deletes leave of the input.
func (in *input) selection() selection { return selection{rows: in.Count(), deleted: in.Mask} }

// open reads the input's footer, and the whole file when it is shorter than wholeBelow.
func (r *rewrite) open(ctx context.Context, in *input, wholeBelow int64) error {
	if in.file != nil {
		return nil
	}
	opts := source.Options{SizeBytes: in.FileSizeBytes(), WholeBelowBytes: wholeBelow}
	f, err := source.Open(ctx, r.store, in.FilePath(), opts)
	if err != nil {
		return fmt.Errorf("open input: %w", err)
	}
	if f.Rows != in.Count() {
		f.Close()
		return fmt.Errorf("input %s has %d rows, its manifest entry says %d: %w", in.FilePath(), f.Rows, in.Count(), engine.ErrRefused)
	}
	p, err := projection.New(r.job.Target, f, projection.Options{
		Constants: in.Constants, FirstRowID: in.FirstRowID, Sequence: in.Sequence,
	})
	if err != nil {
		f.Close()
		return fmt.Errorf("open input: %w", err)
	}
	in.file, in.proj = f, p
	return nil
}

// openAll opens inputs side by side.
func (r *rewrite) openAll(ctx context.Context, inputs []*input, wholeBelow int64) error {
	g, ctx2 := errgroup.WithContext(ctx)
	g.SetLimit(r.limits.FetchConcurrency)
	for _, in := range inputs {
		g.Go(func() error {
			if err := ctx2.Err(); err != nil {
				return err
			}
			// The file keeps its context for later reads, so it gets the caller's, not the group's.
			return r.open(ctx, in, wholeBelow)
		})
	}
	return g.Wait()
}

func (in *input) close() {
	if in.file != nil {
		in.file.Close()
		in.file, in.proj = nil, nil
	}
}

func (in *input) held() int64 {
	if in.file == nil {
		return 0
	}
	return in.file.HeldBytes()
}

func (r *rewrite) closeAll() {
	for _, in := range r.inputs {
		in.close()
	}
}

func (r *rewrite) held() int64 {
	var n int64
	for _, in := range r.inputs {
		n += in.held()
	}
	return n
}
