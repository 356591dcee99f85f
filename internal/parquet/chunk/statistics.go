package chunk

import (
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

const (
	// statisticsBytes is the most that both bounds of a chunk may take, as parquet-mr has it; longer ones are left out.
	statisticsBytes = 4096
	// indexBoundBytes is where bounds of pages are cut, as parquet-mr cuts them.
	indexBoundBytes = 64
)

// UnknownBounds are those of a page of which nothing is known.
func UnknownBounds() footer.Bounds { return footer.Bounds{Nulls: -1} }

// pageBounds works out the open page's statistics, and takes them into those of the chunk.
func (w *Writer) pageBounds() (footer.Bounds, error) {
	out := footer.Bounds{Nulls: int64(w.entries - w.values), NullPage: w.values == 0}
	if w.values == 0 {
		return out, nil
	}
	b := encoding.NewBounds(w.column.Order, w.width)
	var nans int64
	var err error
	if w.coded {
		nans, err = w.addUsed(&b)
	} else {
		err = b.AddPlain(w.plain, w.values)
		nans = b.NaNs()
	}
	if err != nil {
		return out, err
	}
	if nans > 0 {
		w.nans += nans
		b.Lose() // Some readers hold NaN to be larger than every number, others skip by bounds that leave it out.
	}
	w.limits.Take(&b)
	if lower, upper, ok := b.Result(); ok {
		out.Min, out.Max = append([]byte{}, lower...), append([]byte{}, upper...)
	}
	return out, nil
}

// addUsed adds the entries that the open page's indices name, each once, and counts the values that are NaN.
func (w *Writer) addUsed(b *encoding.Bounds) (nans int64, err error) {
	d := &w.dictionary
	if cap(w.used) < d.Len() {
		w.used = make([]bool, d.Len())
	}
	w.used = w.used[:d.Len()]
	clear(w.used)
	for _, i := range w.indices {
		w.used[i] = true
	}
	for i, used := range w.used {
		if !used {
			continue
		}
		before := b.NaNs()
		if err := b.AddPlain(d.Entry(i), 1); err != nil {
			return 0, err
		}
		w.used[i] = b.NaNs() > before // From here on: is NaN.
	}
	if b.NaNs() == 0 {
		return 0, nil
	}
	for _, i := range w.indices {
		if w.used[i] {
			nans++
		}
	}
	return nans, nil
}

// note takes the statistics of a page of so many entries into the chunk's column index and null count. A page of values without sound bounds costs
// the chunk its column index.
func (w *Writer) note(b footer.Bounds, entries int64) {
	w.valuesDone += entries
	if b.Nulls < 0 {
		w.noNulls = true
	} else {
		w.nulls += b.Nulls
	}
	if w.noBounds {
		return
	}
	if b.Nulls == entries || b.NullPage {
		b.NullPage, b.Min, b.Max = true, nil, nil
	} else {
		one := encoding.NewBounds(w.column.Order, w.width)
		one.Merge(b.Min, b.Max)
		lower, upper, ok := one.Result()
		if !ok {
			w.noBounds, w.bounds = true, nil
			return
		}
		b.Min = append([]byte{}, w.cutLower(lower)...)
		if b.Max, ok = w.cutUpper(append([]byte{}, upper...)); !ok {
			b.Max = append([]byte{}, upper...)
		}
	}
	w.bounds = append(w.bounds, b)
}

// cuts says whether bounds of the column may be cut.
func (w *Writer) cuts(b []byte) bool {
	return w.column.Order == encoding.Bytewise && w.width == encoding.ByteArray && len(b) > indexBoundBytes
}

func (w *Writer) cutLower(b []byte) []byte {
	if !w.cuts(b) {
		return b
	}
	return encoding.CutLower(b, indexBoundBytes, w.column.Text)
}

func (w *Writer) cutUpper(b []byte) ([]byte, bool) {
	if !w.cuts(b) {
		return b, true
	}
	return encoding.CutUpper(b, indexBoundBytes, w.column.Text)
}

// columnIndex returns the chunk's ColumnIndex, nil when a page's bounds or place are unknown.
func (w *Writer) columnIndex() *footer.Struct {
	if w.noBounds || w.noPlaces || len(w.bounds) == 0 {
		return nil
	}
	return footer.NewColumnIndex(w.bounds, w.boundaryOrder())
}

// boundaryOrder tells whether both bounds only rise, or only fall, over the pages with values.
func (w *Writer) boundaryOrder() int64 {
	up, down := true, true
	var last *footer.Bounds
	for i := range w.bounds {
		b := &w.bounds[i]
		if b.NullPage {
			continue
		}
		if last != nil {
			low, high := w.column.Order.Compare(last.Min, b.Min), w.column.Order.Compare(last.Max, b.Max)
			up = up && low <= 0 && high <= 0
			down = down && low >= 0 && high >= 0
		}
		last = b
	}
	switch {
	case up:
		return footer.Ascending
	case down:
		return footer.Descending
	}
	return footer.Unordered
}
