//go:build interop

package interop

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"firn/internal/icebergtest"
)

// TestRewrittenDeletesReadTheSame rewrites position deletes of tables that Spark wrote, on format version 3 turns them into deletion vectors, and turns
// equality deletes, which PyIceberg refuses, into position deletes. PyIceberg and DuckDB must find the rows that Spark found.
func TestRewrittenDeletesReadTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	expected, added := map[string]icebergtest.Expected{}, map[string]string{}
	var jobs []job
	for _, name := range []string{
		"pos_file", "pos_partition", "pos_parted", "pos_dangling", "dv_upgraded", "eq_part", "eq_global", "eq_null", "eq_mixed", "manifests300",
	} {
		expected["db."+name] = w.add(name)
		procedure, options := "rewrite_position_delete_files", []string{"--option", "rewrite-all=true"}
		if expected["db."+name].Counts["equality_delete_files"] > 0 {
			procedure, options = "rewrite_equality_delete_files", nil
		}
		got := w.call(procedure, name, options...)
		if got["outcome"] != "committed" {
			t.Errorf("%s: %v", name, got)
			continue
		}
		added["db."+name] = fmt.Sprint(got["added_delete_files_count"])
		jobs = append(jobs, job{Do: "read", Table: "db." + name, Raw: true})
	}
	for _, v := range w.judge(jobs...) {
		t.Run(v.Table, func(t *testing.T) {
			want := expected[v.Table]
			if v.Error != "" {
				t.Fatalf("PyIceberg: %s", v.Error)
			}
			if v.MetadataLocation == want.MetadataFile {
				t.Error("PyIceberg still reads the table as it was")
			}
			for _, fault := range v.Facts.Check(want.Rows.RowCount, want.Columns) {
				t.Errorf("PyIceberg: %s", fault)
			}
			t.Logf("%d rows, %s delete files", v.Facts.Count, added[v.Table])
		})
	}
	t.Run("DuckDB", func(t *testing.T) {
		for _, v := range w.scan(t, slices.Sorted(maps.Keys(added))...) {
			want := expected[v.Table]
			if v.Error != "" {
				t.Errorf("%s: %s", v.Table, v.Error)
				continue
			}
			for _, fault := range v.Facts.Check(want.Rows.RowCount, want.Columns) {
				t.Errorf("%s: %s", v.Table, fault)
			}
		}
	})
}
