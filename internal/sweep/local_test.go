package sweep_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/sweep"
)

// TestLocalFiles runs abandon and an orphan sweep on local files, with the work location inside the warehouse.
func TestLocalFiles(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := icebergtest.NewLocalWorld(t)
	tbl := w.NewTable("db.t")
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	root := strings.TrimPrefix(w.Location, "file://") + "/db/t"
	workDir := "file://" + root + "/work"
	run := maintenance.Run{
		RunID: maintenance.NewRunID("x", 1, 1), Table: tbl.ID, TableUUID: tbl.State().Metadata.TableUUID().String(),
	}
	now := time.Now().Add(10 * 24 * time.Hour)
	f := sweep.New(sweep.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Full, error) { return w.Catalog, w.Store, nil },
		Work:    w.Store, WorkLocation: workDir, Now: func() time.Time { return now }, NewAttempt: func() string { return "a" },
		Log: slog.New(slog.DiscardHandler),
	})
	work := handoff.Open(w.Store, workDir, run.RunID)
	group := work.Part(rewrite, "a", "group.json")
	_, err := work.WriteOnce(ctx, group, &handoff.Group{V: 1, OutputLocation: "file://" + root + "/data"})
	must(err)
	_, err = work.WriteOnce(ctx, work.Index(rewrite), &handoff.Index{V: 1, Run: run, Job: rewrite, Groups: []string{group}, Batches: []handoff.Batch{{Count: 1}}})
	must(err)
	write := func(name string) string {
		must(os.WriteFile(filepath.Join(root, name), []byte("x"), 0o644))
		return filepath.Join(root, name)
	}
	stray := write("data/00000-" + string(run.RunID) + "-1.parquet")
	up, err := w.Store.Create(ctx, "file://"+root+"/data/00001-"+string(run.RunID)+"-1.parquet", store.WriteOptions{})
	must(err)
	_, err = up.Write([]byte("x"))
	must(err)
	out, err := f.Handle(ctx, maintenance.SweepInput{V: 1, Step: maintenance.SweepAbandon, Run: run})
	must(err)
	if _, err := os.Stat(stray); out.Deleted != 1 || err == nil {
		t.Errorf("%d deleted, the stray is there: %v", out.Deleted, err == nil)
	}
	if entries, err := filepath.Glob(filepath.Join(root, "data", ".firn-tmp-*")); err != nil || len(entries) != 0 {
		t.Errorf("temporary files %v are left", entries)
	}

	orphan := write("data/an orphan#?.parquet")
	job := maintenance.RemoveOrphanFiles
	items := work.Part(job, "a", "ranges.jsonl")
	item := maintenance.SweepItem{Prefix: "file://" + root + "/"}
	must(work.WriteLines(ctx, items, []any{maintenance.SweepInput{V: 1, Run: run, Job: job, Item: &item}}))
	_, err = work.WriteOnce(ctx, work.Index(job), &handoff.Index{
		V: 1, Run: run, Job: job, PlannedAtMS: now.UnixMilli(), Batches: []handoff.Batch{{Count: 1, Location: items}},
	})
	must(err)
	_, err = f.Handle(ctx, maintenance.SweepInput{V: 1, Step: maintenance.SweepList, Run: run, Job: job, Item: &item})
	must(err)
	out, err = f.Handle(ctx, maintenance.SweepInput{V: 1, Step: maintenance.SweepReach, Run: run, Job: job})
	must(err)
	s, err := work.SweepSummary(ctx, job, 0)
	must(err)
	if len(s.Files) != 1 || s.Files[0] != "file://"+orphan || out.ItemCount != 1 {
		t.Fatalf("orphans %v: want %s", s.Files, orphan)
	}
	data, err := w.Store.Get(ctx, handoff.Location("file", out.Items))
	must(err)
	line := strings.TrimSpace(string(data))
	location := line[strings.Index(line, `"location":"`)+len(`"location":"`):]
	location = location[:strings.IndexByte(location, '"')]
	_, err = f.Handle(ctx, maintenance.SweepInput{V: 1, Step: maintenance.SweepDelete, Run: run, Job: job, Item: &maintenance.SweepItem{Location: location}})
	must(err)
	if _, err := os.Stat(orphan); err == nil {
		t.Error("the orphan is there")
	}
	if got := tbl.Rows(); got.Count != 1 {
		t.Errorf("%d rows", got.Count)
	}
}
