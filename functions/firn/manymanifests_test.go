package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
	"firn/internal/lake/manifest"
	"firn/internal/store"
)

// scattered makes a table whose snapshot has manifests of entries each, with statistics on 16 columns and the partitions in no order. The data files
// do not exist.
func scattered(t *testing.T, w *icebergtest.World, manifests, entries int) *icebergtest.Table {
	t.Helper()
	const columns, id = 16, 77
	var names []string
	for i := range columns {
		names = append(names, fmt.Sprintf("c%d long", i))
	}
	tbl := w.NewTable("db.t", icebergtest.Columns(names...), icebergtest.Partitioned("c0"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	meta := tbl.State().Metadata
	spec := meta.PartitionSpec()
	layout, err := manifest.NewLayout(2, spec, meta.CurrentSchema())
	must(err)
	var list bytes.Buffer
	lines, err := iceberg.NewManifestListWriterV2(&list, id, 1, nil)
	must(err)
	for i := range manifests {
		location := store.Join(meta.Location(), "metadata", fmt.Sprintf("in-%d.avro", i))
		m, err := layout.NewWriter(iceberg.ManifestContentData, id, location)
		must(err)
		for j := range entries {
			n := i*entries + j
			b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, store.Join(meta.Location(), "data", fmt.Sprintf("%08d.parquet", n)),
				iceberg.ParquetFile, map[int]any{1000: int64(n * 37 % 365)}, nil, nil, 1000, 200<<20)
			must(err)
			counts, bounds := map[int]int64{}, map[int][]byte{}
			for c := 1; c <= columns; c++ {
				counts[c], bounds[c] = int64(1000+n), binary.LittleEndian.AppendUint64(nil, uint64(n*n*c))
			}
			f := b.ColumnSizes(counts).ValueCounts(counts).NullValueCounts(counts).LowerBoundValues(bounds).UpperBoundValues(bounds).Build()
			must(m.Add(f, nil))
		}
		data, line, err := m.Close(location)
		must(err)
		must(w.Store.Put(context.Background(), location, data, store.WriteOptions{}))
		must(lines.AddManifests([]iceberg.ManifestFile{line}))
	}
	must(lines.Close())
	at := store.Join(meta.Location(), "metadata", "snap-77.avro")
	must(w.Store.Put(context.Background(), at, list.Bytes(), store.WriteOptions{}))
	tbl.Update(func(b *table.MetadataBuilder) error {
		schema := meta.CurrentSchema().ID
		snap := &table.Snapshot{
			SnapshotID: id, SequenceNumber: 1, TimestampMs: w.Clock.Now().UnixMilli(), ManifestList: at, SchemaID: &schema,
			Summary: &table.Summary{Operation: table.OpAppend, Properties: iceberg.Properties{"total-data-files": fmt.Sprint(manifests * entries)}},
		}
		if err := b.AddSnapshot(snap); err != nil {
			return err
		}
		return b.SetSnapshotRef(table.MainBranch, id, table.BranchRef)
	})
	return tbl
}

// TestSeedFigure10000Manifests plans over 100,000 data files in 10,000 manifests in 3 s of CPU and 200 MB of memory, rewrites the manifests in 60 s
// and 300 MB, and plans again.
func TestSeedFigure10000Manifests(t *testing.T) {
	if os.Getenv("FIRN_BIG") == "" {
		t.Skip("writes 10,000 manifests: set FIRN_BIG=1")
	}
	b := newBench(t)
	tbl := scattered(t, icebergtest.NewLocalWorld(t), 10_000, 10)
	b.must("register", "--table", "db.t", "--metadata-location", tbl.Pointer().MetadataLocation)
	for _, step := range []struct {
		name   string
		args   []string
		cpu    time.Duration
		peak   int64
		column string
		want   string
	}{
		{"plan", []string{"rewrite_data_files", "--dry-run"}, 3 * time.Second, 200 << 20, "", ""},
		{"rewrite", []string{"rewrite_manifests"}, 60 * time.Second, 300 << 20, "rewritten_manifests_count", "10000"},
		{"plan again", []string{"rewrite_data_files", "--dry-run"}, 3 * time.Second, 200 << 20, "", ""},
	} {
		got, state, peak := b.program(append(append([]string{"call"}, step.args...), "--table", "db.t", "--json")...)
		cpu := state.UserTime() + state.SystemTime()
		t.Logf("%s: %v of CPU, peak memory %d MB", step.name, cpu, peak>>20)
		if got.code != exitDone {
			t.Fatalf("%s: exit %d\n%s%s", step.name, got.code, got.stdout, got.stderr)
		}
		if cpu > step.cpu || peak > step.peak {
			t.Errorf("%s: %v of CPU, %d MB: want at most %v and %d MB", step.name, cpu, peak>>20, step.cpu, step.peak>>20)
		}
		if object := b.object(got); step.column != "" && object[step.column] != json.Number(step.want) {
			t.Errorf("%s: result %v", step.name, object)
		}
	}
}
