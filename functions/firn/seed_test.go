package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
	"firn/internal/lake"
)

// world registers a table of a world in the bench's catalog.
func (b *bench) world(w *icebergtest.World, tbl *icebergtest.Table, name string) {
	b.t.Helper()
	b.proc.stores["s3"] = w.Store
	b.must("register", "--table", name, "--metadata-location", tbl.Pointer().MetadataLocation)
}

// TestExpiryDeletesWhatOnlyOldSnapshotsNeed: after inserts only, manifest lists; after a compaction, the files that it replaced too.
func TestExpiryDeletesWhatOnlyOldSnapshotsNeed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	for i := range 6 {
		tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 1.5}))
	}
	b.world(w, tbl, "db.t")
	expire := "CALL system.expire_snapshots(table => 'db.t', older_than => now(), retain_last => 1)"
	check := func(what string, want map[string]int) {
		t.Helper()
		got := b.object(b.must("sql", "--json", expire))
		for column, n := range want {
			if got[column] != json.Number(fmt.Sprint(n)) {
				t.Errorf("%s: %s is %v, want %d", what, column, got[column], n)
			}
		}
	}
	check("after inserts only", map[string]int{"deleted_manifest_lists_count": 5, "deleted_manifest_files_count": 0, "deleted_data_files_count": 0})
	b.must("call", "rewrite_data_files", "--table", "db.t", "--option", "min-input-files=2")
	check("after a compaction", map[string]int{"deleted_manifest_lists_count": 1, "deleted_manifest_files_count": 6, "deleted_data_files_count": 6})
}

// TestSeedFigureZOrder: 64 files, each with rows from all over two columns; after a z-order of both, a query for a point reads at most an eighth of
// the files.
func TestSeedFigureZOrder(t *testing.T) {
	t.Parallel()
	const files, rows, side = 64, 200, 1 << 16
	b := newBench(t)
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("x long required", "y long required"))
	rng := rand.New(rand.NewPCG(3, 4))
	var changes []icebergtest.Change
	for range files {
		part := make([]icebergtest.Row, rows)
		for i := range part {
			part[i] = icebergtest.Row{rng.Int64N(side), rng.Int64N(side)}
		}
		changes = append(changes, icebergtest.Append(part...))
	}
	tbl.Commit(changes...)
	b.world(w, tbl, "db.t")
	if share, _ := b.pointShare("db.t", side); share < 0.9 {
		t.Fatalf("a point reads %.2f of the files before: the table is no test", share)
	}
	size := int64(0)
	for e := range b.entries("db.t") {
		size = max(size, e.File.FileSizeBytes())
	}
	b.must("sql", fmt.Sprintf("CALL system.rewrite_data_files(table => 'db.t', sort_order => 'zorder(x, y)', options => map('rewrite-all', 'true', 'target-file-size-bytes', '%d'))", size))
	if share, n := b.pointShare("db.t", side); share > 1.0/8 || n < files/2 {
		t.Errorf("a point reads %.3f of %d files: want at most 1/8 of about %d", share, n, files)
	}
}

// entries streams the live data files of a table.
func (b *bench) entries(name string) func(yield func(lake.Entry) bool) {
	b.t.Helper()
	table, st := b.load(name)
	manifests, err := lake.Manifests(context.Background(), st, table.Metadata.CurrentSnapshot())
	if err != nil {
		b.t.Fatal(err)
	}
	return func(yield func(lake.Entry) bool) {
		for _, m := range manifests {
			if m.ManifestContent() != iceberg.ManifestContentData {
				continue
			}
			for e, err := range lake.Entries(context.Background(), st, m, lake.EntryOptions{}) {
				if err != nil {
					b.t.Fatal(err)
				}
				if !yield(e) {
					return
				}
			}
		}
	}
}

// pointShare is the share of files that a query for a point of the square reads by their bounds, on average, and the number of files.
func (b *bench) pointShare(name string, side int64) (share float64, files int) {
	b.t.Helper()
	const points = 200
	rng := rand.New(rand.NewPCG(5, 6))
	queries := make([][2]int64, points)
	for i := range queries {
		queries[i] = [2]int64{rng.Int64N(side), rng.Int64N(side)}
	}
	read := 0
	for e := range b.entries(name) {
		files++
		for _, q := range queries {
			hit := true
			for i, value := range q {
				lower := int64(binary.LittleEndian.Uint64(e.File.LowerBoundValues()[i+1]))
				upper := int64(binary.LittleEndian.Uint64(e.File.UpperBoundValues()[i+1]))
				hit = hit && lower <= value && value <= upper
			}
			if hit {
				read++
			}
		}
	}
	return float64(read) / float64(points*max(files, 1)), files
}
