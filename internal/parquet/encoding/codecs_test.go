package encoding_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"pgregory.net/rapid"

	"firn/internal/parquet/encoding"
)

var codecs = []encoding.Codec{encoding.Uncompressed, encoding.Snappy, encoding.Gzip, encoding.Brotli, encoding.Zstd, encoding.LZ4Raw}

// body draws page bytes: nothing, noise, or repeated words.
func body(t *rapid.T) []byte {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	noise := make([]byte, rapid.IntRange(0, 3000).Draw(t, "noise"))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	return append(noise, bytes.Repeat([]byte("firn"), rapid.IntRange(0, 100_000).Draw(t, "words"))...)
}

func TestCodecRoundTrip(t *testing.T) {
	t.Parallel()
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			t.Parallel()
			var d encoding.Decompressor
			compressors := map[int]*encoding.Compressor{}
			for _, level := range []int{encoding.DefaultLevel, 1, 3, 9} {
				c, err := encoding.NewCompressor(codec, level)
				if err != nil {
					t.Fatal(err)
				}
				compressors[level] = c
			}
			rapid.Check(t, func(t *rapid.T) {
				src := body(t)
				c := compressors[rapid.SampledFrom([]int{0, 1, 3, 9}).Draw(t, "level")]
				packed, err := c.Append([]byte("kept"), src)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.HasPrefix(packed, []byte("kept")) {
					t.Fatal("what dst held is lost")
				}
				packed = packed[4:]
				got, err := d.Decompress(make([]byte, 10), packed, codec, len(src))
				if err != nil || !bytes.Equal(got, src) {
					t.Fatalf("%d bytes became %d: %v", len(src), len(got), err)
				}
				for _, wrong := range []int{len(src) - 1, len(src) + 1} {
					if _, err := d.Decompress(nil, packed, codec, wrong); !errors.Is(err, encoding.ErrCorrupt) {
						t.Fatalf("%d bytes declared as %d: %v", len(src), wrong, err)
					}
				}
				if len(src) > 0 {
					if _, err := d.Decompress(nil, packed[:len(packed)-1], codec, len(src)); err == nil && codec != encoding.Brotli {
						t.Fatal("a cut page was read")
					}
				}
			})
		})
	}
}

// TestCodecsAgreeWithArrow exchanges pages with the codecs of arrow-go in both directions.
func TestCodecsAgreeWithArrow(t *testing.T) {
	t.Parallel()
	src := append(bytes.Repeat([]byte("the quick brown fox"), 5000), 1, 2, 3)
	var d encoding.Decompressor
	for _, codec := range codecs {
		judge, err := compress.GetCodec(compress.Compression(codec))
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Decompress(nil, judge.Encode(nil, src), codec, len(src))
		if err != nil || !bytes.Equal(got, src) {
			t.Errorf("%v: what arrow-go wrote is read wrongly: %v", codec, err)
		}
		c, err := encoding.NewCompressor(codec, encoding.DefaultLevel)
		if err != nil {
			t.Fatal(err)
		}
		if c.Codec() != codec {
			t.Errorf("compressor of %v is for %v", codec, c.Codec())
		}
		packed, err := c.Append(nil, src)
		if err != nil {
			t.Fatal(err)
		}
		if got := judge.Decode(make([]byte, len(src)), packed); !bytes.Equal(got, src) {
			t.Errorf("%v: arrow-go reads wrongly what we wrote", codec)
		}
	}
}

func TestUnsupportedCodecs(t *testing.T) {
	t.Parallel()
	var d encoding.Decompressor
	for _, codec := range []encoding.Codec{encoding.LZO, 8, -1} {
		if _, err := d.Decompress(nil, []byte{1}, codec, 1); !errors.Is(err, encoding.ErrUnsupported) {
			t.Errorf("decompress %v: %v", codec, err)
		}
		if _, err := encoding.NewCompressor(codec, 0); !errors.Is(err, encoding.ErrUnsupported) {
			t.Errorf("compress %v: %v", codec, err)
		}
	}
	if _, err := encoding.NewCompressor(encoding.LZ4, 0); !errors.Is(err, encoding.ErrUnsupported) || !encoding.LZ4.Readable() || encoding.LZO.Readable() {
		t.Errorf("compress LZ4: %v", err)
	}
	if _, err := encoding.NewCompressor(encoding.Brotli, 12); err == nil {
		t.Error("brotli level 12 was taken")
	}
	if _, err := encoding.NewCompressor(encoding.Gzip, 10); err == nil {
		t.Error("gzip level 10 was taken")
	}
}

// TestFramedLZ4: pages of the codec LZ4 are frames of one or more blocks, or a bare block; damage is found.
func TestFramedLZ4(t *testing.T) {
	t.Parallel()
	c, err := encoding.NewCompressor(encoding.LZ4Raw, encoding.DefaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	src := bytes.Repeat([]byte("frames and blocks "), 50)
	block := func(b []byte) []byte {
		packed, err := c.Append(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		return packed
	}
	sized := func(n int, b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(n)), b...) }
	one, two := block(src[:400]), block(src[400:])
	var d encoding.Decompressor
	for name, page := range map[string][]byte{
		"bare block":              block(src),
		"a frame":                 sized(len(src), sized(len(block(src)), block(src))),
		"two frames":              append(sized(400, sized(len(one), one)), sized(len(src)-400, sized(len(two), two))...),
		"a frame with two blocks": sized(len(src), append(sized(len(one), one), sized(len(two), two)...)),
	} {
		got, err := d.Decompress(nil, page, encoding.LZ4, len(src))
		if err != nil || !bytes.Equal(got, src) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if _, err := d.Decompress(nil, page[:len(page)-3], encoding.LZ4, len(src)); !errors.Is(err, encoding.ErrCorrupt) {
			t.Errorf("%s, cut: %v", name, err)
		}
	}
}

// TestSizesAreNotBelieved: a few bytes that claim to be a large page end before memory is taken. It runs alone, as it counts all allocations.
func TestSizesAreNotBelieved(t *testing.T) {
	var d encoding.Decompressor
	small := make([]byte, 1000)
	for _, codec := range codecs {
		for size, want := range map[int]error{-1: encoding.ErrCorrupt, 60 << 20: encoding.ErrCorrupt, 1 << 30: encoding.ErrTooLarge} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := d.Decompress(nil, small, codec, size); !errors.Is(err, want) {
				t.Errorf("%v, %d bytes declared: %v", codec, size, err)
			}
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
				t.Errorf("%v, %d bytes declared: %d bytes taken", codec, size, got)
			}
		}
		if out, err := d.Decompress(nil, nil, codec, 0); err != nil || len(out) != 0 {
			t.Errorf("%v: an empty page: %v", codec, err)
		}
	}
}

func FuzzDecompress(f *testing.F) {
	for _, codec := range codecs {
		c, err := encoding.NewCompressor(codec, encoding.DefaultLevel)
		if err != nil {
			f.Fatal(err)
		}
		for _, src := range [][]byte{nil, []byte("firn"), bytes.Repeat([]byte("firn"), 100)} {
			packed, err := c.Append(nil, src)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(packed, uint8(codec), uint32(len(src)))
		}
	}
	var d encoding.Decompressor
	f.Fuzz(func(t *testing.T, src []byte, codec uint8, size uint32) {
		size %= 1 << 20
		got, err := d.Decompress(nil, src, encoding.Codec(codec%9), int(size))
		if err == nil && len(got) != int(size) {
			t.Fatalf("%d bytes for %d", len(got), size)
		}
		c, err := encoding.NewCompressor(encoding.Codec(codec%9), encoding.DefaultLevel)
		if err != nil {
			return
		}
		packed, err := c.Append(nil, src)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Decompress(nil, packed, c.Codec(), len(src)); err != nil || !bytes.Equal(got, src) {
			t.Fatal(err)
		}
	})
}

func BenchmarkCodecs(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	src := make([]byte, 0, 1<<20)
	for len(src) < 1<<20 {
		src = fmt.Appendf(src, `{"user":%d,"page":"/item/%d","ms":%d}`, r.IntN(5000), r.IntN(1000), r.IntN(100))
	}
	for _, codec := range []encoding.Codec{encoding.Snappy, encoding.Zstd} {
		c, _ := encoding.NewCompressor(codec, encoding.DefaultLevel)
		packed, _ := c.Append(nil, src)
		b.Run("compress/"+codec.String(), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				packed, _ = c.Append(packed[:0], src)
			}
			b.ReportMetric(float64(len(src))/float64(len(packed)), "ratio")
		})
		b.Run("decompress/"+codec.String(), func(b *testing.B) {
			var d encoding.Decompressor
			dst := make([]byte, 0, len(src)+1000)
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = d.Decompress(dst, packed, codec, len(src))
			}
		})
	}
}
