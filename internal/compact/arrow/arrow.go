// Package arrow is the first engine: it reads and writes with arrow-go, column by column, on Parquet's physical values and levels. It takes
// every Parquet file that arrow-go can decode, and its memory does not grow with the group: for one output row group at a time, each column
// is streamed from all its inputs into the open output.
package arrow

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/handoff"
	"firn/internal/parquet/column"
	"firn/internal/store"
)

// name is what the engine calls itself in results.
const name = "arrow"

// Limits bound the engine's memory. The zero value means the defaults.
type Limits struct {
	// HeldBytes bounds the inputs that are held in memory at once: small ones whole, of larger ones the footer.
	HeldBytes int64
	// WholeBelowBytes is the length up to which an input is fetched with one request.
	WholeBelowBytes int64
	// FetchConcurrency is how many inputs are opened at once.
	FetchConcurrency int
	// RepartitionRows is the number of input rows whose partitions are worked out at once.
	RepartitionRows int64
	// RowRanges is the most ranges of a row map.
	RowRanges int
}

func (l Limits) withDefaults() Limits {
	if l.HeldBytes <= 0 {
		l.HeldBytes = 64 << 20
	}
	if l.WholeBelowBytes <= 0 {
		l.WholeBelowBytes = 8 << 20
	}
	if l.FetchConcurrency <= 0 {
		l.FetchConcurrency = 8
	}
	if l.RepartitionRows <= 0 {
		l.RepartitionRows = 32 << 20
	}
	if l.RowRanges <= 0 {
		l.RowRanges = engine.DefaultRowRanges
	}
	return l
}

// Engine implements engine.Engine.
type Engine struct {
	store  store.ReadWriter
	log    *slog.Logger
	limits Limits
}

// New makes the engine.
func New(st store.ReadWriter, log *slog.Logger, limits Limits) *Engine {
	return &Engine{store: st, log: log, limits: limits.withDefaults()}
}

// rewrite is the state of one call.
type rewrite struct {
	*Engine
	job     engine.Job
	inputs  []*input
	ledger  *ledger
	mapper  *mapper
	outputs []iceberg.DataFile
	scratch scratch
}

// scratch is memory that is used again for each batch.
type scratch struct {
	runs []column.Run
	kept column.Batch
}

// Rewrite implements engine.Engine.
func (e *Engine) Rewrite(ctx context.Context, job engine.Job) (engine.Result, error) {
	r := &rewrite{Engine: e, job: job, ledger: newLedger(job.Target.Layout)}
	var paths []string
	for i, in := range job.Inputs {
		r.inputs = append(r.inputs, &input{Input: in, index: i})
		paths = append(paths, in.FilePath())
	}
	r.mapper = newMapper(paths, e.limits.RowRanges)
	defer r.closeAll()
	if err := r.run(ctx); err != nil {
		return engine.Result{}, err
	}
	return r.result()
}

func (r *rewrite) run(ctx context.Context) error {
	if r.job.Repartition {
		return r.repartition(ctx)
	}
	l := &lane{rewrite: r, partition: r.job.Partition}
	for i, in := range r.inputs {
		l.shares = append(l.shares, share{input: i, rows: in.selection()})
	}
	return l.run(ctx)
}

// result closes the proof: rows in - rows deleted = rows out, and each column's nulls and hash are equal on both sides.
func (r *rewrite) result() (engine.Result, error) {
	columns, err := r.ledger.columns()
	if err != nil {
		return engine.Result{}, err
	}
	p := handoff.Proof{Columns: columns}
	for _, in := range r.inputs {
		p.RowsIn += in.Count()
		p.RowsDeleted += in.Count() - in.selection().count()
	}
	for _, f := range r.outputs {
		p.RowsOut += f.Count()
	}
	if p.RowsIn-p.RowsDeleted != p.RowsOut {
		return engine.Result{}, fmt.Errorf("prove rows: %d in, %d deleted, %d out", p.RowsIn, p.RowsDeleted, p.RowsOut)
	}
	return engine.Result{Outputs: r.outputs, RowMap: r.mapper.result(), Proof: p, Name: name}, nil
}
