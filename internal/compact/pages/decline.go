package pages

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"firn/internal/compact/engine"
	"firn/internal/handoff"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// declined says why a group is not for this engine. It is no fault of the group.
type declined struct{ reason string }

func (d *declined) Error() string { return d.reason }

func decline(format string, args ...any) error {
	return &declined{reason: fmt.Sprintf(format, args...)}
}

// qualify opens the group's footers and answers with a *declined error unless this engine can write the group.
func (e *Engine) qualify(ctx context.Context, job engine.Job) (*rewrite, error) {
	if err := acceptJob(job); err != nil {
		return nil, err
	}
	t, err := newTemplate(job)
	if err != nil {
		return nil, err
	}
	leaves := len(job.Target.Layout.Leaves)
	r := &rewrite{Engine: e, job: job, template: t, proof: make([]tally, leaves), overflowed: make([]int64, leaves), tiers: map[string]int64{}}
	r.arena = &arena{size: e.limits.HeldBytes, spoil: e.spoil}
	if r.tools, err = newTools(job); err != nil {
		return nil, decline("%v", err)
	}
	var size int64
	for _, in := range job.Inputs {
		size += in.FileSizeBytes()
		r.maps = append(r.maps, handoff.SourceRowMap{Path: in.FilePath()})
	}
	whole := size <= e.limits.HeldBytes/2
	for i, in := range job.Inputs {
		r.inputs = append(r.inputs, &input{Input: in, index: i})
	}
	// A group that is declined is mostly so by its first files: do not read all footers for that.
	for from := 0; from < len(r.inputs); from += e.limits.FetchConcurrency {
		readers, ctx := errgroup.WithContext(ctx)
		for _, in := range r.inputs[from:min(from+e.limits.FetchConcurrency, len(r.inputs))] {
			readers.Go(func() error { return in.open(ctx, r, whole) })
		}
		if err := readers.Wait(); err != nil {
			return nil, err
		}
	}
	r.shapes.narrow(r.template, job.Target.Layout)
	for i := range job.Target.Layout.Leaves {
		r.maxDef = append(r.maxDef, r.inputs[0].shape.maps[i].MaxDef)
	}
	if err := r.settleKept(); err != nil {
		return nil, err
	}
	return r, r.acceptRows()
}

// acceptJob looks at what needs no file.
func acceptJob(job engine.Job) error {
	switch {
	case job.Repartition:
		return decline("rows go to other partitions")
	case job.Ordering != nil:
		return decline("the rows are put into another order")
	case !encoding.Codec(job.Writer.Codec).Supported():
		return decline("codec %s", encoding.Codec(job.Writer.Codec))
	}
	for _, leaf := range job.Target.Layout.Leaves {
		if leaf.MaxDef > encoding.MaxLevel || leaf.MaxRep > encoding.MaxLevel {
			return decline("column %s is nested too deeply", leaf.Path)
		}
	}
	return nil
}

// acceptChunk looks at one column chunk's footer.
func (r *rewrite) acceptChunk(leaf int, c footer.Chunk) error {
	m, path := c.Metadata(), r.job.Target.Layout.Leaves[leaf].Path
	if c.Elsewhere() || m.Struct == nil {
		return decline("column %s lies in another file", path)
	}
	if codec := encoding.Codec(m.IntOr(footer.ColumnCodec, -1)); !codec.Readable() {
		return decline("column %s is compressed with %s", path, codec)
	}
	coded := false
	for _, e := range m.Encodings() {
		if !e.Known() {
			return decline("column %s has encoding %d", path, e)
		}
		coded = coded || e.Dictionary()
	}
	offset, length := m.Span()
	if length > r.limits.ChunkBytes {
		return decline("column %s has a chunk of %d bytes", path, length)
	}
	if coded && offset == m.IntOr(footer.ColumnDataPage, -1) {
		return decline("column %s does not say where its dictionary is", path)
	}
	return nil
}

// settleKept gives up keeping row groups of which a column has to be converted after all, since it is not required in other files, and those of
// another codec than the table's beside ones of that: some readers take a column's codec from the first row group of a file. What is not kept has to be
// of a kind that this engine reads.
func (r *rewrite) settleKept() error {
	var groups []*group
	wanted, foreign := int64(r.job.Writer.Codec), int64(none)
	same := true
	for _, in := range r.inputs {
		for i := range in.groups {
			g := &in.groups[i]
			groups = append(groups, g)
			for leaf := 0; leaf < len(g.chunks) && g.kept != nil; leaf++ {
				if !g.raw(in, leaf) {
					g.kept = nil
				}
			}
			codec := wanted
			if g.kept != nil {
				codec = g.codec
			}
			if foreign == none {
				foreign = codec
			}
			same = same && codec == foreign
		}
	}
	for _, g := range groups {
		if !same && g.codec != wanted {
			g.kept = nil
		}
		if g.kept == nil && g.declined != nil {
			return g.declined
		}
	}
	return nil
}

// acceptRows wants rows that stay.
func (r *rewrite) acceptRows() error {
	for _, in := range r.inputs {
		if in.Count() > in.deletedIn(0, in.Count()) {
			return nil
		}
	}
	return decline("there are no rows")
}
