package footer

import "fmt"

// Bounds is what a ColumnIndex says of one page. Min and Max are nil of a page of nulls only.
type Bounds struct {
	NullPage bool
	Min, Max []byte
	// Nulls is the number of nulls; -1 when unknown.
	Nulls int64
}

// The boundary orders of a ColumnIndex.
const (
	Unordered  = 0
	Ascending  = 1
	Descending = 2
)

// ColumnIndex reads a ColumnIndex. The bounds share data's memory.
func ColumnIndex(data []byte) ([]Bounds, error) {
	s, _, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read a column index: %w", err)
	}
	nullPages, mins, maxs, nulls := s.List(1), s.List(2), s.List(3), s.List(5)
	n := len(nullPages)
	if len(mins) != n || len(maxs) != n || (len(nulls) != n && len(nulls) != 0) {
		return nil, fmt.Errorf("read a column index: lists of %d, %d, %d and %d pages: %w", n, len(mins), len(maxs), len(nulls), ErrMalformed)
	}
	out := make([]Bounds, n)
	for i := range out {
		out[i] = Bounds{NullPage: nullPages[i].Int == 1, Nulls: -1}
		if !out[i].NullPage {
			out[i].Min, out[i].Max = mins[i].Bytes, maxs[i].Bytes
		}
		if len(nulls) > 0 {
			out[i].Nulls = nulls[i].Int
		}
	}
	return out, nil
}

// NewColumnIndex makes a ColumnIndex. The null counts are left out unless all are known.
func NewColumnIndex(pages []Bounds, order int64) *Struct {
	var nullPages, mins, maxs, nulls []Value
	known := true
	for _, p := range pages {
		flag := int64(2) // The compact protocol's false inside a list.
		if p.NullPage {
			flag = 1
		}
		nullPages = append(nullPages, Value{Kind: True, Int: flag})
		mins, maxs = append(mins, BinaryValue(p.Min)), append(maxs, BinaryValue(p.Max))
		nulls = append(nulls, Int64Value(p.Nulls))
		known = known && p.Nulls >= 0
	}
	s := &Struct{Fields: []Field{
		{ID: 1, Value: ListValue(True, nullPages)},
		{ID: 2, Value: ListValue(Binary, mins)},
		{ID: 3, Value: ListValue(Binary, maxs)},
		{ID: 4, Value: Int32Value(order)},
	}}
	if known {
		s.Put(5, ListValue(I64, nulls))
	}
	return s
}

// Location is one page of an OffsetIndex.
type Location struct {
	// Offset is where the page's header begins; Bytes is the length of header and body.
	Offset, Bytes int64
	// FirstRow is the first row of the page, counted in its row group.
	FirstRow int64
}

// OffsetIndex reads an OffsetIndex.
func OffsetIndex(data []byte) ([]Location, error) {
	s, _, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read an offset index: %w", err)
	}
	var out []Location
	for _, v := range s.List(1) {
		l := Location{Offset: v.Struct.IntOr(1, -1), Bytes: v.Struct.IntOr(2, -1), FirstRow: v.Struct.IntOr(3, -1)}
		if l.Offset < 0 || l.Bytes < 0 || l.FirstRow < 0 {
			return nil, fmt.Errorf("read an offset index: a page without place: %w", ErrMalformed)
		}
		out = append(out, l)
	}
	return out, nil
}

// NewOffsetIndex makes an OffsetIndex.
func NewOffsetIndex(pages []Location) *Struct {
	values := make([]Value, len(pages))
	for i, p := range pages {
		values[i] = RecordValue(&Struct{Fields: []Field{
			{ID: 1, Value: Int64Value(p.Offset)}, {ID: 2, Value: Int32Value(p.Bytes)}, {ID: 3, Value: Int64Value(p.FirstRow)},
		}})
	}
	return &Struct{Fields: []Field{{ID: 1, Value: ListValue(Record, values)}}}
}
