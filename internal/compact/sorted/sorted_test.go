package sorted_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"pgregory.net/rapid"

	"firn/internal/compact/engine"
	"firn/internal/compact/sorted"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/parquet/column"
	"firn/internal/store"
)

// compareText orders the texts of two values of k or s.
func compareText(f maintenance.OrderingField, a, b string) int {
	isNull := func(s string) bool { return strings.HasPrefix(s, "null") }
	switch {
	case isNull(a) && isNull(b):
		return 0
	case isNull(a) || isNull(b):
		if isNull(a) != f.NullsLast {
			return -1
		}
		return 1
	}
	c := strings.Compare(a, b)
	if f.SourceID == 2 { // [][1][][]...: the number is the second pair of brackets.
		number := func(s string) int {
			n, _ := strconv.Atoi(strings.Trim(s[2:strings.Index(s[2:], "]")+3], "[]"))
			return n
		}
		c = cmp.Compare(number(a), number(b))
	}
	if f.Descending {
		return -c
	}
	return c
}

// TestSortAgainstModel (cases A41 and A52) sorts random files with random deletes, orderings, limits and parts: the outputs hold exactly the kept rows, in the order
// of a stable sort, and the permutation leads from each row to its place.
func TestSortAgainstModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		w := newWorld(t, schema(), map[string]string{
			"write.parquet.row-group-size-bytes": rapid.SampledFrom([]string{"4000", "134217728"}).Draw(t, "row group"),
			"write.parquet.page-row-limit":       rapid.SampledFrom([]string{"7", "20000"}).Draw(t, "page rows"),
		})
		keys := rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "keys")
		for range rapid.IntRange(1, 4).Draw(t, "files") {
			rows := rapid.IntRange(1, 60).Draw(t, "rows")
			var deleted []uint64
			switch rapid.IntRange(0, 3).Draw(t, "deletes") {
			case 0:
				deleted = rapid.SliceOfN(rapid.Uint64Range(0, uint64(rows)+3), 1, rows).Draw(t, "deleted")
			case 1:
				for i := range rows {
					deleted = append(deleted, uint64(i))
				}
			}
			w.add(t, deleted, generate(w.layout, rng, rows, keys), generate(w.layout, rng, rng.IntN(20)+1, keys))
		}
		o := by(rapid.SampledFrom([][]int{{2}, {3}, {2, 3}, {3, 2}}).Draw(t, "columns")...)
		for i := range o.Fields {
			o.Fields[i].Descending, o.Fields[i].NullsLast = rapid.Bool().Draw(t, "desc"), rapid.Bool().Draw(t, "nulls last")
		}
		w.job.Ordering, w.job.Writer.DictBytes = o, rapid.SampledFrom([]int64{5, 30, 1 << 20}).Draw(t, "dictionary") // Some columns give up codes on the way.
		w.job.ExpectedOutputFiles = rapid.IntRange(1, 3).Draw(t, "outputs")
		limits := sorted.Limits{
			WindowBytes: rapid.SampledFrom([]int64{800, 1 << 20}).Draw(t, "window"), HeldBytes: rapid.SampledFrom([]int64{1, 1 << 20}).Draw(t, "held"),
			WholeBelowBytes:  rapid.SampledFrom([]int64{1, 8 << 20}).Draw(t, "whole"),
			SpillMemoryBytes: rapid.SampledFrom([]int64{-1, 1 << 20}).Draw(t, "spill memory"), MergeBytes: 1,
		}
		r, err := w.rewrite(t, limits, sorted.Spill{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		order := make([]int, len(w.rows))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			for _, f := range o.Fields {
				if c := compareText(f, w.rows[a][f.SourceID-1], w.rows[b][f.SourceID-1]); c != 0 {
					return c
				}
			}
			return 0
		})
		got := w.outputs(t, r)
		if len(got) != len(order) {
			t.Fatalf("%d rows of %d", len(got), len(order))
		}
		for i, row := range order {
			if !slices.Equal(got[i], w.rows[row]) {
				t.Fatalf("row %d is %q, want %q", i, got[i], w.rows[row])
			}
		}
		checkPermutation(t, w, r, order)
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the spill folder: %v, %v", left, err)
	}
}

// checkPermutation looks up every row of every input.
func checkPermutation(t failer, w *world, r engine.Result, order []int) {
	t.Helper()
	ctx := context.Background()
	p, err := handoff.OpenPermutation(ctx, w.store, r.Permutation)
	must(t, err)
	want := map[place]int{}
	for i, row := range order {
		want[w.from[row]] = i
	}
	for file, in := range w.job.Inputs {
		var positions []int64
		for i := range in.Count() {
			positions = append(positions, i)
		}
		places, err := p.Lookup(ctx, p.Source(in.FilePath()), positions)
		must(t, err)
		for i, got := range places {
			n, kept := want[place{file, int64(i)}]
			if kept == got.Deleted {
				t.Fatalf("row %d of %s: %+v, kept is %t", i, in.FilePath(), got, kept)
			}
			if !kept {
				continue
			}
			before := int64(0)
			for _, o := range r.Outputs[:got.Output] {
				before += o.Count()
			}
			if before+got.Offset != int64(n) {
				t.Fatalf("row %d of %s is at %+v: want row %d of all", i, in.FilePath(), got, n)
			}
		}
	}
}

// TestSkew: when all rows have one key, runs are merged in the order of the inputs and outputs keep their sizes.
func TestSkew(t *testing.T) {
	t.Parallel()
	rng := seeded(t, 7)
	w := newWorld(t, schema(), nil)
	for range 6 {
		w.add(t, nil, generate(w.layout, rng, 500, 1))
	}
	w.job.Ordering, w.job.ExpectedOutputFiles = by(7), 4 // All null.
	r, err := w.rewrite(t, sorted.Limits{WindowBytes: 20_000}, sorted.Spill{})
	must(t, err)
	for i, text := range w.outputs(t, r) {
		if !slices.Equal(text, w.rows[i]) {
			t.Fatalf("row %d moved", i)
		}
	}
	for _, o := range r.Outputs {
		if o.Count() != 750 {
			t.Errorf("an output of %d rows: want 750", o.Count())
		}
	}
}

// TestParts: a bin-pack orders each part by itself.
func TestParts(t *testing.T) {
	t.Parallel()
	rng := seeded(t, 8)
	w := newWorld(t, schema(), nil)
	for range 4 {
		w.add(t, []uint64{3}, generate(w.layout, rng, 200, 1000))
	}
	w.job.Ordering = by(1)
	w.job.Ordering.PartSizeBytes = 2*w.job.Inputs[0].FileSizeBytes() + 3000
	w.job.Ordering.SortOrderID = 3
	r, err := w.rewrite(t, sorted.Limits{}, sorted.Spill{})
	must(t, err)
	if len(r.Outputs) != 2 {
		t.Fatalf("%d outputs: want 2", len(r.Outputs))
	}
	for i, o := range r.Outputs {
		if o.SortOrderID() == nil || *o.SortOrderID() != 3 {
			t.Errorf("sort order %v: want 3", o.SortOrderID())
		}
		rows := w.read(t, o.FilePath(), o.FileSizeBytes())
		if len(rows) != 398 {
			t.Errorf("part %d has %d rows: want those of two files", i, len(rows))
		}
	}
}

// TestSpillLimit: a group that needs more than may be spilled is refused, and nothing is left of it.
func TestSpillLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rng := seeded(t, 9)
	w := newWorld(t, schema(), nil)
	w.add(t, nil, generate(w.layout, rng, 3000, 100))
	w.job.Ordering = by(2)
	_, err := w.rewrite(t, sorted.Limits{SpillMemoryBytes: -1}, sorted.Spill{Dir: dir, LimitBytes: 50_000})
	if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "50000 bytes that may be spilled") {
		t.Errorf("%v: want a refusal that names the limit", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := w.rewrite(t, sorted.Limits{SpillMemoryBytes: -1}, sorted.Spill{Dir: dir + "/nosuch"}); err == nil {
		t.Error("a spill folder that is not there is no error")
	}
}

// TestCurvesMakeFilesSkippable: a point query on two columns of 64 files that were written along a curve opens at most an eighth of them by the
// bounds in their manifest entries; without it all.
func TestCurvesMakeFilesSkippable(t *testing.T) {
	t.Parallel()
	sc := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "x", Type: types.Int64, Required: true}, field(2, "y", types.Int32))
	for _, curve := range []maintenance.Curve{maintenance.ZOrder, maintenance.Hilbert} {
		rng := seeded(t, 3)
		w := newWorld(t, sc, nil)
		for range 64 {
			const rows = 300
			columns := []column.Batch{{Rows: rows, Levels: rows}, {Rows: rows, Levels: rows}}
			for range rows {
				columns[0].Int64 = append(columns[0].Int64, rng.Int64N(1000)-500)
				columns[1].Int32, columns[1].Def = append(columns[1].Int32, rng.Int32N(1000)), append(columns[1].Def, 1)
			}
			w.addQuietly(t, columns)
		}
		w.job.Ordering = &maintenance.Ordering{Curve: curve, Fields: by(1, 2).Fields}
		w.job.ExpectedOutputFiles = 64
		r, err := w.rewrite(t, sorted.Limits{}, sorted.Spill{})
		must(t, err)
		if len(r.Outputs) != 64 || r.Outputs[0].SortOrderID() != nil {
			t.Fatalf("%d outputs with sort order %v: want 64 without", len(r.Outputs), r.Outputs[0].SortOrderID())
		}
		most := 0
		for range 300 {
			x, y := rng.Int64N(1000)-500, rng.Int32N(1000)
			opened := 0
			for _, o := range r.Outputs {
				low, up := o.LowerBoundValues(), o.UpperBoundValues()
				if int64(binary.LittleEndian.Uint64(low[1])) <= x && x <= int64(binary.LittleEndian.Uint64(up[1])) &&
					int32(binary.LittleEndian.Uint32(low[2])) <= y && y <= int32(binary.LittleEndian.Uint32(up[2])) {
					opened++
				}
			}
			most = max(most, opened)
		}
		t.Logf("%s: a point opens at most %d of 64 files", curve, most)
		if most > 8 {
			t.Errorf("%s: a point opens %d of 64 files: want at most 8", curve, most)
		}
	}
}

// TestCurvesWithNulls is case A47: null and empty binary values, strings and numbers in every combination, and a column that is null throughout,
// go along a curve. No row has a helper column (case A48): a column may be named like Spark's.
func TestCurvesWithNulls(t *testing.T) {
	t.Parallel()
	sc := iceberg.NewSchema(0, field(1, "n", types.Int64), field(2, "b", types.Binary), field(3, "ICEBERGZVALUE", types.String), field(4, "none", types.Binary))
	for _, curve := range []maintenance.Curve{maintenance.ZOrder, maintenance.Hilbert} {
		w := newWorld(t, sc, nil)
		for range 3 {
			columns := make([]column.Batch, 4)
			for i := range columns {
				columns[i] = column.Batch{Rows: 27, Levels: 27}
			}
			for combination := range 27 {
				n, b, s := combination%3, combination/3%3, combination/9
				columns[0].Def = append(columns[0].Def, int16(min(n, 1)))
				if n > 0 {
					columns[0].Int64 = append(columns[0].Int64, int64(n)-2)
				}
				for i, pick := range []int{b, s} {
					columns[i+1].Def = append(columns[i+1].Def, int16(min(pick, 1)))
					if pick > 0 {
						columns[i+1].Bytes = append(columns[i+1].Bytes, []byte([]string{"", "longer than eight bytes"}[pick-1]))
					}
				}
				columns[3].Def = append(columns[3].Def, 0)
			}
			w.add(t, nil, columns)
		}
		w.job.Ordering = &maintenance.Ordering{Curve: curve, Fields: by(1, 2, 3, 4).Fields, VarLengthContributionBytes: 4}
		r, err := w.rewrite(t, sorted.Limits{WindowBytes: 300}, sorted.Spill{})
		must(t, err)
		got, want := w.outputs(t, r), slices.Clone(w.rows)
		for _, rows := range [][][]string{got, want} {
			slices.SortFunc(rows, slices.Compare)
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: other rows came out", curve)
		}
	}
}

// TestMemoryIsBounded sorts four files, and sixteen: the second takes no more memory. It does not run beside other tests.
func TestMemoryIsBounded(t *testing.T) { //nolint:paralleltest // it measures the heap of the process
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	var peaks []uint64
	for _, files := range []int{4, 16} {
		w, st := newWorld(t, eventSchema(), map[string]string{"write.parquet.compression-codec": "snappy", "write.parquet.row-group-size-bytes": "1000000"}), store.NewLocal()
		w.onDisk(t, st, files, func(rng *rand.Rand) []column.Batch { return events(w.layout, rng, 10_000) })
		w.job.Ordering = by(6)
		runtime.GC()
		stop, done := make(chan struct{}), make(chan uint64)
		go func() {
			sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
			var most uint64
			for {
				metrics.Read(sample)
				most = max(most, sample[0].Value.Uint64())
				select {
				case <-stop:
					done <- most
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		}()
		limits := sorted.Limits{WindowBytes: 1 << 20, HeldBytes: 1, MergeBytes: 1 << 20, SpillMemoryBytes: -1}
		_, err := sorted.New(st, slog.New(slog.DiscardHandler), limits, sorted.Spill{Dir: t.TempDir()}).Rewrite(context.Background(), w.job)
		close(stop)
		peaks = append(peaks, <-done)
		must(t, err)
	}
	t.Logf("at most %d MB for 4 files, %d MB for 16", peaks[0]>>20, peaks[1]>>20)
	if float64(peaks[1]) > 1.3*float64(peaks[0]) {
		t.Errorf("four times the files take %d bytes where %d were enough", peaks[1], peaks[0])
	}
}
