package inspect_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

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
		{"good sizes but many files read", goodSizes, func(tbl *icebergtest.Table) { overlapping(tbl, false) }, "", []string{"rewrite_data_files"}},
		{"good sizes, sorted", goodSizes, func(tbl *icebergtest.Table) { overlapping(tbl, true) }, "", []string{}},
		{
			"storage that does not shrink", goodSizes, func(tbl *icebergtest.Table) {
				healthy(tbl)
				tbl.SetProperty("history.expire.max-snapshot-age-ms", "3600000")
			}, maintenance.ExpireSnapshots, []string{"expire_snapshots"},
		},
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

// overlapping orders the table by id and appends 20 files: each with the whole range of id, or each with its own.
func overlapping(tbl *icebergtest.Table, sorted bool) {
	tbl.Update(func(b *table.MetadataBuilder) error {
		order, err := table.NewSortOrder(1, []table.SortField{{
			SourceIDs: []int{1}, Transform: iceberg.IdentityTransform{}, Direction: table.SortASC, NullOrder: table.NullsFirst,
		}})
		if err != nil {
			return err
		}
		return errors.Join(b.AddSortOrder(&order), b.SetDefaultSortOrderID(-1))
	})
	var changes []icebergtest.Change
	for i := range 20 {
		low, high := int64(i), int64(1000+i)
		if sorted {
			low, high = int64(10*i), int64(10*i+5)
		}
		changes = append(changes, icebergtest.Append(icebergtest.Row{low, "a", 1.5}, icebergtest.Row{high, "a", 1.5}))
	}
	tbl.Commit(changes...)
}

// TestClusteringNamesTheSort: the depth is counted, and the answer is the call that cures it, which no automatic run makes.
func TestClusteringNamesTheSort(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	deep, flat := w.NewTable("db.deep", icebergtest.Property("write.target-file-size-bytes", "100")), w.NewTable("db.flat")
	overlapping(deep, false)
	overlapping(flat, true)
	_, h := health(t, w, deep, inspect.History{})
	if c := h.Clustering; c == nil || c.Column != "id" || c.Files != 20 || c.Depth != 10.5 {
		t.Errorf("clustering %+v", h.Clustering) // the file whose lower bound is the n-th is met by n files
	}
	want := "CALL system.rewrite_data_files(table => 'db.deep', strategy => 'sort', options => map('rewrite-all', 'true'))"
	if d := due(h, maintenance.RewriteDataFiles); d.Call != want || !strings.Contains(d.Reason, "z-order") {
		t.Errorf("%+v", d)
	}
	if slices.Contains(h.Automatic(), "rewrite_data_files") {
		t.Errorf("an automatic run would sort the whole table: %v", h.Automatic())
	}
	if _, h := health(t, w, flat, inspect.History{}); h.Clustering == nil || h.Clustering.Depth != 1 {
		t.Errorf("clustering of files that do not overlap: %+v", h.Clustering)
	}
	if _, h := health(t, w, w.NewTable("db.unsorted"), inspect.History{}); h.Clustering != nil {
		t.Errorf("clustering without a sort order: %+v", h.Clustering)
	}
}
