//go:build interop

package interop

import (
	"fmt"
	"testing"

	"firn/internal/icebergtest"
)

// TestRewrittenDeletesReadTheSame rewrites position deletes of tables that Spark wrote, and on format version 3 turns them into deletion vectors.
// PyIceberg must find the rows that Spark found, and as many delete files as Firn says.
func TestRewrittenDeletesReadTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	expected, added := map[string]icebergtest.Expected{}, map[string]string{}
	var jobs []job
	for _, name := range []string{"pos_file", "pos_partition", "pos_parted", "pos_dangling", "dv_upgraded"} {
		expected["db."+name] = w.add(name)
		got := w.call("rewrite_position_delete_files", name, "--option", "rewrite-all=true")
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
}
