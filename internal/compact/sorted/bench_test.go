package sorted_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/debug"
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

// lines makes rows like those of TPC-H's lineitem: numbers, decimals and dates of few values, flags, a short comment.
func lines(l *layout.Layout, rng *rand.Rand, rows int) []column.Batch {
	words := strings.Fields("furiously carefully quickly blithely final special pending regular express ironic deposits requests accounts packages")
	out := make([]column.Batch, len(l.Leaves))
	for i, leaf := range l.Leaves {
		b := &out[i]
		b.Rows, b.Levels = rows, rows
		few := map[string]int{"quantity": 50, "discount": 11, "tax": 9, "line": 7}[leaf.Path]
		if few == 0 {
			few = 200_000
		}
		for range rows {
			b.Def = append(b.Def, 1)
			switch {
			case leaf.Kind == layout.Int32 && leaf.Path == "line":
				b.Int32 = append(b.Int32, rng.Int32N(7))
			case leaf.Kind == layout.Int32:
				b.Int32 = append(b.Int32, 9000+rng.Int32N(2500))
			case leaf.Kind == layout.Int64:
				b.Int64 = append(b.Int64, int64(rng.IntN(few)))
			case leaf.Path == "comment":
				text := ""
				for len(text) < 10+rng.IntN(30) {
					text += words[rng.IntN(len(words))] + " "
				}
				b.Bytes = append(b.Bytes, parquet.ByteArray(text))
			default:
				b.Bytes = append(b.Bytes, parquet.ByteArray(words[rng.IntN(4)]))
			}
		}
	}
	return out
}

func lineSchema() *iceberg.Schema {
	var fields []iceberg.NestedField
	add := func(t iceberg.Type, names ...string) {
		for _, n := range names {
			fields = append(fields, field(len(fields)+1, n, t))
		}
	}
	add(types.Int64, "order", "part", "supplier")
	add(types.Int32, "line")
	add(iceberg.DecimalTypeOf(15, 2), "quantity", "price", "discount", "tax")
	add(types.String, "flag", "status")
	add(types.Date, "shipped", "committed", "received")
	add(types.String, "instruct", "mode", "comment")
	return iceberg.NewSchema(0, fields...)
}

func eventSchema() *iceberg.Schema {
	return iceberg.NewSchema(
		0, iceberg.NestedField{ID: 1, Name: "id", Type: types.Int64, Required: true}, field(2, "ts", types.TimestampTz), field(3, "k", types.Int32),
		field(4, "score", types.Float64), field(5, "country", types.String), field(6, "payload", types.String),
	)
}

// BenchmarkSort sorts files of about 4 MB on the local disk and reports input megabytes a second of processor time, of the whole process, and its
// largest size in memory. FIRN_BENCH_FILES sets their number (16).
func BenchmarkSort(b *testing.B) {
	z := &maintenance.Ordering{Curve: maintenance.ZOrder, Fields: []maintenance.OrderingField{{SourceID: 2}, {SourceID: 3}}}
	for name, kase := range map[string]struct {
		schema *iceberg.Schema
		rows   int
		make   func(*layout.Layout, *rand.Rand, int) []column.Batch
		order  *maintenance.Ordering
	}{
		"events": {eventSchema(), 55_000, events, by(1)}, "eventsByText": {eventSchema(), 55_000, events, by(6)},
		"eventsByCurve": {eventSchema(), 55_000, events, z}, "lines": {lineSchema(), 157_000, lines, by(2)},
		"linesByCurve": {lineSchema(), 157_000, lines, z},
	} {
		b.Run(name, func(b *testing.B) {
			w, st := newWorld(b, kase.schema, map[string]string{}), store.NewLocal()
			w.onDisk(b, st, envFiles(b), func(rng *rand.Rand) []column.Batch { return kase.make(w.layout, rng, kase.rows) })
			e := sorted.New(st, slog.New(slog.DiscardHandler), sorted.Limits{}, sorted.Spill{})
			debug.FreeOSMemory()
			resetPeak()
			var in, out int64
			before := cpu(b)
			for b.Loop() {
				job := w.job
				job.Ordering, job.Attempt = kase.order, name+time.Now().String()
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

func envFiles(b *testing.B) int {
	b.Helper()
	files := 16
	if n := os.Getenv("FIRN_BENCH_FILES"); n != "" {
		_, err := fmt.Sscan(n, &files)
		must(b, err)
	}
	return files
}

// onDisk makes the group's files on the local disk; four are made, the others are copies.
func (w *world) onDisk(b testing.TB, st *store.Local, files int, generate func(*rand.Rand) []column.Batch) {
	b.Helper()
	ctx, rng := context.Background(), rand.New(rand.NewPCG(1, 2))
	w.job.Location, w.job.Permutation = b.TempDir(), ""
	var inputs []engine.Input
	for n := range files {
		if n < 4 {
			w.addQuietly(b, generate(rng))
		}
		made := w.job.Inputs[n%4]
		data, err := w.store.Get(ctx, made.FilePath())
		must(b, err)
		at := store.Join(w.job.Location, fmt.Sprint("in-", n))
		must(b, st.Put(ctx, at, data, store.WriteOptions{}))
		f, err := iceberg.NewDataFileBuilder(w.job.Spec, iceberg.EntryContentData, at, iceberg.ParquetFile, nil, nil, nil, made.Count(), int64(len(data)))
		must(b, err)
		inputs = append(inputs, engine.Input{DataFile: f.Build()})
	}
	w.job.Inputs, w.store, w.rows = inputs, nil, nil
}

// resetPeak forgets the largest size so far, where the system can.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600) }

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
