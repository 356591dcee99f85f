package verify

import (
	"context"
	"testing"

	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
)

// BenchmarkVerify compares a rewrite of 200,000 rows with its parent; the figure is for rows of both sides.
func BenchmarkVerify(b *testing.B) {
	const rows = 200_000
	w := icebergtest.NewWorld(b)
	tbl := w.NewTable("db.t")
	var paths []string
	for i := range int64(4) {
		paths = append(paths, tbl.Commit(icebergtest.Append(numbered(i*rows/4, (i+1)*rows/4)...)).DataFiles...)
	}
	tbl.Commit(icebergtest.DeletePositions(paths[0], 7))
	kept := append(numbered(0, 7), numbered(8, rows)...)
	tbl.Commit(icebergtest.Remove(paths...), icebergtest.Append(kept...), icebergtest.Operation(table.OpReplace))
	v := &Verifier{Store: w.Store}
	b.ResetTimer()
	for b.Loop() {
		r, err := v.Snapshot(context.Background(), tbl.State(), 0)
		if err != nil || r.Verdict != Equal {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(float64(2*rows*b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportAllocs()
}
