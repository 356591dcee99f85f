package pages_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"firn/internal/compact/pages"
	"firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// BenchmarkChange measures what is decoded: tiny files, deleted rows, another codec; in input megabytes a second of processor time. "floor" only
// decompresses and compresses the same pages, which nobody who changes them can avoid.
func BenchmarkChange(b *testing.B) {
	for name, c := range map[string]struct {
		files, rows int
		codec       compress.Compression
		deleted     func(rng *rand.Rand, rows int) *roaring64.Bitmap
	}{
		"tiny": {200, 1000, compress.Codecs.Zstd, nil},
		"one in a hundred deleted": {8, 40_000, compress.Codecs.Zstd, func(rng *rand.Rand, rows int) *roaring64.Bitmap {
			m := roaring64.New()
			for range rows / 100 {
				m.Add(uint64(rng.IntN(rows)))
			}
			return m
		}},
		"codec": {8, 40_000, compress.Codecs.Snappy, nil},
	} {
		w := newWorld(b, schema(), map[string]string{})
		rng := rand.New(rand.NewPCG(1, 2))
		for n := range c.files {
			w.add(encode(b, w.layout, [][]column.Batch{generate(w.layout, rng, c.rows, n%4)}, parquet.WithCompression(c.codec), parquet.WithPageIndexEnabled(true),
				parquet.WithDictionaryFor("payload", false), parquet.WithDictionaryFor("id", false)), int64(c.rows))
			if c.deleted != nil {
				w.job.Inputs[n].Mask = c.deleted(rng, c.rows)
			}
		}
		engine := pages.New(w.store, slog.New(slog.DiscardHandler), pages.Limits{}, nil)
		run := func(what string, do func() (in, out int64)) {
			b.Run(name+"/"+what, func(b *testing.B) {
				var in, out int64
				before := cpu(b)
				for b.Loop() {
					i, o := do()
					in, out = in+i, out+o
				}
				b.ReportMetric(float64(in)/1e6/(cpu(b)-before).Seconds(), "MB/cpu-s")
				b.ReportMetric(float64(out)/float64(in), "out/in")
			})
		}
		run("pages", func() (in, out int64) {
			w.job.Attempt = time.Now().String()
			r, err := engine.Rewrite(context.Background(), w.job)
			must(b, err)
			for _, f := range w.job.Inputs {
				in += f.FileSizeBytes()
			}
			var made []string
			for _, f := range r.Outputs {
				out += f.FileSizeBytes()
				made = append(made, f.FilePath())
			}
			if n, faults, err := w.store.Delete(context.Background(), made); err != nil || n != len(made) {
				b.Fatal(faults)
			}
			return in, out
		})
		run("floor", func() (in, out int64) { return floor(b, w, encoding.Codec(c.codec)) })
	}
}

// floor decompresses and compresses all pages.
func floor(b *testing.B, w *world, codec encoding.Codec) (in, out int64) {
	compressor, err := encoding.NewCompressor(encoding.Codec(w.job.Writer.Codec), w.job.Writer.Level)
	must(b, err)
	var d encoding.Decompressor
	var plain, packed []byte
	for _, f := range w.job.Inputs {
		data := w.get(f.FilePath())
		in += int64(len(data))
		n, err := footer.Length(data, int64(len(data)))
		must(b, err)
		end := int64(len(data)) - footer.TrailerBytes
		meta, err := footer.DecodeFile(data[end-n : end])
		must(b, err)
		for _, g := range meta.RowGroups() {
			for _, c := range g.Columns() {
				at, length := c.Metadata().Span()
				for rest := data[at : at+length]; len(rest) > 0; {
					h, body, err := chunk.SplitPage(rest)
					must(b, err)
					plain, err = d.Decompress(plain, body, codec, int(h.Body()))
					must(b, err)
					packed, err = compressor.Append(packed[:0], plain)
					must(b, err)
					out += int64(len(packed))
					rest = rest[h.Length+len(body):]
				}
			}
		}
	}
	return in, out
}
