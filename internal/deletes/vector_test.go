package deletes

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/iceberg-go"

	"firn/internal/store"
)

func blob(tb testing.TB, positions ...uint64) []byte {
	tb.Helper()
	bits, err := roaring64.BitmapOf(positions...).ToBytes()
	must(tb, err)
	return frame(append([]byte(vectorMagic), bits...))
}

func frame(body []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	out = append(out, body...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
}

func TestDecodeVector(t *testing.T) {
	t.Parallel()
	want := []uint64{0, 1, 65_535, 65_536, 1 << 31, 1<<32 + 7, 1<<40 + 1}
	m, err := DecodeVector(blob(t, want...))
	must(t, err)
	if !m.Equals(roaring64.BitmapOf(want...)) {
		t.Errorf("decoded %v", m.ToArray())
	}
	if m, err := DecodeVector(blob(t)); err != nil || !m.IsEmpty() {
		t.Errorf("empty vector: %v, %v", m, err)
	}
}

// TestDamagedVector: whatever is wrong with a vector, it is refused; no position is dropped.
func TestDamagedVector(t *testing.T) {
	t.Parallel()
	spoil := func(change func([]byte) []byte) []byte { return change(blob(t, 1, 2, 70_000)) }
	for name, data := range map[string][]byte{
		"empty":        nil,
		"short":        {0, 0, 0, 4, 0xd1, 0xd3},
		"length":       spoil(func(b []byte) []byte { b[3]++; return b }),
		"cut":          spoil(func(b []byte) []byte { return b[:len(b)-1] }),
		"longer":       spoil(func(b []byte) []byte { return append(b, 0) }),
		"magic":        frame([]byte("\xd1\xd3\x39\x65\x00\x00\x00\x00\x00\x00\x00\x00")),
		"checksum":     spoil(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }),
		"bit flipped":  spoil(func(b []byte) []byte { b[20] ^= 1; return b }),
		"no bitmap":    frame([]byte(vectorMagic)),
		"bucket count": frame([]byte(vectorMagic + "\xff\xff\xff\xff\xff\xff\xff\x7f")),
		"bytes after":  spoil(func(b []byte) []byte { return frame(append(append([]byte{}, b[4:len(b)-4]...), 9)) }),
	} {
		if m, err := DecodeVector(data); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

func FuzzDecodeVector(f *testing.F) {
	f.Add(blob(f, 1, 2, 3))
	f.Add(frame([]byte(vectorMagic + "\x01\x00\x00\x00\x00\x00\x00\x00")))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeVector(frame(append([]byte(vectorMagic), data...)))
		if err == nil {
			m.GetCardinality()
			for it := m.Iterator(); it.HasNext(); {
				it.Next()
			}
		}
	})
}

// TestReadVector checks a vector against its manifest entry: offset and size, number of positions, data file.
func TestReadVector(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st := store.NewMemory(time.Now)
	data := append([]byte("PFA1"), blob(t, 1, 3)...)
	must(t, st.Put(ctx, "mem://b/v.puffin", data, store.WriteOptions{}))
	entry := func(count, offset, size int64, ref string) File {
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentPosDeletes, "mem://b/v.puffin", iceberg.PuffinFile, nil, nil,
			nil, count, int64(len(data)))
		must(t, err)
		return File{DataFile: b.ContentOffset(offset).ContentSizeInBytes(size).ReferencedDataFile(ref).Build(), Sequence: 2}
	}
	target := File{DataFile: dataFile(t, "mem://b/d.parquet", 4)}
	size := int64(len(data) - 4)
	masks, err := Masks(ctx, st, Set{
		Files:   []File{entry(2, 4, size, "mem://b/d.parquet")},
		Targets: []Target{{DataFile: target.DataFile, Sequence: 1, Deletes: []int{0}}},
	})
	must(t, err)
	if !masks[0].Equals(roaring64.BitmapOf(1, 3)) {
		t.Errorf("mask %v", masks[0].ToArray())
	}
	for reason, f := range map[string]File{
		"2 positions":  entry(3, 4, size, "mem://b/d.parquet"),
		"length field": entry(2, 3, size, "mem://b/d.parquet"),
		"ends after":   entry(2, 4, size+1, "mem://b/d.parquet"),
		"bytes":        entry(2, 4, 5, "mem://b/d.parquet"),
		"is for":       entry(2, 4, size, "mem://b/other.parquet"),
	} {
		_, err := Masks(ctx, st, Set{Files: []File{f}, Targets: []Target{{DataFile: target.DataFile, Deletes: []int{0}}}})
		if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func dataFile(tb testing.TB, path string, rows int64) iceberg.DataFile {
	tb.Helper()
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, path, iceberg.ParquetFile, nil, nil, nil, rows, 100)
	must(tb, err)
	return b.Build()
}
