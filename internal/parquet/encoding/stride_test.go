package encoding_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"firn/internal/parquet/encoding"
)

// numbers are values of a width of which count bytes from first on differ, behind levels.
func numbers(r *rand.Rand, levels, width, first, count, n int) []byte {
	out := make([]byte, levels+n*width)
	for i := range levels {
		out[i] = byte(r.Uint32() & 3)
	}
	base := make([]byte, width)
	for i := range base {
		base[i] = byte(r.Uint32())
	}
	for i := range n {
		v := out[levels+i*width:][:width]
		copy(v, base)
		for j := range count {
			v[first+j] = byte(r.Uint32())
		}
	}
	return out
}

// TestStrides: what AppendFixed makes of numbers of every shape is a frame that a decoder which knows nothing of it, and our own, read back.
func TestStrides(t *testing.T) {
	other, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		width := rapid.IntRange(1, 20).Draw(t, "width")
		first := rapid.IntRange(0, width-1).Draw(t, "first")
		count := rapid.IntRange(0, width-first).Draw(t, "count")
		levels := rapid.SampledFrom([]int{0, 1, 6, 300, 5000}).Draw(t, "levels")
		n := rapid.SampledFrom([]int{0, 1, 2, 255, 256, 257, 5000, 16384, 16385, 40000}).Draw(t, "values")
		page := numbers(r, levels, width, first, count, n)
		if cut := rapid.IntRange(0, 1).Draw(t, "cut"); len(page) > cut {
			page = page[:len(page)-cut]
		}
		c, err := encoding.NewCompressor(encoding.Zstd, rapid.SampledFrom([]int{encoding.DefaultLevel, 3}).Draw(t, "level"))
		if err != nil {
			t.Fatal(err)
		}
		var trial encoding.Trial
		for range 3 {
			packed, err := c.AppendFixed([]byte("kept"), page, levels, width, &trial)
			if err != nil || !bytes.HasPrefix(packed, []byte("kept")) {
				t.Fatalf("%v, %q", err, packed[:4])
			}
			got, err := other.DecodeAll(packed[4:], nil)
			if err != nil || !bytes.Equal(got, page) {
				t.Fatalf("%d bytes became %d: %v", len(page), len(got), err)
			}
			var d encoding.Decompressor
			if got, err = d.Decompress(nil, packed[4:], encoding.Zstd, len(page)); err != nil || !bytes.Equal(got, page) {
				t.Fatalf("%d bytes became %d: %v", len(page), len(got), err)
			}
		}
	})
}

// TestStridesAreSmaller: random numbers of three bytes take about three bytes each, ordered ones are left to the search for copies.
func TestStridesAreSmaller(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var random, ordered []byte
	const n = 20_000
	for i := range uint64(n) {
		random = binary.LittleEndian.AppendUint64(random, r.Uint64N(1<<24))
		ordered = binary.LittleEndian.AppendUint64(ordered, i/4)
	}
	c, err := encoding.NewCompressor(encoding.Zstd, encoding.DefaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range [][]byte{random, ordered} {
		var trial encoding.Trial
		fixed, err := c.AppendFixed(nil, page, 0, 8, &trial)
		if err != nil {
			t.Fatal(err)
		}
		searched, err := c.Append(nil, page)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d bytes, %d searched", len(fixed), len(searched))
		if len(fixed) > len(searched) || len(fixed) > 3*n+1000 {
			t.Errorf("%d bytes, %d with a search", len(fixed), len(searched))
		}
	}
}

// TestSameLength: byte arrays come back whatever their lengths; keys of one length, which no search finds copies in, take less than with one.
func TestSameLength(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		digits := rapid.SampledFrom([]int{0, 1, 3, 4, 5, 7, 10, 11, 40}).Draw(t, "digits")
		n := rapid.SampledFrom([]int{0, 1, 255, 300, 20_000}).Draw(t, "values")
		odd := rapid.SampledFrom([]int{-1, -1, 0, n / 2, n - 1}).Draw(t, "odd")
		levels := rapid.SampledFrom([]int{0, 6}).Draw(t, "levels")
		page := make([]byte, levels)
		for i := range n {
			key := []byte("u-")
			for range digits {
				key = append(key, '0'+byte(r.IntN(10)))
			}
			if i == odd {
				key = key[1:]
			}
			page = encoding.AppendByteArray(page, key)
		}
		c, err := encoding.NewCompressor(encoding.Zstd, 3)
		if err != nil {
			t.Fatal(err)
		}
		var trial encoding.Trial
		for range 2 {
			packed, err := c.AppendFixed(nil, page, levels, encoding.ByteArray, &trial)
			if err != nil {
				t.Fatal(err)
			}
			var d encoding.Decompressor
			if got, err := d.Decompress(nil, packed, encoding.Zstd, len(page)); err != nil || !bytes.Equal(got, page) {
				t.Fatalf("%d bytes became %d: %v", len(page), len(got), err)
			}
			searched, err := c.Append(nil, page)
			if err != nil || len(packed) > len(searched)+len(searched)/50 {
				t.Fatalf("%d bytes, %d with a search, error %v", len(packed), len(searched), err)
			}
			if odd < 0 && digits > 4 && digits < 11 && n == 20_000 && len(packed) > len(searched)*19/20 {
				t.Fatalf("%d bytes, %d with a search", len(packed), len(searched))
			}
		}
	})
}

func BenchmarkStrides(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var page []byte
	for range 20_000 {
		page = binary.LittleEndian.AppendUint64(page, r.Uint64N(10_000_000))
	}
	c, err := encoding.NewCompressor(encoding.Zstd, encoding.DefaultLevel)
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.Run("strides", func(b *testing.B) {
		b.SetBytes(int64(len(page)))
		var trial encoding.Trial
		for b.Loop() {
			dst, _ = c.AppendFixed(dst[:0], page, 0, 8, &trial)
		}
	})
	b.Run("search", func(b *testing.B) {
		b.SetBytes(int64(len(page)))
		for b.Loop() {
			dst, _ = c.Append(dst[:0], page)
		}
	})
}
