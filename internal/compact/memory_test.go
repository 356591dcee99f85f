package compact_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// BenchmarkRewrite rewrites 128 files of about 4 MB each (FIRN_BENCH_FILES and FIRN_BENCH_ROWS change that) on local disk, in the shape of event
// data, and reports throughput in input bytes and the process's peak memory. The inputs are made by the arrow engine itself.
func BenchmarkRewrite(b *testing.B) {
	w := icebergtest.NewLocalWorld(b)
	files, rows := envInt("FIRN_BENCH_FILES", 128), envInt("FIRN_BENCH_ROWS", 42_000)
	tbl := w.NewTable("db.events", icebergtest.Columns("id long required", "ts timestamptz", "user string", "country string", "amount decimal(22,2)",
		"quantity int", "score double", "payload string", "tag string"))
	rng := rand.New(rand.NewPCG(1, 2))
	made := tbl.Commit(icebergtest.Append(events(rng, 0, rows)...))
	copies(b, w.Store, tbl, made.DataFiles[0], files-1)
	state := tbl.State()
	debug.FreeOSMemory()
	resetPeak(b)
	var in, out int64
	var busy time.Duration
	var engine string
	for n := 0; b.Loop(); n++ {
		bench := newBench(b, w.Store, state, run(n))
		start := time.Now()
		r := bench.rewrite(0)
		busy += time.Since(start)
		if r.Outcome != maintenance.Committed {
			b.Fatal(r.Reason)
		}
		in, out, engine = in+r.BytesIn, out+r.BytesOut, r.Engine
	}
	b.Logf("engine %s", engine)
	b.ReportMetric(float64(in)/1e6/busy.Seconds(), "MB/s")
	b.ReportMetric(float64(in)/1e6, "in-MB")
	b.ReportMetric(float64(out)/1e6, "out-MB")
	b.ReportMetric(float64(peak(b))/1e6, "peak-MB")
}

// copies adds n copies of a data file to the table: making new rows would take minutes.
func copies(b *testing.B, st store.Full, tbl *icebergtest.Table, path string, n int) {
	b.Helper()
	ctx := context.Background()
	data, err := st.Get(ctx, path)
	if err != nil {
		b.Fatal(err)
	}
	state := tbl.State()
	source := newBench(b, st, state)
	first := source.decode(source.groups[0].Inputs[0].Entry)
	var changes []icebergtest.Change
	for i := range n {
		to := fmt.Sprintf("%s.copy-%05d.parquet", path, i)
		if err := st.Put(ctx, to, data, store.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
		f, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, to, iceberg.ParquetFile, nil, nil, nil,
			first.Count(), first.FileSizeBytes())
		if err != nil {
			b.Fatal(err)
		}
		changes = append(changes, icebergtest.AddFile(f.Build(), nil))
	}
	tbl.Commit(changes...)
}

func envInt(name string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return otherwise
	}
	return n
}

func events(rng *rand.Rand, first, n int) []icebergtest.Row {
	countries := []string{"DE", "FR", "US", "JP", "BR", "IN", "CN", "NG"}
	rows := make([]icebergtest.Row, n)
	words := strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu")
	for i := range rows {
		var payload strings.Builder
		payload.WriteString(`{"session":"`)
		for range 4 {
			fmt.Fprintf(&payload, "%016x", rng.Uint64())
		}
		payload.WriteString(`","path":"/`)
		for range 6 {
			payload.WriteString(words[rng.IntN(len(words))] + "/")
		}
		fmt.Fprintf(&payload, `","ms":%d,"ok":%t}`, rng.IntN(10_000), rng.IntN(2) == 0)
		row := icebergtest.Row{
			int64(first + i), int64(1_700_000_000_000_000 + (first+i)*137), fmt.Sprintf("user-%08d", rng.IntN(1_000_000)),
			countries[rng.IntN(len(countries))], fmt.Sprintf("%d.%02d", rng.IntN(100_000), rng.IntN(100)), rng.IntN(20), rng.NormFloat64(),
			payload.String(), words[rng.IntN(len(words))],
		}
		if rng.IntN(20) == 0 {
			row[6] = nil
		}
		rows[i] = row
	}
	return rows
}

// resetPeak makes the kernel forget the process's peak memory.
func resetPeak(b *testing.B) {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Logf("peak memory counts from the start: %v", err)
	}
}

// peak is the process's peak resident memory in bytes.
func peak(b *testing.B) int64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}
