package deletes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"pgregory.net/rapid"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/store"
)

// TestEqualityAgainstModel compares the masks with a plain nested loop, whatever the number of keys a pass: several delete files with their own
// sequence numbers, several data files, keys that repeat.
func TestEqualityAgainstModel(t *testing.T) {
	t.Parallel()
	tb := t
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		st := store.NewMemory(time.Now)
		value := rapid.Int64Range(-5, 40)
		fields := []iceberg.NestedField{long(1, "k"), long(2, "v")}
		set := Set{Schema: &KeySchema{Schemas: []*iceberg.Schema{iceberg.NewSchema(0, fields...)}}, KeysPerPass: rapid.IntRange(0, 4).Draw(t, "keys a pass")}
		var deleted [][]int64
		for i := range rapid.IntRange(1, 4).Draw(t, "deletes") {
			keys := rapid.SliceOfN(value, 1, 10).Draw(t, "keys")
			f := write(tb, st, fmt.Sprintf("mem://b/e%d", i), iceberg.EntryContentEqDeletes, fields[:1], longs(keys...))
			set.Files = append(set.Files, File{DataFile: f, Sequence: rapid.Int64Range(1, 5).Draw(t, "sequence")})
			deleted = append(deleted, keys)
		}
		var rows [][]int64
		for i := range rapid.IntRange(1, 3).Draw(t, "files") {
			keys := rapid.SliceOfN(value, 1, 30).Draw(t, "rows")
			f := write(tb, st, fmt.Sprintf("mem://b/d%d", i), iceberg.EntryContentData, fields, longs(keys...), longs(keys...))
			target := Target{DataFile: f, Sequence: rapid.Int64Range(0, 5).Draw(t, "sequence")}
			for d, e := range set.Files {
				if e.Sequence > target.Sequence {
					target.Deletes = append(target.Deletes, d)
				}
			}
			set.Targets = append(set.Targets, target)
			rows = append(rows, keys)
		}
		masks, err := Masks(ctx, st, set)
		if err != nil {
			t.Fatal(err)
		}
		for i, keys := range rows {
			for row, k := range keys {
				want := false
				for _, d := range set.Targets[i].Deletes {
					for _, e := range deleted[d] {
						want = want || e == k
					}
				}
				if got := masks[i] != nil && masks[i].Contains(uint64(row)); got != want {
					t.Fatalf("file %d row %d (key %d): deleted %t, want %t", i, row, k, got, want)
				}
			}
		}
	})
}

// TestFloatKeys: NaN equals NaN whatever its bits; -0.0 and 0.0 are different keys, as in Java's StructLikeSet.
func TestFloatKeys(t *testing.T) {
	t.Parallel()
	odd := math.Float64frombits(0x7ff8000000000001)
	v := &column.Values{Double: []float64{math.NaN(), odd, 0, math.Copysign(0, -1), 1}, Float: []float32{float32(math.NaN()), 0, float32(math.Copysign(0, -1))}}
	text := func(kind layout.Kind, i int) string { return string(appendValue(nil, kind, v, i)) }
	if text(layout.Double, 0) != text(layout.Double, 1) {
		t.Error("two NaN differ")
	}
	if text(layout.Double, 2) == text(layout.Double, 3) || text(layout.Float, 1) == text(layout.Float, 2) {
		t.Error("-0.0 equals 0.0")
	}
}

// TestEqualityFaults: deletes whose columns cannot be found fail the set.
func TestEqualityFaults(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st := store.NewMemory(time.Now)
	k, v := long(1, "k"), long(2, "v")
	data := write(t, st, "mem://b/d", iceberg.EntryContentData, []iceberg.NestedField{k, v}, longs(1, 2), longs(3, 4))
	schema := &KeySchema{Schemas: []*iceberg.Schema{iceberg.NewSchema(0, k, v,
		iceberg.NestedField{ID: 3, Name: "l", Type: &iceberg.ListType{ElementID: 4, Element: iceberg.PrimitiveTypes.Int64}})}}
	named := func(path string, ids ...int) iceberg.DataFile {
		f := write(t, st, path, iceberg.EntryContentData, []iceberg.NestedField{k}, longs(1))
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentEqDeletes, path, iceberg.ParquetFile, nil, nil, nil, 1,
			f.FileSizeBytes())
		must(t, err)
		return b.EqualityFieldIDs(ids).Build()
	}
	for name, e := range map[string]iceberg.DataFile{
		"unknown column": named("mem://b/e1", 99), "in a list": named("mem://b/e2", 4), "a list": named("mem://b/e3", 3),
		"no column": named("mem://b/e4"), "column not in the file": named("mem://b/e5", 1, 2),
	} {
		set := Set{Files: []File{{DataFile: e, Sequence: 2}}, Targets: []Target{{DataFile: data, Sequence: 1, Deletes: []int{0}}}, Schema: schema}
		if _, err := Masks(ctx, st, set); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTableAgainstMap compares the open-addressing table with a map.
func TestTableAgainstMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tab, model := newTable(), map[uint64]int64{}
		for i := range uint64(rapid.IntRange(0, 5000).Draw(t, "n")) {
			n := i * i % 3001
			seq := int64(n % 7)
			tab.add(key{Hi: n, Lo: n << 3}, seq) // Low bits collide.
			model[n] = max(model[n], seq)
		}
		if tab.used != len(model) {
			t.Fatalf("%d keys, want %d", tab.used, len(model))
		}
		for n, seq := range model {
			if !tab.deletes(key{Hi: n, Lo: n << 3}, seq-1) || tab.deletes(key{Hi: n, Lo: n << 3}, seq) {
				t.Fatalf("key %d: wrong sequence", n)
			}
		}
		if tab.deletes(key{Hi: 1 << 60, Lo: 0}, -1) {
			t.Fatal("found a key that was never added")
		}
	})
}
