package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/icebergtest"
)

// listedElsewhere is what the oracle's calls with a list of files end with here where Spark silently finds nothing, or lists live files: refused, or the
// orphans of the table's own folder ("found").
func listedElsewhere() map[string]string {
	return map[string]string{
		"rof_fl_s3": "found", "rof_fl_s3a": "found", "rof_fl_auth_equal": "found", "rof_fl_gs_equal": "found", "rof_fl_gs_equal_all": "found",
		"rof_fl_auth_error": "refused", "rof_fl_gs_error": "refused", "rof_fl_gs_delete": "refused",
		"rof_fll_auth_delete": "refused", "rof_fll_gs_delete": "refused", // Spark: all live files
		"rof_fll_auth_ignore": "refused", "rof_fll_gs_ignore": "refused", // a location outside of the table's folders
	}
}

// TestFileListsOfTheOracle gives each call of the oracle that has a file_list_view its rows as a file.
func TestFileListsOfTheOracle(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, name := range []string{"orphans", "orphans_s3a"} {
		b := newBench(t)
		ref := b.reference(name)
		for _, kase := range ref.OracleNames() {
			steps := ref.Oracle(t, kase).Steps
			if len(steps) != 2 || len(steps[0].FileListView) == 0 {
				continue
			}
			seen++
			at := fmt.Sprintf("list%d.jsonl", seen)
			b.writeList(at, steps[0])
			b.listedCase(ref, steps[1], kase, strings.Replace(steps[1].Call, "'fl'", "'"+at+"'", 1))
		}
	}
	if seen < 25 {
		t.Errorf("only %d cases were found", seen)
	}
}

// writeList writes a view as JSON Lines, as Spark spells it, beside firn.yaml.
func (b *bench) writeList(name string, step icebergtest.OracleStep) {
	b.t.Helper()
	var view struct {
		Rows []struct {
			Path string `json:"file_path"`
			MS   int64  `json:"last_modified_ms"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(step.FileListView, &view); err != nil {
		b.t.Fatal(err)
	}
	var lines []byte
	for _, row := range view.Rows {
		line, err := json.Marshal(map[string]string{"file_path": row.Path, "last_modified": time.UnixMilli(row.MS).UTC().Format("2006-01-02T15:04:05.000Z")})
		if err != nil {
			b.t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	if err := os.WriteFile(filepath.Join(b.proc.dir, name), lines, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) listedCase(ref *icebergtest.Ref, step icebergtest.OracleStep, kase, call string) {
	b.t.Helper()
	got := b.firn("--now", time.UnixMilli(step.NowMS).UTC().Format(time.RFC3339Nano), "sql", "--json", call)
	want := listedElsewhere()[kase]
	if step.Error != "" || want == "refused" {
		if got.code != exitRefused && got.code != exitUsage {
			b.t.Errorf("%s/%s: exit %d: %s%s", ref.Name, kase, got.code, got.stdout, got.stderr)
		}
		return
	}
	if got.code != exitDone {
		b.t.Errorf("%s/%s: exit %d: %s%s", ref.Name, kase, got.code, got.stdout, got.stderr)
		return
	}
	var orphans []string
	rows := step.Result
	if want == "found" {
		spelling, _, _ := strings.Cut(ref.Expected.Location, ":") // the one in which Spark finds them
		rows = ref.Oracle(b.t, "rof_fl_"+spelling).Steps[1].Result
	}
	for _, row := range rows {
		var path string
		if err := json.Unmarshal(row["orphan_file_location"], &path); err != nil {
			b.t.Fatal(err)
		}
		orphans = append(orphans, key(path))
	}
	var ours []string
	for _, path := range b.object(got)["orphan_file_location"].([]any) {
		ours = append(ours, key(path.(string)))
	}
	slices.Sort(orphans)
	slices.Sort(ours)
	if !slices.Equal(orphans, ours) {
		b.t.Errorf("%s/%s: orphans %q: want %q\n%s%s", ref.Name, kase, ours, orphans, got.stdout, got.stderr)
	}
}

// key is a location without scheme and bucket.
func key(location string) string {
	_, rest, _ := strings.Cut(location, "://")
	_, rest, _ = strings.Cut(rest, "/")
	return rest
}
