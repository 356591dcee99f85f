package ordering_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/internal/decide/ordering"
	"firn/internal/decide/where"
	"firn/internal/maintenance"
)

func long(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

func columns() []where.Column {
	return []where.Column{
		{FieldID: 1, Path: []string{"x"}, Type: where.Type{Kind: where.TypeLong}}, {FieldID: 2, Path: []string{"y"}, Type: where.Type{Kind: where.TypeLong}},
	}
}

func fields(ids ...int) (out []maintenance.OrderingField) {
	for _, id := range ids {
		out = append(out, maintenance.OrderingField{SourceID: id, Transform: "identity"})
	}
	return out
}

// TestCutKeepsFiles: whatever bounds are known, each file is in exactly one group, and no group of several files is over the limit.
func TestCutKeepsFiles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var files []ordering.File
		for range rapid.IntRange(1, 30).Draw(t, "files") {
			f := ordering.File{SizeBytes: rapid.Int64Range(0, 50).Draw(t, "size"), Lower: map[int][]byte{}, Upper: map[int][]byte{}}
			for id := 1; id <= 2; id++ {
				if rapid.Bool().Draw(t, "known") {
					n := rapid.Int64Range(-5, 5).Draw(t, "bound")
					f.Lower[id], f.Upper[id] = long(n), long(n+1)
				}
			}
			files = append(files, f)
		}
		o := &maintenance.Ordering{Fields: fields(1, 2)}
		o.Curve = rapid.SampledFrom([]maintenance.Curve{maintenance.NoCurve, maintenance.ZOrder}).Draw(t, "curve")
		o.Fields[0].Descending = rapid.Bool().Draw(t, "desc") && o.Curve == maintenance.NoCurve
		limit := rapid.Int64Range(0, 120).Draw(t, "limit")
		var seen []int
		for _, g := range ordering.Cut(o, columns(), files, limit) {
			var size int64
			for _, i := range g {
				size += files[i].SizeBytes
			}
			if limit > 0 && len(g) > 1 && size > limit {
				t.Fatalf("a group of %d files has %d bytes: at most %d", len(g), size, limit)
			}
			if len(g) == 0 {
				t.Fatal("an empty group")
			}
			seen = append(seen, g...)
		}
		slices.Sort(seen)
		for i, n := range seen {
			if i != n || len(seen) != len(files) {
				t.Fatalf("files %v of %d", seen, len(files))
			}
		}
	})
}

// TestRunsConverge sorts 40 files of random rows with groups of ten: after a few runs the files do not overlap any more, so that a point is in
// one file only, and a z-order has points in few.
func TestRunsConverge(t *testing.T) {
	t.Parallel()
	const rowsPerFile, perGroup = 50, 10
	type row = [2]int64
	for _, curve := range []maintenance.Curve{maintenance.NoCurve, maintenance.ZOrder} {
		rng := rand.New(rand.NewPCG(5, 6))
		o := &maintenance.Ordering{Curve: curve, Fields: fields(1, 2)}
		files := make([][]row, 40)
		for i := range files {
			for range rowsPerFile {
				files[i] = append(files[i], row{rng.Int64N(4096), rng.Int64N(4096)})
			}
		}
		less := func(a, b row) int {
			if curve == maintenance.NoCurve {
				return slices.Compare(a[:], b[:])
			}
			x, y := uint64(a[0])^uint64(b[0]), uint64(a[1])^uint64(b[1])
			if x < y && x < x^y {
				return int(a[1] - b[1])
			}
			return int(a[0] - b[0])
		}
		depth := func() int {
			most := 0
			for range 500 {
				p, n := row{rng.Int64N(4096), rng.Int64N(4096)}, 0
				for _, f := range files {
					b := bounds(f)
					if b[0] <= p[0] && p[0] <= b[1] && (curve == maintenance.NoCurve || (b[2] <= p[1] && p[1] <= b[3])) {
						n++
					}
				}
				most = max(most, n)
			}
			return most
		}
		first := depth()
		for range 4 {
			var in []ordering.File
			for _, f := range files {
				b := bounds(f)
				in = append(in, ordering.File{
					SizeBytes: 1, Lower: map[int][]byte{1: long(b[0]), 2: long(b[2])}, Upper: map[int][]byte{1: long(b[1]), 2: long(b[3])},
				})
			}
			var next [][]row
			for _, g := range ordering.Cut(o, columns(), in, perGroup) {
				var rows []row
				for _, i := range g {
					rows = append(rows, files[i]...)
				}
				slices.SortFunc(rows, less)
				next = append(next, slices.Collect(slices.Chunk(rows, rowsPerFile))...)
			}
			files = next
		}
		last := depth()
		t.Logf("%q: a point was in %d files, is in %d", curve, first, last)
		if want := map[maintenance.Curve]int{maintenance.NoCurve: 4, maintenance.ZOrder: 8}[curve]; first < 38 || last > want {
			t.Errorf("%q: a point was in %d files, is in %d: want at most %d", curve, first, last, want)
		}
	}
}

// bounds are the smallest and largest x, then y.
func bounds(rows [][2]int64) [4]int64 {
	b := [4]int64{rows[0][0], rows[0][0], rows[0][1], rows[0][1]}
	for _, r := range rows {
		b = [4]int64{min(b[0], r[0]), max(b[1], r[0]), min(b[2], r[1]), max(b[3], r[1])}
	}
	return b
}
