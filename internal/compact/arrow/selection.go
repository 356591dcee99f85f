package arrow

import (
	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"firn/internal/parquet/column"
)

// selection is the set of rows of one input that are to be written: all but the deleted ones, or, when only is set, exactly those.
type selection struct {
	rows    int64
	deleted *roaring64.Bitmap
	only    *roaring64.Bitmap
}

// count is the number of selected rows.
func (s selection) count() int64 { return s.countIn(column.Run{To: s.rows}) }

// countIn is the number of selected rows in a range.
func (s selection) countIn(r column.Run) int64 {
	switch {
	case r.From >= r.To:
		return 0
	case s.only != nil:
		return below(s.only, r.To) - below(s.only, r.From)
	case s.deleted != nil:
		return r.To - r.From - (below(s.deleted, r.To) - below(s.deleted, r.From))
	}
	return r.To - r.From
}

// below counts the positions under n.
func below(b *roaring64.Bitmap, n int64) int64 {
	if n <= 0 {
		return 0
	}
	return int64(b.Rank(uint64(n - 1)))
}

// walker yields the selected runs of consecutive ranges; each range must start where the last ended or later.
type walker struct {
	sel selection
	it  roaring64.IntPeekable64
}

func (s selection) walk() *walker {
	w := &walker{sel: s}
	switch {
	case s.only != nil:
		w.it = s.only.Iterator()
	case s.deleted != nil:
		w.it = s.deleted.Iterator()
	}
	return w
}

// runs appends the selected runs of r to dst.
func (w *walker) runs(dst []column.Run, r column.Run) []column.Run {
	if w.it == nil {
		if r.From < r.To {
			dst = append(dst, r)
		}
		return dst
	}
	w.it.AdvanceIfNeeded(uint64(r.From))
	if w.sel.only != nil {
		return w.selected(dst, r)
	}
	from := r.From
	for w.it.HasNext() && w.it.PeekNext() < uint64(r.To) {
		at := int64(w.it.Next())
		if at > from {
			dst = append(dst, column.Run{From: from, To: at})
		}
		from = at + 1
	}
	if from < r.To {
		dst = append(dst, column.Run{From: from, To: r.To})
	}
	return dst
}

func (w *walker) selected(dst []column.Run, r column.Run) []column.Run {
	first := len(dst)
	for w.it.HasNext() && w.it.PeekNext() < uint64(r.To) {
		at := int64(w.it.Next())
		if n := len(dst); n > first && dst[n-1].To == at {
			dst[n-1].To++
			continue
		}
		dst = append(dst, column.Run{From: at, To: at + 1})
	}
	return dst
}
