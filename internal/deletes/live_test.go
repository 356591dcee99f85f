package deletes_test

import (
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"pgregory.net/rapid"

	"firn/internal/deletes"
	"firn/internal/parquet/column"
)

// TestLiveRunsAreTheRowsThatNoDeleteNames compares the runs, row by row, with the mask, and wants them in order and never adjacent.
func TestLiveRunsAreTheRowsThatNoDeleteNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var mask deletes.Mask
		if rapid.Bool().Draw(t, "masked") {
			mask = roaring64.BitmapOf(rapid.SliceOfN(rapid.Uint64Range(0, 40), 0, 40).Draw(t, "deleted")...)
		}
		rows := column.Run{From: rapid.Int64Range(0, 30).Draw(t, "from"), To: rapid.Int64Range(0, 45).Draw(t, "to")}
		live, end := map[int64]bool{}, int64(-1)
		for _, run := range deletes.Live(nil, mask, rows) {
			if run.From >= run.To || run.From <= end {
				t.Fatalf("run %+v after %d", run, end)
			}
			end = run.To
			for row := run.From; row < run.To; row++ {
				live[row] = true
			}
		}
		for row := range int64(50) {
			want := row >= rows.From && row < rows.To && (mask == nil || !mask.Contains(uint64(row)))
			if live[row] != want {
				t.Fatalf("row %d: live %t, want %t", row, live[row], want)
			}
		}
	})
}
