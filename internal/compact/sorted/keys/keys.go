// Package keys encodes the values by which rows are ordered as bytes whose order is theirs: comparing two keys byte by byte compares the rows by
// all fields of an ordering, directions and null orders included. It is pure.
//
// Orders are those of the Iceberg specification: numbers by value, floats with NaN last and -0 before +0, strings by UTF-8 bytes, uuid and fixed
// as unsigned bytes, decimals by value.
package keys

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/transform"
	"firn/internal/maintenance"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// ErrUnsupported says that rows cannot be ordered by a column.
var ErrUnsupported = errors.New("unsupported ordering")

// Keys are the keys of consecutive rows, one after the other.
type Keys struct {
	Bytes []byte
	// Width is the length of each key; when it is 0 Ends holds where each key ends.
	Width int
	Ends  []uint32
}

// Rows is the number of keys.
func (k *Keys) Rows() int {
	if k.Width > 0 {
		return len(k.Bytes) / k.Width
	}
	return len(k.Ends)
}

// At is key i.
func (k *Keys) At(i int) []byte {
	if k.Width > 0 {
		return k.Bytes[i*k.Width : (i+1)*k.Width]
	}
	if i == 0 {
		return k.Bytes[:k.Ends[0]]
	}
	return k.Bytes[k.Ends[i-1]:k.Ends[i]]
}

// Reset empties the keys and keeps their memory.
func (k *Keys) Reset() { k.Bytes, k.Ends = k.Bytes[:0], k.Ends[:0] }

// maxBytes is the most that Ends can address.
const maxBytes = math.MaxUint32

// Field encodes one field of an ordering, or the contribution of one column to a curve.
type Field struct {
	// Leaf is the column.
	Leaf *layout.Leaf
	// width is the length of a present value's bytes, 0 when it varies.
	width int
	// append encodes value i.
	append valueEncoder
	// flagged puts a byte before each value that tells nulls; absent and present are that byte.
	flagged, descending bool
	absent, present     byte
}

// valueEncoder appends the encoding of value i; a null (only of a transform) is ok = false.
type valueEncoder func(dst []byte, v *column.Values, i int) (out []byte, ok bool)

// NewField makes the encoder of a field. The column must be a leaf that is neither repeated nor a part of a variant.
func NewField(f maintenance.OrderingField, l *layout.Layout) (*Field, error) {
	leaf, err := leafOf(f.SourceID, l)
	if err != nil {
		return nil, err
	}
	out := &Field{Leaf: leaf, flagged: true, descending: f.Descending, present: 1}
	if f.NullsLast {
		out.absent, out.present = 1, 0
	}
	t, err := iceberg.ParseTransform(f.Transform)
	if err != nil {
		return nil, fmt.Errorf("order by %s: transform %s: %w: %w", leaf.Path, f.Transform, err, ErrUnsupported)
	}
	if _, identity := t.(iceberg.IdentityTransform); identity {
		out.append, out.width = identityEncoder(leaf)
		return out, nil
	}
	apply, err := transform.New(t)
	if err != nil || apply == nil {
		return nil, fmt.Errorf("order by %s: transform %s: %w", leaf.Path, f.Transform, ErrUnsupported)
	}
	out.append, out.width = transformEncoder(leaf, apply, t.ResultType(leaf.Type))
	return out, nil
}

func leafOf(id int, l *layout.Layout) (*layout.Leaf, error) {
	leaf := l.Leaf(id)
	if leaf == nil {
		return nil, fmt.Errorf("order by column %d: it is no stored column of the schema: %w", id, ErrUnsupported)
	}
	if _, geometry := leaf.Type.(iceberg.GeometryType); geometry || leaf.Repeated() {
		return nil, fmt.Errorf("order by column %s: it is inside a list or map, or a geometry: %w", leaf.Path, ErrUnsupported)
	}
	return leaf, nil
}

// Width is the length of the field's part of each key, 0 when it varies.
func (f *Field) Width() int {
	if f.width > 0 && f.flagged {
		return f.width + 1
	}
	return f.width
}

// Append adds the rows of a batch of the field's leaf.
func (f *Field) Append(dst *Keys, b *column.Batch) error {
	dst.Width = f.Width()
	value := 0
	for i := range b.Levels {
		present := f.Leaf.MaxDef == 0 || b.Def[i] == f.Leaf.MaxDef
		if present {
			f.value(dst, &b.Values, value)
			value++
		} else {
			f.null(dst)
		}
		if dst.Width == 0 {
			if len(dst.Bytes) > maxBytes {
				return fmt.Errorf("order by %s: keys of %d bytes", f.Leaf.Path, len(dst.Bytes))
			}
			dst.Ends = append(dst.Ends, uint32(len(dst.Bytes)))
		}
	}
	return nil
}

func (f *Field) value(dst *Keys, v *column.Values, i int) {
	start := len(dst.Bytes)
	if f.flagged {
		dst.Bytes = append(dst.Bytes, f.present)
	}
	out, ok := f.append(dst.Bytes, v, i)
	if !ok {
		dst.Bytes = dst.Bytes[:start]
		f.null(dst)
		return
	}
	dst.Bytes = out
	if f.descending {
		for j := start + 1; j < len(out); j++ {
			out[j] = ^out[j]
		}
	}
}

// null pads to the fixed width, so that keys keep their stride.
func (f *Field) null(dst *Keys) {
	if f.flagged {
		dst.Bytes = append(dst.Bytes, f.absent)
	}
	for range f.width {
		dst.Bytes = append(dst.Bytes, 0)
	}
}

// Skip is the length of the field's part at the start of a key.
func (f *Field) Skip(key []byte) int {
	if w := f.Width(); w > 0 {
		return w
	}
	if key[0] == f.absent {
		return 1
	}
	var flip byte
	if f.descending {
		flip = 0xff
	}
	for i := 1; ; i += 2 {
		for key[i]^flip != escape {
			i++
		}
		if key[i+1]^flip == terminator {
			return i + 2
		}
	}
}

const (
	escape     = 0
	terminator = 0
	escaped    = 0xff
)

// appendText encodes bytes of any length so that a shorter value comes before what it begins: 0 becomes 0 255, and 0 0 ends the value.
func appendText(dst, v []byte) []byte {
	for {
		i := bytes.IndexByte(v, escape)
		if i < 0 {
			return append(append(dst, v...), escape, terminator)
		}
		dst = append(append(dst, v[:i]...), escape, escaped)
		v = v[i+1:]
	}
}

func appendInt32(dst []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(v)^1<<31)
}

func appendInt64(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^1<<63)
}

// float32Bits and float64Bits map floats to numbers of the same order: sign and magnitude, all NaN the largest.
func float32Bits(v float32) uint32 {
	if v != v {
		return math.MaxUint32
	}
	b := math.Float32bits(v)
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}

func float64Bits(v float64) uint64 {
	if v != v {
		return math.MaxUint64
	}
	b := math.Float64bits(v)
	return b ^ (uint64(int64(b)>>63) | 1<<63)
}
