package chunk

import (
	"hash/crc32"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"

	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/frames"
)

func hashBytes(b []byte) uint64 { return xxh3.Hash(b) }

func bloomHash(value []byte) uint64 { return xxhash.Sum64(value) }

// Flush writes the open page, if it has an entry: a version 1 page.
func (w *Writer) Flush() error {
	if w.entries == 0 {
		return nil
	}
	if err := w.encode(); err != nil {
		return err
	}
	e, packed, err := w.compress()
	if err != nil {
		return err
	}
	w.packed = packed
	h := footer.NewDataPage(footer.PageForm{
		Values: w.entries, Encoding: e, Body: len(w.body), CompressedBody: len(packed), CRC: crc32.ChecksumIEEE(packed),
	})
	w.header = footer.Append(w.header[:0], h.Struct)
	b, err := w.pageBounds()
	if err != nil {
		return err
	}
	w.encoded(footer.RLE)
	w.locate(int64(len(w.header)+len(packed)), int64(w.rows), w.aligned)
	w.note(b, int64(w.entries))
	err = w.page(h, w.header, packed)
	w.clear()
	return err
}

// compress makes the compressed body of the open page.
func (w *Writer) compress() (e footer.Encoding, packed []byte, err error) {
	c := w.options.Compressor
	switch {
	case w.coded:
		packed, err = c.AppendIndices(w.packed[:0], w.body, &w.indexTrial)
		return footer.RLEDictionary, packed, err
	case w.origin.frame != nil:
		if packed, ok := c.AppendFormed(w.packed[:0], w.body, w.front, w.width, &w.trial); ok {
			return footer.Plain, packed, nil
		}
		at := w.front
		w.pieces = w.pieces[:0]
		for _, s := range w.places {
			w.pieces = append(w.pieces, frames.Piece{From: w.origin.front + s.From, To: w.origin.front + s.To, At: at})
			at += s.To - s.From
		}
		packed, err = c.AppendPieces(w.packed[:0], w.body, w.origin.frame, w.origin.size, w.pieces)
	default:
		packed, err = c.AppendFixed(w.packed[:0], w.body, w.front, w.width, &w.trial)
	}
	return footer.Plain, packed, err
}

// encode makes the page's body, and sums up what it holds by reading it again.
func (w *Writer) encode() (err error) {
	w.body = w.body[:0]
	if w.column.MaxRep > 0 {
		if err = w.encodeLevels(w.rep, w.column.MaxRep); err != nil {
			return err
		}
	}
	if w.column.MaxDef > 0 {
		if err = w.encodeLevels(w.def, w.column.MaxDef); err != nil {
			return err
		}
	}
	w.sum += sumLevels(w.rep, w.def)
	if w.coded {
		if coded, err := w.encodeIndices(); err != nil || coded {
			return err
		}
	}
	w.front = len(w.body)
	if w.column.Type == footer.Boolean {
		w.body = encoding.EncodeBooleans(w.body, w.plain)
	} else {
		w.body = append(w.body, w.plain...)
	}
	return w.sumPlain(w.body[w.front:])
}

// encodeLevels appends levels behind their length.
func (w *Writer) encodeLevels(levels []uint8, highest uint8) (err error) {
	w.packed, err = encoding.EncodeLevels(w.packed[:0], levels, highest)
	if err == nil {
		w.body = encoding.AppendPrefixed(w.body, w.packed)
	}
	return err
}

// encodeIndices appends the values as indices. It answers false when the dictionary saved nothing and was given up; then the values are PLAIN.
func (w *Writer) encodeIndices() (coded bool, err error) {
	d, front := &w.dictionary, len(w.body)
	width := encoding.IndexWidth(d.Len())
	if w.body, err = encoding.EncodeIndices(append(w.body, byte(width)), w.indices, width); err != nil {
		return false, err
	}
	if !d.kept && !w.saves(len(w.body)-front) {
		w.body, w.coded, d.done = w.body[:front], false, true
		w.plain, err = d.Expand(w.plain, w.indices)
		w.indices = w.indices[:0]
		return false, err
	}
	d.kept = true
	for i := len(d.hashes); i < d.Len(); i++ {
		d.hashes = append(d.hashes, HashValue(d.Value(i)))
	}
	sum, err := encoding.SumIndices(w.body[front+1:], width, w.values, d.hashes)
	w.sum += sum
	return true, err
}

func (w *Writer) sumPlain(values []byte) (err error) {
	if w.column.Type == footer.Boolean {
		if w.plain, err = encoding.DecodeBooleans(w.plain, values, w.values); err != nil {
			return err
		}
		values = w.plain
	}
	sum, err := SumPlain(values, w.width, w.values)
	if err != nil {
		return err
	}
	w.sum += sum
	if w.options.Hash == nil {
		return nil
	}
	for len(values) > 0 {
		var value, rest []byte
		if w.width != encoding.ByteArray {
			value, rest = values[:w.width], values[w.width:]
		} else if value, rest, err = encoding.NextByteArray(values); err != nil {
			return err
		}
		w.options.Hash(bloomHash(value))
		values = rest
	}
	return nil
}
