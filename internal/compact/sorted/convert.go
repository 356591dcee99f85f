package sorted

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/parquet"

	"firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// toVector turns a batch into the physical form; plain is memory for its values, which is returned for the next call.
func toVector(v *chunk.Vector, plain []byte, leaf *layout.Leaf, b *column.Batch) []byte {
	v.Rows, v.Entries, v.Values = b.Rows, b.Levels, b.Len()
	v.Rep, v.Def = v.Rep[:0], v.Def[:0]
	if leaf.MaxDef > 0 {
		for _, d := range b.Def {
			v.Def = append(v.Def, uint8(d))
		}
	}
	if leaf.MaxRep > 0 {
		for _, r := range b.Rep {
			v.Rep = append(v.Rep, uint8(r))
		}
	}
	plain = plain[:0]
	switch leaf.Kind {
	case layout.Boolean:
		for _, x := range b.Bool {
			if x {
				plain = append(plain, 1)
			} else {
				plain = append(plain, 0)
			}
		}
	case layout.Int32:
		for _, x := range b.Int32 {
			plain = binary.LittleEndian.AppendUint32(plain, uint32(x))
		}
	case layout.Int64:
		for _, x := range b.Int64 {
			plain = binary.LittleEndian.AppendUint64(plain, uint64(x))
		}
	case layout.Float:
		for _, x := range b.Float {
			plain = binary.LittleEndian.AppendUint32(plain, math.Float32bits(x))
		}
	case layout.Double:
		for _, x := range b.Double {
			plain = binary.LittleEndian.AppendUint64(plain, math.Float64bits(x))
		}
	case layout.Fixed:
		for _, x := range b.Fixed {
			plain = append(plain, x...)
		}
	default:
		for _, x := range b.Bytes {
			plain = append(binary.LittleEndian.AppendUint32(plain, uint32(len(x))), x...)
		}
	}
	v.Plain = plain
	return plain
}

// toBatch turns a vector into a batch, whose byte values point into it.
func toBatch(b *column.Batch, leaf *layout.Leaf, v *chunk.Vector) {
	b.Reset()
	b.Rows, b.Levels = v.Rows, v.Entries
	for _, d := range v.Def {
		b.Def = append(b.Def, int16(d))
	}
	for _, r := range v.Rep {
		b.Rep = append(b.Rep, int16(r))
	}
	p := v.Plain
	switch leaf.Kind {
	case layout.Boolean:
		for _, x := range p {
			b.Bool = append(b.Bool, x != 0)
		}
	case layout.Int32:
		for ; len(p) > 0; p = p[4:] {
			b.Int32 = append(b.Int32, int32(binary.LittleEndian.Uint32(p)))
		}
	case layout.Int64:
		for ; len(p) > 0; p = p[8:] {
			b.Int64 = append(b.Int64, int64(binary.LittleEndian.Uint64(p)))
		}
	case layout.Float:
		for ; len(p) > 0; p = p[4:] {
			b.Float = append(b.Float, math.Float32frombits(binary.LittleEndian.Uint32(p)))
		}
	case layout.Double:
		for ; len(p) > 0; p = p[8:] {
			b.Double = append(b.Double, math.Float64frombits(binary.LittleEndian.Uint64(p)))
		}
	case layout.Fixed:
		for ; len(p) > 0; p = p[leaf.Width:] {
			b.Fixed = append(b.Fixed, parquet.FixedLenByteArray(p[:leaf.Width:leaf.Width]))
		}
	default:
		for len(p) > 0 {
			n := lengthBytes + int(binary.LittleEndian.Uint32(p))
			b.Bytes = append(b.Bytes, parquet.ByteArray(p[lengthBytes:n:n]))
			p = p[n:]
		}
	}
}
