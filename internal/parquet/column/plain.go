package column

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/parquet"

	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// AppendPlain appends the values in PLAIN form to dst, but booleans as one byte each, as a chunk.Vector has them.
func (v *Values) AppendPlain(dst []byte) []byte {
	for _, x := range v.Bool {
		if x {
			dst = append(dst, 1)
		} else {
			dst = append(dst, 0)
		}
	}
	for _, x := range v.Int32 {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(x))
	}
	for _, x := range v.Int64 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(x))
	}
	for i := range v.Int96 {
		dst = append(dst, v.Int96[i][:]...)
	}
	for _, x := range v.Float {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
	}
	for _, x := range v.Double {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	for _, x := range v.Bytes {
		dst = encoding.AppendByteArray(dst, x)
	}
	for _, x := range v.Fixed {
		dst = append(dst, x...)
	}
	return dst
}

// SetPlain replaces the values by n values of a physical type, which have to fill plain; width is the length of FIXED_LEN_BYTE_ARRAY. Booleans are
// one byte each. Byte values share memory with plain.
func (v *Values) SetPlain(t footer.Type, width int, plain []byte, n int) error {
	v.Reset()
	size := 0
	switch t {
	case footer.Boolean:
		size = 1
	case footer.Int32, footer.Float:
		size = 4
	case footer.Int64, footer.Float64:
		size = 8
	case footer.Int96:
		size = 12
	case footer.Fixed:
		size = width
	}
	if t != footer.ByteArray && (size <= 0 || len(plain) != n*size) {
		return fmt.Errorf("%d values of %s(%d) in %d bytes: %w", n, t, width, len(plain), encoding.ErrCorrupt)
	}
	for range n {
		var x []byte
		if t != footer.ByteArray {
			x, plain = plain[:size:size], plain[size:]
		} else {
			var err error
			if x, plain, err = encoding.NextByteArray(plain); err != nil {
				return err
			}
		}
		switch t {
		case footer.Boolean:
			v.Bool = append(v.Bool, x[0] != 0)
		case footer.Int32:
			v.Int32 = append(v.Int32, int32(binary.LittleEndian.Uint32(x)))
		case footer.Int64:
			v.Int64 = append(v.Int64, int64(binary.LittleEndian.Uint64(x)))
		case footer.Int96:
			v.Int96 = append(v.Int96, parquet.Int96(x))
		case footer.Float:
			v.Float = append(v.Float, math.Float32frombits(binary.LittleEndian.Uint32(x)))
		case footer.Float64:
			v.Double = append(v.Double, math.Float64frombits(binary.LittleEndian.Uint64(x)))
		case footer.ByteArray:
			v.Bytes = append(v.Bytes, x)
		default:
			v.Fixed = append(v.Fixed, x)
		}
	}
	if len(plain) != 0 {
		return fmt.Errorf("%d bytes behind %d values: %w", len(plain), n, encoding.ErrCorrupt)
	}
	return nil
}
