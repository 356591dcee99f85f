package pages

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// ordering is how the values of a leaf compare, in the PLAIN form that statistics have.
type ordering int

const (
	orderBool ordering = iota
	orderInt32
	orderInt64
	orderFloat
	orderDouble
	// orderBytes is by unsigned bytes: strings, binary, fixed, uuid.
	orderBytes
	// orderSigned is big-endian two's complement: decimals in bytes.
	orderSigned
)

func order(leaf *layout.Leaf) ordering {
	switch leaf.Kind {
	case layout.Boolean:
		return orderBool
	case layout.Int32:
		return orderInt32
	case layout.Int64:
		return orderInt64
	case layout.Float:
		return orderFloat
	case layout.Double:
		return orderDouble
	case layout.Fixed:
		if _, decimal := leaf.Type.(iceberg.DecimalType); decimal {
			return orderSigned
		}
	}
	return orderBytes
}

// sound says whether a bound can be compared at all: it has the type's length and is no NaN.
func sound(leaf *layout.Leaf, b []byte) bool {
	switch order(leaf) {
	case orderBool:
		return len(b) == 1
	case orderInt32:
		return len(b) == 4
	case orderInt64:
		return len(b) == 8
	case orderFloat:
		return len(b) == 4 && !math.IsNaN(float64(float32At(b)))
	case orderDouble:
		return len(b) == 8 && !math.IsNaN(doubleAt(b))
	case orderSigned:
		return len(b) == leaf.Width
	default:
		return b != nil && (leaf.Kind != layout.Fixed || len(b) <= leaf.Width) // Writers may cut bounds.
	}
}

// compare orders two sound bounds. The two zeros are equal.
func compare(o ordering, a, b []byte) int {
	switch o {
	case orderBool:
		return cmp.Compare(a[0], b[0])
	case orderInt32:
		return cmp.Compare(int32(binary.LittleEndian.Uint32(a)), int32(binary.LittleEndian.Uint32(b)))
	case orderInt64:
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
	case orderFloat:
		return cmp.Compare(float32At(a), float32At(b))
	case orderDouble:
		return cmp.Compare(doubleAt(a), doubleAt(b))
	case orderSigned:
		if sa, sb := a[0]^0x80, b[0]^0x80; sa != sb {
			return cmp.Compare(sa, sb)
		}
	}
	return bytes.Compare(a, b)
}

func float32At(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func doubleAt(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }

// widen makes a zero bound of a float the zero that is on the safe side: -0.0 below, 0.0 above.
func widen(o ordering, b []byte, lower bool) []byte {
	if o == orderFloat && float32At(b) == 0 || o == orderDouble && doubleAt(b) == 0 {
		b = make([]byte, len(b))
		if lower {
			b[len(b)-1] = 0x80
		}
	}
	return b
}

// limits merges the statistics of parts of a column. What one part does not know the whole does not know.
type limits struct {
	nulls    int64
	min, max []byte
	unknown  bool // A part with values has no bounds.
	noNulls  bool // A part has no null count.
}

// add takes a part of values entries in. nulls is below 0 when unknown.
func (l *limits) add(leaf *layout.Leaf, values, nulls int64, lower, upper []byte) {
	if nulls < 0 {
		l.noNulls = true
	} else {
		l.nulls += nulls
	}
	if nulls == values {
		return
	}
	if !sound(leaf, lower) || !sound(leaf, upper) {
		l.unknown = true
		return
	}
	o := order(leaf)
	if l.min == nil || compare(o, lower, l.min) < 0 {
		l.min = lower
	}
	if l.max == nil || compare(o, upper, l.max) > 0 {
		l.max = upper
	}
}

// bounds returns what holds for all parts; nil when there is none.
func (l *limits) bounds(leaf *layout.Leaf) (lower, upper []byte) {
	if l.unknown || l.min == nil {
		return nil, nil
	}
	o := order(leaf)
	return widen(o, l.min, true), widen(o, l.max, false)
}

// value reads a bound of a footer as a value of the leaf; nil when it is not sound, or cut where the type allows no cut.
func value(leaf *layout.Leaf, b []byte) *column.Values {
	if !sound(leaf, b) {
		return nil
	}
	switch order(leaf) {
	case orderBool:
		return &column.Values{Bool: []bool{b[0] != 0}}
	case orderInt32:
		return &column.Values{Int32: []int32{int32(binary.LittleEndian.Uint32(b))}}
	case orderInt64:
		return &column.Values{Int64: []int64{int64(binary.LittleEndian.Uint64(b))}}
	case orderFloat:
		return &column.Values{Float: []float32{float32At(b)}}
	case orderDouble:
		return &column.Values{Double: []float64{doubleAt(b)}}
	}
	switch {
	case leaf.Kind != layout.Fixed:
		return &column.Values{Bytes: []parquet.ByteArray{b}}
	case len(b) != leaf.Width:
		return nil
	default:
		return &column.Values{Fixed: []parquet.FixedLenByteArray{b}}
	}
}
