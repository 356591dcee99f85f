package pages

import (
	"context"
	"errors"
	"fmt"

	"firn/internal/compact/engine"
	"firn/internal/parquet/bloom"
	physical "firn/internal/parquet/chunk"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
)

// tools are coders and buffers that are used again for every page and column.
type tools struct {
	codec    encoding.Codec
	compress *encoding.Compressor
	// reader reads sources, again the small page that was set aside.
	reader, again physical.Reader
	writer        physical.Writer
	vector, kept  physical.Vector
	made          []byte
	hashes        []uint64
	table         []uint32
	tables        []uint32
	live          []encoding.Span
	aside         []byte
	converter
}

func newTools(r engine.Job) (*tools, error) {
	codec := encoding.Codec(r.Writer.Codec)
	c, err := encoding.NewCompressor(codec, r.Writer.Level)
	return &tools{codec: codec, compress: c}, err
}

// tally is the proof of a column: sums of hashes of what was read and of what was written. A page that is copied counts with the hash of its
// body, of a page that is made anew every value and every level does.
type tally struct {
	in, out           uint64
	nullsIn, nullsOut int64
}

// columnWriter writes one column chunk of an output from chunks of inputs.
type columnWriter struct {
	*rewrite
	out    *output
	leaf   *layout.Leaf
	column *physical.Column
	writer *physical.Writer
	merged *merge
	// table says where the entries of the source's dictionary are in the merged one, if that is still known.
	table []uint32
	// aside is a small page that waits for another one to be written with.
	aside aside
	// nulls is the number of nulls of the sources; -1 when one does not know.
	nulls int64
	// uncounted says that the levels of a page were not counted, passed that one with values went through without being decoded.
	uncounted, passed bool
	// measures says that converted values go into the metrics one by one.
	measures bool
	// bloom is the chunk's bloom filter, if it is to have one.
	bloom *bloom.Filter
}

// where wraps a fault of an input with its place.
func (c *columnWriter) where(s rowGroupOf, page int, err error) error {
	var no *declined
	if errors.Is(err, encoding.ErrTooLarge) || errors.Is(err, encoding.ErrUnsupported) {
		return decline("column %s of %s: %v", c.leaf.Path, s.in.FilePath(), err) // Sound, but not for this engine.
	}
	damaged := errors.Is(err, encoding.ErrCorrupt) || errors.Is(err, footer.ErrMalformed) || errors.Is(err, projection.ErrUnmappable)
	if errors.As(err, &no) || !damaged {
		return fmt.Errorf("copy %s: column %s: %w", s.in.FilePath(), c.leaf.Path, err)
	}
	return fmt.Errorf("copy %s: row group %d, column %s, page %d: %w: %w", s.in.FilePath(), s.number, c.leaf.Path, page, err, engine.ErrRefused)
}

// copy writes the chunk.
func (c *columnWriter) copy(ctx context.Context, f *fetcher, sources []rowGroupOf) (physical.Chunk, error) {
	if err := c.dictionaries(f, sources); err != nil {
		return physical.Chunk{}, err
	}
	c.measures = c.toMeasure(sources)
	if err := c.open(sources); err != nil {
		return physical.Chunk{}, err
	}
	for i, s := range sources {
		if err := ctx.Err(); err != nil {
			return physical.Chunk{}, err
		}
		data, err := f.get(f.chunks[c.leaf.Index][i])
		if err != nil {
			return physical.Chunk{}, err
		}
		c.table = c.merged.table(i)
		if err := c.source(s, data); err != nil {
			return physical.Chunk{}, err
		}
		f.release(f.chunks[c.leaf.Index][i])
	}
	done, err := c.close()
	if err != nil {
		return done, err
	}
	// The bounds of all sources hold for each, and what they are for is to be merged anyway. So is the number of NaN.
	seen := !c.passed && (!c.measures || !c.anyConverted(sources))
	for i := range sources {
		left := &sources[i].left[c.leaf.Index]
		left.min, left.max = done.Lower, done.Upper
		if seen {
			left.nans = 0
		}
	}
	if seen {
		sources[0].left[c.leaf.Index].nans = done.NaNs
	}
	return done, nil
}

// open begins the chunk.
func (c *columnWriter) open(sources []rowGroupOf) error {
	w := c.job.Writer
	o := physical.Options{
		Compressor: c.tools.compress, PageBytes: int(min(w.PageBytes, encoding.MaxPageBytes/4)), PageRows: w.PageRows,
		DictBytes: int(min(w.DictBytes, encoding.MaxPageBytes)),
	}
	switch {
	case c.merged.found && !c.merged.full:
		o.Dictionary = c.merged.dictionary
	case !c.merged.found:
		o.Build = c.mostlySmall(sources) || c.anyConverted(sources)
	}
	if c.openBloom(sources); c.bloom != nil {
		o.Hash = c.bloom.Insert
	}
	c.writer = &c.tools.writer
	return c.writer.Open(c.out, c.out.size, c.column, o)
}

// mostlySmall says that most bytes lie in small pages, of which larger ones are made: then a dictionary may pay that did not pay before.
func (c *columnWriter) mostlySmall(sources []rowGroupOf) bool {
	var all, small int64
	for _, s := range sources {
		ch := &s.chunks[c.leaf.Index]
		all += ch.length
		if ch.pages > 0 && c.small(s.rows/ch.pages, ch.length/ch.pages) {
			small += ch.length
		}
	}
	return 2*small > all
}

// close ends the chunk and the proof of what is in it.
func (c *columnWriter) close() (physical.Chunk, error) {
	if err := c.release(); err != nil {
		return physical.Chunk{}, err
	}
	if err := c.writer.Flush(); err != nil {
		return physical.Chunk{}, err
	}
	t := &c.proof[c.leaf.Index]
	if c.nulls >= 0 {
		t.nullsIn += c.nulls
		if written := c.writer.Nulls(); written >= 0 && !c.uncounted {
			t.nullsOut += written
		} else {
			t.nullsOut += c.nulls
		}
	}
	c.writer.SetNulls(c.nulls)
	done, err := c.writer.Close()
	t.out += done.Sum + done.Copied
	return done, err
}

// merge is the merged dictionary of a column chunk. Of the sources' dictionaries only one is in memory at a time: they are read to merge them, and
// again with the pages that refer to them.
type merge struct {
	dictionary *encoding.Dictionary
	// found says that a source has a dictionary; full that the merged one grew too large: then values are written out instead of indices.
	found, full bool
	// tables say where the entries of the sources' dictionaries are in the merged one, one table behind the other; ends says where each ends.
	tables []uint32
	ends   []int
}

// maxTables is how many entries the tables of one chunk have at most; what is beyond is looked up again.
const maxTables = 1 << 18

// keep remembers the table of the next source; nil where there is none.
func (m *merge) keep(table []uint32) {
	if m.tables == nil && len(table) > 0 {
		m.tables = make([]uint32, 0, maxTables) // What is not used is no memory yet, whereas growing leaves much behind.
	}
	if len(m.tables)+len(table) <= maxTables {
		m.tables = append(m.tables, table...)
	}
	m.ends = append(m.ends, len(m.tables))
}

// table is what keep was given for a source; empty when that was too much.
func (m *merge) table(source int) []uint32 {
	if m.full || source >= len(m.ends) {
		return nil
	}
	from := 0
	if source > 0 {
		from = m.ends[source-1]
	}
	return m.tables[from:m.ends[source]]
}

// dictionaries merges the dictionaries of all sources.
func (c *columnWriter) dictionaries(f *fetcher, sources []rowGroupOf) error {
	d := encoding.NewDictionary(c.column.ValueWidth(), int(min(c.job.Writer.DictBytes, encoding.MaxPageBytes)))
	c.merged = &merge{dictionary: d, tables: c.tools.tables[:0]}
	var size int64
	for i := range sources {
		size += sources[i].chunks[c.leaf.Index].dictionary
	}
	// What was too much in an earlier row group is so again, if there is about as much: files of one table are alike.
	known := c.overflowed[c.leaf.Index]
	c.merged.full = known > 0 && size >= known/2
	for i, s := range sources {
		ch := &s.chunks[c.leaf.Index]
		if err := c.addConstant(s); err != nil {
			return c.where(s, 0, err)
		}
		c.tools.table = c.tools.table[:0]
		if ch.dictionary == 0 {
			c.merged.keep(nil)
			continue
		}
		c.merged.found = true
		part := f.dictionaries[c.leaf.Index][i]
		data, err := f.get(part)
		if err != nil {
			return err
		}
		if !c.merged.full {
			if err := c.addDictionary(s, data); err != nil {
				return c.where(s, 0, err)
			}
		}
		c.merged.keep(c.tools.table)
		f.release(part)
	}
	c.tools.tables = c.merged.tables
	if c.merged.full {
		c.overflowed[c.leaf.Index] = size
	}
	return nil
}

// addDictionary merges one source's dictionary page.
func (c *columnWriter) addDictionary(s rowGroupOf, data []byte) error {
	r, leaf := &c.tools.reader, c.leaf.Index
	if err := r.Open(&s.in.shape.columns[leaf], data, physical.Meta{Codec: s.chunks[leaf].codec, Rows: -1}); err != nil {
		return err
	}
	e := r.Dictionary()
	if e == nil {
		return decline("a chunk begins with no dictionary")
	}
	e, err := c.tools.mapper.Entries(&s.in.shape.maps[leaf], &s.in.shape.columns[leaf], e)
	if err != nil {
		return err
	}
	c.tools.table, err = c.merged.dictionary.AddTo(c.tools.table[:0], e.Bytes(), e.Len())
	if c.merged.full = errors.Is(err, encoding.ErrDictionaryFull); c.merged.full {
		return nil
	}
	return err
}
