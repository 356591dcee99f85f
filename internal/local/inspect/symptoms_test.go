package inspect_test

import (
	"slices"
	"testing"
	"time"

	"firn/internal/decide"
	"firn/internal/icebergtest"
	"firn/internal/local/inspect"
	"firn/internal/maintenance"
)

// TestSymptomsNameTheirJob: a table with one symptom asks for the one job that cures it, a healthy table for none.
func TestSymptomsNameTheirJob(t *testing.T) {
	t.Parallel()
	const goodSizes = "100" // bytes: every data file is larger than this target
	row := func(i int) icebergtest.Row { return icebergtest.Row{int64(i), "a", 1.5} }
	healthy := func(tbl *icebergtest.Table) {
		tbl.Commit(icebergtest.Append(row(1)))
		tbl.Commit(icebergtest.Append(row(2)))
	}
	for _, c := range []struct {
		name   string
		target string
		build  func(tbl *icebergtest.Table)
		// never ran until now; every other job looked in vain an hour ago.
		never maintenance.Job
		want  []string
	}{
		{"healthy", goodSizes, healthy, "", []string{}},
		{
			"small files", "", func(tbl *icebergtest.Table) {
				var changes []icebergtest.Change
				for i := range 100 {
					changes = append(changes, icebergtest.Append(row(i)))
				}
				tbl.Commit(changes...)
			}, maintenance.RewriteDataFiles, []string{"rewrite_data_files"},
		},
		{
			"many small delete files", goodSizes, func(tbl *icebergtest.Table) {
				var rows []icebergtest.Row
				for i := range 1000 {
					rows = append(rows, row(i))
				}
				file := tbl.Commit(icebergtest.Append(rows...)).DataFiles[0]
				var changes []icebergtest.Change
				for i := range 100 {
					changes = append(changes, icebergtest.DeletePositions(file, int64(i)))
				}
				tbl.Commit(changes...)
			}, maintenance.RewritePositionDeleteFiles, []string{"rewrite_position_delete_files"},
		},
		{
			"a manifest for each commit", goodSizes, func(tbl *icebergtest.Table) {
				for i := range 100 {
					tbl.Commit(icebergtest.Append(row(i)))
				}
			}, maintenance.RewriteManifests, []string{"rewrite_manifests"},
		},
		{"storage that does not shrink", goodSizes, healthy, maintenance.ExpireSnapshots, []string{"expire_snapshots"}},
		{"untracked files", goodSizes, healthy, maintenance.RemoveOrphanFiles, []string{"remove_orphan_files"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := icebergtest.NewWorld(t)
			opts := []icebergtest.TableOption{}
			if c.target != "" {
				opts = append(opts, icebergtest.Property("write.target-file-size-bytes", c.target))
			}
			tbl := w.NewTable("db.t", opts...)
			c.build(tbl)
			past := inspect.History{Jobs: map[maintenance.Job]decide.JobFacts{}}
			for _, job := range maintenance.Chain() {
				if job != c.never {
					past.Jobs[job] = decide.JobFacts{
						LastRunMS: w.Clock.Now().Add(23 * time.Hour).UnixMilli(), LastOutcome: maintenance.NothingToDo,
					}
				}
			}
			if _, h := health(t, w, tbl, past); !slices.Equal(h.AsksFor, c.want) {
				t.Errorf("asks for %v, want %v: %+v", h.AsksFor, c.want, h.Due)
			}
		})
	}
}
