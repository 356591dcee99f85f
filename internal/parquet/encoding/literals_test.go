package encoding_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"firn/internal/parquet/encoding"
)

// indexPage packs n indices: each is random up to most, and now and then the ones before come again.
func indexPage(t *testing.T, r *rand.Rand, n, most int, again float64) []byte {
	t.Helper()
	const span = 64
	indices := make([]uint32, n)
	for i := range indices {
		indices[i] = uint32(r.IntN(most))
	}
	for at := span; at+span <= n; at += span {
		if r.Float64() < again {
			copy(indices[at:at+span], indices[:span])
		}
	}
	width := encoding.IndexWidth(most)
	page, err := encoding.EncodeIndices([]byte{byte(width)}, indices, width)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// TestAppendIndices: indices of every kind come back, and take no more than a search makes of them, but for a hundredth.
func TestAppendIndices(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, level := range []int{encoding.DefaultLevel, 3, 9} {
		c, err := encoding.NewCompressor(encoding.Zstd, level)
		if err != nil {
			t.Fatal(err)
		}
		var d encoding.Decompressor
		for _, most := range []int{2, 3, 7, 50, 1000, 33_000} {
			for _, n := range []int{0, 1, 500, 20_000, 157_000} {
				for _, again := range []float64{0, 0.5, 1} {
					page := indexPage(t, r, n, most, again)
					var trial encoding.Trial
					for range 2 { // With a trial, and with its outcome.
						out, err := c.AppendIndices([]byte("kept"), page, &trial)
						if err != nil || string(out[:4]) != "kept" {
							t.Fatal(err)
						}
						searched, err := c.Append(nil, page)
						if err != nil {
							t.Fatal(err)
						}
						back, err := d.Decompress(nil, out[4:], encoding.Zstd, len(page))
						if err != nil || !bytes.Equal(back, page) {
							t.Fatalf("level %d: %d indices below %d: %v", level, n, most, err)
						}
						if len(out)-4 > len(searched)+len(searched)/100+64 {
							t.Errorf("level %d: %d indices below %d, %v again: %d bytes, %d with a search", level, n, most, again, len(out)-4, len(searched))
						}
					}
				}
			}
		}
	}
}

// BenchmarkIndices compresses indices below 2,500, as of dates.
func BenchmarkIndices(b *testing.B) {
	page := indexPage(new(testing.T), rand.New(rand.NewPCG(3, 4)), 157_000, 2500, 0)
	for name, do := range map[string]func(c *encoding.Compressor, dst []byte, trial *encoding.Trial) ([]byte, error){
		"search": func(c *encoding.Compressor, dst []byte, _ *encoding.Trial) ([]byte, error) {
			return c.Append(dst, page)
		},
		"trial": func(c *encoding.Compressor, dst []byte, t *encoding.Trial) ([]byte, error) {
			return c.AppendIndices(dst, page, t)
		},
	} {
		b.Run(name, func(b *testing.B) {
			c, err := encoding.NewCompressor(encoding.Zstd, 3)
			if err != nil {
				b.Fatal(err)
			}
			var trial encoding.Trial
			var out []byte
			b.SetBytes(int64(len(page)))
			for b.Loop() {
				if out, err = do(c, out[:0], &trial); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(out))/float64(len(page)), "out/in")
		})
	}
}
