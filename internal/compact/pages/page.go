package pages

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"firn/internal/compact/engine"
	physical "firn/internal/parquet/chunk"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// source is a source chunk whose pages are being written.
type source struct {
	rowGroupOf
	chunk *chunk
	// places and bounds are the source's page indexes, as long as its pages lie where they say.
	places []footer.Location
	bounds []footer.Bounds
	// hashes are those of its dictionary's entries; identity says that they keep their numbers in the merged dictionary.
	hashes   []uint64
	identity bool
	pages    int
	// passed says that a page with values went through without being decoded.
	passed bool
	// counted and removed are the nulls of pages: those that stay, where levels were counted, and those that were deleted. uncounted says that the
	// levels of a page were not.
	counted, removed int64
	uncounted        bool
	// values is the number of entries that stay.
	values int64
}

// source writes the pages of one chunk.
func (c *columnWriter) source(s rowGroupOf, data []byte) error {
	if !s.raw(s.in, c.leaf.Index) {
		return c.converted(s, data)
	}
	src := &source{rowGroupOf: s, chunk: &s.chunks[c.leaf.Index]}
	r := &c.tools.reader
	err := r.Open(c.column, data, physical.Meta{Codec: src.chunk.codec, Values: src.chunk.values, Rows: s.rows})
	if err == nil {
		err = c.openDictionary(src)
	}
	if err != nil {
		return c.where(s, 0, err)
	}
	if c.merged.full {
		c.tiers[engine.TierRecode] += src.chunk.dictionary
	} else if src.chunk.dictionary > 0 {
		c.tiers[engine.TierCopy] += src.chunk.dictionary
	}
	src.readIndex()
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = c.page(src, p)
		}
		if err != nil {
			return c.where(s, src.pages, err)
		}
		src.pages++
	}
	c.count(src)
	return nil
}

// openDictionary hashes the source's dictionary. Each entry must be in the merged dictionary under the hash that it has here.
func (c *columnWriter) openDictionary(src *source) error {
	e := c.tools.reader.Dictionary()
	if e == nil {
		return nil
	}
	c.tools.hashes = physical.HashEntries(c.tools.hashes, e)
	src.hashes = c.tools.hashes
	if c.merged.full {
		return nil
	}
	if len(c.table) == e.Len() {
		c.writer.SetTable(e, c.table)
	}
	table, err := c.writer.Table(e)
	if err != nil {
		return err
	}
	merged := c.writer.Hashes()
	for n, to := range table {
		if src.hashes[n] != merged[to] {
			return fmt.Errorf("merge dictionaries: entry %d became another value: %w", n, footer.ErrMalformed)
		}
	}
	src.identity = encoding.Identity(table)
	return nil
}

// count takes a finished source's nulls and bounds into the chunk's.
func (c *columnWriter) count(src *source) {
	nulls := src.counted
	c.uncounted = c.uncounted || src.uncounted
	if src.uncounted {
		if nulls = src.chunk.nulls; nulls >= 0 {
			nulls -= src.removed
		}
	}
	if nulls < 0 || nulls > src.values { // The second is a count of the source that cannot be right.
		nulls = -1
	}
	measured := c.measures && !src.raw(src.in, c.leaf.Index)
	src.left[c.leaf.Index] = remains{values: src.values, nulls: nulls, nans: -1, measured: measured}
	c.passed = c.passed || src.passed
	if nulls < 0 || c.nulls < 0 {
		c.nulls = -1
	} else {
		c.nulls += nulls
	}
	if src.passed && src.chunk.nulls != src.chunk.values {
		c.writer.MergeBounds(src.chunk.min, src.chunk.max)
	}
}

// small says that a page of so many rows and bytes is to be merged with others: it is far from full by the engine's limits and by the table's.
func (c *columnWriter) small(rows, bytes int64) bool {
	w := &c.job.Writer
	return rows < min(c.limits.FullPageRows, int64(w.PageRows)) && bytes < min(c.limits.FullPageBytes, w.PageBytes)
}

// page chooses how one page is written.
func (c *columnWriter) page(src *source, p *physical.Page) error {
	if err := c.countRows(src, p); err != nil {
		return err
	}
	live, head := c.live(src, p)
	rows := int64(encoding.SpanLen(live))
	whole := rows == p.Rows && (p.Aligned || head)
	size := int64(len(p.Header) + len(p.Body))
	switch {
	case !whole && rows == 0 && (p.Aligned || !head):
		c.tiers[engine.TierRecode] += size
		return c.drop(src, p)
	case !whole:
		c.tiers[engine.TierRecode] += size
		return c.decode(src, p, live, head)
	case c.small(p.Rows, int64(len(p.Body))):
		c.tiers[engine.TierCoalesce] += size
		if p.Encoding().Dictionary() {
			return c.decode(src, p, nil, true)
		}
		return c.setAside(src, p)
	case p.Encoding().Dictionary() && c.merged.full:
		c.tiers[engine.TierRecode] += size
		return c.decode(src, p, nil, true)
	case p.Encoding().Dictionary():
		if src.chunk.codec == c.tools.codec {
			c.tiers[engine.TierCopy] += size
		} else {
			c.tiers[engine.TierRecode] += size
		}
		return c.remap(src, p)
	case src.chunk.codec != c.tools.codec:
		c.tiers[engine.TierRecode] += size
		return c.recompress(src, p)
	}
	c.tiers[engine.TierCopy] += size
	if err := c.hashPage(p); err != nil {
		return err
	}
	return c.pass(src, p)
}

// countRows finds the number of rows that begin in a page: what the page says, the offset index, or its repetition levels.
func (c *columnWriter) countRows(src *source, p *physical.Page) error {
	n := src.pages
	if p.Rows < 0 && n < len(src.places) && src.placed(p) && !p.Encoding().Dictionary() {
		next := src.rows
		if n+1 < len(src.places) {
			next = src.places[n+1].FirstRow
		}
		if p.Rows = next - p.FirstRow; p.Rows < 0 || p.Rows > p.Values() {
			return fmt.Errorf("an offset index with %d rows in a page of %d values: %w", p.Rows, p.Values(), footer.ErrMalformed)
		}
	}
	err := c.tools.reader.CountRows(p)
	if err == nil && !p.Aligned && p.FirstRow == 0 {
		err = fmt.Errorf("the first page begins within a row: %w", footer.ErrMalformed)
	}
	return err
}

// placed says that the page lies where the offset index has it.
func (s *source) placed(p *physical.Page) bool {
	at := s.places[s.pages]
	return at.Offset == s.chunk.offset+p.Offset && at.FirstRow == p.FirstRow
}

// live returns the rows of a page that stay, counted from its first one, and whether the row that began before it stays.
func (c *columnWriter) live(src *source, p *physical.Page) (rows []encoding.Span, head bool) {
	if src.spans == nil {
		return append(c.tools.live[:0], encoding.Span{To: int(p.Rows)}), true
	}
	first, end := int(p.FirstRow), int(p.FirstRow+p.Rows)
	rows = c.tools.live[:0]
	at, _ := slices.BinarySearchFunc(src.spans, first, func(s encoding.Span, row int) int { return s.To - row })
	for ; at < len(src.spans) && src.spans[at].From < end; at++ {
		s := src.spans[at]
		if s.From, s.To = max(s.From, first)-first, min(s.To, end)-first; s.From < s.To {
			rows = append(rows, s)
		}
	}
	c.tools.live = rows
	before := first - 1
	_, head = slices.BinarySearchFunc(src.spans, before, func(s encoding.Span, row int) int {
		switch {
		case s.To <= row:
			return -1
		case s.From > row:
			return 1
		}
		return 0
	})
	return rows, head
}

// drop leaves a page out whose rows are all deleted.
func (c *columnWriter) drop(src *source, p *physical.Page) error {
	if err := c.tools.reader.CountPresent(p); err != nil {
		return err
	}
	src.removed += p.Values() - int64(p.Present)
	return nil
}

// decode writes the rows of a page that stay, decoded, with what is before and behind it.
func (c *columnWriter) decode(src *source, p *physical.Page, live []encoding.Span, head bool) error {
	t := c.tools
	if err := t.reader.Decode(p, &t.vector); err != nil {
		return err
	}
	v := &t.vector
	nulls := int64(v.Entries - v.Values)
	if live != nil {
		if err := v.Select(&t.kept, c.column, live, head); err != nil {
			return err
		}
		v = &t.kept
	}
	stay := int64(v.Entries - v.Values)
	src.counted += stay
	src.removed += nulls - stay
	src.values += int64(v.Entries)
	return c.append(v, src.hashes)
}

// append adds a vector to the chunk and to the proof.
func (c *columnWriter) append(v *physical.Vector, hashes []uint64) error {
	if err := c.join(); err != nil {
		return err
	}
	sum, err := v.Sum(c.column, hashes)
	if err != nil {
		return err
	}
	c.proof[c.leaf.Index].in += sum
	return c.writer.Append(v)
}

// raw is a page as it is, with its statistics. Its nulls are counted when nothing else tells them.
func (c *columnWriter) raw(src *source, p *physical.Page) (physical.Raw, error) {
	b := src.pageBounds(p)
	src.values += p.Values()
	if c.column.MaxDef == 0 || (b.Nulls < 0 && src.chunk.nulls < 0) {
		if err := c.tools.reader.CountPresent(p); err != nil {
			return physical.Raw{}, err
		}
	}
	if p.Present >= 0 {
		b.Nulls = p.Values() - int64(p.Present)
		src.counted += b.Nulls
	} else {
		src.uncounted = true
	}
	src.passed = src.passed || p.Present != 0
	return physical.Raw{Page: p.Page, Header: p.Header, Body: p.Body, Rows: p.Rows, Aligned: p.Aligned, Bounds: b}, nil
}

// pass writes a page as it is.
func (c *columnWriter) pass(src *source, p *physical.Page) error {
	if err := c.release(); err != nil {
		return err
	}
	raw, err := c.raw(src, p)
	if err != nil {
		return err
	}
	c.proof[c.leaf.Index].in += xxh3.Hash(p.Body)
	return c.writer.Copy(raw)
}

// recode writes a page with the same levels and other values, or packed with another codec.
func (c *columnWriter) recode(src *source, p *physical.Page, e footer.Encoding, values []byte) error {
	if err := c.release(); err != nil {
		return err
	}
	raw, err := c.raw(src, p)
	if err != nil {
		return err
	}
	return c.writer.Recode(raw, e, p.Levels(), values)
}

// remap writes a page with the indices of the merged dictionary, and reads them again for the proof.
func (c *columnWriter) remap(src *source, p *physical.Page) error {
	t := c.tools
	width, stream, err := t.reader.Indices(p)
	if err != nil {
		return err
	}
	if src.identity { // The bytes may stay, since the entries do: see openDictionary.
		if err := encoding.CheckIndices(stream, width, p.Present, len(src.hashes)); err != nil {
			return err
		}
		if src.chunk.codec != c.tools.codec {
			return c.recompress(src, p)
		}
		return c.pass(src, p)
	}
	table, err := c.writer.Table(t.reader.Dictionary())
	if err != nil {
		return err
	}
	proof := &c.proof[c.leaf.Index]
	m := encoding.Remap{
		FromWidth: width, ToWidth: encoding.IndexWidth(c.merged.dictionary.Len()), Table: table, Weights: src.hashes, Sum: &proof.in,
	}
	if t.made, err = encoding.RemapIndices(append(t.made[:0], byte(m.ToWidth)), stream, p.Present, m); err != nil {
		return err
	}
	again, err := encoding.SumIndices(t.made[1:], m.ToWidth, p.Present, c.writer.Hashes())
	if err != nil {
		return err
	}
	proof.out += again
	return c.recode(src, p, footer.RLEDictionary, t.made)
}

// recompress writes a page with another codec.
func (c *columnWriter) recompress(src *source, p *physical.Page) error {
	if err := c.tools.reader.Split(p); err != nil {
		return err
	}
	if err := c.hashPage(p); err != nil {
		return err
	}
	t := &c.proof[c.leaf.Index]
	t.in += xxh3.Hash(p.Levels()) + 3*xxh3.Hash(p.Content())
	err := c.recode(src, p, p.Encoding(), p.Content())
	t.out += xxh3.Hash(p.Levels()) + 3*xxh3.Hash(p.Content())
	return err
}

// aside is a small page that is not written yet: alone it would pass as it is, with a neighbour to be written anew it is decoded.
type aside struct {
	held bool
	meta physical.Meta
	raw  physical.Raw
}

// setAside keeps a small page until it is known what follows.
func (c *columnWriter) setAside(src *source, p *physical.Page) error {
	if c.aside.held || c.writer.Begun() || src.chunk.codec != c.tools.codec {
		return c.decode(src, p, nil, true)
	}
	if err := c.hashPage(p); err != nil {
		return err
	}
	raw, err := c.raw(src, p)
	if err != nil {
		return err
	}
	c.tools.aside = append(append(c.tools.aside[:0], p.Header...), p.Body...)
	h, body, err := physical.SplitPage(c.tools.aside)
	if err != nil {
		return err
	}
	raw.Page, raw.Header, raw.Body = h, c.tools.aside[:h.Length], body
	c.aside = aside{held: true, meta: physical.Meta{Codec: src.chunk.codec, Values: p.Values(), Rows: -1}, raw: raw}
	return nil
}

// join decodes the page that was set aside, since it gets company.
func (c *columnWriter) join() error {
	if !c.aside.held {
		return nil
	}
	c.aside.held = false
	t := c.tools
	if err := t.again.Open(c.column, t.aside, c.aside.meta); err != nil {
		return err
	}
	p, err := t.again.Next()
	if err != nil {
		return err
	}
	var v physical.Vector
	if err := t.again.Decode(p, &v); err != nil {
		return err
	}
	return c.append(&v, nil)
}

// release writes the page that was set aside as it is.
func (c *columnWriter) release() error {
	if !c.aside.held {
		return nil
	}
	c.aside.held = false
	c.proof[c.leaf.Index].in += xxh3.Hash(c.aside.raw.Body)
	return c.writer.Copy(c.aside.raw)
}
