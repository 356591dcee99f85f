package pages

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/zeebo/xxh3"

	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// reader walks the data pages of one source chunk.
type reader struct {
	source     rowGroupOf
	chunk      *chunk
	dictionary *sourceDictionary
	// places is the source's offset index as long as its pages lie where it says.
	places []footer.Location
	// infos is what the pages' own headers say; first is the number of pages of earlier sources.
	infos        []footer.Bounds
	values, rows int64
}

// source copies the pages of one chunk and compares their sums with what its footer says.
func (c *columnWriter) source(s rowGroupOf, data []byte) error {
	ch := &s.chunks[c.leaf.Index]
	r := &reader{source: s, chunk: ch, dictionary: &sourceDictionary{}}
	if ch.dictionary > 0 {
		d, err := c.dictionary(data[:ch.dictionary])
		if err != nil {
			return c.where(s, 0, err)
		}
		r.dictionary = d
	}
	if raw := s.in.indexOf(ch.offsetIndex); raw != nil {
		if places, err := footer.OffsetIndex(raw); err == nil { // One that cannot be read is no offset index.
			r.places = places
		}
	}
	for pos := int(ch.dictionary); pos < len(data); {
		h, body, err := splitPage(data[pos:])
		if err == nil {
			err = c.dataPageOf(r, h, data[pos:pos+h.Length], body, ch.offset+int64(pos))
		}
		if err != nil {
			return c.where(s, len(r.infos), err)
		}
		pos += h.Length + len(body)
	}
	if r.values != ch.values {
		return c.where(s, len(r.infos), fmt.Errorf("pages of %d values, the footer says %d: %w", r.values, ch.values, footer.ErrMalformed))
	}
	if r.rows != s.rows {
		return c.where(s, len(r.infos), fmt.Errorf("pages of %d rows in a row group of %d: %w", r.rows, s.rows, footer.ErrMalformed))
	}
	c.values += r.values
	c.index(r)
	return nil
}

// dataPageOf copies one data page.
func (c *columnWriter) dataPageOf(r *reader, h footer.Page, header, body []byte, offset int64) error {
	e := h.Encoding()
	switch {
	case h.Type() != footer.DataPage && h.Type() != footer.DataPageV2:
		return decline("a page of type %d among the data", h.Type())
	case !e.Known() || e == footer.BitPacked:
		return decline("a page with encoding %d", e)
	case e.Dictionary() && !r.dictionary.present:
		return fmt.Errorf("a page of dictionary indices without a dictionary: %w", footer.ErrMalformed)
	case h.Values() > r.chunk.values-r.values:
		return fmt.Errorf("a page of %d values where the footer leaves %d: %w", h.Values(), r.chunk.values-r.values, footer.ErrMalformed)
	case h.Values() > encoding.MaxPageValues:
		return decline("a page of %d values", h.Values())
	}
	p := page{Page: h, body: body, nonNull: -1, rows: -1, aligned: true}
	if err := c.countRows(r, &p, offset); err != nil {
		return err
	}
	c.locations = append(c.locations, footer.Location{Offset: c.out.size, FirstRow: c.rows + r.rows})
	c.noPlaces = c.noPlaces || !p.aligned
	r.values += h.Values()
	r.rows += p.rows
	// The header changes when the page is made anew, so what it says is taken before.
	info := c.pageBounds(r, &p)
	before := c.out.size
	if err := c.write(r, &p, header); err != nil {
		return err
	}
	c.locations[len(c.locations)-1].Bytes = c.out.size - before
	if info.Nulls < 0 && p.nonNull >= 0 {
		info.Nulls = h.Values() - int64(p.nonNull)
	}
	r.infos = append(r.infos, info)
	c.encoded(footer.RLE)
	if h.Type() == footer.DataPage {
		def, rep := h.LevelEncodings()
		if (c.maxDef > 0 && def != footer.RLE) || (c.leaf.MaxRep > 0 && rep != footer.RLE) {
			c.encoded(footer.BitPacked)
		}
	}
	return nil
}

// page is a data page. plain is its decompressed form, levels apart from values, once it is needed.
type page struct {
	footer.Page
	body []byte
	// levels are the bytes of both levels as they lie in front of the values; rep and def are their streams.
	split            bool
	levels, rep, def []byte
	values           []byte
	// nonNull is the number of values that are present, rows the number of rows that begin; -1 when not counted.
	nonNull int
	rows    int64
	// aligned says that the page begins with a row.
	aligned bool
}

// open decompresses a page and takes it apart.
func (c *columnWriter) open(p *page) error {
	if p.split {
		return nil
	}
	p.split = true
	if p.Type() == footer.DataPageV2 {
		return c.openV2(p)
	}
	def, rep := p.LevelEncodings()
	if (c.maxDef > 0 && def != footer.RLE) || (c.leaf.MaxRep > 0 && rep != footer.RLE) {
		return decline("levels with encoding %d and %d", def, rep)
	}
	body, err := c.tools.decompress.Decompress(c.tools.body, p.body, c.tools.codec, int(p.Body()))
	if err != nil {
		return err
	}
	if c.tools.codec != encoding.Uncompressed {
		c.tools.body = body
	}
	rest := body
	if c.leaf.MaxRep > 0 {
		if p.rep, rest, err = encoding.SplitPrefixed(rest); err != nil {
			return err
		}
	}
	if c.maxDef > 0 {
		if p.def, rest, err = encoding.SplitPrefixed(rest); err != nil {
			return err
		}
	}
	p.levels, p.values = body[:len(body)-len(rest)], rest
	return nil
}

func (c *columnWriter) openV2(p *page) error {
	v := p.V2()
	n := v.RepBytes + v.DefBytes
	if v.RepBytes < 0 || v.DefBytes < 0 || n > int64(len(p.body)) || n > p.Body() {
		return fmt.Errorf("levels of %d and %d bytes in a page of %d: %w", v.RepBytes, v.DefBytes, len(p.body), footer.ErrMalformed)
	}
	p.levels = p.body[:n]
	p.rep, p.def = p.levels[:v.RepBytes], p.levels[v.RepBytes:]
	codec := c.tools.codec
	if !v.Compressed {
		codec = encoding.Uncompressed
	}
	values, err := c.tools.decompress.Decompress(c.tools.body, p.body[n:], codec, int(p.Body()-n))
	if err != nil {
		return err
	}
	if codec != encoding.Uncompressed {
		c.tools.body = values
	}
	p.values = values
	return nil
}

// countRows finds the number of rows that begin in a page: from its values, its header, the offset index, or by its repetition levels.
func (c *columnWriter) countRows(r *reader, p *page, offset int64) error {
	n := len(r.infos)
	switch {
	case c.leaf.MaxRep == 0:
		p.rows = p.Values()
		return nil
	case p.Type() == footer.DataPageV2:
		p.rows = p.V2().Rows
		if p.rows < 0 || p.rows > p.Values() {
			return fmt.Errorf("a page of %d rows and %d values: %w", p.rows, p.Values(), footer.ErrMalformed)
		}
		return nil
	case n < len(r.places) && r.places[n].Offset == offset && r.places[n].FirstRow == r.rows && !p.Encoding().Dictionary():
		next := r.source.rows
		if n+1 < len(r.places) {
			next = r.places[n+1].FirstRow
		}
		if p.rows = next - r.rows; p.rows < 0 || p.rows > p.Values() {
			return fmt.Errorf("an offset index with %d rows in a page of %d values: %w", p.rows, p.Values(), footer.ErrMalformed)
		}
		return nil
	}
	if err := c.open(p); err != nil {
		return err
	}
	levels, err := encoding.DecodeLevels(c.tools.levels, p.rep, uint8(c.leaf.MaxRep), int(p.Values()))
	if err != nil {
		return err
	}
	c.tools.levels = levels
	p.rows, p.aligned = 0, len(levels) == 0 || levels[0] == 0
	for _, l := range levels {
		if l == 0 {
			p.rows++
		}
	}
	return nil
}

// write copies a page as it is, or made anew.
func (c *columnWriter) write(r *reader, p *page, header []byte) error {
	t := &c.proof[c.leaf.Index]
	if !p.Encoding().Dictionary() {
		t.in += xxh3.Hash(p.body)
		err := c.page(p.Type(), p.Encoding(), header, p.body, p.Body())
		t.out += xxh3.Hash(p.body)
		return err
	}
	if err := c.open(p); err != nil {
		return err
	}
	p.nonNull = int(p.Values())
	if c.maxDef > 0 {
		n, err := encoding.CountLevels(p.def, encoding.LevelWidth(int(c.maxDef)), int(p.Values()), uint8(c.maxDef))
		if err != nil {
			return err
		}
		p.nonNull = n
	}
	width, stream, err := encoding.SplitIndices(p.values)
	if err != nil {
		return err
	}
	if c.tools.indices, err = encoding.DecodeIndices(c.tools.indices, stream, width, p.nonNull); err != nil {
		return err
	}
	sum, err := hashIndices(c.tools.indices, r.dictionary.hashes)
	if err != nil {
		return err
	}
	t.in += sum
	switch {
	case c.merged.full:
		return c.expand(r, p)
	case r.dictionary.identity:
		t.out += sum // The bytes are the same, and so are the entries: see dictionaries.
		return c.page(p.Type(), p.Encoding(), header, p.body, p.Body())
	}
	return c.remap(r, p, encoding.Remap{FromWidth: width, ToWidth: encoding.IndexWidth(c.merged.dictionary.Len()), Table: r.dictionary.remap}, stream)
}

// remap writes a page with the indices of the merged dictionary, and decodes them again for the proof.
func (c *columnWriter) remap(_ *reader, p *page, m encoding.Remap, stream []byte) error {
	made := append(append(c.tools.made[:0], p.levels...), byte(m.ToWidth))
	made, err := encoding.RemapIndices(made, stream, p.nonNull, m)
	if err != nil {
		return err
	}
	c.tools.made = made
	again, err := encoding.DecodeIndices(c.tools.indices, made[len(p.levels)+1:], m.ToWidth, p.nonNull)
	if err != nil {
		return err
	}
	sum, err := hashIndices(again, c.merged.hashes)
	if err != nil {
		return err
	}
	c.proof[c.leaf.Index].out += sum
	return c.anew(p, footer.RLEDictionary)
}

// expand writes a page with the values in place of the indices, and reads them again for the proof.
func (c *columnWriter) expand(r *reader, p *page) error {
	made, err := r.dictionary.entries.Expand(append(c.tools.made[:0], p.levels...), c.tools.indices)
	if err != nil {
		return err
	}
	c.tools.made = made
	sum, err := hashPlain(made[len(p.levels):], valueWidth(c.leaf), p.nonNull)
	if err != nil {
		return err
	}
	c.proof[c.leaf.Index].out += sum
	return c.anew(p, footer.Plain)
}

// anew compresses the page in tools.made and writes it under the old page's header, which keeps all that the values did not change.
func (c *columnWriter) anew(p *page, e footer.Encoding) error {
	made, levels := c.tools.made, 0
	if p.Type() == footer.DataPageV2 {
		levels = len(p.levels)
	}
	packed, err := c.tools.compress.Append(append(c.tools.packed[:0], made[:levels]...), made[levels:])
	if err != nil {
		return err
	}
	c.tools.packed = packed
	p.Recode(e, len(made), len(packed), crc32.ChecksumIEEE(packed), true)
	c.tools.header = footer.Append(c.tools.header[:0], p.Struct)
	return c.page(p.Type(), e, c.tools.header, packed, int64(len(made)))
}

// hashIndices sums the hashes of the entries that indices name; an index beyond the dictionary is a fault.
func hashIndices(indices []uint32, hashes []uint64) (sum uint64, err error) {
	for _, i := range indices {
		if int(i) >= len(hashes) {
			return 0, fmt.Errorf("index %d in a dictionary of %d: %w", i, len(hashes), encoding.ErrCorrupt)
		}
		sum += hashes[i]
	}
	return sum, nil
}

// hashPlain sums the hashes of n PLAIN values.
func hashPlain(data []byte, width, n int) (sum uint64, err error) {
	for range n {
		size := width
		if width == encoding.ByteArray {
			if len(data) < 4 {
				return 0, encoding.ErrCorrupt
			}
			size = int(binary.LittleEndian.Uint32(data))
			data = data[4:]
		}
		if size > len(data) {
			return 0, encoding.ErrCorrupt
		}
		sum += xxh3.Hash(data[:size])
		data = data[size:]
	}
	if len(data) != 0 {
		return 0, encoding.ErrCorrupt
	}
	return sum, nil
}
