// Package content proves a rewrite by what its files hold: it reads the inputs and the finished outputs as a reader would and compares every column.
// It shares no code with the engine that copies pages, and costs as much as reading everything twice.
package content

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"

	"firn/internal/compact/engine"
	"firn/internal/deletes"
	"firn/internal/handoff"
	"firn/internal/parquet/column"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/source"
	"firn/internal/store"
)

const (
	// concurrency is how many files are read at once, wholeBelowBytes the length up to which a file is read with one request.
	concurrency     = 4
	wholeBelowBytes = 8 << 20
)

// Prove compares what the outputs hold with the inputs' rows that are not deleted, column by column, whatever the order of the rows. An error says which
// column differs, or that a file cannot be read; a difference is never a refusal, since the outputs are wrong.
func Prove(ctx context.Context, st store.Reader, job engine.Job, outputs []iceberg.DataFile) ([]handoff.ColumnProof, error) {
	var before, after []file
	for _, in := range job.Inputs {
		opts := projection.Options{Constants: in.Constants, FirstRowID: in.FirstRowID, Sequence: in.Sequence}
		before = append(before, file{DataFile: in.DataFile, mask: in.Mask, opts: opts})
	}
	for _, out := range outputs {
		after = append(after, file{DataFile: out})
	}
	in, err := sum(ctx, st, job, before)
	if err != nil {
		return nil, fmt.Errorf("prove the contents: %w", err)
	}
	out, err := sum(ctx, st, job, after)
	if err != nil {
		return nil, fmt.Errorf("prove the contents: %w", err)
	}
	var proof []handoff.ColumnProof
	for i, leaf := range job.Target.Layout.Leaves {
		if in[i] != out[i] {
			return nil, fmt.Errorf("prove the contents of column %s: %+v in the inputs, %+v in the outputs", leaf.Path, in[i], out[i])
		}
		proof = append(proof, handoff.ColumnProof{
			FieldID: leaf.FieldID, NullsIn: in[i].Nulls, NullsOut: out[i].Nulls,
			HashIn: fmt.Sprintf("%016x", in[i].Sum), HashOut: fmt.Sprintf("%016x", out[i].Sum),
		})
	}
	return proof, nil
}

// file is one file with what is deleted of it and how it is read.
type file struct {
	iceberg.DataFile
	mask deletes.Mask
	opts projection.Options
}

// sum adds up all columns of files.
func sum(ctx context.Context, st store.Reader, job engine.Job, files []file) ([]Tally, error) {
	all := make([]Tally, len(job.Target.Layout.Leaves))
	var mutex sync.Mutex
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(concurrency)
	for _, f := range files {
		readers.Go(func() error {
			own, err := f.sum(ctx, st, job)
			mutex.Lock()
			defer mutex.Unlock()
			for i := range own {
				all[i].Entries += own[i].Entries
				all[i].Nulls += own[i].Nulls
				all[i].Sum += own[i].Sum
			}
			return err
		})
	}
	return all, readers.Wait()
}

func (f *file) sum(ctx context.Context, st store.Reader, job engine.Job) ([]Tally, error) {
	src, err := source.Open(ctx, st, f.FilePath(), source.Options{SizeBytes: f.FileSizeBytes(), WholeBelowBytes: wholeBelowBytes})
	if err != nil {
		return nil, err
	}
	defer src.Close()
	p, err := projection.New(job.Target, src, f.opts)
	if err != nil {
		return nil, err
	}
	out := make([]Tally, len(job.Target.Layout.Leaves))
	var runs []column.Run
	for i, leaf := range job.Target.Layout.Leaves {
		err := p.Scan(i, column.Run{To: src.Rows}, func(b *column.Batch) error {
			runs = deletes.Live(runs[:0], f.mask, column.Run{From: b.First, To: b.First + int64(b.Rows)})
			out[i].Add(leaf, b, runs)
			return ctx.Err()
		})
		if err != nil {
			return nil, fmt.Errorf("read column %s of %s: %w", leaf.Path, f.FilePath(), err)
		}
	}
	return out, nil
}
