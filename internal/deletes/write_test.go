package deletes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table/dv"
	"pgregory.net/rapid"

	"firn/internal/lake/peek"
	"firn/internal/store"
)

func rows(path string, positions ...uint64) FileDeletes {
	return FileDeletes{Path: path, Positions: roaring64.BitmapOf(positions...), Spec: *iceberg.UnpartitionedSpec}
}

// TestWritePositions: what is written is read back, ordered by path, and is file-scoped exactly when it names one data file.
func TestWritePositions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st := store.NewMemory(time.Now)
	one, err := WritePositions(ctx, st, "mem://b/one.parquet", []FileDeletes{rows("mem://b/data/a", 7, 1<<33, 3), rows("mem://b/data/none")})
	must(t, err)
	if path, scoped := peek.FileScoped(one); !scoped || path != "mem://b/data/a" || one.Count() != 3 || one.ContentType() != iceberg.EntryContentPosDeletes {
		t.Errorf("scoped to %q (%t), %d rows, content %s", path, scoped, one.Count(), one.ContentType())
	}
	if lower, upper := one.LowerBoundValues(), one.UpperBoundValues(); string(lower[pathField]) != "mem://b/data/a" ||
		string(upper[pathField]) != "mem://b/data/a" || !slices.Equal(upper[positionField], longBytes(1<<33)) ||
		!slices.Equal(lower[positionField], longBytes(3)) {
		t.Errorf("bounds %v to %v", lower, upper)
	}
	two, err := WritePositions(ctx, st, "mem://b/two.parquet", []FileDeletes{rows("mem://b/data/b", 1), rows("mem://b/data/a", 9)})
	must(t, err)
	if _, scoped := peek.FileScoped(two); scoped || two.ReferencedDataFile() != nil {
		t.Error("a file that names two data files is scoped to one")
	}
	masks, err := Masks(ctx, st, Set{
		Files: []File{{DataFile: one}, {DataFile: two}},
		Targets: []Target{
			{DataFile: dataFile(t, "mem://b/data/a", 10), Deletes: []int{0, 1}}, {DataFile: dataFile(t, "mem://b/data/b", 10), Deletes: []int{0, 1}},
		},
	})
	must(t, err)
	if !masks[0].Equals(roaring64.BitmapOf(3, 7, 9, 1<<33)) || !masks[1].Equals(roaring64.BitmapOf(1)) {
		t.Errorf("masks %v", masks)
	}
	if _, err := WritePositions(ctx, st, "mem://b/one.parquet", []FileDeletes{rows("mem://b/data/a", 1)}); !errors.Is(err, store.ErrExists) {
		t.Errorf("written over: %v", err)
	}
	for name, set := range map[string][]FileDeletes{"none": {rows("mem://b/x")}, "twice": {rows("mem://b/x", 1), rows("mem://b/x", 2)}} {
		if _, err := WritePositions(ctx, st, "mem://b/"+name, set); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := WriteVectors(ctx, st, "mem://b/"+name, set); err == nil {
			t.Errorf("vectors, %s: no error", name)
		}
	}
}

// TestWriteVectors: vectors are read back by this package and by iceberg-go's reader.
func TestWriteVectors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st := store.NewMemory(time.Now)
	many := roaring64.New()
	many.AddRange(1000, 90_000)
	files, err := WriteVectors(ctx, st, "mem://b/v.puffin", []FileDeletes{
		rows("mem://b/data/b", 0, 1<<40), rows("mem://b/data/none"), {Path: "mem://b/data/a", Positions: many, Spec: *iceberg.UnpartitionedSpec},
	})
	must(t, err)
	if len(files) != 2 || *files[0].ReferencedDataFile() != "mem://b/data/a" || files[0].Count() != 89_000 || files[1].Count() != 2 {
		t.Fatalf("files %v", files)
	}
	for i, want := range []Mask{many, roaring64.BitmapOf(0, 1<<40)} {
		got, err := readVector(ctx, st, File{DataFile: files[i]})
		must(t, err)
		if !got.Equals(want) {
			t.Errorf("vector %d has %d positions: want %d", i, got.GetCardinality(), want.GetCardinality())
		}
		theirs, err := dv.ReadDV(peek.FileIO(ctx, st), files[i])
		must(t, err)
		if theirs.Cardinality() != int64(want.GetCardinality()) || !theirs.Contains(want.Minimum()) || !theirs.Contains(want.Maximum()) {
			t.Errorf("iceberg-go reads %d positions of vector %d: want %d", theirs.Cardinality(), i, want.GetCardinality())
		}
	}
}

// TestVectorRoundTrip: any set of positions survives both forms.
func TestVectorRoundTrip(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		positions := rapid.SliceOfN(rapid.Uint64Range(0, 1<<34), 1, 300).Draw(rt, "positions")
		want := roaring64.BitmapOf(positions...)
		blob, err := EncodeVector(want.Clone())
		if err != nil {
			rt.Fatal(err)
		}
		if got, err := DecodeVector(blob); err != nil || !got.Equals(want) {
			rt.Fatalf("vector: %v, %v", got, err)
		}
		st := store.NewMemory(time.Now)
		n++
		f, err := WritePositions(ctx, st, fmt.Sprintf("mem://b/%d", n), []FileDeletes{{Path: "mem://b/d", Positions: want, Spec: *iceberg.UnpartitionedSpec}})
		if err != nil {
			rt.Fatal(err)
		}
		masks, err := Masks(ctx, st, Set{Files: []File{{DataFile: f}}, Targets: []Target{{DataFile: dataFile(t, "mem://b/d", 1), Deletes: []int{0}}}})
		if err != nil || !masks[0].Equals(want) {
			rt.Fatalf("position deletes: %v, %v", masks, err)
		}
	})
}
