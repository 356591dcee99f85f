package keys

import (
	"encoding/binary"
	"math/big"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/transform"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// identityEncoder encodes the values of a leaf as they are stored.
func identityEncoder(leaf *layout.Leaf) (valueEncoder, int) {
	switch leaf.Kind {
	case layout.Boolean:
		return func(dst []byte, v *column.Values, i int) ([]byte, bool) {
			if v.Bool[i] {
				return append(dst, 1), true
			}
			return append(dst, 0), true
		}, 1
	case layout.Int32:
		return func(dst []byte, v *column.Values, i int) ([]byte, bool) { return appendInt32(dst, v.Int32[i]), true }, 4
	case layout.Int64:
		return func(dst []byte, v *column.Values, i int) ([]byte, bool) { return appendInt64(dst, v.Int64[i]), true }, 8
	case layout.Float:
		return func(dst []byte, v *column.Values, i int) ([]byte, bool) {
			return binary.BigEndian.AppendUint32(dst, float32Bits(v.Float[i])), true
		}, 4
	case layout.Double:
		return func(dst []byte, v *column.Values, i int) ([]byte, bool) {
			return binary.BigEndian.AppendUint64(dst, float64Bits(v.Double[i])), true
		}, 8
	case layout.Fixed:
		_, decimal := leaf.Type.(iceberg.DecimalType)
		return func(dst []byte, v *column.Values, i int) ([]byte, bool) {
			start := len(dst)
			dst = append(dst, v.Fixed[i]...)
			if decimal {
				dst[start] ^= 0x80
			}
			return dst, true
		}, leaf.Width
	default:
		return func(dst []byte, v *column.Values, i int) ([]byte, bool) { return appendText(dst, v.Bytes[i]), true }, 0
	}
}

// decimalWidth holds every decimal of 38 digits with its sign.
const decimalWidth = 16

// transformEncoder encodes transformed values.
func transformEncoder(leaf *layout.Leaf, apply transform.Func, result iceberg.Type) (valueEncoder, int) {
	return func(dst []byte, v *column.Values, i int) ([]byte, bool) {
		lit, err := apply(transform.Literal(leaf, v, i))
		if err != nil || lit == nil {
			return dst, false // What a transform cannot compute has no place in the order: with the nulls.
		}
		return appendLiteral(dst, lit), true
	}, resultWidth(result)
}

func resultWidth(t iceberg.Type) int {
	switch t.(type) {
	case iceberg.StringType, iceberg.BinaryType, iceberg.FixedType:
		return 0
	case iceberg.DecimalType:
		return decimalWidth
	case iceberg.Int64Type, iceberg.TimeType, iceberg.TimestampType, iceberg.TimestampTzType, iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return 8
	default: // Numbers of buckets, years, months, days, hours; int and date.
		return 4
	}
}

func appendLiteral(dst []byte, lit iceberg.Literal) []byte {
	switch l := lit.(type) {
	case iceberg.Int32Literal:
		return appendInt32(dst, int32(l))
	case iceberg.DateLiteral:
		return appendInt32(dst, int32(l))
	case iceberg.Int64Literal:
		return appendInt64(dst, int64(l))
	case iceberg.TimeLiteral:
		return appendInt64(dst, int64(l))
	case iceberg.TimestampLiteral:
		return appendInt64(dst, int64(l))
	case iceberg.TimestampNsLiteral:
		return appendInt64(dst, int64(l))
	case iceberg.StringLiteral:
		return appendText(dst, []byte(l))
	case iceberg.BinaryLiteral:
		return appendText(dst, l)
	case iceberg.FixedLiteral:
		return appendText(dst, l)
	case iceberg.DecimalLiteral:
		n := l.Val.BigInt()
		n.Add(n, new(big.Int).Lsh(big.NewInt(1), 8*decimalWidth-1)) // Two's complement with the sign bit flipped.
		var b [decimalWidth]byte
		return append(dst, n.FillBytes(b[:])...)
	}
	return dst
}
