package sorted

import (
	"encoding/binary"
	"fmt"

	"firn/internal/compact/engine"
	"firn/internal/parquet/chunk"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/pagefile"
)

// form says how the rows of one leaf lie in memory and in spill files: one record a row, so that rows can be moved without knowing their column.
//
//	flat, fixed width    [definition level] value           a null has zeros for a value
//	flat, byte arrays    [definition level] length value     the length takes 4 bytes
//	repeated             length entries levels values        length (of what follows) and entries take 4 bytes; levels are pairs of bytes
//
// A definition level takes one byte, and is left out where the column is required.
type form struct {
	column chunk.Column
	width  int
	// stride is the length of each record, 0 when it varies.
	stride int
	// head is the number of bytes in front of a flat value.
	head int
}

const lengthBytes = 4

func newForm(leaf *layout.Leaf) (form, error) {
	c, err := pagefile.Column(leaf)
	if err != nil {
		return form{}, fmt.Errorf("%w: %w", err, engine.ErrRefused)
	}
	f := form{column: c, width: c.ValueWidth()}
	if leaf.MaxDef > 0 {
		f.head = 1
	}
	if leaf.MaxRep == 0 && f.width != encoding.ByteArray {
		f.stride = f.head + f.width
	}
	return f, nil
}

// append adds the records of a vector with PLAIN values that begins and ends with whole rows. ends gets where each record ends, if they vary.
func (f *form) append(dst []byte, ends []uint32, v *chunk.Vector) ([]byte, []uint32) {
	switch {
	case f.column.MaxRep > 0:
		return f.appendRepeated(dst, ends, v)
	case f.stride == 0:
		return f.appendText(dst, ends, v)
	case f.head == 0:
		return append(dst, v.Plain...), ends
	}
	plain := v.Plain
	for _, d := range v.Def {
		dst = append(dst, d)
		if d == f.column.MaxDef {
			dst = append(dst, plain[:f.width]...)
			plain = plain[f.width:]
			continue
		}
		for range f.width {
			dst = append(dst, 0)
		}
	}
	return dst, ends
}

func (f *form) appendText(dst []byte, ends []uint32, v *chunk.Vector) ([]byte, []uint32) {
	plain := v.Plain
	for i := range v.Entries {
		if f.head > 0 {
			dst = append(dst, v.Def[i])
			if v.Def[i] != f.column.MaxDef {
				dst = append(dst, 0, 0, 0, 0)
				ends = append(ends, uint32(len(dst)))
				continue
			}
		}
		n := lengthBytes + int(binary.LittleEndian.Uint32(plain))
		dst = append(dst, plain[:n]...)
		plain = plain[n:]
		ends = append(ends, uint32(len(dst)))
	}
	return dst, ends
}

func (f *form) appendRepeated(dst []byte, ends []uint32, v *chunk.Vector) ([]byte, []uint32) {
	plain := v.Plain
	for from := 0; from < v.Entries; {
		to := from + 1
		for to < v.Entries && v.Rep[to] != 0 {
			to++
		}
		start := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(to-from))
		size := 0
		for i := from; i < to; i++ {
			def := v.Def[i] // A repeated column has definition levels.
			dst = append(dst, v.Rep[i], def)
			switch {
			case def != f.column.MaxDef:
			case f.width == encoding.ByteArray:
				size += lengthBytes + int(binary.LittleEndian.Uint32(plain[size:]))
			default:
				size += f.width
			}
		}
		dst = append(dst, plain[:size]...)
		plain = plain[size:]
		binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-lengthBytes))
		ends = append(ends, uint32(len(dst)))
		from = to
	}
	return dst, ends
}

// measure is the number of bytes that must be there to tell a record's length.
func (f *form) measure() int {
	switch {
	case f.stride > 0:
		return f.stride
	case f.column.MaxRep > 0:
		return lengthBytes
	}
	return f.head + lengthBytes
}

// size is the length of the record at the start of b, of which measure bytes must be there.
func (f *form) size(b []byte) int {
	switch {
	case f.stride > 0:
		return f.stride
	case f.column.MaxRep > 0:
		return lengthBytes + int(binary.LittleEndian.Uint32(b))
	}
	return f.head + lengthBytes + int(binary.LittleEndian.Uint32(b[f.head:]))
}

// decode fills a vector with the rows of whole records. plain is memory for its values, which is returned for the next call.
func (f *form) decode(v *chunk.Vector, plain, recs []byte) []byte {
	v.Rows, v.Entries, v.Values, v.Rep, v.Def, v.Dictionary = 0, 0, 0, v.Rep[:0], v.Def[:0], nil
	plain = plain[:0]
	for len(recs) > 0 {
		n := f.size(recs)
		rec := recs[:n]
		recs = recs[n:]
		v.Rows++
		if f.column.MaxRep > 0 {
			plain = f.decodeRepeated(v, plain, rec[lengthBytes:])
			continue
		}
		v.Entries++
		if f.head > 0 {
			v.Def = append(v.Def, rec[0])
			if rec[0] != f.column.MaxDef {
				continue
			}
		}
		v.Values++
		plain = append(plain, rec[f.head:]...)
	}
	v.Plain = plain
	return plain
}

func (f *form) decodeRepeated(v *chunk.Vector, plain, rec []byte) []byte {
	n := int(binary.LittleEndian.Uint32(rec))
	rec = rec[lengthBytes:]
	for i := range n {
		v.Rep, v.Def = append(v.Rep, rec[2*i]), append(v.Def, rec[2*i+1])
		if rec[2*i+1] == f.column.MaxDef {
			v.Values++
		}
	}
	v.Entries += n
	return append(plain, rec[2*n:]...)
}
