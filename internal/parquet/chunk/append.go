package chunk

import (
	"bytes"
	"encoding/binary"
	"errors"

	"firn/internal/parquet/encoding"
)

// indexBytes is what an index counts for when a page's size is compared with its limit: as parquet-mr counts it.
const indexBytes = 4

// cursor is a place in a vector: an entry, the value that comes next, and where that is among PLAIN bytes.
type cursor struct{ entry, value, at int }

// Append adds a vector. Its entries go into the open page, and pages are written as they fill. A vector may begin within a row, as a page may.
func (w *Writer) Append(v *Vector) error {
	d := &w.dictionary
	if d.takes(v) {
		indices, err := w.code(v)
		if err == nil {
			at, err := w.append(v, nil, indices, true)
			if err != nil || at.entry == v.Entries {
				return err
			}
			return w.expand(v, &d.Entries, indices, at) // Its first page gave the dictionary up.
		}
		if d.given || !errors.Is(err, encoding.ErrDictionaryFull) {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if err := w.endDictionary(); err != nil {
			return err
		}
	}
	if v.Dictionary != nil {
		return w.expand(v, v.Dictionary, v.Indices, cursor{})
	}
	if w.alone(v) {
		return w.appendAlone(v)
	}
	_, err := w.append(v, v.Plain, nil, false)
	return err
}

// alone says that a vector comes from one compressed page, and is to be a page again: nearly full, so that nothing is lost when its neighbours do not
// fill it up. Then it is compressed without a search.
func (w *Writer) alone(v *Vector) bool {
	rows, size := w.options.PageRows, w.options.PageBytes
	return v.origin.frame != nil && len(v.places) > 0 && w.entries == 0 && w.column.MaxRep == 0 && v.Rows <= rows && len(v.Plain) <= size &&
		(2*v.Rows >= rows || 2*len(v.Plain) >= size)
}

// appendAlone writes a vector as a page of its own.
func (w *Writer) appendAlone(v *Vector) error {
	w.origin, w.places = v.origin, v.places
	_, err := w.append(v, v.Plain, nil, false)
	if err == nil {
		err = w.Flush()
	}
	w.origin, w.places = origin{}, nil
	return err
}

// append adds values in the form that they will have. It ends early, at a cursor before the vector's end, when a dictionary was given up.
func (w *Writer) append(v *Vector, plain []byte, indices []uint32, coded bool) (at cursor, err error) {
	if coded != w.coded && w.entries > 0 {
		if err := w.Flush(); err != nil {
			return at, err
		}
	}
	w.coded = coded
	for at.entry < v.Entries {
		to, rows := w.next(v, plain, at)
		if to.entry == at.entry {
			if err := w.Flush(); err != nil || (coded && !w.dictionary.kept) {
				return at, err
			}
			w.coded = coded
			continue
		}
		w.take(v, plain, indices, at, to)
		w.rows += rows
		at = to
	}
	return at, nil
}

// expandBytes is about how many bytes of a dictionary's values are written out at once: a few indices can stand for very many.
const expandBytes = 4 << 20

// expand appends what lies behind a cursor of a vector of indices as PLAIN values.
func (w *Writer) expand(v *Vector, dictionary *encoding.Entries, indices []uint32, at cursor) error {
	for at.entry < v.Entries {
		n, _, err := dictionary.Fit(indices[at.value:], expandBytes)
		if err != nil {
			return err
		}
		if w.expanded, err = dictionary.Expand(w.expanded[:0], indices[at.value:at.value+n]); err != nil {
			return err
		}
		to := cursor{entry: v.Entries, value: len(indices)}
		if at.value+n < len(indices) {
			to = w.skip(v, at, n)
		}
		part := w.part(v, at, to)
		if _, err := w.append(&part, w.expanded, nil, false); err != nil {
			return err
		}
		at = to
	}
	return nil
}

// skip is the cursor behind the next n values, in front of the one that follows.
func (w *Writer) skip(v *Vector, at cursor, n int) cursor {
	if w.column.MaxDef == 0 {
		return cursor{entry: at.entry + n, value: at.value + n}
	}
	for left := n; ; at.entry++ {
		if v.Def[at.entry] != w.column.MaxDef {
			continue
		}
		if left == 0 {
			return at
		}
		left--
		at.value++
	}
}

// part is the piece of a vector between two cursors, without its values.
func (w *Writer) part(v *Vector, from, to cursor) Vector {
	p := Vector{Entries: to.entry - from.entry, Values: to.value - from.value}
	p.Rows = p.Entries
	if w.column.MaxDef > 0 {
		p.Def = v.Def[from.entry:to.entry]
	}
	if w.column.MaxRep > 0 {
		p.Rep = v.Rep[from.entry:to.entry]
		rows, _ := rowsOf(p.Rep)
		p.Rows = int(rows)
	}
	return p
}

// sizeBytes is the size of the open page's values, as far as it is compared with the limit.
func (w *Writer) sizeBytes() int { return len(w.plain) + indexBytes*len(w.indices) }

// next is how far the open page takes the vector from a place on: whole rows until a limit is reached, the rest of a row begun before always. A
// page that is full takes nothing but that.
func (w *Writer) next(v *Vector, plain []byte, from cursor) (to cursor, rows int) {
	room := max(w.options.PageBytes-w.sizeBytes(), 0)
	left := max(w.options.PageRows-w.rows, 0)
	size := len(plain) - from.at
	if w.coded {
		size = indexBytes * (v.Values - from.value)
	}
	if from.entry == 0 && size <= room && v.Rows <= left && room > 0 {
		return cursor{entry: v.Entries, value: v.Values, at: len(plain)}, v.Rows
	}
	width := w.width
	if w.coded {
		width = indexBytes
	}
	if w.column.MaxRep == 0 && room > 0 && left > 0 {
		n := min(left, v.Entries-from.entry)
		to = cursor{entry: from.entry + n, value: from.value + w.present(v, from.entry, from.entry+n)}
		if to.at, size = w.skipBytes(plain, from, to.value); size <= room {
			return to, n
		}
	}
	to, size = from, 0
	for ; to.entry < v.Entries; to.entry++ {
		if w.column.MaxRep == 0 || v.Rep[to.entry] == 0 {
			if rows == left || size >= room {
				break
			}
			rows++
		}
		if w.column.MaxDef > 0 && v.Def[to.entry] != w.column.MaxDef {
			continue
		}
		step := width
		if step == encoding.ByteArray {
			step = 4 + int(binary.LittleEndian.Uint32(plain[to.at:]))
		}
		to.value++
		size += step
		if !w.coded {
			to.at += step
		}
	}
	return to, rows
}

// present counts the values among entries of a vector.
func (w *Writer) present(v *Vector, from, to int) int {
	if w.column.MaxDef == 0 {
		return to - from
	}
	return bytes.Count(v.Def[from:to], []byte{w.column.MaxDef})
}

// skipBytes is where the value begins that is the given one, and how much the values before it count for.
func (w *Writer) skipBytes(plain []byte, from cursor, value int) (at, size int) {
	n := value - from.value
	switch {
	case w.coded:
		return from.at, n * indexBytes
	case w.width != encoding.ByteArray:
		return from.at + n*w.width, n * w.width
	}
	at = from.at
	for ; n > 0; n-- {
		at += 4 + int(binary.LittleEndian.Uint32(plain[at:]))
	}
	return at, at - from.at
}

// take moves a piece of a vector to the open page.
func (w *Writer) take(v *Vector, plain []byte, indices []uint32, from, to cursor) {
	if w.entries == 0 {
		w.aligned = w.column.MaxRep == 0 || v.Rep[from.entry] == 0
	}
	if w.column.MaxRep > 0 {
		w.rep = append(w.rep, v.Rep[from.entry:to.entry]...)
	}
	if w.column.MaxDef > 0 {
		w.def = append(w.def, v.Def[from.entry:to.entry]...)
	}
	if w.coded {
		w.indices = append(w.indices, indices[from.value:to.value]...)
	} else {
		w.plain = append(w.plain, plain[from.at:to.at]...)
	}
	w.entries += to.entry - from.entry
	w.values += to.value - from.value
}
