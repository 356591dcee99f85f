package metrics

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// Unknown is a count that nobody knows.
const Unknown = -1

// Summary is what is known of a part of a column whose values are not looked at.
type Summary struct {
	// Values counts all, nulls included; Nulls and NaNs may be Unknown.
	Values, Nulls, NaNs int64
	// Lower and Upper hold one value each, which bounds the part's values (NaN aside); nil is unknown.
	Lower, Upper *column.Values
	// Empty says that the part has no value to bound: all are null or NaN.
	Empty bool
}

// unknown marks what cannot be told of a column any more.
type unknown struct{ nulls, nans, lower, upper bool }

// AddSummary counts a part of a leaf. What is unknown of one part is unknown of the file, and left out of its result.
func (f *File) AddSummary(leaf int, s Summary) {
	g := &f.columns[leaf]
	g.values += s.Values
	g.nulls += s.Nulls
	g.nans += s.NaNs
	g.unknown.nulls = g.unknown.nulls || s.Nulls == Unknown
	g.unknown.nans = g.unknown.nans || s.NaNs == Unknown
	if s.Empty || g.bounds == nil {
		return
	}
	g.unknown.lower = g.unknown.lower || s.Lower == nil
	g.unknown.upper = g.unknown.upper || s.Upper == nil
	for _, v := range []*column.Values{s.Lower, s.Upper} {
		if v != nil {
			g.bounds.add(v)
		}
	}
}

// DecodeBound reads a bound of a manifest entry, in the single-value serialisation. ok is false for one that is no value of the leaf's type, or
// NaN.
func DecodeBound(leaf *layout.Leaf, b []byte) (v *column.Values, ok bool) {
	_, decimal := leaf.Type.(iceberg.DecimalType)
	v = &column.Values{}
	switch {
	case b == nil:
		return nil, false
	case decimal:
		return decodeDecimal(leaf, b)
	case leaf.Kind == layout.Boolean && len(b) == 1:
		v.Bool = []bool{b[0] != 0}
	case leaf.Kind == layout.Int32 && len(b) == 4:
		v.Int32 = []int32{int32(binary.LittleEndian.Uint32(b))}
	case leaf.Kind == layout.Int64 && len(b) == 8:
		v.Int64 = []int64{int64(binary.LittleEndian.Uint64(b))}
	case leaf.Kind == layout.Float && len(b) == 4:
		x := math.Float32frombits(binary.LittleEndian.Uint32(b))
		v.Float = []float32{x}
		return v, x == x
	case leaf.Kind == layout.Double && len(b) == 8:
		x := math.Float64frombits(binary.LittleEndian.Uint64(b))
		v.Double = []float64{x}
		return v, x == x
	case leaf.Kind == layout.Fixed && len(b) == leaf.Width:
		v.Fixed = []parquet.FixedLenByteArray{b}
	case leaf.Kind == layout.Bytes:
		v.Bytes = []parquet.ByteArray{b}
	default:
		return nil, false
	}
	return v, true
}

// decodeDecimal widens a big-endian two's complement number to the leaf's physical form.
func decodeDecimal(leaf *layout.Leaf, b []byte) (*column.Values, bool) {
	width := map[layout.Kind]int{layout.Int32: 4, layout.Int64: 8, layout.Fixed: leaf.Width}[leaf.Kind]
	if len(b) == 0 || len(b) > width {
		return nil, false
	}
	wide := make([]byte, width)
	if b[0]&0x80 != 0 {
		for i := range wide {
			wide[i] = 0xff
		}
	}
	copy(wide[width-len(b):], b)
	switch leaf.Kind {
	case layout.Int32:
		return &column.Values{Int32: []int32{int32(binary.BigEndian.Uint32(wide))}}, true
	case layout.Int64:
		return &column.Values{Int64: []int64{int64(binary.BigEndian.Uint64(wide))}}, true
	default:
		return &column.Values{Fixed: []parquet.FixedLenByteArray{wide}}, true
	}
}
