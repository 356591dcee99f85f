package chunk

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/frames"
)

// Options say how a chunk is written.
type Options struct {
	// Compressor compresses pages; it may be shared by writers of one goroutine.
	Compressor *encoding.Compressor
	// PageBytes and PageRows end a page, at the next row; DictBytes bounds a dictionary that is built. All must be above 0.
	PageBytes, PageRows, DictBytes int
	// Dictionary is a finished dictionary, which is written first. Vectors may refer to it or to another one whose entries are all in it.
	Dictionary *encoding.Dictionary
	// Build makes a dictionary of the values when none is given. As parquet-mr does it gives the dictionary up when it saves nothing in the first
	// page, and begins PLAIN pages when it is full. Until then pages wait in memory. Without it values are written PLAIN.
	Build bool
	// Hash is called with the hash (XXH64 of the PLAIN form without a length, as bloom filters want it) of each value that is encoded, or of each
	// entry of the dictionary. Values of pages that pass through are the caller's to hash.
	Hash func(uint64)
}

// Writer writes column chunks one after the other. The zero value is ready for Open; its buffers serve all chunks.
type Writer struct {
	out     io.Writer
	start   int64
	column  Column
	options Options
	width   int

	// The open page: levels and values that are not written yet. coded says that values are indices.
	rep, def []uint8
	plain    []byte
	indices  []uint32
	coded    bool
	entries  int
	rows     int
	values   int
	aligned  bool
	// front is the length of the levels in body.
	front int
	// origin is the page that the open page's values come from, if it is one, and places are where they lie among its values.
	origin origin
	places []encoding.Span
	pieces []frames.Piece

	dictionary dictionary
	// pending are pages that wait for the dictionary; body, packed and header are buffers of one page.
	pending, body, packed, header []byte
	// expanded are values of a dictionary, scratch indices, used marks entries of a page.
	expanded []byte
	scratch  []uint32
	used     []bool
	state
}

// state is what is known of the chunk so far.
type state struct {
	// written is the length of the data pages, headers included, dictionaryBytes that of the dictionary page.
	written, dictionaryBytes int64
	raw                      int64
	rowsDone, valuesDone     int64
	nulls, nans              int64
	noNulls                  bool
	encodings                []footer.Encoding
	counts                   []pageCount
	locations                []footer.Location // from the first data page on
	bounds                   []footer.Bounds
	noPlaces, noBounds       bool
	limits                   encoding.Bounds
	sum, copied              uint64
	trial, indexTrial        encoding.Trial
}

// pageCount is one line of the chunk's encoding statistics.
type pageCount struct {
	kind     footer.PageType
	encoding footer.Encoding
	pages    int64
}

// Open begins a chunk at an offset of the file that out writes.
func (w *Writer) Open(out io.Writer, offset int64, c *Column, o Options) error {
	if err := c.check(); err != nil {
		return err
	}
	if o.Compressor == nil || o.PageBytes <= 0 || o.PageRows <= 0 || (o.Build && o.DictBytes <= 0) {
		return fmt.Errorf("begin a chunk with pages of %d bytes and %d rows, a dictionary of %d bytes: no limits", o.PageBytes, o.PageRows, o.DictBytes)
	}
	w.out, w.start, w.column, w.options, w.width = out, offset, *c, o, c.ValueWidth()
	w.state = state{limits: encoding.NewBounds(c.Order, w.width)}
	w.pending = w.pending[:0]
	w.clear()
	return w.openDictionary()
}

// clear empties the open page.
func (w *Writer) clear() {
	w.rep, w.def, w.plain, w.indices = w.rep[:0], w.def[:0], w.plain[:0], w.indices[:0]
	w.coded, w.aligned, w.entries, w.rows, w.values = false, false, 0, 0, 0
}

// Raw is a page that passes through as it is.
type Raw struct {
	footer.Page
	// Header and Body are its bytes.
	Header, Body []byte
	// Rows is the number of rows that begin in it; Aligned says that the first entry begins one.
	Rows    int64
	Aligned bool
	// Bounds are its statistics: Nulls is -1 and both bounds are nil when unknown.
	Bounds footer.Bounds
}

// Copy ends the open page and writes one that passes through. The chunk's bounds do not take it in: see MergeBounds.
func (w *Writer) Copy(p Raw) error {
	if p.Encoding().Dictionary() && !w.dictionary.given {
		return errors.New("copy a page of dictionary indices into a chunk without that dictionary")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if w.options.Build && !w.dictionary.done { // A built dictionary would come behind the page.
		if err := w.endDictionary(); err != nil {
			return err
		}
	}
	w.levelEncodings(p.Page)
	w.locate(int64(len(p.Header)+len(p.Body)), p.Rows, p.Aligned)
	w.note(p.Bounds, p.Values())
	w.copied += hashBytes(p.Body)
	return w.page(p.Page, p.Header, p.Body)
}

// Recode ends the open page and writes one that was made from a source page: levels are as in the source, values encoded anew. p.Page is the
// source's header, which is changed to fit; p.Header and p.Body are not read.
func (w *Writer) Recode(p Raw, e footer.Encoding, levels, values []byte) (err error) {
	if err = w.Flush(); err != nil {
		return err
	}
	w.body = append(append(w.body[:0], levels...), values...)
	front := 0
	if p.Type() == footer.DataPageV2 {
		front = len(levels)
	}
	packed := append(w.packed[:0], w.body[:front]...)
	if e.Dictionary() {
		packed, err = w.options.Compressor.AppendIndices(packed, w.body[front:], &w.indexTrial)
	} else {
		packed, err = w.options.Compressor.Append(packed, w.body[front:])
	}
	if err != nil {
		return err
	}
	w.packed = packed
	p.Recode(e, len(w.body), len(packed), crc32.ChecksumIEEE(packed), true)
	w.header = footer.Append(w.header[:0], p.Struct)
	p.Header, p.Body = w.header, packed
	copied := w.copied
	err = w.Copy(p)
	w.copied = copied // Only bytes of a source count.
	return err
}

// MergeBounds takes the bounds of pages that pass through into those of the chunk; unknown ones (nil) make the chunk's unknown.
func (w *Writer) MergeBounds(lower, upper []byte) {
	if lower == nil || upper == nil {
		w.limits.Lose()
		return
	}
	w.limits.Merge(lower, upper)
}

// Begun says that entries wait in the open page.
func (w *Writer) Begun() bool { return w.entries > 0 }

// SetNulls makes n the chunk's null count, for callers who know it although pages that passed through do not tell; -1 leaves it out.
func (w *Writer) SetNulls(n int64) { w.nulls, w.noNulls = n, n < 0 }

// Nulls is the number of nulls of the pages that are written; -1 when one that passed through did not tell.
func (w *Writer) Nulls() int64 {
	if w.noNulls {
		return -1
	}
	return w.nulls
}

// SizeBytes is how far the chunk is written, pages that wait for a dictionary included and the open page not.
func (w *Writer) SizeBytes() int64 { return w.dictionaryBytes + w.written }

// page writes or keeps a page, and counts it.
func (w *Writer) page(h footer.Page, header, body []byte) error {
	w.raw += int64(len(header)) + h.Body()
	kind, e := h.Type(), h.Encoding()
	at := -1
	for i := range w.counts {
		if w.counts[i].kind == kind && w.counts[i].encoding == e {
			at = i
		}
	}
	if at < 0 {
		at = len(w.counts)
		w.counts = append(w.counts, pageCount{kind: kind, encoding: e})
	}
	w.counts[at].pages++
	w.encoded(e)
	n := int64(len(header) + len(body))
	if kind == footer.DictionaryPage {
		w.dictionaryBytes = n
	} else {
		w.written += n
		if w.waiting() {
			w.pending = append(append(w.pending, header...), body...)
			return nil
		}
	}
	if _, err := w.out.Write(header); err != nil {
		return err
	}
	_, err := w.out.Write(body)
	return err
}

func (w *Writer) encoded(e footer.Encoding) {
	if !slices.Contains(w.encodings, e) {
		w.encodings = append(w.encodings, e)
	}
}

// levelEncodings notes how the levels of a source page are encoded.
func (w *Writer) levelEncodings(p footer.Page) {
	w.encoded(footer.RLE)
	if p.Type() == footer.DataPage {
		def, rep := p.LevelEncodings()
		if (w.column.MaxDef > 0 && def != footer.RLE) || (w.column.MaxRep > 0 && rep != footer.RLE) {
			w.encoded(footer.BitPacked)
		}
	}
}

// locate notes the place of the next page.
func (w *Writer) locate(sizeBytes, rows int64, aligned bool) {
	w.locations = append(w.locations, footer.Location{Offset: w.written, Bytes: sizeBytes, FirstRow: w.rowsDone})
	w.noPlaces = w.noPlaces || !aligned
	w.rowsDone += rows
}
