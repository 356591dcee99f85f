package main

import (
	"testing"
	"time"

	"firn/internal/icebergtest"
)

// TestRunDueIsAnAutomaticRun: what is due is done on the triggers' terms; a job that is named takes what the planner takes.
func TestRunDueIsAnAutomaticRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := icebergtest.NewWorld(t)
	w.Clock.Set(time.Now().Add(-time.Hour)) // nothing is due by its age
	b.proc.stores["s3"] = w.Store
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"), icebergtest.Property("firn.rewrite_data_files.trigger.small-files", "8"),
		icebergtest.Property("firn.remove_orphan_files.trigger.interval", "0s"), icebergtest.Property("firn.expire_snapshots.enabled", "false"))
	for partition, files := range map[string]int{"full": 8, "half": 6} {
		for i := range files {
			tbl.Commit(icebergtest.Append(icebergtest.Row{int64(i), partition, 0.5}))
		}
	}
	b.must("register", "--table", "db.t", "--metadata-location", tbl.Pointer().MetadataLocation)
	count := func() int { return len(b.live("db.t", "")) }
	if count() != 14 {
		t.Fatalf("before: %d files", count())
	}
	got := b.object(b.must("run", "--table", "db.t", "--due", "--json"))
	if got["outcome"] != "committed" || count() != 1+6 {
		t.Errorf("%v: %d files: want those of the partition that is due to be merged, and no others", got, count())
	}
	if again := b.object(b.must("run", "--table", "db.t", "--due", "--json")); again["outcome"] != "nothing_to_do" || again["reason"] != "no job is due" {
		t.Errorf("the second time: %v", again)
	}
	if asked := b.object(b.must("run", "--table", "db.t", "--job", "rewrite_data_files", "--json")); asked["outcome"] != "committed" || count() != 2 {
		t.Errorf("asked for by name: %v, %v files", asked, count())
	}
}
