package chunk

import (
	"bytes"
	"fmt"

	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// Page is a data page of a source chunk.
type Page struct {
	footer.Page
	// Header and Body are its bytes as they lie in the file; Offset is where the header begins in the chunk's bytes.
	Header, Body []byte
	Offset       int64
	// FirstRow is the number of rows that begin before it in the chunk; -1 when a page before was not counted.
	FirstRow int64
	// Rows is the number of rows that begin in it, -1 as long as nobody counted them: Reader.CountRows does, or a caller who knows.
	Rows int64
	// Aligned says that the page begins with a row. A page whose rows were not counted from its levels is taken to.
	Aligned bool
	// Present is the number of values that are there, -1 when not counted.
	Present int

	split            bool
	levels, rep, def []byte
	values           []byte
}

// Levels and Content are the decompressed page once Reader.Split was called: both levels as they lie in front of the values, and the values.
func (p *Page) Levels() []byte { return p.levels }

// Content is the encoded values, decompressed.
func (p *Page) Content() []byte { return p.values }

// splitV2 takes the levels of a version 2 page, which are not compressed.
func (p *Page) splitV2() error {
	v := p.V2()
	n := v.RepBytes + v.DefBytes
	if v.RepBytes < 0 || v.DefBytes < 0 || n > int64(len(p.Body)) || n > p.Page.Body() {
		return corrupt("levels of %d and %d bytes in a page of %d", v.RepBytes, v.DefBytes, len(p.Body))
	}
	p.levels = p.Body[:n]
	p.rep, p.def = p.levels[:v.RepBytes], p.levels[v.RepBytes:]
	return nil
}

// Split decompresses the page and takes levels and values apart. What it finds is valid until the next page is.
func (r *Reader) Split(p *Page) error {
	if p.split {
		return nil
	}
	codec, packed, size := r.meta.Codec, p.Body, p.Page.Body()
	if p.Type() == footer.DataPageV2 {
		packed, size = packed[len(p.levels):], size-int64(len(p.levels))
		if !p.V2().Compressed {
			codec = encoding.Uncompressed
		}
	} else if def, rep := p.LevelEncodings(); (r.column.MaxDef > 0 && def != footer.RLE) || (r.column.MaxRep > 0 && rep != footer.RLE) {
		return fmt.Errorf("levels with encoding %d and %d: %w", def, rep, encoding.ErrUnsupported)
	}
	body, err := r.decompress.Decompress(r.body, packed, codec, int(size))
	if err != nil {
		return err
	}
	if codec != encoding.Uncompressed {
		r.body = body
	}
	p.values = body
	if p.Type() == footer.DataPage {
		if r.column.MaxRep > 0 {
			if p.rep, p.values, err = encoding.SplitPrefixed(p.values); err != nil {
				return err
			}
		}
		if r.column.MaxDef > 0 {
			if p.def, p.values, err = encoding.SplitPrefixed(p.values); err != nil {
				return err
			}
		}
		p.levels = body[:len(body)-len(p.values)]
	}
	p.split = true
	return nil
}

// CountRows finds the number of rows that begin in the page, where it is not known, and whether the first entry begins one.
func (r *Reader) CountRows(p *Page) error {
	if p.Rows >= 0 {
		return nil
	}
	if err := r.Split(p); err != nil {
		return err
	}
	levels, err := encoding.DecodeLevels(r.levels, p.rep, r.column.MaxRep, int(p.Values()))
	if err != nil {
		return err
	}
	r.levels = levels
	p.Rows, p.Aligned = rowsOf(levels)
	return nil
}

// rowsOf counts the rows that begin; aligned says that the first entry begins one.
func rowsOf(rep []uint8) (rows int64, aligned bool) {
	rows = int64(bytes.Count(rep, []byte{0}))
	return rows, len(rep) == 0 || rep[0] == 0
}

// CountPresent finds the number of values that are there, without decoding them.
func (r *Reader) CountPresent(p *Page) error {
	if p.Present >= 0 {
		return nil
	}
	if r.column.MaxDef == 0 {
		p.Present = int(p.Values())
		return nil
	}
	if p.Type() == footer.DataPage { // The levels of version 2 are there already.
		if err := r.Split(p); err != nil {
			return err
		}
	}
	n, err := encoding.CountLevels(p.def, encoding.LevelWidth(int(r.column.MaxDef)), int(p.Values()), r.column.MaxDef)
	p.Present = n
	return err
}

// Indices returns the dictionary indices of a page, levels aside, as they are encoded: their bit width and a hybrid stream of p.Present values. That
// each is within the dictionary is for the caller to see.
func (r *Reader) Indices(p *Page) (width int, stream []byte, err error) {
	if err := r.Split(p); err != nil {
		return 0, nil, err
	}
	if err := r.CountPresent(p); err != nil {
		return 0, nil, err
	}
	return encoding.SplitIndices(p.values)
}

// Decode fills v with the page. Values of PLAIN pages share the page's memory, so they are valid as long as it is.
func (r *Reader) Decode(p *Page, v *Vector) error {
	v.Reset()
	if err := r.Split(p); err != nil {
		return err
	}
	if err := r.decodeLevels(p, v); err != nil {
		return err
	}
	if p.Encoding().Dictionary() {
		width, stream, err := r.Indices(p)
		if err != nil {
			return err
		}
		indices, err := encoding.DecodeIndices(v.Indices, stream, width, p.Present)
		if err != nil {
			return err
		}
		var highest uint32
		for _, i := range indices {
			highest = max(highest, i)
		}
		if len(indices) > 0 && int(highest) >= r.dictionary.Len() {
			return corrupt("index %d in a dictionary of %d", highest, r.dictionary.Len())
		}
		v.Indices, v.Dictionary = indices, r.dictionary
		return nil
	}
	return r.decodeValues(p, v)
}

func (r *Reader) decodeLevels(p *Page, v *Vector) (err error) {
	c := &r.column
	v.Entries = int(p.Values())
	v.Values, v.Rows = v.Entries, v.Entries
	if c.MaxRep > 0 {
		if v.Rep, err = encoding.DecodeLevels(v.Rep, p.rep, c.MaxRep, v.Entries); err != nil {
			return err
		}
		rows, aligned := rowsOf(v.Rep)
		if p.Rows >= 0 && p.Rows != rows {
			return corrupt("levels of %d rows in a page of %d", rows, p.Rows)
		}
		p.Rows, p.Aligned, v.Rows = rows, aligned, int(rows)
	}
	if c.MaxDef > 0 {
		if v.Def, err = encoding.DecodeLevels(v.Def, p.def, c.MaxDef, v.Entries); err != nil {
			return err
		}
		v.Values = bytes.Count(v.Def, []byte{c.MaxDef})
	}
	p.Present = v.Values
	return nil
}

// decodeValues decodes values of every encoding but the dictionary's into PLAIN.
func (r *Reader) decodeValues(p *Page, v *Vector) (err error) {
	n, width, e := v.Values, r.column.ValueWidth(), p.Encoding()
	if n == 0 && len(p.values) == 0 {
		return nil
	}
	number := r.column.Type == footer.Int32 || r.column.Type == footer.Int64
	switch {
	case e == footer.Plain && r.column.Type == footer.Boolean:
		v.own, err = encoding.DecodeBooleans(v.own, p.values, n)
	case e == footer.Plain:
		v.Plain = p.values
		v.origin = r.originOf(p)
		return checkPlain(p.values, width, n)
	case e == footer.RLE && r.column.Type == footer.Boolean:
		var stream, rest []byte
		if stream, rest, err = encoding.SplitPrefixed(p.values); err == nil && len(rest) > 0 {
			err = corrupt("%d bytes behind the booleans", len(rest))
		}
		if err == nil {
			v.own, err = encoding.DecodeLevels(v.own, stream, 1, n)
		}
	case e == footer.DeltaBinary && number:
		v.own, err = encoding.DecodeDelta(v.own[:0], p.values, width, n)
	case e == footer.DeltaLength && width == encoding.ByteArray:
		v.own, err = encoding.DecodeDeltaLength(v.own[:0], p.values, n)
	case e == footer.DeltaByteArray && (width == encoding.ByteArray || r.column.Type == footer.Fixed):
		v.own, err = encoding.DecodeDeltaByteArray(v.own[:0], p.values, width, n)
	case e == footer.ByteStreamSplit && width > 1:
		v.own, err = encoding.DecodeStreamSplit(v.own[:0], p.values, width, n)
	default:
		return fmt.Errorf("values of %s with encoding %d: %w", r.column.Type, e, encoding.ErrUnsupported)
	}
	v.Plain = v.own
	return err
}

// originOf is the page's compressed body.
func (r *Reader) originOf(p *Page) origin {
	switch {
	case r.meta.Codec != encoding.Zstd:
	case p.Type() == footer.DataPage:
		return origin{frame: p.Body, size: int(p.Page.Body()), front: len(p.levels)}
	case p.V2().Compressed:
		return origin{frame: p.Body[len(p.levels):], size: len(p.values)}
	}
	return origin{}
}

// checkPlain says whether n values fill data.
func checkPlain(data []byte, width, n int) error {
	if width != encoding.ByteArray {
		if len(data)%width != 0 || len(data)/width != n {
			return corrupt("%d values of %d bytes in %d", n, width, len(data))
		}
		return nil
	}
	var err error
	for range n {
		if _, data, err = encoding.NextByteArray(data); err != nil {
			return err
		}
	}
	if len(data) != 0 {
		return corrupt("%d bytes behind %d byte arrays", len(data), n)
	}
	return nil
}
