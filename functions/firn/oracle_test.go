package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/icebergtest"
)

// different lists the calls that end otherwise than in Spark, and why.
func different() map[string]string {
	return map[string]string{
		"fmt_orc/rdf_all":             "refused: no engine of ours reads ORC",
		"fmt_avro/rdf_all":            "refused: no engine of ours reads Avro",
		"encrypted_file/rdf_all":      "the encrypted file is left alone, the others are rewritten; Spark's call fails",
		"encrypted_file/rdf_min2":     "the encrypted file is left alone, the others are rewritten; Spark's call fails",
		"types_time/rdf_min2":         "Spark has no time type",
		"types_ns_v3/rdf_min2":        "Spark has no nanoseconds",
		"two_tables/rof_location_ext": "refused: another table's folder",
	}
}

// incomparable names what of a call's result is left out of the comparison, and why. Later steps come behind another procedure.
func incomparable(at, call string, later bool) map[string]string {
	out := map[string]string{
		"removed_delete_files_count": "Spark leaves out what the rewrite's own commit removes",
		"added_bytes_count":          "sizes of files that another writer wrote",
	}
	if strings.Contains(call, "file-size-bytes") {
		out["added_data_files_count"] = "Spark's writer looks at an output's size every 1,000 rows only"
	}
	if strings.HasPrefix(at, "part_evolved/") || strings.HasPrefix(at, "part_void/") {
		out["added_data_files_count"] = "a group of ours never mixes partition specs"
	}
	if at == "small_v2/es_after_partial" || at == "small_v2/rdf_max_files_20" || at == "pos_file/rdf_partial" {
		why := "which files come first depends on the order in which manifests are read"
		out["rewritten_bytes_count"], out[selected] = why, why
	}
	if later {
		for _, column := range []string{"rewritten_bytes_count", "deleted_manifest_files_count", "deleted_manifest_lists_count", selected} {
			out[column] = "a rewrite of ours came before"
		}
		out["rewritten_delete_files_count"] = "a rewrite of ours drops what it leaves dangling in its own commit"
		if !strings.HasSuffix(at, "/rm_twice") {
			out["rewritten_manifests_count"], out["added_manifests_count"] = mergedBefore, mergedBefore
		}
	}
	if at == "manifests_v3/rm_small_target" {
		out["added_manifests_count"] = "Spark deals unpartitioned entries out at random, ours are cut into equal shares"
	}
	return out
}

// mergedBefore is why numbers of manifests differ behind a rewrite of ours.
const mergedBefore = "a rewrite of ours merges the manifests that it touches, Spark's leaves them apart"

// selected stands for the set of files that a call removed.
const selected = "selected"

// TestCallsOfTheOracle gives the text of every call that Spark was given to firn sql, on a fresh copy of the table: the same files are selected, and
// the same result row comes back. Steps of a case run one after the other until one is not built.
func TestCallsOfTheOracle(t *testing.T) {
	t.Parallel()
	for _, name := range icebergtest.ReferenceNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kase := range icebergtest.Reference(t, name).OracleNames() {
				t.Run(kase, func(t *testing.T) {
					steps := icebergtest.Reference(t, name).Oracle(t, kase).Steps
					if !built(steps[0]) {
						t.Skipf("%s%s is left out: TestFileListsOfTheOracle has calls with a file_list_view, and other statements belong to the engine that writes", steps[0].Call, steps[0].Statement)
					}
					b := newBench(t)
					ref := b.reference(name)
					later := false
					for _, step := range steps {
						if !built(step) {
							return
						}
						ref.Clock.Set(time.UnixMilli(step.NowMS))
						b.step(ref, step, name+"/"+kase, later)
						later = later || step.Procedure != ""
					}
				})
			}
		})
	}
}

// built reports whether a step is one that Firn runs: all but calls with file_list_view, statements other than ALTER TABLE, and procedures that are no job.
func built(s icebergtest.OracleStep) bool {
	switch {
	case s.Statement != "":
		return strings.HasPrefix(s.Statement, "ALTER TABLE")
	case s.Procedure == "remove_orphan_files":
		return !strings.Contains(s.Call, "file_list_view")
	}
	return s.Procedure == "rewrite_data_files" || s.Procedure == "expire_snapshots" || s.Procedure == "rewrite_manifests" || s.Procedure == "rewrite_position_delete_files"
}

// step runs one step and compares.
func (b *bench) step(ref *icebergtest.Ref, step icebergtest.OracleStep, at string, later bool) {
	b.t.Helper()
	if step.Statement != "" {
		b.must("sql", step.Statement)
		return
	}
	table, branch := "db."+ref.Name, branchOf(step)
	before := b.live(table, branch)
	now := time.UnixMilli(step.NowMS).UTC().Format(time.RFC3339Nano)
	got := b.firn("--now", now, "sql", "--json", step.Call)
	if why, known := different()[at]; known {
		if refused := strings.HasPrefix(why, "refused"); refused != (got.code == exitRefused) {
			b.t.Errorf("%s\nexit %d: %s%swant: %s", step.Call, got.code, got.stdout, got.stderr, why)
		}
		return
	}
	switch {
	case step.Error != "" && got.code == exitDone:
		b.t.Errorf("%s\nends well: %s\nSpark fails: %s", step.Call, got.stdout, step.Error)
	case step.Error != "":
	case got.code != exitDone:
		b.t.Errorf("%s\nexit %d: %s%s", step.Call, got.code, got.stdout, got.stderr)
	case step.Procedure == "remove_orphan_files":
		b.orphans(step, b.object(got))
	default:
		leftOut := incomparable(at, step.Call, later)
		b.columns(step, b.object(got), leftOut)
		if step.Procedure != "rewrite_data_files" || leftOut[selected] != "" {
			return
		}
		after := b.live(table, branch)
		maps.DeleteFunc(before, func(path string, _ bool) bool { return after[path] })
		if ours := slices.Sorted(maps.Keys(before)); !slices.Equal(ours, slices.Sorted(slices.Values(step.Selected.DataFiles))) {
			b.t.Errorf("%s\nselected %d files: %q\nSpark %d: %q", step.Call, len(ours), ours, len(step.Selected.DataFiles), step.Selected.DataFiles)
		}
	}
}

// branchOf is the branch that a call names.
func branchOf(step icebergtest.OracleStep) string {
	var branch string
	if raw, given := step.Args["branch"]; given && json.Unmarshal(raw, &branch) != nil {
		return ""
	}
	return branch
}

// columns compares the one result row.
func (b *bench) columns(step icebergtest.OracleStep, object map[string]any, leftOut map[string]string) {
	b.t.Helper()
	for column, raw := range step.Result[0] {
		var want json.Number
		if err := json.Unmarshal(raw, &want); err != nil {
			b.t.Fatal(err)
		}
		if leftOut[column] == "" && object[column] != want {
			b.t.Errorf("%s\n%s: %v, Spark %v", step.Call, column, object[column], want)
		}
	}
}

// orphans compares the list of orphans; the result names twenty at most.
func (b *bench) orphans(step icebergtest.OracleStep, object map[string]any) {
	b.t.Helper()
	if n := fmt.Sprint(object["orphan_files_count"]); n != fmt.Sprint(len(step.Result)) {
		b.t.Errorf("%s\n%s orphans, Spark %d", step.Call, n, len(step.Result))
	}
	want := map[string]bool{}
	for _, row := range step.Result {
		var path string
		if err := json.Unmarshal(row["orphan_file_location"], &path); err != nil {
			b.t.Fatal(err)
		}
		want[path] = true
	}
	for _, path := range object["orphan_file_location"].([]any) {
		if !want[path.(string)] {
			b.t.Errorf("%s\n%s is no orphan for Spark", step.Call, path)
		}
	}
}
