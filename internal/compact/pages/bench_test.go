package pages_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/iceberg-go"

	"firn/internal/compact/arrow"
	"firn/internal/compact/engine"
	"firn/internal/compact/pages"
	"firn/internal/parquet/column"
	"firn/internal/store"
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

// BenchmarkBigRowGroups copies files whose row groups are big already, beside a plain copy of the same bytes, on the local disk.
func BenchmarkBigRowGroups(b *testing.B) {
	w := newWorld(b, schema(), map[string]string{})
	data := encode(b, w.layout, [][]column.Batch{generate(w.layout, rand.New(rand.NewPCG(1, 2)), 200_000, 1)},
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithPageIndexEnabled(true))
	w.job.Writer.RowGroupBytes = int64(len(data))
	const files = 32
	ctx, st := context.Background(), store.NewLocal()
	w.job.Location = b.TempDir()
	for n := range files {
		at := store.Join(w.job.Location, fmt.Sprint("in-", n))
		must(b, st.Put(ctx, at, data, store.WriteOptions{}))
		f, err := iceberg.NewDataFileBuilder(w.job.Spec, iceberg.EntryContentData, at, iceberg.ParquetFile, nil, nil, nil, 200_000, int64(len(data)))
		must(b, err)
		w.job.Inputs = append(w.job.Inputs, engine.Input{DataFile: f.Build()})
	}
	log := slog.New(slog.DiscardHandler)
	for name, copy := range map[string]func(job engine.Job) error{
		"pages": func(job engine.Job) error {
			r, err := pages.New(st, log, pages.Limits{}, nil).Rewrite(ctx, job)
			if err == nil && (len(r.Tiers) != 1 || r.Tiers[engine.TierConcat] == 0) {
				err = fmt.Errorf("bytes by tier %v: want all as they are", r.Tiers)
			}
			return err
		},
		"copy": func(job engine.Job) error { return plainCopy(ctx, st, job) },
	} {
		b.Run(name, func(b *testing.B) {
			before := cpu(b)
			for b.Loop() {
				job := w.job
				job.Attempt = name + time.Now().String()
				must(b, copy(job))
			}
			b.ReportMetric(float64(len(data))*files*float64(b.N)/1e6/(cpu(b)-before).Seconds(), "MB/cpu-s")
		})
	}
}

func plainCopy(ctx context.Context, st store.ReadWriter, job engine.Job) error {
	up, err := st.Create(ctx, store.Join(job.Location, job.Attempt), store.WriteOptions{})
	if err != nil {
		return err
	}
	const part = 4 << 20
	buf := make([]byte, part)
	for _, in := range job.Inputs {
		for at := int64(0); at < in.FileSizeBytes(); at += part {
			piece, err := store.Buffered(st).GetRangeInto(ctx, in.FilePath(), at, min(part, in.FileSizeBytes()-at), buf)
			if err != nil {
				return err
			}
			if _, err := up.Write(piece); err != nil {
				return err
			}
		}
	}
	return up.Commit(ctx)
}
