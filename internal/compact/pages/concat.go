package pages

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/zeebo/xxh3"

	"firn/internal/compact/engine"
	"firn/internal/parquet/bloom"
	physical "firn/internal/parquet/chunk"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
)

const (
	// bigRows and bigShare say when a row group is big enough to be left as it is: it has 1/bigShare of the bytes that a row group is to have, or
	// bigRows rows and a fair part (1/fairShare) of the bytes.
	bigRows, bigShare, fairShare = 250_000, 2, 8
	// headerBytes is the most that a page header is looked for in.
	headerBytes = 1 << 20
	// blockBytes is what is hashed and written at once, while it is in the second-level cache.
	blockBytes = 512 << 10
	// headerStep is how much more of a header that is cut is looked at.
	headerStep = 4 << 10
)

// keep decides whether a row group is copied as a whole, and then keeps its footer. Pages are not merged and nothing is decoded, so all columns
// have to be there as they are wanted, bloom filters included. A table that names no codec leaves pages in theirs, see settleKept.
func (r *rewrite) keep(in *input, g *group, raw footer.RowGroup) {
	target := r.job.Writer.RowGroupBytes
	size := g.bytes()
	big := size >= target/bigShare || (g.rows >= bigRows && size >= target/fairShare)
	if !big || g.codec == mixed || (g.codec != int64(r.job.Writer.Codec) && r.job.Properties["write.parquet.compression-codec"] != "") {
		return
	}
	for i := range g.chunks {
		if m := &in.shape.maps[i]; !m.Same() || (m.IsLineage() && g.chunks[i].nulls != 0) {
			return
		}
		if _, wanted := r.job.Writer.Bloom[i]; wanted && g.chunks[i].bloom.offset == 0 {
			return
		}
	}
	// Only the columns of the table, in its order: what else the file has is not needed.
	all, columns := raw.List(footer.GroupColumns), []footer.Value{}
	for i := range in.shape.maps {
		columns = append(columns, all[in.shape.maps[i].Column()])
	}
	kept := &footer.Struct{Fields: slices.Clone(raw.Fields)}
	kept.Put(footer.GroupColumns, footer.ListValue(footer.Record, columns))
	in.mapSorting(kept)
	g.kept = footer.Append(nil, kept)
}

// mapSorting renumbers the columns that a row group is sorted by; from the first one on that the table lacks they say nothing.
func (in *input) mapSorting(g *footer.Struct) {
	var out []footer.Value
	for _, v := range g.List(footer.GroupSorting) {
		old := int(v.Struct.IntOr(1, -1))
		at := slices.IndexFunc(in.shape.maps, func(m projection.Mapping) bool { return m.Column() == old })
		if at < 0 {
			break
		}
		s := &footer.Struct{Fields: slices.Clone(v.Struct.Fields)}
		s.Put(1, footer.Int32Value(int64(at)))
		out = append(out, footer.RecordValue(s))
	}
	g.Drop(footer.GroupSorting)
	if len(out) > 0 {
		g.Put(footer.GroupSorting, footer.ListValue(footer.Record, out))
	}
}

// concat copies a row group as it is: the bytes of its chunks, their footers with other offsets, page indexes and bloom filters.
func (r *rewrite) concat(ctx context.Context, o *output, s rowGroupOf) error {
	g, _, err := footer.Decode(s.kept)
	if err != nil {
		return err
	}
	f := r.newStream(ctx, s)
	defer f.close()
	start := o.size
	o.splits = append(o.splits, start)
	columns := footer.RowGroup{Struct: g}.Columns()
	made := make([]indexes, len(columns))
	var raw int64
	for i, leaf := range r.job.Target.Layout.Leaves {
		c := &stream{rewrite: r, out: o, source: s, leaf: leaf, chunk: &s.chunks[i]}
		shift := o.size - c.chunk.offset
		if err := c.copy(ctx, f, f.chunks[i]); err != nil {
			return err
		}
		raw += columns[i].Metadata().IntOr(footer.ColumnBytes, 0)
		o.sizes[i] += c.chunk.length
		r.tiers[engine.TierConcat] += c.chunk.length
		c.shift(columns[i], r.template.paths[i], shift)
		made[i] = c.indexes(shift)
	}
	g.Put(footer.GroupBytes, footer.Int64Value(raw)) // Columns that the table dropped are gone.
	g.Put(footer.GroupFileOffset, footer.Int64Value(start))
	g.Put(footer.GroupCompressedBytes, footer.Int64Value(o.size-start))
	g.Put(footer.GroupOrdinal, footer.Int16Value(int16(len(o.groups))))
	for i := range columns {
		if err := r.bloom(ctx, o, s, i, columns[i]); err != nil {
			return err
		}
	}
	r.place(s, o)
	o.indexes = append(o.indexes, made)
	o.groups = append(o.groups, footer.RecordValue(g))
	return nil
}

// bloom copies a chunk's bloom filter. Bytes that are no bloom filter are not passed on.
func (r *rewrite) bloom(ctx context.Context, o *output, s rowGroupOf, column int, c footer.Chunk) error {
	at := s.chunks[column].bloom
	m := c.Metadata()
	m.Drop(footer.ColumnBloom)
	m.Drop(footer.ColumnBloomLength)
	if at.offset == 0 {
		return nil
	}
	limit := s.in.FileSizeBytes() - footer.TrailerBytes - at.offset
	if at.length == 0 {
		head, err := s.in.fetch(ctx, r.store, span{at.offset, min(limit, bloom.HeadBytes)}, nil)
		if err != nil {
			return err
		}
		if at.length, err = bloom.Length(head); err != nil && !errors.Is(err, bloom.ErrUnsupported) {
			return nil
		}
	}
	if at.length > limit || at.length > bloom.MaxBytes+bloom.HeadBytes {
		return nil
	}
	data, err := s.in.fetch(ctx, r.store, at, nil)
	if err != nil {
		return err
	}
	if n, err := bloom.Length(data); n != at.length || (err != nil && !errors.Is(err, bloom.ErrUnsupported)) {
		return nil
	}
	m.Put(footer.ColumnBloom, footer.Int64Value(o.size))
	m.Put(footer.ColumnBloomLength, footer.Int32Value(at.length))
	return o.write(data)
}

// stream passes one chunk's pages on in pieces.
type stream struct {
	*rewrite
	out    *output
	source rowGroupOf
	leaf   *layout.Leaf
	chunk  *chunk
	// rest is the begin of a page of which more is to come: lacks bytes at least.
	rest   []byte
	lacks  int
	values int64
	pages  int
}

func (c *stream) fault(err error) error {
	return fmt.Errorf("copy %s: row group %d, column %s, page %d: %w: %w", c.source.in.FilePath(), c.source.number, c.leaf.Path, c.pages, err, engine.ErrRefused)
}

// copy checks the chunk's pages and writes them.
func (c *stream) copy(ctx context.Context, f *fetcher, parts []part) error {
	t := &c.proof[c.leaf.Index]
	in, out := xxh3.New(), xxh3.New()
	for _, p := range parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := f.get(p)
		if err != nil {
			return err
		}
		if err := c.check(data); err != nil {
			return c.fault(err)
		}
		for block := range slices.Chunk(data, blockBytes) {
			_, _ = in.Write(block)
			if err := c.out.write(block); err != nil {
				return err
			}
			_, _ = out.Write(block)
		}
		f.release(p)
	}
	switch {
	case len(c.rest) > 0:
		_, _, err := physical.SplitPage(c.rest)
		return c.fault(err)
	case c.values != c.chunk.values:
		return c.fault(fmt.Errorf("pages of %d values, the footer says %d: %w", c.values, c.chunk.values, footer.ErrMalformed))
	}
	t.in += in.Sum64()
	t.out += out.Sum64()
	t.nullsIn += max(c.chunk.nulls, 0)
	t.nullsOut += max(c.chunk.nulls, 0)
	return nil
}

// check walks the pages that end in data. Of a page that is cut only what it lacks is put together.
func (c *stream) check(data []byte) (err error) {
	for len(c.rest) > 0 && len(data) > 0 {
		n := min(len(data), c.lacks)
		c.rest, data = append(c.rest, data[:n]...), data[n:]
		rest, err := c.walk(c.rest)
		if err != nil {
			return err
		}
		c.rest = append(c.rest[:0], rest...)
	}
	if len(c.rest) > 0 {
		return nil
	}
	data, err = c.walk(data)
	c.rest = append(c.rest, data...)
	return err
}

// walk checks whole pages, and returns the begin of one that is cut; c.lacks is then how much of it is missing, at least.
func (c *stream) walk(data []byte) (rest []byte, err error) {
	for len(data) > 0 {
		h, err := footer.DecodePage(data)
		if err != nil {
			if len(data) > headerBytes {
				return nil, err
			}
			c.lacks = headerStep
			return data, nil // Cut off, or found to be no header at the chunk's end.
		}
		end := int64(h.Length) + h.CompressedBody()
		if end > c.chunk.length {
			return nil, fmt.Errorf("a page of %d bytes in a chunk of %d: %w", end, c.chunk.length, footer.ErrMalformed)
		}
		if end > int64(len(data)) {
			c.lacks = int(end) - len(data)
			return data, nil
		}
		body := data[h.Length:end]
		if crc, ok := h.CRC(); ok && crc != crc32.ChecksumIEEE(body) {
			return nil, fmt.Errorf("the page's checksum is %08x, its bytes have %08x: %w", crc, crc32.ChecksumIEEE(body), footer.ErrMalformed)
		}
		if t := h.Type(); t == footer.DataPage || t == footer.DataPageV2 {
			c.values += h.Values()
			c.pages++
		}
		data = data[end:]
	}
	return nil, nil
}

// shift moves a chunk's footer. Its statistics stay as they are, unless their writer is known to get them wrong: readers tell that by the writer's
// name, which is not in the output.
func (c *stream) shift(to footer.Chunk, path []footer.Value, by int64) {
	for _, id := range []int16{footer.ChunkOffsetIndex, footer.ChunkOffsetIndexLength, footer.ChunkColumnIndex, footer.ChunkColumnIndexLength} {
		to.Drop(id)
	}
	to.Put(footer.ChunkFileOffset, footer.Int64Value(0))
	m := to.Metadata()
	m.Put(footer.ColumnPath, footer.ListValue(footer.Binary, path))
	for _, id := range []int16{footer.ColumnDataPage, footer.ColumnIndexPage, footer.ColumnDictionaryPage} {
		if at, ok := m.Int(id); ok && at > 0 {
			m.Put(id, footer.Int64Value(at+by))
		}
	}
	s := m.Statistics()
	if s.Struct == nil {
		return
	}
	// Before min_value there were bounds whose order was not laid down for bytes.
	bytes := c.leaf.Kind == layout.Bytes || c.leaf.Kind == layout.Fixed
	if !c.chunk.trusted || (s.Find(footer.StatMin) == nil && bytes) {
		s.Drop(footer.StatOldMin)
		s.Drop(footer.StatOldMax)
	}
	if !c.chunk.trusted {
		s.Drop(footer.StatMin)
		s.Drop(footer.StatMax)
	}
}

// indexes moves the chunk's page indexes.
func (c *stream) indexes(by int64) (out indexes) {
	if raw := c.source.in.indexOf(c.chunk.columnIndex); raw != nil && c.chunk.trusted {
		out.column = raw
	}
	if raw := c.source.in.indexOf(c.chunk.offsetIndex); raw != nil {
		s, _, err := footer.Decode(raw)
		if err != nil {
			return indexes{}
		}
		for _, v := range s.List(1) {
			if v.Struct == nil {
				return indexes{}
			}
			v.Struct.Put(1, footer.Int64Value(v.Struct.IntOr(1, 0)+by))
		}
		out.offset = footer.Append(nil, s)
	}
	return out
}
