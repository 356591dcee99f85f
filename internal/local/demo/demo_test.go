package demo_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firn/internal/local/demo"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// small is a lake that takes a few seconds.
func small(t *testing.T) demo.Options {
	t.Helper()
	return demo.Options{
		Dir: t.TempDir(), Days: 8, CommitsPerDay: 3, RowsPerCommit: 300, Now: time.Now, Say: func(line string) { t.Log(line) },
	}
}

func TestDemoHealsTheTableAndKeepsItsRows(t *testing.T) {
	t.Parallel()
	ctx, opts := context.Background(), small(t)
	r, err := demo.Run(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Differences) > 0 || r.Before.Content.Rows == 0 {
		t.Errorf("%d rows before; differences: %q", r.Before.Content.Rows, r.Differences)
	}
	if r.Before.Snapshots != 24 || r.Before.DataFiles < 72 || r.Before.DeleteFiles < 3 {
		t.Errorf("before: %+v: want a decayed table", r.Before)
	}
	if r.Healed.DataFiles >= r.Before.DataFiles/2 || r.Healed.DeleteFiles >= r.Before.DeleteFiles {
		t.Errorf("after the rewrite: %+v", r.Healed)
	}
	if r.After.Snapshots != 1 || r.After.BytesOnDisk >= r.Before.BytesOnDisk {
		t.Errorf("at the end: %+v", r.After)
	}
	if len(r.Reports) != 2 {
		t.Fatalf("%d runs: want one by an event and one by the schedule", len(r.Reports))
	}
	jobs := map[maintenance.Job]maintenance.Outcome{}
	for _, j := range r.Reports[0].Jobs {
		jobs[j.Job] = j.Outcome
	}
	for _, job := range []maintenance.Job{maintenance.RewriteDataFiles, maintenance.ExpireSnapshots, maintenance.RemoveOrphanFiles} {
		if jobs[job] != maintenance.Committed {
			t.Errorf("%s of the first run: %q", job, jobs[job])
		}
	}
	debris(ctx, t, opts.Dir)
}

// debris checks that nothing of writers that died is left.
func debris(ctx context.Context, t *testing.T, dir string) {
	t.Helper()
	files := store.NewLocal()
	prefix := "file://" + filepath.Join(dir, "warehouse") + "/"
	for u, err := range files.Uploads(ctx, prefix) {
		t.Errorf("unfinished write %s is left (%v)", u.Location, err)
	}
	data := 0
	for info, err := range files.List(ctx, prefix, store.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(info.Location, ".parquet") {
			data++
		}
	}
	if data == 0 || data > 20 {
		t.Errorf("%d Parquet files are left: want those of the table only", data)
	}
}

func TestDifferencesNameWhatChanged(t *testing.T) {
	t.Parallel()
	before := demo.Content{Rows: 2, Digest: "00000000000000aa", Columns: []demo.ColumnFacts{{Name: "a", Nulls: 1, Min: "1", Max: "3"}}}
	if d := before.Differences(before); len(d) != 0 {
		t.Errorf("the same rows differ: %q", d)
	}
	for name, after := range map[string]demo.Content{
		"rows":    {Rows: 1, Digest: before.Digest, Columns: before.Columns},
		"digest":  {Rows: 2, Digest: "00000000000000ab", Columns: before.Columns},
		"columns": {Rows: 2, Digest: before.Digest},
		"column a": {
			Rows: 2, Digest: before.Digest, Columns: []demo.ColumnFacts{{Name: "a", Nulls: 2, Min: "1", Max: "3"}},
		},
	} {
		d := after.Differences(before)
		if len(d) != 1 || !strings.HasPrefix(d[0], name+":") {
			t.Errorf("differences %q: want one about %s", d, name)
		}
	}
}
