// Package pages is the engine that copies pages: it merges the column chunks of many small row groups into few large ones without looking at
// rows. It chooses for each page of each column: full pages that are not dictionary-coded move as compressed bytes; of dictionary-coded ones only
// the indices are rewritten, to those of one merged dictionary a column; small pages, and pages with deleted rows, are decoded to levels and values
// and written anew. Big row groups move as a whole. It takes groups whose files have the table's schema (see decline.go) and hands every other
// group to another engine, before any byte is written.
//
// It trusts nothing that it passes on: page sizes, value counts, rows of each column, checksums and dictionary indices are compared on the way,
// and a difference refuses the group with its place. Nothing is ever repaired.
package pages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/handoff"
	"firn/internal/store"
)

// name is what the engine calls itself in results.
const name = "pages"

// Limits bound the engine's memory and choose what it takes. The zero value means the defaults.
type Limits struct {
	// HeldBytes bounds the input bytes in memory, fetched ahead included: one half is worked on while the other is fetched.
	HeldBytes int64
	// ChunkBytes is the largest column chunk of an input that is taken: it is in memory as a whole.
	ChunkBytes int64
	// FetchConcurrency is how many requests run at once.
	FetchConcurrency int
	// FullPageRows and FullPageBytes: a page below both is small, and merged with its neighbours.
	FullPageRows, FullPageBytes int64
	// RowRanges is the most ranges of a row map.
	RowRanges int
}

func (l Limits) withDefaults() Limits {
	if l.HeldBytes <= 0 {
		l.HeldBytes = 24 << 20
	}
	if l.ChunkBytes <= 0 {
		l.ChunkBytes = 128 << 20
	}
	if l.FetchConcurrency <= 0 {
		l.FetchConcurrency = 8
	}
	if l.FullPageRows <= 0 {
		l.FullPageRows = 8_000
	}
	if l.FullPageBytes <= 0 {
		l.FullPageBytes = 64 << 10
	}
	if l.RowRanges <= 0 {
		l.RowRanges = engine.DefaultRowRanges
	}
	return l
}

// Engine implements engine.Engine.
type Engine struct {
	store    store.ReadWriter
	log      *slog.Logger
	limits   Limits
	fallback engine.Engine
	// spoil is for tests: see arena.
	spoil bool
}

// New makes the engine. fallback takes the groups that this one declines; without one they are refused with the reason.
func New(st store.ReadWriter, log *slog.Logger, limits Limits, fallback engine.Engine) *Engine {
	return &Engine{store: st, log: log, limits: limits.withDefaults(), fallback: fallback}
}

// rewrite is the state of one call.
type rewrite struct {
	*Engine
	job      engine.Job
	template *template
	inputs   []*input
	// maxDef is the maximum definition level of each leaf in the inputs, and so in the outputs.
	maxDef  []int16
	tools   *tools
	arena   *arena
	maps    []handoff.SourceRowMap
	paths   []string
	outputs []iceberg.DataFile
	proof   []tally
	// ranges counts the row map's, tiers input bytes by how they were written.
	ranges int
	tiers  map[string]int64
	// overflowed is by leaf how many bytes of dictionaries did not fit into one.
	overflowed []int64
	// heldIndexes counts the bytes of page indexes in memory, or wanted there.
	heldIndexes atomic.Int64
	shapes      shapes
}

// Rewrite implements engine.Engine.
func (e *Engine) Rewrite(ctx context.Context, job engine.Job) (engine.Result, error) {
	r, err := e.qualify(ctx, job)
	var no *declined
	if errors.As(err, &no) {
		return e.decline(ctx, job, no)
	}
	if err != nil {
		return engine.Result{}, err
	}
	err = r.run(ctx)
	switch {
	case err == nil:
	case errors.As(err, &no) && len(r.outputs) == 0:
		return e.decline(ctx, job, no) // What pages say may differ from what footers promised; the outputs' names are free still.
	case errors.As(err, &no):
		return engine.Result{}, fmt.Errorf("%w: %w", err, engine.ErrRefused)
	default:
		return engine.Result{}, err
	}
	return r.result()
}

// decline hands the job on and says why.
func (e *Engine) decline(ctx context.Context, job engine.Job, no *declined) (engine.Result, error) {
	e.log.DebugContext(ctx, "pages are not copied", "group", job.Group, "reason", no.reason)
	if e.fallback == nil {
		return engine.Result{}, fmt.Errorf("copy pages: %w: %w", no, engine.ErrRefused)
	}
	result, err := e.fallback.Rewrite(ctx, job)
	if err != nil {
		return result, err
	}
	result.Name += " (pages not copied: " + no.reason + ")"
	if result.Tiers == nil {
		result.Tiers = map[string]int64{engine.TierFallback: 0}
		for _, in := range job.Inputs {
			result.Tiers[engine.TierFallback] += in.FileSizeBytes()
		}
	}
	return result, nil
}

// run writes output after output.
func (r *rewrite) run(ctx context.Context) error {
	rest := r.sources()
	for len(rest) > 0 {
		o, err := r.create(ctx)
		if err != nil {
			return err
		}
		for len(rest) > 0 {
			n := r.next(rest, o.size)
			if n == 0 {
				break
			}
			if err := r.rowGroup(ctx, o, rest[:n]); err != nil {
				r.abort(ctx, o)
				return fmt.Errorf("write output %s: %w", o.location, err)
			}
			rest = rest[n:]
		}
		if err := r.finish(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// result closes the proof: rows in - rows deleted = rows out, and each column's nulls and hash are equal on both sides.
func (r *rewrite) result() (engine.Result, error) {
	p := handoff.Proof{}
	for _, in := range r.inputs {
		p.RowsIn += in.Count()
		p.RowsDeleted += in.deletedIn(0, in.Count())
	}
	for _, f := range r.outputs {
		p.RowsOut += f.Count()
	}
	if p.RowsIn-p.RowsDeleted != p.RowsOut {
		return engine.Result{}, fmt.Errorf("prove rows: %d in, %d deleted, %d out", p.RowsIn, p.RowsDeleted, p.RowsOut)
	}
	for i, leaf := range r.job.Target.Layout.Leaves {
		t := r.proof[i]
		if t.in != t.out || t.nullsIn != t.nullsOut {
			return engine.Result{}, fmt.Errorf("prove column %s: %+v", leaf.Path, t)
		}
		p.Columns = append(p.Columns, handoff.ColumnProof{
			FieldID: leaf.FieldID, NullsIn: t.nullsIn, NullsOut: t.nullsOut, HashIn: fmt.Sprintf("%016x", t.in), HashOut: fmt.Sprintf("%016x", t.out),
		})
	}
	result := engine.Result{Outputs: r.outputs, Proof: p, Name: name, Tiers: r.tiers}
	if r.ranges <= r.limits.RowRanges {
		result.RowMap = &handoff.RowMap{Sources: r.maps, Outputs: r.paths}
	}
	return result, nil
}
