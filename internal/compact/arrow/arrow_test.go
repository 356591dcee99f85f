package arrow

import (
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/iceberg-go"
	"pgregory.net/rapid"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// TestSelectionAgainstModel compares counts and runs of a selection with a list of booleans, range after range.
func TestSelectionAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.Int64Range(1, 60).Draw(t, "rows")
		bits := roaring64.New()
		for _, p := range rapid.SliceOf(rapid.Uint64Range(0, 70)).Draw(t, "positions") { // Some lie past the end.
			bits.Add(p)
		}
		sel, keep := selection{rows: rows}, func(int64) bool { return true }
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 1:
			sel.deleted, keep = bits, func(r int64) bool { return !bits.Contains(uint64(r)) }
		case 2:
			for p := rows; p <= 70; p++ {
				bits.Remove(uint64(p))
			}
			sel.only, keep = bits, func(r int64) bool { return bits.Contains(uint64(r)) }
		}
		w := sel.walk()
		total := int64(0)
		for from := int64(0); from < rows; {
			to := min(from+rapid.Int64Range(1, 20).Draw(t, "range"), rows)
			got := map[int64]bool{}
			last := from
			for _, r := range w.runs(nil, column.Run{From: from, To: to}) {
				if r.From < last || r.To <= r.From || r.To > to {
					t.Fatalf("run %+v of %d to %d", r, from, to)
				}
				last = r.To
				for row := r.From; row < r.To; row++ {
					got[row] = true
				}
			}
			for row := from; row < to; row++ {
				if got[row] != keep(row) {
					t.Fatalf("row %d: selected %t", row, got[row])
				}
			}
			if n := sel.countIn(column.Run{From: from, To: to}); n != int64(len(got)) {
				t.Fatalf("%d rows counted from %d to %d, %d selected", n, from, to, len(got))
			}
			total += int64(len(got))
			from = to
		}
		if sel.count() != total {
			t.Fatalf("%d rows counted, %d selected", sel.count(), total)
		}
	})
}

// TestLedger: a difference between the two sides of a column is an error.
func TestLedger(t *testing.T) {
	t.Parallel()
	l, err := layout.New(iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "n", Type: iceberg.PrimitiveTypes.Int64}), false)
	if err != nil {
		t.Fatal(err)
	}
	g := newLedger(l)
	if _, err := g.columns(); err != nil {
		t.Error(err)
	}
	g.out[0].Sum++
	if _, err := g.columns(); err == nil {
		t.Error("a difference is no error")
	}
}
