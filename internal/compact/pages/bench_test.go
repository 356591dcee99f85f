package pages_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"firn/internal/compact/arrow"
	"firn/internal/compact/engine"
	"firn/internal/compact/pages"
	"firn/internal/parquet/column"
)

// BenchmarkEngines merges the same 16 files of about 4 MB with the page engine and with the arrow engine and reports input megabytes a second of
// processor time, user and system, of the whole process. "spark" has high-cardinality columns without dictionary, "pyarrow" all with.
func BenchmarkEngines(b *testing.B) {
	styles := map[string][]parquet.WriterProperty{
		"spark": {
			parquet.WithCompression(compress.Codecs.Zstd), parquet.WithPageIndexEnabled(true), parquet.WithDictionaryFor("payload", false),
			parquet.WithDictionaryFor("id", false),
		},
		"pyarrow": {parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryPageSizeLimit(1 << 20)},
	}
	for style, props := range styles {
		w := newWorld(b, schema(), map[string]string{})
		rng := rand.New(rand.NewPCG(1, 2))
		const rows = 60_000
		var files [][]byte
		for kind := range 4 {
			files = append(files, encode(b, w.layout, [][]column.Batch{generate(w.layout, rng, rows, kind)}, props...))
		}
		for n := range 16 {
			w.add(files[n%len(files)], rows)
		}
		log := slog.New(slog.DiscardHandler)
		slow := arrow.New(w.store, log, arrow.Limits{})
		for name, e := range map[string]engine.Engine{"pages": pages.New(w.store, log, pages.Limits{}, nil), "arrow": slow} {
			b.Run(style+"/"+name, func(b *testing.B) {
				var in, out int64
				before := cpu(b)
				for n := 0; b.Loop(); n++ {
					job := w.job
					job.Attempt = name + time.Now().String()
					r, err := e.Rewrite(context.Background(), job)
					must(b, err)
					for _, f := range w.job.Inputs {
						in += f.FileSizeBytes()
					}
					for _, f := range r.Outputs {
						out += f.FileSizeBytes()
					}
				}
				b.ReportMetric(float64(in)/1e6/(cpu(b)-before).Seconds(), "MB/cpu-s")
				b.ReportMetric(float64(in)/float64(b.N)/1e6, "in-MB")
				b.ReportMetric(float64(out)/float64(in), "out/in")
			})
		}
	}
}

// cpu is the processor time that the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
