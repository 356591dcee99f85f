package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/store"
)

// big is the figure of a promise under FIRN_BIG=1, and a smaller one that shows the same otherwise.
func big(figure, small int) int {
	if os.Getenv("FIRN_BIG") == "1" {
		return figure
	}
	return small
}

// TestSeedFigurePositionDeletes: thousands of position delete files become at most twenty, none of them for nothing; with format version 3 one vector a data
// file.
func TestSeedFigurePositionDeletes(t *testing.T) {
	t.Parallel()
	deletes := big(3000, 120)
	const files = 10
	each := deletes / files
	for _, version := range []int{2, 3} {
		b := newBench(t)
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t", icebergtest.Partitioned("g"), icebergtest.Property("write.delete.granularity", "partition"))
		var paths []string
		for f := range files + 1 {
			rows := make([]icebergtest.Row, each+5)
			for i := range rows {
				rows[i] = icebergtest.Row{int64(f*10_000 + i), fmt.Sprint(f % 3), 1.5}
			}
			paths = append(paths, tbl.Commit(icebergtest.Append(rows...)).DataFiles...)
		}
		var changes []icebergtest.Change
		for i := range each {
			for _, path := range paths { // those of the last one lose their data file
				changes = append(changes, icebergtest.DeletePositions(path, int64(i)))
			}
		}
		tbl.Commit(changes...)
		tbl.Commit(icebergtest.Remove(paths[files]))
		want := tbl.Rows()
		if version == 3 {
			tbl.Upgrade(3)
		}
		b.world(w, tbl, "db.t")
		if got := b.deleteCounts("db.t"); got["position_delete_files"] != each*(files+1) || got["dangling"] != each {
			t.Fatalf("version %d: before: %v", version, got)
		}
		b.must("sql", "CALL system.rewrite_position_delete_files('db.t')")
		got := b.deleteCounts("db.t")
		if n := got["position_delete_files"] + got["deletion_vectors"]; n > 20 || got["dangling"] != 0 || got["deleted_positions"] != each*files {
			t.Errorf("version %d: after: %v", version, got)
		}
		if version == 3 && got["deletion_vectors"] != files || version == 3 && got["position_delete_files"] != 0 {
			t.Errorf("after: %v: want one vector for each of %d data files", got, files)
		}
		b.sameRows("db.t", want)
	}
}

// deleteCounts are inspect's figures of delete files.
func (b *bench) deleteCounts(name string) map[string]int {
	b.t.Helper()
	counts := map[string]int{}
	for key, n := range b.object(b.must("inspect", "--table", name, "--json"))["delete_files"].(map[string]any) {
		value, err := n.(json.Number).Int64()
		if err != nil {
			b.t.Fatal(err)
		}
		counts[key] = int(value)
	}
	return counts
}

// sameRows reads a table's rows with an engine that is not ours.
func (b *bench) sameRows(name string, want icebergtest.Content) {
	b.t.Helper()
	after, st := b.load(name)
	got, err := icebergtest.ReadRows(context.Background(), st, after, nil)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("rows changed: %v: %v, want %v", err, got, want)
	}
}

// TestSeedFigureMetadataFiles: a table that never deleted metadata files is told to, late: the next commit keeps the newest of the log, and what left the log
// before goes with the orphans.
func TestSeedFigureMetadataFiles(t *testing.T) {
	t.Parallel()
	files := big(2500, 160)
	b := newBench(t)
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	for i := range 6 {
		tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 1.5}))
	}
	for i := range files {
		tbl.SetProperty("n", fmt.Sprint(i))
	}
	want := tbl.Rows()
	b.world(w, tbl, "db.t")
	b.must("sql", "ALTER TABLE db.t SET TBLPROPERTIES ('write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '20')")
	count := func() (onDisk int, logged int) {
		after, _ := b.load("db.t")
		for range after.Metadata.PreviousFiles() {
			logged++
		}
		for info, err := range w.Store.List(context.Background(), after.Metadata.Location(), store.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(info.Location, ".metadata.json") {
				onDisk++
			}
		}
		return onDisk, logged
	}
	b.must("call", "rewrite_data_files", "--table", "db.t", "--option", "min-input-files=2")
	if _, logged := count(); logged > 20 {
		t.Errorf("%d files in the log after a commit: want 20", logged)
	}
	memory := w.Store.(*store.Memory)
	for info, err := range w.Store.List(context.Background(), tbl.State().Metadata.Location(), store.ListOptions{}) {
		if err == nil {
			err = memory.SetModifiedAt(info.Location, w.Clock.Now().AddDate(0, 0, -30))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.must("call", "remove_orphan_files", "--table", "db.t")
	if onDisk, logged := count(); onDisk != logged+1 || logged > 20 {
		t.Errorf("%d metadata files and %d in the log: want the log and the current one", onDisk, logged)
	}
	b.sameRows("db.t", want)
}

// TestManifestMerge: a table that switches merging off, or asks for more manifests than it has, keeps manifests apart that a commit writes again.
func TestManifestMerge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		property, value string
		want            int
	}{
		{"commit.manifest-merge.enabled", "false", 6},
		{"commit.manifest.min-count-to-merge", "7", 6},
		{"commit.manifest.min-count-to-merge", "6", 1},
	} {
		b := newBench(t)
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.m", icebergtest.Property(c.property, c.value))
		for i := range 5 {
			tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 1.5}))
		}
		b.world(w, tbl, "db.m")
		b.must("call", "rewrite_data_files", "--table", "db.m", "--option", "min-input-files=2")
		after, st := b.load("db.m")
		manifests, err := lake.Manifests(context.Background(), st, after.Metadata.CurrentSnapshot())
		if err != nil || len(manifests) != c.want {
			t.Errorf("%s=%s: %d manifests, %v: want %d", c.property, c.value, len(manifests), err, c.want)
		}
		b.must("call", "rewrite_manifests", "--table", "db.m") // which is asked to merge
		if after, _ = b.load("db.m"); after.Metadata.CurrentSnapshot().Summary.Operation != table.OpReplace {
			t.Errorf("%s=%s: %v", c.property, c.value, after.Metadata.CurrentSnapshot())
		}
		if manifests, err = lake.Manifests(context.Background(), st, after.Metadata.CurrentSnapshot()); err != nil || len(manifests) != 1 ||
			manifests[0].ManifestContent() != iceberg.ManifestContentData {
			t.Errorf("%s=%s: %d manifests behind rewrite_manifests, %v", c.property, c.value, len(manifests), err)
		}
	}
}
