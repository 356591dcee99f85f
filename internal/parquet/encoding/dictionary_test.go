package encoding_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/internal/parquet/encoding"
)

// plain is the PLAIN page of values: of one width, or byte arrays.
func plain(width int, values ...[]byte) []byte {
	var page []byte
	for _, v := range values {
		if width == encoding.ByteArray {
			page = binary.LittleEndian.AppendUint32(page, uint32(len(v)))
		}
		page = append(page, v...)
	}
	return page
}

// drawPages draws dictionary pages that share many values.
func drawPages(t *rapid.T, width int) [][][]byte {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), uint64(width)))
	distinct := rapid.SampledFrom([]int{1, 2, 31, 32, 33, 64, 1000}).Draw(t, "distinct")
	pool := make([][]byte, distinct)
	for i := range pool {
		n := width
		if n == encoding.ByteArray {
			n = r.IntN(20)
		}
		pool[i] = make([]byte, n)
		for j := range pool[i] {
			pool[i][j] = byte(r.IntN(4))
		}
	}
	pages := make([][][]byte, rapid.IntRange(1, 5).Draw(t, "pages"))
	for p := range pages {
		for range rapid.SampledFrom([]int{0, 1, 2, 32, 500}).Draw(t, "entries") {
			pages[p] = append(pages[p], pool[r.IntN(distinct)])
		}
	}
	return pages
}

func TestDictionaryIsAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{encoding.ByteArray, 1, 4, 8, 12, 16, 23}).Draw(t, "width")
		d := encoding.NewDictionary(width, 1<<20)
		model := map[string]uint32{}
		var order [][]byte
		for _, values := range drawPages(t, width) {
			remap, err := d.Add(plain(width, values...), len(values))
			if err != nil {
				t.Fatal(err)
			}
			if len(remap) != len(values) {
				t.Fatalf("%d entries got %d indices", len(values), len(remap))
			}
			for i, v := range values {
				want, ok := model[string(v)]
				if !ok {
					want = uint32(len(order))
					model[string(v)] = want
					order = append(order, v)
				}
				if remap[i] != want {
					t.Fatalf("entry %x has index %d, want %d", v, remap[i], want)
				}
				if !bytes.Equal(d.Value(int(remap[i])), v) {
					t.Fatalf("entry %d is %x, want %x", remap[i], d.Value(int(remap[i])), v)
				}
			}
			want := plain(width, order...)
			if d.Len() != len(order) || !bytes.Equal(d.Bytes(), want) || d.SizeBytes() != len(want) {
				t.Fatalf("merged %d entries into %d of %d bytes", len(order), d.Len(), d.SizeBytes())
			}
		}
		expandAll(t, &d.Entries, width, order)
	})
}

// expandAll compares Expand and a re-read of the page with the values.
func expandAll(t *rapid.T, e *encoding.Entries, width int, order [][]byte) {
	read, err := encoding.ParseEntries(e.Bytes(), width, e.Len())
	if err != nil {
		t.Fatal(err)
	}
	if len(order) == 0 {
		return
	}
	var idx []uint32
	var values [][]byte
	for range 100 {
		i := rapid.IntRange(0, len(order)-1).Draw(t, "index")
		idx, values = append(idx, uint32(i)), append(values, order[i])
	}
	want := plain(width, values...)
	for _, e := range []*encoding.Entries{e, &read} {
		got, err := e.Expand([]byte("kept"), idx)
		if err != nil || string(got) != "kept"+string(want) {
			t.Fatalf("expanded to %x, want %x: %v", got, want, err)
		}
		n, size, err := e.Fit(idx, len(want)/2)
		if err != nil || n < 1 || size != len(plain(width, values[:n]...)) || (n > 1 && size > len(want)/2) {
			t.Fatalf("%d indices of %d bytes fit into %d: %v", n, size, len(want)/2, err)
		}
		if n < len(idx) && size+len(plain(width, values[n])) <= len(want)/2 {
			t.Fatal("one more would fit")
		}
	}
}

// TestMergeRemapExpand is the whole way of a dictionary column: what the merged chunk expands to is what its sources do.
func TestMergeRemapExpand(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{encoding.ByteArray, 4, 8, 12}).Draw(t, "width")
		d := encoding.NewDictionary(width, 1<<20)
		for _, values := range drawPages(t, width) {
			if len(values) == 0 {
				continue
			}
			page := plain(width, values...)
			source, err := encoding.ParseEntries(page, width, len(values))
			if err != nil {
				t.Fatal(err)
			}
			from := encoding.IndexWidth(len(values))
			idx := indices(t, from)
			for i := range idx {
				idx[i] %= uint32(len(values))
			}
			stream, err := encoding.EncodeIndices(nil, idx, from)
			if err != nil {
				t.Fatal(err)
			}
			table, err := d.Add(page, len(values))
			if err != nil {
				t.Fatal(err)
			}
			to := encoding.IndexWidth(d.Len())
			stream, err = encoding.RemapIndices(nil, stream, len(idx), encoding.Remap{FromWidth: from, ToWidth: to, Table: table})
			if err != nil {
				t.Fatal(err)
			}
			merged, err := encoding.DecodeIndices(nil, stream, to, len(idx))
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Expand(nil, merged)
			if err != nil {
				t.Fatal(err)
			}
			want, err := source.Expand(nil, idx)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("values changed: %v", err)
			}
		}
	})
}

func TestDictionaryFull(t *testing.T) {
	t.Parallel()
	a, b, c := []byte("aaaa"), []byte("bbbb"), []byte("cccc")
	for width, limit := range map[int]int{4: 8, encoding.ByteArray: 16} {
		d := encoding.NewDictionary(width, limit)
		if _, err := d.Add(plain(width, a, b, a, b), 4); err != nil {
			t.Fatalf("width %d: two entries do not fit: %v", width, err)
		}
		if _, err := d.Add(plain(width, b, c), 2); !errors.Is(err, encoding.ErrDictionaryFull) {
			t.Errorf("width %d: %d bytes of %d: %v", width, d.SizeBytes(), limit, err)
		}
		if remap, err := d.Add(plain(width, b, a), 2); err != nil || !slices.Equal(remap, []uint32{1, 0}) {
			t.Errorf("width %d: a full dictionary knows %v: %v", width, remap, err)
		}
	}
}

func TestDamagedDictionaries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		width int
		page  []byte
		n     int
	}{
		{"too few", 4, make([]byte, 8), 3},
		{"too many", 4, make([]byte, 8), 1},
		{"part of a value", 4, make([]byte, 7), 1},
		{"fewer than none", 4, nil, -1},
		{"fewer than no byte arrays", encoding.ByteArray, nil, -1},
		{"a thousand million byte arrays", encoding.ByteArray, make([]byte, 8), 1 << 30},
		{"a thousand million values", 8, make([]byte, 8), 1 << 30},
		{"a length cut", encoding.ByteArray, append(plain(0, []byte("abcdef")), 1, 0), 2},
		{"a byte array cut", encoding.ByteArray, plain(0, []byte("a"), []byte("b"))[:9], 2},
		{"a length of four thousand million", encoding.ByteArray, []byte{255, 255, 255, 255}, 1},
		{"bytes behind", encoding.ByteArray, plain(0, []byte("a"), []byte("b")), 1},
		{"negative width", -1, nil, 0},
	} {
		if _, err := encoding.NewDictionary(c.width, 1000).Add(c.page, c.n); !errors.Is(err, encoding.ErrCorrupt) {
			t.Errorf("%s: merged: %v", c.name, err)
		}
		if _, err := encoding.ParseEntries(c.page, c.width, c.n); !errors.Is(err, encoding.ErrCorrupt) {
			t.Errorf("%s: read: %v", c.name, err)
		}
	}
}

// TestExpandIsBounded: a small page must not become a gigabyte.
func TestExpandIsBounded(t *testing.T) {
	t.Parallel()
	e, err := encoding.ParseEntries(plain(0, make([]byte, 1000)), encoding.ByteArray, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Expand(nil, make([]uint32, 1<<20)); !errors.Is(err, encoding.ErrTooLarge) {
		t.Errorf("a gigabyte: %v", err)
	}
	if _, err := e.Expand(nil, []uint32{1}); !errors.Is(err, encoding.ErrCorrupt) {
		t.Errorf("index 1 of 1: %v", err)
	}
}

func FuzzDictionary(f *testing.F) {
	f.Add(plain(0, []byte("a"), []byte("b"), []byte("a")), uint8(0), uint32(3))
	f.Add(make([]byte, 24), uint8(12), uint32(2))
	f.Add(make([]byte, 24), uint8(8), uint32(3))
	f.Fuzz(func(t *testing.T, page []byte, width uint8, n uint32) {
		d := encoding.NewDictionary(int(width), 1<<16)
		remap, err := d.Add(page, int(n))
		e, parseErr := encoding.ParseEntries(page, int(width), int(n))
		if (err == nil) != (parseErr == nil) && !errors.Is(err, encoding.ErrDictionaryFull) {
			t.Fatalf("merge: %v; read: %v", err, parseErr)
		}
		if err != nil {
			return
		}
		for i, v := range remap {
			if !bytes.Equal(d.Entry(int(v)), e.Entry(i)) {
				t.Fatalf("entry %d changed", i)
			}
		}
		if got, err := d.Expand(nil, remap); err != nil || !bytes.Equal(got, page) {
			t.Fatalf("expanded to %x: %v", got, err)
		}
	})
}

func BenchmarkDictionaryAdd(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 20_000
	for _, width := range []int{encoding.ByteArray, 4, 8, 12} {
		pages := make([][]byte, 8)
		for p := range pages {
			values := make([][]byte, n)
			for i := range values {
				values[i] = make([]byte, max(width, 16))
				binary.LittleEndian.PutUint32(values[i], uint32(r.IntN(3*n)))
				values[i] = values[i][:max(width, 4+i%13*(1-min(width, 1)))]
			}
			pages[p] = plain(width, values...)
		}
		b.Run(fmt.Sprintf("width=%d", width), func(b *testing.B) {
			for b.Loop() {
				d := encoding.NewDictionary(width, 4<<20)
				for _, page := range pages {
					if _, err := d.Add(page, n); err != nil {
						b.Fatal(err)
					}
				}
			}
			perValue(b, n*len(pages))
		})
	}
}

func BenchmarkExpand(b *testing.B) {
	idx, _ := benchIndices(b, 12)
	for _, width := range []int{encoding.ByteArray, 4, 8, 12} {
		values := make([][]byte, 1<<12)
		for i := range values {
			values[i] = make([]byte, max(width, 6))[:max(width, i%7*(1-min(width, 1)))]
		}
		e, err := encoding.ParseEntries(plain(width, values...), width, len(values))
		if err != nil {
			b.Fatal(err)
		}
		var dst []byte
		b.Run(fmt.Sprintf("width=%d", width), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = e.Expand(dst[:0], idx)
			}
			perValue(b, len(idx))
		})
	}
}
