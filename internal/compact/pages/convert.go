package pages

import (
	"errors"
	"io"

	"firn/internal/compact/engine"
	"firn/internal/parquet/bloom"
	physical "firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/projection"
)

// generatedRows is how many rows of a column that a file lacks are made at once.
const generatedRows = 20_000

// converter holds what converting needs again and again.
type converter struct {
	mapper       projection.Mapper
	mapped, kept physical.Vector
	// hashed is the dictionary that hashes are of.
	hashed *encoding.Entries
	hashes []uint64
	values column.Values
	plain  []byte
}

// converted writes the pages of a chunk whose column is not as it has to be in the output: of another type, with other levels, or one that only
// shows where values are that the file lacks. Only such columns are decoded.
func (c *columnWriter) converted(s rowGroupOf, data []byte) error {
	m := &s.in.shape.maps[c.leaf.Index]
	src := &source{rowGroupOf: s, chunk: &s.chunks[c.leaf.Index]}
	if m.Column() < 0 {
		return c.generated(src, m)
	}
	r, have := &c.tools.reader, &s.in.shape.columns[c.leaf.Index]
	if err := r.Open(have, data, physical.Meta{Codec: src.chunk.codec, Values: src.chunk.values, Rows: s.rows}); err != nil {
		return c.where(s, 0, err)
	}
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = c.convert(src, m, p)
		}
		if err != nil {
			return c.where(s, src.pages, err)
		}
		src.pages++
	}
	c.count(src)
	return nil
}

// convert writes one page of such a column.
func (c *columnWriter) convert(src *source, m *projection.Mapping, p *physical.Page) error {
	t := c.tools
	if err := t.reader.CountRows(p); err != nil {
		return err
	}
	live, head := c.live(src, p)
	c.tiers[engine.TierRecode] += int64(len(p.Header) + len(p.Body))
	if err := t.reader.Decode(p, &t.vector); err != nil {
		return err
	}
	if err := t.mapper.Apply(m, &src.in.shape.columns[c.leaf.Index], &t.vector, &t.mapped); err != nil {
		return err
	}
	return c.addConverted(src, m, p.FirstRow, live, head)
}

// generated makes the rows of a column of which the file has nothing.
func (c *columnWriter) generated(src *source, m *projection.Mapping) error {
	t := c.tools
	for first := int64(0); first < src.rows; first += generatedRows {
		p := &physical.Page{FirstRow: first, Rows: min(generatedRows, src.rows-first), Aligned: true}
		live, head := c.live(src, p)
		t.mapper.Generate(m, int(p.Rows), &t.mapped)
		if err := c.addConverted(src, m, first, live, head); err != nil {
			return c.where(src.rowGroupOf, 0, err)
		}
	}
	c.count(src)
	return nil
}

// addConverted writes those rows of tools.mapped that stay; first is its first row in the row group.
func (c *columnWriter) addConverted(src *source, m *projection.Mapping, first int64, live []encoding.Span, head bool) error {
	t, v := c.tools, &c.tools.mapped
	lineage := projection.Lineage{FirstRowID: src.in.FirstRowID, Sequence: src.in.Sequence}
	if err := t.mapper.FillLineage(m, lineage, src.first+first, v); err != nil {
		return err
	}
	if src.spans != nil {
		if err := v.Select(&t.converter.kept, c.column, live, head); err != nil {
			return err
		}
		v = &t.converter.kept
	}
	if v.Entries == 0 {
		return nil
	}
	src.counted += int64(v.Entries - v.Values)
	src.values += int64(v.Entries)
	if e := v.Dictionary; e != nil && e != t.hashed {
		t.hashed, t.converter.hashes = e, physical.HashEntries(t.converter.hashes, e)
	}
	if err := c.measure(v); err != nil {
		return err
	}
	return c.append(v, t.converter.hashes)
}

// measure takes the values into the output's metrics: no footer has bounds of values that were converted.
func (c *columnWriter) measure(v *physical.Vector) (err error) {
	if !c.measures || !c.job.Modes[c.leaf.Index].Counts {
		return nil
	}
	t, plain := &c.tools.converter, v.Plain
	if v.Dictionary != nil {
		if t.plain, err = v.Dictionary.Expand(t.plain[:0], v.Indices); err != nil {
			return err
		}
		plain = t.plain
	}
	if err := t.values.SetPlain(c.column.Type, c.column.Width, plain, v.Values); err != nil {
		return err
	}
	c.out.metrics.Add(c.leaf.Index, &column.Batch{Rows: v.Rows, Levels: v.Entries, Values: t.values})
	return nil
}

// addConstant takes the value that stands in for missing ones into the merged dictionary, and addDictionary those of a dictionary.
func (c *columnWriter) addConstant(s rowGroupOf) error {
	if c.merged.full || s.raw(s.in, c.leaf.Index) {
		return nil
	}
	m := &s.in.shape.maps[c.leaf.Index]
	e, err := c.tools.mapper.Sequence(m, projection.Lineage{FirstRowID: s.in.FirstRowID, Sequence: s.in.Sequence})
	if err != nil {
		return err
	}
	if e == nil {
		if e = m.Constant(); e == nil {
			return nil
		}
	}
	c.merged.found = true
	_, err = c.merged.dictionary.Add(e.Bytes(), e.Len())
	if c.merged.full = errors.Is(err, encoding.ErrDictionaryFull); c.merged.full {
		return nil
	}
	return err
}

// anyConverted says that a source of the chunk has to be converted.
func (c *columnWriter) anyConverted(sources []rowGroupOf) bool {
	for _, s := range sources {
		if !s.raw(s.in, c.leaf.Index) {
			return true
		}
	}
	return false
}

// toMeasure says that converted values have to be looked at one by one for the metrics. They need not be where the chunk is made of nothing else,
// since its writer bounds what it encodes; but it knows no bounds beside NaN.
func (c *columnWriter) toMeasure(sources []rowGroupOf) bool {
	switch c.column.Order {
	case encoding.Floating, encoding.Undefined:
		return true
	default:
	}
	for _, s := range sources {
		if s.raw(s.in, c.leaf.Index) {
			return true
		}
	}
	return false
}

// measured says that a leaf of a row group went into the output's metrics by its values.
func (s *rowGroupOf) measured(leaf int) bool { return s.left != nil && s.left[leaf].measured }

// defaultRate is the rate of false positives of a bloom filter that only the inputs have: Iceberg's default.
const defaultRate = 0.01

// openBloom begins a bloom filter, if the table asks for one or a source has one: an output is not to be worse than its inputs.
func (c *columnWriter) openBloom(sources []rowGroupOf) {
	c.bloom = nil
	w := &c.job.Writer
	_, wanted := w.Bloom[c.leaf.Index]
	for _, s := range sources {
		wanted = wanted || s.chunks[c.leaf.Index].bloom.offset > 0
	}
	if !wanted || c.column.Type == footer.Boolean {
		return
	}
	size := w.BloomBytes
	if n, ok := w.BloomValues[c.leaf.Index]; ok {
		size = min(size, bloom.Bytes(n, c.bloomRate()))
	}
	c.bloom = bloom.New(size)
}

func (c *columnWriter) bloomRate() float64 {
	if rate, ok := c.job.Writer.Bloom[c.leaf.Index]; ok {
		return rate
	}
	return defaultRate
}

// hashPage puts the values of a page that passes through into the bloom filter.
func (c *columnWriter) hashPage(p *physical.Page) error {
	if c.bloom == nil || p.Encoding().Dictionary() {
		return nil // The entries of a dictionary are hashed when it is written.
	}
	v := &c.tools.mapped
	if err := c.tools.reader.Decode(p, v); err != nil {
		return err
	}
	width := c.column.ValueWidth()
	for plain := v.Plain; len(plain) > 0; {
		var value []byte
		if width != encoding.ByteArray {
			value, plain = plain[:width], plain[width:]
		} else {
			var err error
			if value, plain, err = encoding.NextByteArray(plain); err != nil {
				return err
			}
		}
		c.bloom.Insert(bloom.Hash(value))
	}
	return nil
}

// closeBloom returns the filter as it is written; nil when there is none. How many distinct values there are is only known now: a filter whose size
// the table did not fix is made as small as its rate allows.
func (c *columnWriter) closeBloom() []byte {
	if c.bloom == nil {
		return nil
	}
	if _, fixed := c.job.Writer.BloomValues[c.leaf.Index]; !fixed {
		c.bloom.Fold(c.bloomRate())
	}
	return c.bloom.Append(nil)
}
