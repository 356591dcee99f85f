package projection

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// conversion turns a file's values into the leaf's form. dst may share memory with src. same says that every value keeps its PLAIN form. plain, where
// there is one, does the same from PLAIN values of a width to PLAIN values, which it appends.
type conversion struct {
	apply func(src, dst *column.Values) error
	same  bool
	plain func(dst, values []byte, width int) []byte
}

// newConversion chooses the conversion from a file's column to a leaf, or refuses.
func newConversion(c *schema.Column, leaf *layout.Leaf) (conversion, error) {
	conv := find(c, leaf)
	if conv.apply == nil {
		return conversion{}, fmt.Errorf("the file's %s (%s) cannot be read as %s: %w", c.PhysicalType(), c.LogicalType(), leaf.Type, ErrUnmappable)
	}
	return conv, nil
}

func find(c *schema.Column, leaf *layout.Leaf) conversion {
	from := c.PhysicalType()
	switch t := leaf.Type.(type) {
	case iceberg.BooleanType:
		return when(from == parquet.Types.Boolean)
	case iceberg.Int32Type:
		return when(from == parquet.Types.Int32 && plainInteger(c, 32))
	case iceberg.Int64Type:
		return long(c)
	case iceberg.Float32Type:
		return when(from == parquet.Types.Float)
	case iceberg.Float64Type:
		if from == parquet.Types.Float {
			return each(floats, doubles, func(v float32) (float64, error) { return float64(v), nil })
		}
		return when(from == parquet.Types.Double)
	case iceberg.DateType:
		return when(from == parquet.Types.Int32 && (isDate(c) || plainInteger(c, 32)))
	case iceberg.StringType, iceberg.GeometryType:
		return when(from == parquet.Types.ByteArray && !isDecimal(c))
	case iceberg.BinaryType:
		if from == parquet.Types.FixedLenByteArray && !isDecimal(c) {
			return each(fixed, bytes, func(v parquet.FixedLenByteArray) (parquet.ByteArray, error) { return parquet.ByteArray(v), nil })
		}
		return when(from == parquet.Types.ByteArray && !isDecimal(c))
	case iceberg.FixedType, iceberg.UUIDType:
		return fixedWidth(c, leaf.Width)
	case iceberg.DecimalType:
		return decimal(c, t, leaf)
	default:
		return instant(c, leaf.Type)
	}
}

// share takes the values as they are.
func share() conversion {
	return conversion{same: true, apply: func(src, dst *column.Values) error {
		*dst = *src
		return nil
	}}
}

func when(ok bool) conversion {
	if !ok {
		return conversion{}
	}
	return share()
}

// slots name the slices of Values for each.
func int32s(v *column.Values) *[]int32                    { return &v.Int32 }
func int64s(v *column.Values) *[]int64                    { return &v.Int64 }
func int96s(v *column.Values) *[]parquet.Int96            { return &v.Int96 }
func floats(v *column.Values) *[]float32                  { return &v.Float }
func doubles(v *column.Values) *[]float64                 { return &v.Double }
func bytes(v *column.Values) *[]parquet.ByteArray         { return &v.Bytes }
func fixed(v *column.Values) *[]parquet.FixedLenByteArray { return &v.Fixed }

// each converts value by value.
func each[S, D any](from func(*column.Values) *[]S, to func(*column.Values) *[]D, fn func(S) (D, error)) conversion {
	return conversion{apply: func(src, dst *column.Values) error {
		out := (*to(dst))[:0]
		for _, v := range *from(src) {
			d, err := fn(v)
			if err != nil {
				return err
			}
			out = append(out, d)
		}
		*to(dst) = out
		return nil
	}}
}

// plainInteger says that an INT32 or INT64 has no annotation, or a signed integer's, or an unsigned one's that fits.
func plainInteger(c *schema.Column, bits int8) bool {
	switch t := c.LogicalType().(type) {
	case schema.IntLogicalType:
		return t.IsSigned() || t.BitWidth() < bits
	case schema.NoLogicalType, schema.UnknownLogicalType:
		return c.ConvertedType() == schema.ConvertedTypes.None
	case nil:
		return true
	}
	return false
}

func isDate(c *schema.Column) bool {
	_, ok := c.LogicalType().(schema.DateLogicalType)
	return ok || c.ConvertedType() == schema.ConvertedTypes.Date
}

func isDecimal(c *schema.Column) bool {
	_, ok := c.LogicalType().(schema.DecimalLogicalType)
	return ok || c.ConvertedType() == schema.ConvertedTypes.Decimal
}

// long takes INT64, and INT32 widened (unsigned ones without sign).
func long(c *schema.Column) conversion {
	switch c.PhysicalType() {
	case parquet.Types.Int64:
		return when(plainInteger(c, 64))
	case parquet.Types.Int32:
		if t, ok := c.LogicalType().(schema.IntLogicalType); ok && !t.IsSigned() {
			return each(int32s, int64s, func(v int32) (int64, error) { return int64(uint32(v)), nil })
		}
		if plainInteger(c, 32) {
			return each(int32s, int64s, func(v int32) (int64, error) { return int64(v), nil })
		}
	}
	return conversion{}
}

// fixedWidth takes values of exactly the wanted length, however they are stored (DuckDB writes fixed as BYTE_ARRAY).
func fixedWidth(c *schema.Column, width int) conversion {
	switch {
	case isDecimal(c):
		return conversion{}
	case c.PhysicalType() == parquet.Types.FixedLenByteArray:
		return when(c.TypeLength() == width)
	case c.PhysicalType() == parquet.Types.ByteArray:
		return each(bytes, fixed, func(v parquet.ByteArray) (parquet.FixedLenByteArray, error) {
			if len(v) != width {
				return nil, fmt.Errorf("a value of %d bytes where %d are due: %w", len(v), width, ErrUnmappable)
			}
			return parquet.FixedLenByteArray(v), nil
		})
	}
	return conversion{}
}

// decimal converts between the four physical forms of a decimal; the scale must be equal, and the value must fit.
func decimal(c *schema.Column, t iceberg.DecimalType, leaf *layout.Leaf) conversion {
	scale, ok := scaleOf(c)
	if !ok || scale != t.Scale() {
		return conversion{}
	}
	narrow := func(v int64) (int32, error) {
		if v != int64(int32(v)) {
			return 0, fmt.Errorf("the decimal %d does not fit %s: %w", v, t, ErrUnmappable)
		}
		return int32(v), nil
	}
	wide := func(v int64) (int64, error) { return v, nil }
	switch c.PhysicalType() {
	case parquet.Types.Int32:
		if leaf.Kind == layout.Int32 {
			return share()
		}
		return decimalTo(int32s, leaf, func(v int32) (int64, error) { return int64(v), nil }, narrow, wide)
	case parquet.Types.Int64:
		if leaf.Kind == layout.Int64 {
			return share()
		}
		return decimalTo(int64s, leaf, wide, narrow, wide)
	case parquet.Types.FixedLenByteArray:
		if leaf.Kind == layout.Fixed {
			if c.TypeLength() == leaf.Width {
				return share()
			}
			return each(fixed, fixed, func(v parquet.FixedLenByteArray) (parquet.FixedLenByteArray, error) { return resize(v, leaf.Width) })
		}
		to := decimalTo(fixed, leaf, func(v parquet.FixedLenByteArray) (int64, error) { return unscaled(v) }, narrow, wide)
		if leaf.Kind == layout.Int64 && c.TypeLength() <= 8 {
			to.plain = widenDecimals
		}
		return to
	case parquet.Types.ByteArray:
		if leaf.Kind == layout.Fixed {
			return each(bytes, fixed, func(v parquet.ByteArray) (parquet.FixedLenByteArray, error) { return resize(v, leaf.Width) })
		}
		return decimalTo(bytes, leaf, func(v parquet.ByteArray) (int64, error) { return unscaled(v) }, narrow, wide)
	}
	return conversion{}
}

// decimalTo goes through int64, which holds every decimal but the widest.
func decimalTo[S any](from func(*column.Values) *[]S, leaf *layout.Leaf, read func(S) (int64, error), narrow func(int64) (int32, error),
	wide func(int64) (int64, error),
) conversion {
	switch leaf.Kind {
	case layout.Int32:
		return each(from, int32s, func(v S) (int32, error) {
			n, err := read(v)
			if err != nil {
				return 0, err
			}
			return narrow(n)
		})
	case layout.Int64:
		return each(from, int64s, func(v S) (int64, error) {
			n, err := read(v)
			if err != nil {
				return 0, err
			}
			return wide(n)
		})
	default:
		return each(from, fixed, func(v S) (parquet.FixedLenByteArray, error) {
			n, err := read(v)
			if err != nil {
				return nil, err
			}
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], uint64(n))
			return resize(b[:], leaf.Width)
		})
	}
}

func scaleOf(c *schema.Column) (int, bool) {
	if t, ok := c.LogicalType().(schema.DecimalLogicalType); ok {
		return int(t.Scale()), true
	}
	return 0, false
}

// unscaled reads a big-endian two's complement number that fits 64 bits.
func unscaled(b []byte) (int64, error) {
	const word = 8
	if n := len(b); n > 0 && n <= word {
		v := int64(int8(b[0]))
		for _, x := range b[1:] {
			v = v<<word | int64(x)
		}
		return v, nil
	}
	w, err := resize(b, word)
	if err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(w)), nil
}

// widenDecimals appends big-endian two's complement numbers of up to eight bytes as INT64.
func widenDecimals(dst, values []byte, width int) []byte {
	const word, bitsOfByte = 8, 8
	for ; len(values) >= word; values = values[width:] {
		v := int64(binary.BigEndian.Uint64(values)) >> (bitsOfByte * (word - width))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	for ; len(values) >= width; values = values[width:] {
		v := int64(int8(values[0]))
		for _, x := range values[1:width] {
			v = v<<bitsOfByte | int64(x)
		}
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// resize sign-extends or shortens a big-endian two's complement number.
func resize(b []byte, width int) (parquet.FixedLenByteArray, error) {
	if len(b) == width {
		return b, nil
	}
	var pad byte
	if len(b) > 0 && b[0]&0x80 != 0 {
		pad = 0xff
	}
	if len(b) > width {
		for _, x := range b[:len(b)-width] {
			if x != pad {
				return nil, fmt.Errorf("a decimal of %d bytes does not fit %d: %w", len(b), width, ErrUnmappable)
			}
		}
		rest := b[len(b)-width:]
		if width > 0 && (rest[0]^pad)&0x80 != 0 {
			return nil, fmt.Errorf("a decimal of %d bytes does not fit %d: %w", len(b), width, ErrUnmappable)
		}
		return parquet.FixedLenByteArray(rest), nil
	}
	out := make(parquet.FixedLenByteArray, width)
	for i := range width - len(b) {
		out[i] = pad
	}
	copy(out[width-len(b):], b)
	return out, nil
}

// multiply scales without overflow.
func multiply(v, by int64) (int64, error) {
	if v > math.MaxInt64/by || v < math.MinInt64/by {
		return 0, fmt.Errorf("the instant %d overflows: %w", v, ErrUnmappable)
	}
	return v * by, nil
}
