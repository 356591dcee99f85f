package chunk

import (
	"fmt"
	"hash/crc32"
	"io"

	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// Meta is what a file's footer says of a chunk.
type Meta struct {
	Codec encoding.Codec
	// Values is the number of entries; Rows that of the row group, or -1 when it is not to be compared.
	Values, Rows int64
}

// Reader reads column chunks one after the other. The zero value is ready for Open. Its decoders and buffers serve all chunks.
type Reader struct {
	column     Column
	meta       Meta
	data       []byte
	at         int
	page       Page
	dictionary *encoding.Entries
	// values and rows are those of the pages before the current one; rows is -1 once they are not known.
	values, rows int64
	decompress   encoding.Decompressor
	// body holds a data page's decompressed form, entries the dictionary's, levels repetition levels that are only counted.
	body, entries []byte
	levels        []uint8
}

// Open begins with a chunk: data are its bytes from the dictionary page, or else the first data page, to its end. They must stay as they are
// until the last page was read.
func (r *Reader) Open(c *Column, data []byte, m Meta) error {
	if err := c.check(); err != nil {
		return err
	}
	r.column, r.data, r.meta, r.at, r.values, r.rows, r.dictionary = *c, data, m, 0, 0, 0, nil
	r.page = Page{}
	if len(data) == 0 {
		return nil
	}
	h, body, err := SplitPage(data)
	if err != nil {
		return err
	}
	if h.Type() != footer.DictionaryPage {
		return nil
	}
	if err := r.readDictionary(h, body); err != nil {
		return fmt.Errorf("read the dictionary: %w", err)
	}
	r.at = h.Length + len(body)
	return nil
}

// readDictionary takes a dictionary page apart.
func (r *Reader) readDictionary(h footer.Page, body []byte) error {
	if e := h.Encoding(); (e != footer.Plain && e != footer.PlainDictionary) || r.column.Type == footer.Boolean {
		return fmt.Errorf("a dictionary of %s with encoding %d: %w", r.column.Type, e, encoding.ErrUnsupported)
	}
	page, err := r.decompress.Decompress(r.entries, body, r.meta.Codec, int(h.Body()))
	if err != nil {
		return err
	}
	if r.meta.Codec != encoding.Uncompressed {
		r.entries = page
	}
	e, err := encoding.ParseEntries(page, r.column.ValueWidth(), int(h.Values()))
	r.dictionary = &e
	return err
}

// Dictionary is the chunk's dictionary, nil when it has none. It is valid until the next Open.
func (r *Reader) Dictionary() *encoding.Entries { return r.dictionary }

// Next goes to the next data page; io.EOF says that there is none, and that the sums of all pages are what the footer says. The page is valid
// until the next call.
func (r *Reader) Next() (*Page, error) {
	r.leave()
	p := &r.page
	if r.at == len(r.data) {
		switch {
		case r.values != r.meta.Values:
			return nil, corrupt("pages of %d values, the footer says %d", r.values, r.meta.Values)
		case r.rows >= 0 && r.meta.Rows >= 0 && r.rows != r.meta.Rows:
			return nil, corrupt("pages of %d rows in a row group of %d", r.rows, r.meta.Rows)
		}
		return nil, io.EOF
	}
	h, body, err := SplitPage(r.data[r.at:])
	if err != nil {
		return nil, err
	}
	*p = Page{Page: h, Header: r.data[r.at : r.at+h.Length], Body: body, Offset: int64(r.at), FirstRow: r.rows, Rows: -1, Aligned: true, Present: -1}
	e := h.Encoding()
	left := r.meta.Values - r.values
	switch {
	case h.Type() != footer.DataPage && h.Type() != footer.DataPageV2:
		return nil, fmt.Errorf("a page of type %d among the data: %w", h.Type(), encoding.ErrUnsupported)
	case !e.Known() || e == footer.BitPacked:
		return nil, fmt.Errorf("a page with encoding %d: %w", e, encoding.ErrUnsupported)
	case e.Dictionary() && r.dictionary == nil:
		return nil, corrupt("a page of dictionary indices without a dictionary")
	case h.Values() > left:
		return nil, corrupt("a page of %d values where the footer leaves %d", h.Values(), left)
	case h.Values() > encoding.MaxPageValues:
		return nil, fmt.Errorf("a page of %d values: %w", h.Values(), encoding.ErrTooLarge)
	}
	if r.column.MaxRep == 0 {
		p.Rows = h.Values()
	} else if h.Type() == footer.DataPageV2 {
		if p.Rows = h.V2().Rows; p.Rows < 0 || p.Rows > h.Values() {
			return nil, corrupt("a page of %d rows and %d values", p.Rows, h.Values())
		}
	}
	if h.Type() == footer.DataPageV2 {
		return p, p.splitV2()
	}
	return p, nil
}

// leave adds the current page to the sums.
func (r *Reader) leave() {
	p := &r.page
	if p.Struct == nil {
		return
	}
	r.values += p.Values()
	r.at += len(p.Header) + len(p.Body)
	if p.Rows < 0 || r.rows < 0 {
		r.rows = -1
	} else {
		r.rows += p.Rows
	}
	*p = Page{}
}

// SplitPage takes the page at the front of data apart and compares its checksum.
func SplitPage(data []byte) (h footer.Page, body []byte, err error) {
	h, err = footer.DecodePage(data)
	if err != nil {
		return h, nil, err
	}
	size := h.CompressedBody()
	if size > int64(len(data)-h.Length) {
		return h, nil, fmt.Errorf("a page of %d bytes where %d are left: %w", size, len(data)-h.Length, footer.ErrMalformed)
	}
	body = data[h.Length : h.Length+int(size)]
	if crc, ok := h.CRC(); ok && crc != crc32.ChecksumIEEE(body) {
		return h, nil, fmt.Errorf("the page's checksum is %08x, its bytes have %08x: %w", crc, crc32.ChecksumIEEE(body), footer.ErrMalformed)
	}
	return h, body, nil
}
