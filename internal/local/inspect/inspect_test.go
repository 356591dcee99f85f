package inspect_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"firn/internal/decide"
	"firn/internal/icebergtest"
	"firn/internal/local/inspect"
	"firn/internal/maintenance"
	"firn/internal/policy"
)

// health looks at a table of a world a day after its last commit.
func health(t *testing.T, w *icebergtest.World, tbl *icebergtest.Table, past inspect.History) (*inspect.View, inspect.Health) {
	t.Helper()
	return healthAfter(t, w, tbl, past, 24*time.Hour)
}

// healthAfter looks some time after the last commit.
func healthAfter(t *testing.T, w *icebergtest.World, tbl *icebergtest.Table, past inspect.History, age time.Duration) (*inspect.View, inspect.Health) {
	t.Helper()
	state := tbl.State()
	v, err := inspect.Look(context.Background(), w.Store, state, w.Clock.Now().Add(age))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Document{}.Effective(tbl.ID, state.Metadata.Properties(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := v.Health(context.Background(), p, past)
	if err != nil {
		t.Fatal(err)
	}
	return v, h
}

func due(h inspect.Health, job maintenance.Job) inspect.Due {
	for _, d := range h.Due {
		if d.Job == string(job) {
			return d
		}
	}
	return inspect.Due{}
}

func TestHealthCountsPartitionsDeletesAndDanglingOnes(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	for i := range 5 {
		tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 1.5}))
	}
	b := tbl.Commit(icebergtest.Append(icebergtest.Row{9, "b", 1.5}, icebergtest.Row{10, "b", nil})).DataFiles[0]
	tbl.Commit(icebergtest.DeletePositions(b, 0))
	c := tbl.Commit(icebergtest.Append(icebergtest.Row{11, "c", 1.5})).DataFiles[0]
	tbl.Commit(icebergtest.DeletePositions(c, 0))
	tbl.Commit(icebergtest.Remove(c))
	_, h := healthAfter(t, w, tbl, inspect.History{}, 6*24*time.Hour)
	if h.DataFiles.DataFiles != 6 || h.DataFiles.SmallFiles != 6 || h.DataFiles.WithDeletes != 1 || h.DeleteFiles.Position != 2 || h.DeleteFiles.Dangling != 1 {
		t.Errorf("files %+v, deletes %+v", h.DataFiles, h.DeleteFiles)
	}
	if first := h.TopPartitions[0]; first.Name != "g=a" || first.SmallFiles != 5 || len(h.TopPartitions) != 3 {
		t.Errorf("partitions %+v: want the one with most small files first", h.TopPartitions)
	}
	for job, want := range map[maintenance.Job]string{
		maintenance.RewriteDataFiles: `partition g=a:`, maintenance.RewritePositionDeleteFiles: "1 dangling delete files", maintenance.ExpireSnapshots: "never ran",
	} {
		if d := due(h, job); !d.Due || !strings.Contains(d.Reason, want) {
			t.Errorf("%s: %+v: want it due and %q", job, d, want)
		}
	}
}

// TestWhatRanIsNotDueAgain: a rewrite that ran after the last commit waits for somebody else's.
func TestWhatRanIsNotDueAgain(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	for i := range 6 {
		tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 1.5}))
	}
	ran := inspect.History{Jobs: map[maintenance.Job]decide.JobFacts{
		maintenance.RewriteDataFiles: {LastRunMS: w.Clock.Now().UnixMilli(), LastOutcome: maintenance.NothingToDo},
	}}
	if _, h := health(t, w, tbl, ran); due(h, maintenance.RewriteDataFiles).Due {
		t.Errorf("due again: %+v", h.Due)
	}
	w.At(w.Clock.Now().Add(time.Minute))
	tbl.Commit(icebergtest.Append(icebergtest.Row{7, "a", 1.5}))
	if _, h := health(t, w, tbl, ran); !due(h, maintenance.RewriteDataFiles).Due {
		t.Errorf("not due after another commit: %+v", h.Due)
	}
}

func TestEmptyTableHasHealthAndPage(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	v, h := health(t, w, w.NewTable("db.<b>"), inspect.History{})
	if h.Snapshots.Count != 0 || h.Snapshots.CurrentID != nil || h.DataFiles.Average != 0 {
		t.Errorf("health %+v", h)
	}
	var page bytes.Buffer
	if err := v.WriteHTML(context.Background(), &page, h); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "<b>") || !strings.Contains(page.String(), "&lt;b&gt;") {
		t.Error("the table's name is not escaped")
	}
	for _, name := range inspect.ViewNames() {
		if rows, err := v.Rows(context.Background(), name); err != nil || rows.View != name {
			t.Errorf("view %s: %+v, %v", name, rows, err)
		}
	}
	if _, err := v.Rows(context.Background(), "nosuch"); err == nil || !strings.Contains(err.Error(), "metadata_log") {
		t.Errorf("unknown view: %v", err)
	}
}

// TestEveryViewOfSpark: each metadata table of Spark's has a view, which tells live files from those of other snapshots and from deleted entries.
func TestEveryViewOfSpark(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	first := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 1.5}, icebergtest.Row{2, "a", nil})).DataFiles[0]
	gone := tbl.Commit(icebergtest.Append(icebergtest.Row{3, "b", 1.5})).DataFiles[0]
	tbl.Commit(icebergtest.DeletePositions(first, 1))
	tbl.Commit(icebergtest.Remove(gone))
	v, _ := health(t, w, tbl, inspect.History{})
	for view, want := range map[string]int{
		"snapshots": 4, "history": 4, "refs": 1, "metadata_log_entries": 5, "metadata_log": 5, "files": 2, "data_files": 1, "delete_files": 1, "entries": 3,
		"manifests": 3, "partitions": 1, "position_deletes": 1, "all_data_files": 2, "all_delete_files": 1, "all_files": 3, "all_entries": 4,
		"all_manifests": 9,
	} {
		rows, err := v.Rows(context.Background(), view)
		if err != nil || len(rows.Rows) != want {
			t.Errorf("view %s has %d rows, want %d (%v)", view, len(rows.Rows), want, err)
		}
		for _, row := range rows.Rows {
			if len(row) != len(rows.Columns) {
				t.Errorf("view %s: a row of %d values under %d columns", view, len(row), len(rows.Columns))
			}
		}
	}
	positions, err := v.Rows(context.Background(), "position_deletes")
	if err != nil || positions.Rows[0][0] != first || positions.Rows[0][1] != uint64(1) || positions.Rows[0][3] != "g=a" {
		t.Errorf("position_deletes %v (%v)", positions.Rows, err)
	}
	if names := inspect.ViewNames(); len(names) != 16 {
		t.Errorf("views %v", names)
	}
}
