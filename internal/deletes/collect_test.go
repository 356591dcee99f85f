package deletes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/iceberg-go"

	"firn/internal/store"
)

// TestCollect: positions of live data files are kept, where the delete is not older than the data file and no vector hides it.
func TestCollect(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st := store.NewMemory(time.Now)
	first := write(t, st, "mem://b/p1", iceberg.EntryContentPosDeletes, positionFields(),
		texts("mem://b/a", "mem://b/b", "mem://b/gone", "mem://b/late", "mem://b/v"), longs(1, 2, 3, 4, 5))
	second := write(t, st, "mem://b/p2", iceberg.EntryContentPosDeletes, positionFields(), texts("mem://b/a", "mem://b/late", "mem://b/v"), longs(9, 7, 6))
	vectors, err := WriteVectors(ctx, st, "mem://b/v.puffin", []FileDeletes{rows("mem://b/v", 5, 8), rows("mem://b/gone", 1)})
	must(t, err)
	files := []File{{DataFile: first, Sequence: 3}, {DataFile: second, Sequence: 5}}
	for _, v := range vectors {
		files = append(files, File{DataFile: v, Sequence: 6})
	}
	live := map[string]int64{"mem://b/a": 1, "mem://b/b": 3, "mem://b/late": 4, "mem://b/v": 2, "mem://b/untouched": 1}
	got, err := Collect(ctx, st, files, live)
	must(t, err)
	want := map[string]Mask{
		"mem://b/a": roaring64.BitmapOf(1, 9), "mem://b/b": roaring64.BitmapOf(2), "mem://b/late": roaring64.BitmapOf(7), "mem://b/v": roaring64.BitmapOf(5, 8),
	}
	for path, mask := range want {
		if got[path] == nil || !got[path].Equals(mask) {
			t.Errorf("%s: %v, want %v", path, got[path], mask)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d data files, want %d: %v", len(got), len(want), got)
	}
	again, err := WriteVectors(ctx, st, "mem://b/w.puffin", []FileDeletes{rows("mem://b/v", 1)})
	must(t, err)
	if _, err := Collect(ctx, st, append(files, File{DataFile: again[0], Sequence: 7}), live); !errors.Is(err, ErrUnusable) {
		t.Errorf("two vectors of one data file: %v", err)
	}
}

// TestWritePositionsAs takes the properties of delete files before those of data files.
func TestWritePositionsAs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st := store.NewMemory(time.Now)
	props := map[string]string{"write.parquet.compression-codec": "nosuch", "write.delete.parquet.compression-codec": "gzip"}
	if _, err := WritePositionsAs(ctx, st, "mem://b/p", props, []FileDeletes{rows("mem://b/a", 1)}); err != nil {
		t.Error(err)
	}
	delete(props, "write.delete.parquet.compression-codec")
	if _, err := WritePositionsAs(ctx, st, "mem://b/q", props, []FileDeletes{rows("mem://b/a", 1)}); !errors.Is(err, ErrUnusable) ||
		!strings.Contains(err.Error(), "nosuch") {
		t.Errorf("unknown codec: %v", err)
	}
}

// TestA76StoredRows: position delete files may store the deleted row beside its position; the positions are read as in any other.
func TestA76StoredRows(t *testing.T) {
	t.Parallel()
	st := store.NewMemory(time.Now)
	fields := append(positionFields(), iceberg.NestedField{ID: 2147483544, Name: "row", Required: true, Type: &iceberg.StructType{
		FieldList: []iceberg.NestedField{long(1, "id")},
	}})
	with := write(t, st, "mem://b/p1", iceberg.EntryContentPosDeletes, fields, texts("mem://b/a", "mem://b/a"), longs(1, 3), longs(10, 30))
	without := write(t, st, "mem://b/p2", iceberg.EntryContentPosDeletes, positionFields(), texts("mem://b/a"), longs(2))
	got, err := Collect(context.Background(), st, []File{{DataFile: with, Sequence: 2}, {DataFile: without, Sequence: 2}}, map[string]int64{"mem://b/a": 1})
	must(t, err)
	if !got["mem://b/a"].Equals(roaring64.BitmapOf(1, 2, 3)) {
		t.Errorf("%v", got)
	}
}
