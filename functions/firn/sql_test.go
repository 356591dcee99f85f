package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"firn/internal/maintenance"
	"firn/internal/sparksql"
)

// TestFlagsAndCallsAskForTheSame gives one request as flags and as Spark's text.
func TestFlagsAndCallsAskForTheSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call callCommand
		text string
	}{
		{
			callCommand{Procedure: "rewrite_data_files", Option: []string{"min-input-files=2", "rewrite-all=true"}, Strategy: "binpack", Where: "a = 'x=y'", Branch: "b"},
			`CALL c.system.rewrite_data_files(table => 'db.t', strategy => 'binpack', where => 'a = \'x=y\'', branch => 'b',
			 options => map('min-input-files', '2', 'rewrite-all', 'true'))`,
		},
		{
			callCommand{Procedure: "system.expire_snapshots", OlderThan: "2026-01-02 03:04:05", RetainLast: "3", SnapshotID: []string{"9223372036854775807", "2"}, CleanExpired: true},
			`CALL system.expire_snapshots('db.t', TIMESTAMP '2026-01-02 03:04:05', 3, snapshot_ids => array(9223372036854775807, 2), clean_expired_metadata => true)`,
		},
		{
			callCommand{
				Procedure: "remove_orphan_files", Location: "s3://b/p", PrefixMismatchMode: "IGNORE", EqualScheme: []string{"s3a,gs=s3"}, EqualAuthority: []string{"a=b"},
				Arg: []string{"max_concurrent_deletes=4"},
			},
			`CALL system.remove_orphan_files(table => "db.t", location => 's3://b/p', prefix_mismatch_mode => 'IGNORE', equal_schemes => map('s3a,gs', 's3'),
			 equal_authorities => map('a', 'b'), max_concurrent_deletes => 4)`,
		},
		{
			callCommand{Procedure: "rewrite_manifests", SpecID: "1", SortBy: []string{"a", "b,c"}},
			`CALL system.rewrite_manifests(table => 'db.t', spec_id => 1, sort_by => array('a', 'b,c'))`,
		},
	} {
		got, err := c.call.request()
		if err != nil {
			t.Fatal(err)
		}
		statements, err := sparksql.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		bound, err := statements[0].(*sparksql.Call).Bind()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(normal(t, bound.Request), normal(t, got)); diff != "" {
			t.Errorf("%s\nflags differ:\n%s", c.text, diff)
		}
	}
}

// normal spells arguments that are JSON in one way, and empty maps as none.
func normal(t *testing.T, r maintenance.JobRequest) maintenance.JobRequest {
	t.Helper()
	for key, text := range r.Args {
		var v any
		if strings.ContainsAny(text, "{[") && json.Unmarshal([]byte(text), &v) == nil {
			data, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			r.Args[key] = string(data)
		}
	}
	if len(r.Options) == 0 {
		r.Options = nil
	}
	return r
}

// TestPastedCalls gives the spellings that scripts have; each names the same table.
func TestPastedCalls(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"CALL ref.system.rewrite_data_files(table => 'db.small_v2', options => map('min-input-files', '2'))",
		"call ref.system.rewrite_data_files('db.small_v2', 'binpack', NULL, map('min-input-files', '2'));",
		"CALL spark_catalog.system.rewrite_data_files(table => 'spark_catalog.db.small_v2')",
		"CALL system.rewrite_data_files(table => \"db.small_v2\")",
		"\n-- nightly\nCALL ref.system.rewrite_data_files(`table` => 'ref.db.small_v2') /* done */;",
		"CALL ref.system.rewrite_data_files(table => '`db`.`small_v2`')",
	} {
		b := newBench(t)
		b.reference("small_v2")
		got := b.object(b.must("sql", "--json", text))
		if got["outcome"] != "committed" || got["rewritten_data_files_count"] != json.Number("128") {
			t.Errorf("%s\n%v", text, got)
		}
	}
}

// TestScript runs a file of statements: one object a line, and the first failure ends it.
func TestScript(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("small_v2")
	file := filepath.Join(b.proc.dir, "nightly.sql")
	text := `ALTER TABLE ref.db.small_v2 SET TBLPROPERTIES ('write.target-file-size-bytes' = '134217728', "it's" = 'it''s');
EXPLAIN CALL system.rewrite_data_files('db.small_v2');
CALL system.rewrite_data_files('db.small_v2');
CALL system.expire_snapshots(table => 'db.small_v2', older_than => TIMESTAMP '2030-01-01 00:00:00', retain_last => 1);
ALTER TABLE db.small_v2 UNSET TBLPROPERTIES IF EXISTS ('nosuch', 'write.target-file-size-bytes');
ALTER TABLE db.small_v2 UNSET TBLPROPERTIES ('nosuch');
CALL system.rewrite_data_files('db.small_v2');`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := b.firn("sql", "-f", file, "--json")
	var outcomes []string
	for line := range strings.Lines(got.stdout) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		outcomes = append(outcomes, object["outcome"].(string))
	}
	want := []string{"committed", "dry_run", "committed", "committed", "committed", "refused"}
	if diff := cmp.Diff(want, outcomes); diff != "" || got.code == exitDone || !strings.Contains(got.stderr, "nosuch") {
		t.Errorf("exit %d, outcomes differ:\n%s\n%s", got.code, diff, got.stderr)
	}
	table, _ := b.load("db.small_v2")
	if props := table.Metadata.Properties(); props["it's"] != "it's" || props["write.target-file-size-bytes"] != "" {
		t.Errorf("properties %v", props)
	}
}

// TestNothingRunsWhenAStatementIsBroken parses everything first.
func TestNothingRunsWhenAStatementIsBroken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ref := b.reference("small_v2")
	before := b.objects(ref)
	got := b.firn("sql", "CALL system.rewrite_data_files('db.small_v2')", "CALL system.rewrite_data_files('db.small_v2'")
	if got.code != exitUsage || !strings.Contains(got.stderr, "line 2") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	if diff := cmp.Diff(before, b.objects(ref)); diff != "" {
		t.Errorf("objects changed:\n%s", diff)
	}
}

// TestNowNeedsADryRun keeps --now from steering what is deleted.
func TestNowNeedsADryRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("snaps40")
	b.proc.environ = []string{"FIRN_HOME=" + filepath.Join(b.proc.dir, "home")}
	expire := []string{"--now", "2030-01-01T00:00:00Z", "call", "expire_snapshots", "--table", "db.snaps40", "--json"}
	if got := b.firn(expire...); got.code != exitUsage || !strings.Contains(got.stderr, "--dry-run") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	if got := b.object(b.must(append(expire, "--dry-run")...)); got["outcome"] != "dry_run" || got["deleted_data_files_count"] == json.Number("0") {
		t.Errorf("a dry run as of 2030: %v", got)
	}
}
