// Package sorted is the engine that orders rows: by columns, along a z-order or a Hilbert curve, and by partition where rows are sent to other
// partitions. Memory is bounded whatever the group's size: rows are read in windows, each window is sorted and spilled column by column, and the
// sorted runs are merged into outputs with fresh, tight bounds. Equal rows keep the order of the inputs, so that many equal keys cost nothing.
//
// It reads every file that the arrow reading path can, with deletes applied and evolved schemas.
package sorted

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/compact/sorted/keys"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
	"firn/internal/parquet/encoding"
	"firn/internal/store"
)

// name is what the engine calls itself in results.
const name = "sorted"

// Limits bound the engine's memory. The zero value means the defaults.
type Limits struct {
	// WindowBytes is what the largest column of a window should take, WindowRows the most rows of a window.
	WindowBytes, WindowRows int64
	// HeldBytes bounds the inputs that are held in memory at once: small ones whole, of larger ones the footer.
	HeldBytes int64
	// WholeBelowBytes is the length up to which an input is fetched with one request.
	WholeBelowBytes int64
	// MergeBytes is what is read ahead of all runs together.
	MergeBytes int64
	// SpillMemoryBytes is what is spilled to memory before a file is used; below 0 is nothing.
	SpillMemoryBytes int64
	// FetchConcurrency is how many inputs are opened at once.
	FetchConcurrency int
}

func (l Limits) withDefaults() Limits {
	set := func(v *int64, otherwise int64) {
		if *v <= 0 {
			*v = otherwise
		}
	}
	set(&l.WindowBytes, 20<<20)
	set(&l.WindowRows, 384<<10) // Columns of this many numbers stay in the processor's caches.
	set(&l.HeldBytes, 24<<20)
	set(&l.WholeBelowBytes, 8<<20)
	set(&l.MergeBytes, 16<<20)
	if l.SpillMemoryBytes == 0 {
		l.SpillMemoryBytes = 16 << 20
	}
	l.SpillMemoryBytes = max(l.SpillMemoryBytes, 0) / blockBytes * blockBytes
	if l.FetchConcurrency <= 0 {
		l.FetchConcurrency = 8
	}
	return l
}

// Engine implements engine.Engine for jobs with an ordering.
type Engine struct {
	store  store.ReadWriter
	log    *slog.Logger
	limits Limits
	to     Spill
}

// New makes the engine.
func New(st store.ReadWriter, log *slog.Logger, limits Limits, to Spill) *Engine {
	return &Engine{store: st, log: log, limits: limits.withDefaults(), to: to}
}

// sorting is the state of one call.
type sorting struct {
	*Engine
	job        engine.Job
	encoder    *keys.Encoder
	keyWidth   int
	partitions *partitions
	forms      []form
	// spill holds the sorted runs of a part, moves what the permutation needs of all parts.
	spill, moves *spill
	outputs      []iceberg.DataFile
	// dictionaries are those of columns that are moved as codes; plain says which are, or are from now on, moved as values.
	dictionaries []*encoding.Dictionary
	plain        []bool
	// sums and null counts of each column, on the way in and out.
	sumIn, sumOut, nullsIn, nullsOut []uint64
	// placed counts the rows that were written, base those of finished parts; done are the runs of these.
	placed, base int64
	done         []*run
	scratch      scratch
}

// scratch is memory that is used again and again.
type scratch struct {
	parts   []keys.Keys
	keys    keys.Keys
	items   []item
	swap    []item
	order   []uint32
	block   []byte
	records []byte
	ends    []uint32
	plain   []byte
	reader  chunk.Reader
	// vector is what pages are decoded into, kept what is left of it, converted what batches become.
	vector, kept, converted chunk.Vector
	codes                   []uint32
	spans                   []encoding.Span
	batch                   column.Batch
	streams                 []stream
}

// release drops what only windows need, before runs are merged.
func (s *scratch) release() {
	clear(s.parts)
	s.keys, s.items, s.swap, s.order, s.records, s.ends = keys.Keys{}, nil, nil, nil, nil, nil
}

// streamsOf returns n streams whose memory is used again.
func (s *scratch) streamsOf(n int) []stream {
	for len(s.streams) < n {
		s.streams = append(s.streams, stream{})
	}
	return s.streams[:n]
}

// Rewrite implements engine.Engine.
func (e *Engine) Rewrite(ctx context.Context, job engine.Job) (engine.Result, error) {
	if job.Ordering == nil {
		return engine.Result{}, fmt.Errorf("sort a group without an ordering: %w", engine.ErrRefused)
	}
	s := &sorting{
		Engine: e, job: job, spill: &spill{Spill: e.to, memoryBytes: e.limits.SpillMemoryBytes}, moves: &spill{Spill: e.to, memoryBytes: 4 * blockBytes},
	}
	defer s.spill.close()
	defer s.moves.close()
	if err := s.prepare(); err != nil {
		return engine.Result{}, err
	}
	var inputs []*input
	for _, in := range job.Inputs {
		inputs = append(inputs, &input{Input: in})
	}
	parts := s.parts(inputs)
	for _, part := range parts {
		files := 1
		if len(parts) == 1 {
			files = job.ExpectedOutputFiles
		}
		if err := s.part(ctx, part, files); err != nil {
			return engine.Result{}, err
		}
	}
	if job.Permutation != "" {
		if err := s.permute(ctx); err != nil {
			return engine.Result{}, err
		}
	}
	return s.result(inputs)
}

// prepare works out the keys and the form of each column.
func (s *sorting) prepare() error {
	l := s.job.Target.Layout
	var leading []maintenance.OrderingField
	var err error
	if s.job.Repartition {
		if s.partitions, leading, err = newPartitions(&s.job); err != nil {
			return err
		}
	}
	if s.encoder, err = keys.New(s.job.Ordering, leading, l); err != nil {
		return fmt.Errorf("%w: %w", err, engine.ErrRefused)
	}
	s.keyWidth, s.scratch.parts = s.encoder.Width(), make([]keys.Keys, len(s.encoder.Fields))
	for _, leaf := range l.Leaves {
		f, err := newForm(leaf)
		if err != nil {
			return err
		}
		s.forms = append(s.forms, f)
	}
	n := len(s.forms)
	s.dictionaries, s.plain = make([]*encoding.Dictionary, n), make([]bool, n)
	s.sumIn, s.sumOut, s.nullsIn, s.nullsOut = make([]uint64, n), make([]uint64, n), make([]uint64, n), make([]uint64, n)
	return nil
}

// parts cuts the inputs into parts that are ordered each by itself.
func (s *sorting) parts(inputs []*input) [][]*input {
	limit := s.job.Ordering.PartSizeBytes
	if limit <= 0 {
		return [][]*input{inputs}
	}
	var out [][]*input
	var size int64
	for i, in := range inputs {
		if i == 0 || size+in.FileSizeBytes() > limit {
			out, size = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], in)
		size += in.FileSizeBytes()
	}
	return out
}

// part sorts and writes one part.
func (s *sorting) part(ctx context.Context, inputs []*input, files int) error {
	runs, err := s.runs(ctx, inputs)
	if err != nil {
		return err
	}
	s.log.DebugContext(ctx, "sorted runs", "group", s.job.Group, "runs", len(runs), "spilled_bytes", s.spill.size)
	s.scratch.release()
	var sorted []*run
	for _, r := range runs {
		if r.window.kept > 0 {
			sorted = append(sorted, r)
		}
	}
	if err := s.merge(ctx, sorted, inputs, files); err != nil {
		return err
	}
	return s.finished(runs)
}

// result closes the proof: rows in - rows deleted = rows out, and each column's nulls and sum are equal on both sides.
func (s *sorting) result(inputs []*input) (engine.Result, error) {
	var p handoff.Proof
	for _, in := range inputs {
		p.RowsIn += in.Count()
		p.RowsDeleted += in.Count() - in.kept()
	}
	for _, f := range s.outputs {
		p.RowsOut += f.Count()
	}
	if p.RowsIn-p.RowsDeleted != p.RowsOut {
		return engine.Result{}, fmt.Errorf("prove rows: %d in, %d deleted, %d out", p.RowsIn, p.RowsDeleted, p.RowsOut)
	}
	for i, leaf := range s.job.Target.Layout.Leaves {
		if s.sumIn[i] != s.sumOut[i] || s.nullsIn[i] != s.nullsOut[i] {
			return engine.Result{}, fmt.Errorf("prove column %s: sum %016x and %d nulls went in, %016x and %d came out", leaf.Path, s.sumIn[i],
				s.nullsIn[i], s.sumOut[i], s.nullsOut[i])
		}
		p.Columns = append(p.Columns, handoff.ColumnProof{
			FieldID: leaf.FieldID, NullsIn: int64(s.nullsIn[i]), NullsOut: int64(s.nullsOut[i]),
			HashIn: fmt.Sprintf("%016x", s.sumIn[i]), HashOut: fmt.Sprintf("%016x", s.sumOut[i]),
		})
	}
	return engine.Result{Outputs: s.outputs, Permutation: s.job.Permutation, Proof: p, Name: name}, nil
}
