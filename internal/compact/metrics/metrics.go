// Package metrics counts and bounds what is written to one data file, for its manifest entry: value, null and NaN counts, and lower and upper
// bounds in the single-value serialisation. Everything is taken from the values themselves, never from a Parquet footer, whose bounds may be
// cut, unsigned or absent. Rules: Iceberg specification, "Manifests" (fields 108 to 128) and appendix D.
package metrics

import (
	"bytes"
	"cmp"
	"math"

	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// File gathers the metrics of one data file.
type File struct {
	layout  *layout.Layout
	modes   []Mode
	columns []gauge
}

// Result is what a manifest entry holds, by field ID.
type Result struct {
	Values, Nulls, NaNs map[int]int64
	Lower, Upper        map[int][]byte
}

// gauge is the state of one column.
type gauge struct {
	values, nulls, nans int64
	bounds              bounds
	// unknown says which of these a summary left open.
	unknown unknown
}

// bounds keeps the smallest and largest value seen.
type bounds interface {
	// add takes the values in; it returns how many were NaN.
	add(v *column.Values) int64
	// encode returns the bounds in the single-value serialisation; nil for one that is unknown or cannot be represented.
	encode(mode Mode) (lower, upper []byte)
}

// New starts the metrics of a file.
func New(l *layout.Layout, modes []Mode) *File {
	f := &File{layout: l, modes: modes, columns: make([]gauge, len(l.Leaves))}
	for i, leaf := range l.Leaves {
		f.columns[i].bounds = newBounds(leaf)
	}
	return f
}

// Add counts a batch of a leaf.
func (f *File) Add(leaf int, b *column.Batch) {
	if !f.modes[leaf].Counts {
		return
	}
	g := &f.columns[leaf]
	g.values += int64(b.Levels)
	g.nulls += int64(b.Levels - b.Len())
	if g.bounds != nil {
		g.nans += g.bounds.add(&b.Values)
	}
}

// Result closes the counts.
func (f *File) Result() Result {
	r := Result{
		Values: map[int]int64{}, Nulls: map[int]int64{}, NaNs: map[int]int64{},
		Lower: map[int][]byte{}, Upper: map[int][]byte{},
	}
	for i, leaf := range f.layout.Leaves {
		mode, g := f.modes[i], &f.columns[i]
		if !mode.Counts {
			continue
		}
		r.Values[leaf.FieldID] = g.values
		if !g.unknown.nulls {
			r.Nulls[leaf.FieldID] = g.nulls
		}
		if (leaf.Kind == layout.Float || leaf.Kind == layout.Double) && !g.unknown.nans {
			r.NaNs[leaf.FieldID] = g.nans
		}
		if !mode.Bounds || g.bounds == nil {
			continue
		}
		lower, upper := g.bounds.encode(mode)
		if lower != nil && !g.unknown.lower {
			r.Lower[leaf.FieldID] = lower
		}
		if upper != nil && !g.unknown.upper {
			r.Upper[leaf.FieldID] = upper
		}
	}
	return r
}

// newBounds chooses the order of a leaf's type. Variants and geometries have bounds of another kind, which are left out.
func newBounds(leaf *layout.Leaf) bounds {
	if _, geometry := leaf.Type.(iceberg.GeometryType); geometry || leaf.Part {
		return nil
	}
	_, decimal := leaf.Type.(iceberg.DecimalType)
	switch leaf.Kind {
	case layout.Boolean:
		return &truth{}
	case layout.Int32:
		return newOrdered(func(v *column.Values) []int32 { return v.Int32 }, cmp.Compare[int32], encodeInt32(decimal))
	case layout.Int64:
		return newOrdered(func(v *column.Values) []int64 { return v.Int64 }, cmp.Compare[int64], encodeInt64(decimal))
	case layout.Float:
		o := newOrdered(func(v *column.Values) []float32 { return v.Float }, totalOrder32, encodeFloat)
		o.nan = func(v float32) bool { return v != v }
		return o
	case layout.Double:
		o := newOrdered(func(v *column.Values) []float64 { return v.Double }, totalOrder64, encodeDouble)
		o.nan = func(v float64) bool { return v != v }
		return o
	case layout.Fixed:
		if decimal {
			return newRaw(func(v *column.Values, i int) []byte { return v.Fixed[i] }, compareSigned, shortest)
		}
		return newRaw(func(v *column.Values, i int) []byte { return v.Fixed[i] }, bytes.Compare, bytes.Clone)
	default:
		r := newRaw(func(v *column.Values, i int) []byte { return v.Bytes[i] }, bytes.Compare, bytes.Clone)
		_, r.text = leaf.Type.(iceberg.StringType)
		r.cut = true
		return r
	}
}

// totalOrder32 and totalOrder64 put -0.0 before 0.0, as Java compares floats. NaN never reaches them.
func totalOrder32(a, b float32) int { return totalOrder64(float64(a), float64(b)) }

func totalOrder64(a, b float64) int {
	if a == 0 && b == 0 {
		return cmp.Compare(boolInt(!math.Signbit(a)), boolInt(!math.Signbit(b)))
	}
	return cmp.Compare(a, b)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareSigned compares two big-endian two's complement numbers of equal length.
func compareSigned(a, b []byte) int {
	if sa, sb := a[0]^0x80, b[0]^0x80; sa != sb {
		return cmp.Compare(sa, sb)
	}
	return bytes.Compare(a, b)
}
