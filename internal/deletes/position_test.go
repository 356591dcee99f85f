package deletes

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/iceberg-go"

	"firn/internal/store"
)

// TestPositions: each delete file touches only the targets that list it; positions of other files are passed over.
func TestPositions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st := store.NewMemory(time.Now)
	both := write(t, st, "mem://b/p1", iceberg.EntryContentPosDeletes, positionFields(),
		texts("mem://b/a", "mem://b/a", "mem://b/b", "mem://b/gone", "no location", "mem://b/a"), longs(5, 1, 7, 3, 3, 1<<33))
	second := write(t, st, "mem://b/p2", iceberg.EntryContentPosDeletes, positionFields(), texts("mem://b/a", "mem://b/b"), longs(2, 9))
	masks, err := Masks(ctx, st, Set{
		Files: []File{{DataFile: both, Sequence: 2}, {DataFile: second, Sequence: 3}},
		Targets: []Target{
			{DataFile: dataFile(t, "mem://b/a", 10), Deletes: []int{0, 1}},
			{DataFile: dataFile(t, "mem://b/b", 10), Deletes: []int{1}},
			{DataFile: dataFile(t, "mem://b/c", 10), Deletes: []int{0, 1}},
			{DataFile: dataFile(t, "mem://b/d", 10)},
		},
	})
	must(t, err)
	if !masks[0].Equals(roaring64.BitmapOf(1, 2, 5, 1<<33)) || !masks[1].Equals(roaring64.BitmapOf(9)) || masks[2] != nil || masks[3] != nil {
		t.Errorf("masks %v", masks)
	}
}

// TestUnusableDeletes: a delete that cannot be applied fails the set; it is never skipped.
func TestUnusableDeletes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st := store.NewMemory(time.Now)
	good := write(t, st, "mem://b/p", iceberg.EntryContentPosDeletes, positionFields(), texts("mem://b/a"), longs(5))
	negative := write(t, st, "mem://b/n", iceberg.EntryContentPosDeletes, positionFields(), texts("mem://b/a"), longs(-1))
	build := func(format iceberg.FileFormat, count int64, key []byte) iceberg.DataFile {
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentPosDeletes, "mem://b/p", format, nil, nil, nil, count,
			good.FileSizeBytes())
		must(t, err)
		return b.KeyMetadata(key).Build()
	}
	for name, f := range map[string]iceberg.DataFile{
		"ORC": build(iceberg.OrcFile, 1, nil), "Avro": build(iceberg.AvroFile, 1, nil), "encrypted": build(iceberg.ParquetFile, 1, []byte{1}),
		"row count": build(iceberg.ParquetFile, 2, nil), "negative": negative,
	} {
		set := Set{Files: []File{{DataFile: f}}, Targets: []Target{{DataFile: dataFile(t, "mem://b/a", 10), Deletes: []int{0}}}}
		if _, err := Masks(ctx, st, set); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzPositionDeletes: damaged delete files end in an error or in masks, never in a panic.
func FuzzPositionDeletes(f *testing.F) {
	f.Add(parquetFile(f, positionFields(), texts("mem://b/a", "mem://b/b"), longs(1, 2)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		ctx := context.Background()
		st := store.NewMemory(time.Now)
		must(t, st.Put(ctx, "mem://b/p", data, store.WriteOptions{}))
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentPosDeletes, "mem://b/p", iceberg.ParquetFile, nil, nil, nil, 2,
			int64(len(data)))
		must(t, err)
		_, _ = Masks(ctx, st, Set{
			Files: []File{{DataFile: b.Build()}}, Targets: []Target{{DataFile: dataFile(t, "mem://b/a", 10), Deletes: []int{0}}},
		})
	})
}
