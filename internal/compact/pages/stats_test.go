package pages_test

import (
	"bytes"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/metrics"
	"firn/internal/parquet/column"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/layout"
)

// checkStatistics compares all that an output says of its values with the values: counts and bounds of the entry, of chunks and of pages, and the
// places of pages.
func checkStatistics(t *testing.T, w *world, f iceberg.DataFile) {
	t.Helper()
	data := w.get(f.FilePath())
	n, err := footer.Length(data, int64(len(data)))
	must(t, err)
	end := int64(len(data)) - footer.TrailerBytes
	meta, err := footer.DecodeFile(data[end-n : end])
	must(t, err)
	src := w.open(f.FilePath())
	whole := metrics.New(w.layout, w.job.Modes)
	for g, group := range meta.RowGroups() {
		for i, chunk := range group.Columns() {
			leaf := w.layout.Leaves[i]
			first := src.Groups[g].First
			var all column.Batch
			must(t, src.Scan(g, i, column.Run{From: first, To: first + group.Rows()}, func(b *column.Batch) error {
				texts, fixed := len(all.Bytes), len(all.Fixed)
				b.Keep(&all, []column.Run{{From: b.First, To: b.First + int64(b.Rows)}}, leaf.MaxDef)
				for n := texts; n < len(all.Bytes); n++ { // What a batch points to is only valid now.
					all.Bytes[n] = bytes.Clone(all.Bytes[n])
				}
				for n := fixed; n < len(all.Fixed); n++ {
					all.Fixed[n] = bytes.Clone(all.Fixed[n])
				}
				whole.Add(i, b)
				return nil
			}))
			checkChunk(t, leaf, chunk.Metadata(), &all)
			checkPages(t, leaf, data, chunk, &all)
		}
	}
	checkEntry(t, w, f, whole.Result())
}

// checkEntry demands that what the entry says is right: counts exact, bounds around the values.
func checkEntry(t *testing.T, w *world, f iceberg.DataFile, want metrics.Result) {
	t.Helper()
	for id, n := range f.NullValueCounts() {
		if want.Nulls[id] != n {
			t.Errorf("field %d: %d nulls, there are %d", id, n, want.Nulls[id])
		}
	}
	for id, n := range f.ValueCounts() {
		if want.Values[id] != n {
			t.Errorf("field %d: %d values, there are %d", id, n, want.Values[id])
		}
	}
	for id, n := range f.NaNValueCounts() { // The inputs' entries have none: only where all values were seen there may be one.
		if want.NaNs[id] != n {
			t.Errorf("field %d: %d NaN, there are %d", id, n, want.NaNs[id])
		}
	}
	for id, lower := range f.LowerBoundValues() {
		leaf := w.layout.Leaf(id)
		if _, seen := f.NaNValueCounts()[id]; !seen && (leaf.Kind == layout.Double || leaf.Kind == layout.Float) {
			t.Errorf("field %d: bounds of floats that may be NaN", id)
			continue
		}
		if w.masked() {
			around(t, leaf, [2][]byte{lower, f.UpperBoundValues()[id]}, [2][]byte{want.Lower[id], want.Upper[id]})
			continue
		}
		if !bytes.Equal(lower, want.Lower[id]) || !bytes.Equal(f.UpperBoundValues()[id], want.Upper[id]) {
			t.Errorf("field %d: bounds %x %x, the values have %x %x", id, lower, f.UpperBoundValues()[id], want.Lower[id], want.Upper[id])
		}
	}
}

// around demands that bounds hold for tighter ones: with deleted rows those of the inputs stay.
func around(t *testing.T, leaf *layout.Leaf, have, want [2][]byte) {
	t.Helper()
	one := *leaf
	one.Index = 0
	f := metrics.New(&layout.Layout{Leaves: []*layout.Leaf{&one}}, []metrics.Mode{{Counts: true, Bounds: true}})
	for _, b := range append(have[:], want[:]...) {
		v, ok := metrics.DecodeBound(leaf, b)
		if !ok && b != nil {
			t.Errorf("field %d: bound %x", leaf.FieldID, b)
		}
		if ok {
			f.Add(0, &column.Batch{Levels: 1, Values: *v})
		}
	}
	if r := f.Result(); !bytes.Equal(r.Lower[leaf.FieldID], have[0]) || !bytes.Equal(r.Upper[leaf.FieldID], have[1]) {
		t.Errorf("field %d: bounds %x, the values have %x", leaf.FieldID, have, want)
	}
}

func checkChunk(t *testing.T, leaf *layout.Leaf, m footer.Column, b *column.Batch) {
	t.Helper()
	s := m.Statistics()
	if n, ok := s.Int(footer.StatNulls); ok && n != int64(b.Levels-b.Len()) {
		t.Errorf("column %s: %d nulls, there are %d", leaf.Path, n, b.Levels-b.Len())
	}
	if m.IntOr(footer.ColumnValues, -1) != int64(b.Levels) {
		t.Errorf("column %s: %d values, there are %d", leaf.Path, m.IntOr(footer.ColumnValues, -1), b.Levels)
	}
	low, hasLow := s.Binary(footer.StatMin)
	high, hasHigh := s.Binary(footer.StatMax)
	if hasLow != hasHigh {
		t.Errorf("column %s: one bound", leaf.Path)
	}
	if hasLow {
		within(t, leaf, low, high, &b.Values)
	}
}

// within demands that a footer's bounds hold for values, NaN aside. It compares by way of the single-value serialisation's own measure: adding
// the bounds to the values must not move the smallest and largest of them inwards.
func within(t *testing.T, leaf *layout.Leaf, low, high []byte, v *column.Values) {
	t.Helper()
	one := *leaf
	one.Index = 0
	l := &layout.Layout{Leaves: []*layout.Leaf{&one}}
	modes := []metrics.Mode{{Counts: true, Bounds: true}}
	with := func(values ...*column.Values) (lower, upper []byte) {
		f := metrics.New(l, modes)
		for _, v := range values {
			f.Add(0, &column.Batch{Levels: v.Len(), Values: *v})
		}
		r := f.Result()
		return r.Lower[leaf.FieldID], r.Upper[leaf.FieldID]
	}
	bounds := func(b []byte) *column.Values {
		if leaf.Kind == layout.Fixed { // The serialisation of decimals is shorter; the footer's is the value itself.
			return &column.Values{Fixed: append(v.Fixed[:0:0], b)}
		}
		d, ok := metrics.DecodeBound(leaf, b)
		if !ok {
			t.Errorf("column %s: bound %x", leaf.Path, b)
			return &column.Values{}
		}
		return d
	}
	min1, max1 := with(bounds(low), bounds(high))
	min2, max2 := with(bounds(low), bounds(high), v)
	if !bytes.Equal(min1, min2) || !bytes.Equal(max1, max2) {
		t.Errorf("column %s: bounds %x %x, values from %x to %x", leaf.Path, low, high, min2, max2)
	}
}

// checkPages compares both page indexes with the pages.
func checkPages(t *testing.T, leaf *layout.Leaf, data []byte, c footer.Chunk, all *column.Batch) {
	t.Helper()
	at, ok := c.Int(footer.ChunkOffsetIndex)
	if !ok {
		return
	}
	places, err := footer.OffsetIndex(data[at : at+c.IntOr(footer.ChunkOffsetIndexLength, 0)])
	must(t, err)
	var bounds []footer.Bounds
	if at, ok := c.Int(footer.ChunkColumnIndex); ok {
		bounds, err = footer.ColumnIndex(data[at : at+c.IntOr(footer.ChunkColumnIndexLength, 0)])
		must(t, err)
		if len(bounds) != len(places) {
			t.Errorf("column %s: %d pages in one index, %d in the other", leaf.Path, len(bounds), len(places))
			return
		}
	}
	for i, p := range places {
		h, err := footer.DecodePage(data[p.Offset:])
		must(t, err)
		if p.Bytes != int64(h.Length)+h.CompressedBody() {
			t.Errorf("column %s: page %d has another length", leaf.Path, i)
		}
		to := int64(all.Rows)
		if i+1 < len(places) {
			to = places[i+1].FirstRow
		}
		var page column.Batch
		shifted := *all
		shifted.First = 0
		shifted.Keep(&page, []column.Run{{From: p.FirstRow, To: to}}, leaf.MaxDef)
		if int64(page.Levels) != h.Values() {
			t.Errorf("column %s: page %d has %d values, its rows %d", leaf.Path, i, h.Values(), page.Levels)
		}
		if bounds == nil {
			continue
		}
		if b := bounds[i]; b.NullPage != (page.Len() == 0) || (b.Nulls >= 0 && b.Nulls != int64(page.Levels-page.Len())) {
			t.Errorf("column %s: page %d: %+v, there are %d values of %d", leaf.Path, i, b, page.Len(), page.Levels)
		} else if !b.NullPage {
			within(t, leaf, b.Min, b.Max, &page.Values)
		}
	}
}
