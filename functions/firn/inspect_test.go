package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"firn/internal/icebergtest"
	"firn/internal/local/inspect"
)

// TestInspectEveryReferenceTable compares the health with what Spark counted, whatever the tables' file format is.
func TestInspectEveryReferenceTable(t *testing.T) {
	t.Parallel()
	for _, name := range icebergtest.ReferenceNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ref := b.reference(name)
			var h inspect.Health
			if err := json.Unmarshal([]byte(b.must("inspect", "--table", "db."+name, "--json").stdout), &h); err != nil {
				t.Fatal(err)
			}
			got := map[string]int64{
				"data_files": h.DataFiles.DataFiles, "position_delete_files": h.DeleteFiles.Position, "equality_delete_files": h.DeleteFiles.Equality,
				"deletion_vectors": h.DeleteFiles.Vectors, "manifests": h.Manifests.Count, "snapshots": int64(h.Snapshots.Count),
				"data_records": h.DataFiles.Records, "data_bytes": h.DataFiles.DataBytes,
			}
			for key, want := range ref.Expected.Counts {
				if n, known := got[key]; known && n != want {
					t.Errorf("%s: %d, Spark counted %d", key, n, want)
				}
			}
			if h.FormatVersion != ref.Expected.FormatVersion || len(h.Due) != 5 || len(h.Faults) > 0 {
				t.Errorf("health %+v", h)
			}
			names := []string{"snapshots", "manifests", "files", "data_files", "delete_files", "partitions"}
			if slices.Contains([]string{"pos_file", "dv_upgraded", "part_evolved", "eq_mixed", "snaps_wap"}, name) {
				names = inspect.ViewNames()
			}
			for _, view := range names {
				rows := b.object(b.must("inspect", "--table", "db."+name, "--view", view, "--json"))["rows"].([]any)
				deleteFiles := got["position_delete_files"] + got["equality_delete_files"] + got["deletion_vectors"]
				want := map[string]int64{
					"snapshots": got["snapshots"], "manifests": got["manifests"], "data_files": got["data_files"], "delete_files": deleteFiles,
					"files": got["data_files"] + deleteFiles,
				}[view]
				if want != 0 && int64(len(rows)) != want {
					t.Errorf("view %s has %d rows, want %d", view, len(rows), want)
				}
			}
			b.must("inspect", "--table", "db."+name, "--view", "entries")
		})
	}
}

func TestInspectWritesAPageOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("part_multi")
	file := filepath.Join(t.TempDir(), "page.html")
	got := b.must("inspect", "--table", "db.part_multi", "--html", file)
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.stdout != "" || !strings.Contains(string(page), "db.part_multi") || strings.Contains(string(page), "http") {
		t.Errorf("stdout %q; page of %d bytes", got.stdout, len(page))
	}
}

func TestExplainSaysWhereValuesComeFrom(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("small_v2")
	b.must("sql", "ALTER TABLE db.small_v2 SET TBLPROPERTIES ('firn.mode' = 'maintain', 'firn.expire_snapshots.retain-last' = '7')")
	e := b.object(b.must("explain", "--table", "db.small_v2", "--json"))
	if e["mode"] != "maintain" || !strings.Contains(e["automatic"].(string), "would run") {
		t.Errorf("mode %v, automatic %v", e["mode"], e["automatic"])
	}
	at := slices.IndexFunc(e["policy"].([]any), func(p any) bool { return p.(map[string]any)["key"] == "expire_snapshots.retain-last" })
	setting := e["policy"].([]any)[at].(map[string]any)
	if setting["value"] != "7" || setting["source"] != "table property firn.expire_snapshots.retain-last" {
		t.Errorf("setting %v", setting)
	}
	text := b.must("explain", "--table", "db.small_v2").stdout
	if !strings.Contains(text, "retain-last") || !strings.Contains(text, "instead of") {
		t.Errorf("text\n%s", text)
	}
}

// TestRunDueRunsWhatTheTableAsksFor runs twice: what was due is not due again.
func TestRunDueRunsWhatTheTableAsksFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("small_v2")
	first := b.object(b.must("run", "--table", "db.small_v2", "--due", "--json"))
	jobs := map[string]any{}
	for _, j := range first["jobs"].([]any) {
		jobs[j.(map[string]any)["procedure"].(string)] = j.(map[string]any)["outcome"]
	}
	if jobs["rewrite_data_files"] != "committed" || jobs["remove_orphan_files"] != "dry_run" && jobs["remove_orphan_files"] != "nothing_to_do" {
		t.Errorf("jobs %v: the orphan search is a dry run until the policy enables it", jobs)
	}
	second := b.object(b.must("run", "--table", "db.small_v2", "--due", "--json"))
	if second["outcome"] != "nothing_to_do" || len(second["jobs"].([]any)) != 0 {
		t.Errorf("the second time: %v", second)
	}
}

// TestVerify: Firn's own rewrite is proved, a snapshot that lost rows is convicted, and what has no parent is refused.
func TestVerify(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ref := b.reference("small_v2")
	before := b.firn("verify", "--table", "db.small_v2", "--history", "--json").code
	if before != exitDone {
		t.Errorf("the history as Spark wrote it: status %d", before)
	}
	b.must("call", "rewrite_data_files", "--table", "db.small_v2", "--option", "min-input-files=2", "--option", "rewrite-all=true")
	got := b.object(b.must("verify", "--table", "db.small_v2", "--json"))
	if got["verdict"] != "equal" || got["job"] != "rewrite_data_files" || got["rows_before"] == json.Number("0") {
		t.Errorf("%v", got)
	}
	if text := b.must("verify", "--table", "db.small_v2").stdout; !strings.Contains(text, "equal") {
		t.Errorf("text %q", text)
	}
	first := ref.Table(t).Metadata.Snapshots()[0].SnapshotID
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitRefused, []string{"--snapshot-id", fmt.Sprint(first)}},
		{exitRefused, []string{"--snapshot-id", "17"}},
		{exitUsage, []string{"--snapshot-id", "17", "--history"}},
		{exitUsage, []string{"--rows", "0"}},
	} {
		if got := b.firn(append([]string{"verify", "--table", "db.small_v2"}, c.args...)...); got.code != c.code {
			t.Errorf("%v: status %d, %s: want %d", c.args, got.code, got.stderr, c.code)
		}
	}
	// An append has other rows than its parent: that is a difference too, when one asks for it.
	second := ref.Table(t).Metadata.Snapshots()[1].SnapshotID
	if got := b.firn("verify", "--table", "db.small_v2", "--snapshot-id", fmt.Sprint(second), "--json"); got.code != exitOther ||
		b.object(got)["verdict"] != "different" {
		t.Errorf("status %d, %s", got.code, got.stdout)
	}
}
