package lake_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/store"
)

// bigTable makes a table of n data files with statistics on 20 columns, in manifests of 10,000 entries. The files themselves do not exist.
func bigTable(tb testing.TB, n int) (store.Reader, *lake.Table) {
	tb.Helper()
	const columns, perManifest = 20, 10_000
	w := icebergtest.NewWorld(tb)
	var names []string
	for i := range columns {
		names = append(names, fmt.Sprintf("c%d long", i))
	}
	tbl := w.NewTable("db.big", icebergtest.Columns(names...), icebergtest.Partitioned("c0"))
	spec := tbl.State().Metadata.PartitionSpec()
	for start := 0; start < n; start += perManifest {
		var changes []icebergtest.Change
		for i := start; i < min(n, start+perManifest); i++ {
			changes = append(changes, icebergtest.AddFile(fileWithStats(tb, spec, i, columns), nil))
		}
		tbl.Commit(changes...)
	}
	return w.Store, tbl.State()
}

func fileWithStats(tb testing.TB, spec iceberg.PartitionSpec, i, columns int) iceberg.DataFile {
	tb.Helper()
	path := fmt.Sprintf("s3://world/db/big/data/c0=%d/%08d-0123456789abcdef-00001.parquet", i%100, i)
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, path, iceberg.ParquetFile, map[int]any{1000: int64(i % 100)}, nil, nil,
		1000, 1<<20)
	if err != nil {
		tb.Fatal(err)
	}
	sizes, counts, bounds := map[int]int64{}, map[int]int64{}, map[int][]byte{}
	for c := 1; c <= columns; c++ {
		sizes[c], counts[c] = 5000, 1000
		bounds[c] = binary.LittleEndian.AppendUint64(nil, uint64(i))
	}
	return b.ColumnSizes(sizes).ValueCounts(counts).NullValueCounts(counts).LowerBoundValues(bounds).UpperBoundValues(bounds).Build()
}

func BenchmarkScan100k(b *testing.B) {
	st, tbl := bigTable(b, 100_000)
	head, err := tbl.Head("")
	if err != nil {
		b.Fatal(err)
	}
	filter := func(e lake.Entry) (bool, error) {
		return !bytes.Equal(e.File.LowerBoundValues()[2], []byte("x")), nil
	}
	for name, f := range map[string]lake.Filter{"all": nil, "filter": filter} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := lake.NewScan(context.Background(), st, tbl, head)
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for _, err := range s.Files(context.Background(), f) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 100_000 {
					b.Fatalf("%d files", n)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/100_000, "ns/file")
		})
	}
}

// TestScanKeepsLittle: at most 100 bytes stay for a file that was streamed and not selected.
func TestScanKeepsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a table of 8,000 files")
	}
	const n = 8_000
	st, tbl := bigTable(t, n)
	s := newScan(t, st, tbl)
	before := heap()
	count := 0
	for _, err := range s.Files(context.Background(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	kept := float64(heap()-before) / n
	if count != n || kept > 100 {
		t.Errorf("%d files, %.0f bytes kept for each: want at most 100", count, kept)
	}
	t.Logf("%.0f bytes a file", kept)
	runtime.KeepAlive(s)
}

func heap() int64 {
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
