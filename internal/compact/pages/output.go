package pages

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"

	"firn/internal/compact/engine"
	"firn/internal/compact/metrics"
	"firn/internal/handoff"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/store"
)

// lastPart is the share of an output's size below which no further row group is begun: 1/lastPart.
const lastPart = 20

// rowGroupOf is a row group of an input that goes into an output; first is the position of its first row in the input.
type rowGroupOf struct {
	in *input
	*group
	number int
	first  int64
	// live is the number of rows that stay, spans which they are, counted in the row group; nil when all do.
	live  int64
	spans []encoding.Span
	// left is what is left of each column, once it is written; nil when that is everything.
	left []remains
}

// remains are the entries of a column chunk that went into the output, nulls included, the nulls, and the NaN; -1 when not known. min and max bound
// the values; nil when not known.
type remains struct {
	values, nulls, nans int64
	min, max            []byte
	// measured says that the column went into the output's metrics by its values.
	measured bool
}

// remains tells what of a column went into the output.
func (s *rowGroupOf) remains(leaf int) remains {
	if s.left == nil {
		c := &s.chunks[leaf]
		return remains{values: c.values, nulls: c.nulls, nans: -1, min: c.min, max: c.max}
	}
	return s.left[leaf]
}

// bytes estimates what is left of the row group.
func (s *rowGroupOf) bytes() int64 {
	return int64(float64(s.group.bytes()) * float64(s.live) / float64(s.rows))
}

// sources lists the row groups of which rows stay, in the order of the inputs; those that are copied as they are come first, so that none of the others
// is left alone between them.
func (r *rewrite) sources() (out []rowGroupOf) {
	for _, in := range r.inputs {
		var first int64
		for i := range in.groups {
			g := &in.groups[i]
			if live := g.rows - in.deletedIn(first, g.rows); live > 0 {
				out = append(out, rowGroupOf{in: in, group: g, number: i, first: first, live: live})
			}
			first += g.rows
		}
	}
	if r.job.Sorted {
		return out // What order there is in the inputs stays.
	}
	slices.SortStableFunc(out, func(a, b rowGroupOf) int {
		switch {
		case (a.kept != nil) == (b.kept != nil):
			return 0
		case a.kept != nil:
			return -1
		}
		return 1
	})
	return out
}

// next says how many of the row groups become the next row group of an output that has size bytes: as many as its size asks for, and at least
// one. 0 says that the output is full.
func (r *rewrite) next(rest []rowGroupOf, size int64) int {
	target, limit := r.job.Writer.RowGroupBytes, r.job.MaxOutputFileSizeBytes
	begun := size > int64(len(footer.Magic))
	if limit > 0 {
		room := limit
		if begun {
			room -= size
		}
		if room <= limit/lastPart {
			return 0
		}
		target = min(target, room)
	}
	var sum int64
	for n := range rest {
		if rest[n].kept != nil && n > 0 {
			return n
		}
		sum += rest[n].bytes()
		if sum <= target+target/10 && rest[n].kept == nil {
			continue
		}
		if n > 0 || (begun && limit > 0 && size+sum > limit+limit/10) {
			return n
		}
		return 1
	}
	return len(rest)
}

// indexes are the page indexes of a column chunk of an output; nil when it has none.
type indexes struct{ column, offset []byte }

// output is one data file being written.
type output struct {
	index    int
	location string
	upload   store.Upload
	buffer   *bufio.Writer
	size     int64
	rows     int64
	sources  []rowGroupOf
	groups   []footer.Value
	indexes  [][]indexes
	metrics  *metrics.File
	sizes    []int64
	splits   []int64
}

func (r *rewrite) create(ctx context.Context) (*output, error) {
	at := engine.OutputLocation(r.job, len(r.paths)+1, r.job.Partition)
	up, err := r.store.Create(ctx, at, store.WriteOptions{IfAbsent: true, ContentType: "application/vnd.apache.parquet"})
	if err != nil {
		return nil, fmt.Errorf("create output %s: %w", at, err)
	}
	const bufferBytes = 256 << 10 // Stays in the second-level cache.
	o := &output{index: len(r.paths), location: at, upload: up, buffer: bufio.NewWriterSize(up, bufferBytes), sizes: make([]int64, len(r.proof))}
	o.metrics = metrics.New(r.job.Target.Layout, r.job.Modes)
	r.paths = append(r.paths, at)
	if err := o.write([]byte(footer.Magic)); err != nil {
		r.abort(ctx, o)
		return nil, fmt.Errorf("create output %s: %w", at, err)
	}
	return o, nil
}

// abort discards an output; what it cannot discard is left for the sweep of orphans.
func (r *rewrite) abort(ctx context.Context, o *output) {
	if err := o.upload.Abort(context.WithoutCancel(ctx)); err != nil {
		r.log.WarnContext(ctx, "abort output", "location", o.location, "error", err)
	}
}

// directBytes is what is worth a call of its own: less is gathered in the buffer.
const directBytes = 32 << 10

// Write implements io.Writer.
func (o *output) Write(b []byte) (n int, err error) {
	if len(b) < directBytes {
		n, err = o.buffer.Write(b)
	} else if err = o.buffer.Flush(); err == nil {
		n, err = o.upload.Write(b)
	}
	o.size += int64(n)
	return n, err
}

func (o *output) write(b []byte) error {
	_, err := o.Write(b)
	return err
}

// rowGroup copies row groups of inputs into one of the output, column after column.
func (r *rewrite) rowGroup(ctx context.Context, o *output, sources []rowGroupOf) error {
	if err := r.loadIndexes(ctx, sources); err != nil {
		return err
	}
	defer dropIndexes(sources)
	if sources[0].kept != nil {
		return r.concat(ctx, o, sources[0])
	}
	for i := range sources {
		s := &sources[i]
		s.left = make([]remains, len(r.proof))
		if s.live < s.rows {
			s.spans = s.in.spans(s.first, s.rows)
		}
	}
	f := r.newFetcher(ctx, sources)
	defer f.close()
	o.splits = append(o.splits, o.size)
	start := o.size
	made, filters := make([]indexes, len(r.proof)), make([][]byte, len(r.proof))
	var chunks []footer.Value
	var raw, rows int64
	for i := range sources {
		rows += sources[i].live
	}
	for leaf := range r.proof {
		if err := ctx.Err(); err != nil {
			return err
		}
		l := r.job.Target.Layout.Leaves[leaf]
		column, err := columnOf(l, r.maxDef[leaf], r.template.paths[leaf])
		if err != nil {
			return err
		}
		c := &columnWriter{rewrite: r, out: o, leaf: l, column: column}
		done, err := c.copy(ctx, f, sources)
		if err != nil {
			return err
		}
		if done.Rows != rows {
			return fmt.Errorf("column %s has %d rows of %d: %w", l.Path, done.Rows, rows, engine.ErrRefused)
		}
		made[leaf] = indexes{column: done.ColumnIndex, offset: done.OffsetIndex}
		filters[leaf] = c.closeBloom()
		chunks = append(chunks, footer.RecordValue(done.Footer))
		o.sizes[leaf] += done.SizeBytes
		raw += done.RawBytes
	}
	for i := range sources {
		r.place(sources[i], o)
		sources[i].spans = nil
	}
	o.indexes = append(o.indexes, made)
	g := &footer.Struct{}
	g.Put(footer.GroupColumns, footer.ListValue(footer.Record, chunks))
	g.Put(footer.GroupBytes, footer.Int64Value(raw))
	g.Put(footer.GroupRows, footer.Int64Value(rows))
	g.Put(footer.GroupFileOffset, footer.Int64Value(start))
	g.Put(footer.GroupCompressedBytes, footer.Int64Value(o.size-start))
	g.Put(footer.GroupOrdinal, footer.Int16Value(int16(len(o.groups))))
	o.groups = append(o.groups, footer.RecordValue(g))
	return o.writeBlooms(filters)
}

// writeBlooms writes the bloom filters of the last row group behind it.
func (o *output) writeBlooms(filters [][]byte) error {
	for i, data := range filters {
		if data == nil {
			continue
		}
		m := footer.Chunk{Struct: o.chunk(len(o.groups)-1, i)}.Metadata()
		m.Put(footer.ColumnBloom, footer.Int64Value(o.size))
		m.Put(footer.ColumnBloomLength, footer.Int32Value(int64(len(data))))
		if err := o.write(data); err != nil {
			return err
		}
	}
	return nil
}

// loadIndexes reads the page indexes that are not kept in memory.
func (r *rewrite) loadIndexes(ctx context.Context, sources []rowGroupOf) error {
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(r.limits.FetchConcurrency)
	var last *input
	for _, s := range sources {
		if s.in != last {
			readers.Go(func() error { return s.in.readIndex(ctx, r.store, nil) })
		}
		last = s.in
	}
	return readers.Wait()
}

func dropIndexes(sources []rowGroupOf) {
	for _, s := range sources {
		if !s.in.indexKept {
			s.in.pageIndex = nil
		}
	}
}

// place records where the rows of a row group went.
func (r *rewrite) place(s rowGroupOf, o *output) {
	spans := s.spans
	if spans == nil {
		spans = []encoding.Span{{To: int(s.rows)}}
	}
	for _, p := range spans {
		n := int64(p.To - p.From)
		r.placeRange(&r.maps[s.in.index], handoff.RowRange{First: s.first + int64(p.From), Count: n, Output: o.index, Offset: o.rows})
		o.rows += n
	}
	s.spans = nil
	o.sources = append(o.sources, s)
}

// placeRange puts a range into a source's map, or makes the one before longer. A map of too many ranges is given up.
func (r *rewrite) placeRange(m *handoff.SourceRowMap, to handoff.RowRange) {
	if r.ranges > r.limits.RowRanges {
		return
	}
	at := len(m.Ranges)
	if at > 0 && m.Ranges[at-1].First > to.First {
		at, _ = slices.BinarySearchFunc(m.Ranges, to.First, func(r handoff.RowRange, first int64) int { return cmp.Compare(r.First, first) })
	}
	if at > 0 {
		if last := &m.Ranges[at-1]; last.Output == to.Output && last.First+last.Count == to.First && last.Offset+last.Count == to.Offset {
			last.Count += to.Count
			return
		}
	}
	m.Ranges = slices.Insert(m.Ranges, at, to)
	if r.ranges++; r.ranges > r.limits.RowRanges {
		for i := range r.maps {
			r.maps[i].Ranges = nil
		}
	}
}

// finish writes page index and footer, makes the object visible, reads it back and builds its manifest entry.
func (r *rewrite) finish(ctx context.Context, o *output) error {
	err := o.writeFooter(r.template)
	if err == nil {
		err = o.buffer.Flush()
	}
	if err == nil {
		err = o.upload.Commit(ctx)
	}
	if err != nil {
		r.abort(ctx, o)
		return fmt.Errorf("finish output %s: %w", o.location, err)
	}
	w := engine.Written{Location: o.location, Rows: o.rows, SizeBytes: o.size}
	if err := engine.Verify(ctx, r.store, r.job, w); err != nil {
		return fmt.Errorf("read back output %s: %w", o.location, err)
	}
	f, err := r.dataFile(o)
	if err != nil {
		return fmt.Errorf("describe output %s: %w", o.location, err)
	}
	r.outputs = append(r.outputs, f)
	return nil
}

func (o *output) writeFooter(t *template) error {
	put := func(data []byte, chunk *footer.Struct, at, length int16) error {
		if data == nil {
			return nil
		}
		chunk.Put(at, footer.Int64Value(o.size))
		chunk.Put(length, footer.Int32Value(int64(len(data))))
		return o.write(data)
	}
	for i, columns := range o.indexes {
		for j := range columns {
			if err := put(columns[j].column, o.chunk(i, j), footer.ChunkColumnIndex, footer.ChunkColumnIndexLength); err != nil {
				return err
			}
		}
	}
	for i, columns := range o.indexes {
		for j := range columns {
			if err := put(columns[j].offset, o.chunk(i, j), footer.ChunkOffsetIndex, footer.ChunkOffsetIndexLength); err != nil {
				return err
			}
		}
	}
	f := footer.File{Struct: &footer.Struct{}}
	f.Fields = append(f.Fields, t.file.Fields...)
	f.Put(footer.FileRows, footer.Int64Value(o.rows))
	f.Put(footer.FileRowGroups, footer.ListValue(footer.Record, o.groups))
	return o.write(footer.AppendFile(nil, f))
}

// chunk is the ColumnChunk of a row group's column.
func (o *output) chunk(group, column int) *footer.Struct {
	return o.groups[group].Struct.List(footer.GroupColumns)[column].Struct
}

// dataFile builds the manifest entry's data file. It has no sort order: rows keep the order of the inputs.
func (r *rewrite) dataFile(o *output) (iceberg.DataFile, error) {
	b, err := iceberg.NewDataFileBuilder(r.job.Spec, iceberg.EntryContentData, o.location, iceberg.ParquetFile, r.job.Partition, nil, nil, o.rows, o.size)
	if err != nil {
		return nil, err
	}
	sizes := map[int]int64{}
	for i, leaf := range r.job.Target.Layout.Leaves {
		sizes[leaf.FieldID] += o.sizes[i]
	}
	m := r.summarize(o)
	b.ColumnSizes(sizes).ValueCounts(m.Values).NullValueCounts(m.Nulls).NaNValueCounts(m.NaNs)
	b.LowerBoundValues(m.Lower).UpperBoundValues(m.Upper).SplitOffsets(o.splits)
	return b.Build(), nil
}
