package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files anew")

// examplesPage shows what explain and replay print.
const examplesPage = "../../docs/explain-and-replay.md"

// exampleNow is the clock of the page.
const exampleNow = "2026-12-01T00:00:00Z"

// examples are the commands of the page, on reference tables.
func examples() []struct{ title, text, table, config, proposed, line string } {
	return []struct{ title, text, table, config, proposed, line string }{
		{
			title: "Which values, from where, and what is due", table: "small_v2", line: "explain --table db.small_v2",
			text: "A table of 128 small files that Spark wrote. The deployment has preset `glue`, the namespace its own number of snapshots, the table a property.",
			config: "policy:\n  preset: glue\n  namespaces:\n    db:\n      expire_snapshots.retain-last: 3\n  tables:\n    - match: db.small_*\n" +
				"      rewrite_data_files.trigger.small-files: 120\n",
		},
		{
			title: "What a policy would have done", table: "snaps40", line: "replay --table db.snaps40 --since 60d",
			text: "Forty snapshots of one commit a day; somebody rewrote the table twice. The configured policy is the default one.",
		},
		{
			title: "What another policy would have done", table: "snaps40", line: "replay --table db.snaps40 --since 60d --policy proposed.yaml",
			proposed: "rewrite_data_files:\n  trigger:\n    small-files: 3\n    small-files-aged: 0\nexpire_snapshots.trigger.interval: 7d\nremove_orphan_files.trigger.interval: 0s\n",
			text:     "The same history with another policy, which is not in force anywhere.",
		},
		{
			title: "Deletes", table: "pos_file", line: "replay --table db.pos_file",
			text: "A merge-on-read table: the fifth delete file on a file makes a rewrite due.",
		},
	}
}

// TestExamplesOfTheDocs keeps docs/explain-and-replay.md true: every command of it is run.
func TestExamplesOfTheDocs(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.WriteString("# Explain and replay\n\nMade by `go test ./functions/firn -run ExamplesOfTheDocs -update`; do not edit by hand. `firn explain` says by which policy a table is\n" +
		"maintained and what is due; `firn replay` plays a policy over the table's own snapshots, as far as they are retained. Both only read.\n\n" +
		"A replay is a model: triggers, gates and the planner of `rewrite_data_files` are those of production; a rewrite takes no time, keeps its bytes less the rows that\n" +
		"were deleted, and lands. Rewrites that really were are left out of the proposed history; a writer who later replaced one of their outputs takes its rows from\n" +
		"the files that hold them there. Position deletes merge into one file a partition; of manifests and snapshots only numbers are kept; conditions on rows (`where`) and\n" +
		"caps over several tables are not looked into. Costs are those of [the model](cost.md#runs). [All reference tables](replay-reference-tables.md) in one line each.\n")
	b := newBench(t)
	plain, err := os.ReadFile(filepath.Join(b.proc.dir, "firn.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, e := range examples() {
		b.config(string(plain) + e.config)
		if !known[e.table] {
			known[e.table] = true
			b.reference(e.table)
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s\n", e.title, e.text)
		for name, text := range map[string]string{"firn.yaml": e.config, "proposed.yaml": e.proposed} {
			if text != "" {
				fmt.Fprintf(&page, "\n```yaml\n# %s\n%s```\n", name, text)
			}
		}
		if err := os.WriteFile(filepath.Join(b.proc.dir, "proposed.yaml"), []byte(e.proposed), 0o600); err != nil {
			t.Fatal(err)
		}
		args := strings.Fields(e.line)
		for i, a := range args {
			if a == "proposed.yaml" {
				args[i] = filepath.Join(b.proc.dir, a)
			}
		}
		got := b.must(append([]string{"--now", exampleNow}, args...)...)
		fmt.Fprintf(&page, "\n```\n$ firn %s\n%s```\n", e.line, trimmed(got.stdout))
	}
	if *update {
		if err := os.WriteFile(examplesPage, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(examplesPage)
	if err != nil || string(want) != page.String() {
		t.Errorf("%s is out of date (%v): run go test ./functions/firn -run ExamplesOfTheDocs -update", examplesPage, err)
	}
}

// trimmed drops the blanks at the ends of lines, which tables leave.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// TestReplayRefusesNonsense: bad ages, unknown keys and missing files are faults of the command line, and JSON is one object.
func TestReplayRefusesNonsense(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("small_v1")
	bad := filepath.Join(b.proc.dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("rewrite_data_files.trigger.smal-files: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, says := range map[string]string{
		"--since soon": "no age", "--since 0s": "no age", "--policy " + bad: "did you mean rewrite_data_files.trigger.small-files", "--policy " + bad + ".not": "no such file",
	} {
		got := b.firn(append([]string{"replay", "--table", "db.small_v1"}, strings.Fields(line)...)...)
		if got.code != exitUsage || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: exit %d, %s", line, got.code, got.stderr)
		}
	}
	whole := filepath.Join(b.proc.dir, "whole.yaml")
	if err := os.WriteFile(whole, []byte("catalog: ref\npolicy:\n  rewrite_data_files.trigger.small-files: 30\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := b.object(b.must("--now", exampleNow, "replay", "--table", "db.small_v1", "--json", "--policy", whole))
	if r["table"] != "ref.db.small_v1" || len(r["runs"].([]any)) == 0 || len(r["over_time"].([]any)) != 31 {
		t.Errorf("%v", r)
	}
}

// TestImportedPolicyIsExplained: what import prints goes into firn.yaml, and explain says of each value whose it was.
func TestImportedPolicyIsExplained(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("small_v1")
	answer := filepath.Join(b.proc.dir, "answer.json")
	text := `{"DatabaseName":"db","TableName":"small_v1","TableOptimizer":{"type":"compaction","configuration":{"enabled":true}}}`
	if err := os.WriteFile(answer, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, err := os.ReadFile(filepath.Join(b.proc.dir, "firn.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	b.config(string(plain) + b.must("policy", "import", answer).stdout)
	got := b.must("explain", "--table", "db.small_v1").stdout
	if !strings.Contains(got, "tables db.small_v1, from Glue's compaction optimizer of db.small_v1") {
		t.Errorf("explain\n%s", got)
	}
	for line, says := range map[string]string{"policy import " + answer + ".not": "no such file", "policy import -": "settings"} {
		if got := b.firn(strings.Fields(line)...); got.code != exitUsage || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: exit %d, %s", line, got.code, got.stderr)
		}
	}
}
