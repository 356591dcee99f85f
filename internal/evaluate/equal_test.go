package evaluate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"firn/internal/icebergtest"
)

// sizedTable is a table of a size that a look at one commit must not feel: so many files, over so many partitions, behind the same number of manifests.
type sizedTable struct {
	manifests, snapshots, files, partitions int
}

func (s sizedTable) String() string {
	return fmt.Sprintf("manifests=%d/snapshots=%d/files=%d/partitions=%d", s.manifests, s.snapshots, s.files, s.partitions)
}

// look prepares one.
func (s sizedTable) look(tb testing.TB) *onCommit {
	tb.Helper()
	return newOnPartitions(tb, s.partitions, func(tbl *icebergtest.Table, w *icebergtest.World) {
		inflate(tb, w, tbl, s.manifests, s.snapshots, s.files)
	})
}

// once is one look, after which the table is as before.
func (c *onCommit) once(tb testing.TB) time.Duration {
	tb.Helper()
	began := cpuTime(tb)
	c.deliverB(tb)
	spent := cpuTime(tb) - began
	c.rewind(tb)
	return spent
}

// TestFilesAreFree: what a look allocates does not depend on how many files the table holds, only on how many manifests. BenchmarkFilesAreFree says the
// same of time.
func TestFilesAreFree(t *testing.T) { //nolint:paralleltest // counts what the process allocates
	few, many := sizedTable{100, 100, 10_000, 3}.look(t), sizedTable{100, 100, 1_000_000_000, 3}.look(t)
	a, b := testing.AllocsPerRun(5, func() { few.once(t) }), testing.AllocsPerRun(5, func() { many.once(t) })
	if b > a*1.02 || a > b*1.02 {
		t.Errorf("a look at 10,000 files allocates %.0f times, at 1,000,000,000 %.0f times", a, b)
	}
}

// BenchmarkFilesAreFree looks at tables of as many manifests in turn, first the one and then the other, so that what else the machine does meets all of them, and
// tells the median CPU time of a look in that of the first table. docs/cost.md has the figures.
func BenchmarkFilesAreFree(b *testing.B) {
	for _, manifests := range []int{100, 1000} {
		b.Run(fmt.Sprintf("manifests=%d", manifests), func(b *testing.B) {
			tables := []sizedTable{
				{manifests, manifests, 10_000, 3},
				{manifests, manifests, 1_000_000, 3},
				{manifests, manifests, 100_000_000, 3},
				{manifests, manifests, 1_000_000, 30},
				{manifests, manifests, 1_000_000, 10_000},
				{manifests, 2 * manifests, 1_000_000, 3},
			}
			looks := make([]*onCommit, len(tables))
			for i, s := range tables {
				looks[i] = s.look(b)
			}
			spent := make([][]time.Duration, len(tables))
			for b.Loop() {
				for i := range tables {
					spent[i] = append(spent[i], looks[i].once(b))
				}
			}
			median := func(i int) time.Duration { slices.Sort(spent[i]); return spent[i][len(spent[i])/2] }
			for i, s := range tables {
				b.Logf("%s: %.2f CPU ms, %.3f of the first's", s, median(i).Seconds()*1000, median(i).Seconds()/median(0).Seconds())
			}
			b.ReportMetric(median(1).Seconds()/median(0).Seconds(), "ratio")
		})
	}
}
