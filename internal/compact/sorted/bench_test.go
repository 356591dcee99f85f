package sorted_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/compact/sorted"
	"firn/internal/maintenance"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/store"
)

// events makes rows like those of an event log: a random ID, a time, few countries, a decimal, a payload of about 200 bytes.
func events(l *layout.Layout, rng *rand.Rand, rows int) []column.Batch {
	out := make([]column.Batch, len(l.Leaves))
	for i, leaf := range l.Leaves {
		b := &out[i]
		b.Rows, b.Levels = rows, rows
		for r := range rows {
			if leaf.MaxDef > 0 {
				b.Def = append(b.Def, 1)
			}
			switch leaf.Path {
			case "id":
				b.Int64 = append(b.Int64, rng.Int64())
			case "ts":
				b.Int64 = append(b.Int64, 1_700_000_000_000_000+int64(r)*1000+rng.Int64N(100_000_000))
			case "k":
				b.Int32 = append(b.Int32, rng.Int32N(100_000))
			case "score":
				b.Double = append(b.Double, rng.Float64())
			case "country":
				b.Bytes = append(b.Bytes, parquet.ByteArray(fmt.Sprint("country-", rng.IntN(50))))
			default:
				b.Bytes = append(b.Bytes, parquet.ByteArray(fmt.Sprintf(
					`{"user":"%016x","session":"%016x","path":"/catalog/items/%d","referrer":"https://example.com/search","agent":"browser/%d","ok":true}`,
					rng.Uint64(), rng.Uint64(), rng.IntN(10_000), rng.IntN(30))))
			}
		}
	}
	return out
}

// BenchmarkSort sorts files of about 4 MB on the local disk and reports input megabytes a second of processor time, of the whole process, and its
// largest size in memory. FIRN_BENCH_FILES sets their number (16).
func BenchmarkSort(b *testing.B) {
	sc := iceberg.NewSchema(
		0, iceberg.NestedField{ID: 1, Name: "id", Type: types.Int64, Required: true}, field(2, "ts", types.TimestampTz), field(3, "k", types.Int32),
		field(4, "score", types.Float64), field(5, "country", types.String), field(6, "payload", types.String),
	)
	w := newWorld(b, sc, map[string]string{})
	files := 16
	if n := os.Getenv("FIRN_BENCH_FILES"); n != "" {
		_, err := fmt.Sscan(n, &files)
		must(b, err)
	}
	dir, st, rng := b.TempDir(), store.NewLocal(), rand.New(rand.NewPCG(1, 2))
	w.job.Location, w.job.Permutation = dir, ""
	for n := range files {
		const rows = 55_000
		w.job.Inputs = nil
		w.addQuietly(b, events(w.layout, rng, rows))
		data, err := w.store.Get(context.Background(), "mem://t/data/in-0.parquet")
		must(b, err)
		at := store.Join(dir, fmt.Sprint("in-", n))
		must(b, st.Put(context.Background(), at, data, store.WriteOptions{}))
	}
	w.job.Inputs = nil
	for n := range files {
		at := store.Join(dir, fmt.Sprint("in-", n))
		info, err := st.Head(context.Background(), at)
		must(b, err)
		f, err := iceberg.NewDataFileBuilder(w.job.Spec, iceberg.EntryContentData, at, iceberg.ParquetFile, nil, nil, nil, 55_000, info.SizeBytes)
		must(b, err)
		w.job.Inputs = append(w.job.Inputs, engine.Input{DataFile: f.Build()})
	}
	for name, o := range map[string]*maintenance.Ordering{
		"long": by(1), "text": by(6),
		"zorder": {Curve: maintenance.ZOrder, Fields: []maintenance.OrderingField{{SourceID: 2}, {SourceID: 3}}},
	} {
		b.Run(name, func(b *testing.B) {
			e := sorted.New(st, slog.New(slog.DiscardHandler), sorted.Limits{}, sorted.Spill{})
			var in, out int64
			before := cpu(b)
			for b.Loop() {
				job := w.job
				job.Ordering, job.Attempt = o, name+time.Now().String()
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
			b.ReportMetric(peak(), "peak-MB")
		})
	}
}

// peak is the largest size of the process in memory, in MB; 0 where the system does not tell.
func peak() float64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kb); n == 1 {
			return kb / 1024
		}
	}
	return 0
}

// cpu is the processor time that the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
