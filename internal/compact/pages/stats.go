package pages

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/parquet"

	physical "firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/pagefile"
)

// columnOf is a leaf as its chunks are read and written. maxDef is the leaf's maximum definition level in the files.
func columnOf(leaf *layout.Leaf, maxDef int16, path []footer.Value) (*physical.Column, error) {
	c, err := pagefile.Column(leaf)
	c.MaxDef = uint8(maxDef)
	for _, name := range path {
		c.Path = append(c.Path, string(name.Bytes))
	}
	return &c, err
}

// order is how the values of a leaf compare in statistics.
func order(leaf *layout.Leaf) encoding.Order {
	c, err := pagefile.Column(leaf)
	if err != nil {
		return encoding.Undefined
	}
	return c.Order
}

// newBounds begins bounds of a leaf's values.
func newBounds(leaf *layout.Leaf) encoding.Bounds {
	c, err := pagefile.Column(leaf)
	if err != nil {
		return encoding.NewBounds(encoding.Undefined, 0)
	}
	return encoding.NewBounds(c.Order, c.ValueWidth())
}

// readIndex reads the source's page indexes. One that cannot be read, or does not fit the other, is no page index.
func (s *source) readIndex() {
	raw := s.in.indexOf(s.chunk.offsetIndex)
	if raw == nil {
		return
	}
	places, err := footer.OffsetIndex(raw)
	if err != nil {
		return
	}
	s.places = places
	if raw = s.in.indexOf(s.chunk.columnIndex); raw == nil || !s.chunk.trusted {
		return
	}
	if own, err := footer.ColumnIndex(raw); err == nil && len(own) == len(places) {
		s.bounds = own
	}
}

// pageBounds are the statistics of a page: those of the column index, else of its header. What is absent there or not to be trusted is unknown.
func (s *source) pageBounds(p *physical.Page) footer.Bounds {
	b := physical.UnknownBounds()
	own := p.Statistics()
	if n, ok := own.Int(footer.StatNulls); ok && n >= 0 && n <= p.Values() {
		b.Nulls = n
	}
	if s.pages < len(s.bounds) && s.placed(p) {
		index := s.bounds[s.pages]
		if index.Nulls < 0 || index.Nulls > p.Values() {
			index.Nulls = b.Nulls
		}
		return index
	}
	if b.NullPage = b.Nulls == p.Values(); !b.NullPage && s.chunk.trusted {
		b.Min, b.Max = bounds(own)
	}
	return b
}

// value reads a bound as a value of the leaf; nil when there is none, or when it was cut where the type allows no cut.
func value(leaf *layout.Leaf, b []byte) *column.Values {
	switch {
	case b == nil:
		return nil
	case leaf.Kind == layout.Boolean && len(b) == 1:
		return &column.Values{Bool: []bool{b[0] != 0}}
	case leaf.Kind == layout.Int32 && len(b) == 4:
		return &column.Values{Int32: []int32{int32(binary.LittleEndian.Uint32(b))}}
	case leaf.Kind == layout.Int64 && len(b) == 8:
		return &column.Values{Int64: []int64{int64(binary.LittleEndian.Uint64(b))}}
	case leaf.Kind == layout.Float && len(b) == 4:
		return &column.Values{Float: []float32{math.Float32frombits(binary.LittleEndian.Uint32(b))}}
	case leaf.Kind == layout.Double && len(b) == 8:
		return &column.Values{Double: []float64{math.Float64frombits(binary.LittleEndian.Uint64(b))}}
	case leaf.Kind == layout.Fixed && len(b) == leaf.Width:
		return &column.Values{Fixed: []parquet.FixedLenByteArray{b}}
	case leaf.Kind == layout.Bytes:
		return &column.Values{Bytes: []parquet.ByteArray{b}}
	}
	return nil
}
