package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// badInput is one mistake, or one misfortune, and how it has to end.
type badInput struct {
	name string
	// table is the reference table, registered as db.<table>; "" for none.
	table string
	// damage breaks something before the command.
	damage func(t *testing.T, b *bench, ref *icebergtest.Ref)
	args   []string
	code   int
	// says are parts of the message: what, where, what to do.
	says []string
}

func mistakes() []badInput {
	rewrite := []string{"call", "rewrite_data_files", "--table", "db.small_v2"}
	with := func(args []string, more ...string) []string { return append(slices.Clone(args), more...) }
	return []badInput{
		{
			name: "unknown table", table: "small_v2", args: []string{"call", "rewrite_data_files", "--table", "db.small_v3"}, code: exitRefused,
			says: []string{"db.small_v3", "no such table", "did you mean db.small_v2?"},
		},
		{
			name: "unknown option", table: "small_v2", args: with(rewrite, "--option", "min-input-file=2"), code: exitUsage,
			says: []string{"min-input-file", "did you mean min-input-files?"},
		},
		{
			name: "value out of range", table: "small_v2", args: with(rewrite, "--option", "min-input-files=0"), code: exitUsage,
			says: []string{"min-input-files", "0", "at least 1"},
		},
		{name: "option without value", table: "small_v2", args: with(rewrite, "--option", "rewrite-all"), code: exitUsage, says: []string{"rewrite-all", "KEY=VALUE"}},
		{
			name: "unknown procedure", table: "small_v2", args: []string{"call", "rewrite_datafiles", "--table", "db.small_v2"}, code: exitUsage,
			says: []string{"rewrite_datafiles", "did you mean rewrite_data_files?"},
		},
		{
			name: "argument of another procedure", table: "small_v2", args: with(rewrite, "--older-than", "2026-01-01"), code: exitUsage,
			says: []string{"rewrite_data_files takes no older-than"},
		},
		{name: "unknown flag", table: "small_v2", args: with(rewrite, "--optoin", "a=b"), code: exitUsage, says: []string{"--optoin"}},
		{name: "unknown strategy", table: "small_v2", args: with(rewrite, "--strategy", "hash"), code: exitUsage, says: []string{"strategy", "hash", "binpack"}},
		{name: "broken where", table: "small_v2", args: with(rewrite, "--where", "id = = 2"), code: exitUsage, says: []string{"where", "column 6"}},
		{name: "where on unknown column", table: "small_v2", args: with(rewrite, "--where", "nosuch = 2"), code: exitRefused, says: []string{"nosuch"}},
		{name: "unknown branch", table: "small_v2", args: with(rewrite, "--branch", "nosuch"), code: exitRefused, says: []string{"no branch nosuch"}},
		{
			name: "unknown job", table: "small_v2", args: []string{"run", "--table", "db.small_v2", "--job", "expire_snapshot"}, code: exitUsage,
			says: []string{"did you mean expire_snapshots?"},
		},
		{
			name: "unknown view", table: "small_v2", args: []string{"inspect", "--table", "db.small_v2", "--view", "snapshot"}, code: exitUsage,
			says: []string{"did you mean snapshots?"},
		},
		{name: "half a table name", table: "small_v2", args: []string{"inspect", "--table", "small_v2"}, code: exitUsage, says: []string{"namespace.table"}},
		{
			name: "broken time", table: "snaps40", args: []string{"call", "expire_snapshots", "--table", "db.snaps40", "--older-than", "yesterday"}, code: exitUsage,
			says: []string{"older_than", "yesterday"},
		},
		{
			name: "horizon too near", table: "orphans", args: []string{"call", "remove_orphan_files", "--table", "db.orphans", "--older-than", "now"}, code: exitUsage,
			says: []string{"older_than", "24 hours", "unsafe_older_than"},
		},
		{
			name: "option of another job", table: "small_v2", code: exitUsage,
			args: []string{"call", "rewrite_position_delete_files", "--table", "db.small_v2", "--option", "delete-file-threshold=1"},
			says: []string{"delete-file-threshold", "no option of that name"},
		},
		{name: "unknown run", args: []string{"restore", "--run", "aaaaaaaaaaaaaaaaaaaaaaaaaa"}, code: exitRefused, says: []string{"aaaaaaaaaaaaaaaaaaaaaaaaaa", "no such run"}},
		{name: "no run ID", args: []string{"restore", "--run", "latest"}, code: exitUsage, says: []string{`"latest"`, "26"}},
		{name: "unknown catalog", table: "small_v2", args: with(rewrite, "--catalog", "prod"), code: exitUsage, says: []string{`"prod"`, "firn.yaml"}},
		{name: "sql query", args: []string{"sql", "SELECT * FROM db.small_v2"}, code: exitUsage, says: []string{"queries are not executed", "firn inspect"}},
		{
			name: "sql with unknown argument", table: "small_v2", args: []string{"sql", "CALL system.expire_snapshots(table => 'db.small_v2', retain_lst => 3)"},
			code: exitUsage, says: []string{"retain_lst", "did you mean retain_last?", "line 1"},
		},
		{name: "sql with no statement", args: []string{"sql"}, code: exitUsage, says: []string{"statement"}},
		{
			name: "table property of ours with a bad value", table: "small_v2",
			args: []string{"sql", "ALTER TABLE db.small_v2 SET TBLPROPERTIES ('firn.mode' = 'sometimes')"}, code: exitUsage, says: []string{"firn.mode", "sometimes"},
		},
	}
}

func misfortunes() []badInput {
	rewrite := []string{"call", "rewrite_data_files", "--table", "db.small_v2", "--option", "rewrite-all=true"}
	return []badInput{
		{
			name: "missing metadata file", table: "small_v2", args: rewrite, code: exitRefused, says: []string{"metadata.json", "gone"},
			damage: func(t *testing.T, _ *bench, ref *icebergtest.Ref) { remove(t, ref, ref.Expected.MetadataFile) },
		},
		{
			name: "missing data file", table: "small_v2", args: rewrite, code: exitRefused, says: []string{".parquet"},
			damage: func(t *testing.T, _ *bench, ref *icebergtest.Ref) {
				remove(t, ref, ref.Expected.Live.DataFiles[0].Path)
			},
		},
		{
			name: "corrupt footer", table: "small_v2", args: rewrite, code: exitRefused, says: []string{".parquet"},
			damage: func(t *testing.T, _ *bench, ref *icebergtest.Ref) {
				overwrite(t, ref, ref.Expected.Live.DataFiles[0].Path, func(data []byte) { copy(data[len(data)-40:], bytes.Repeat([]byte{0xff}, 20)) })
			},
		},
		{
			name: "corrupt page", table: "small_v2", args: rewrite, code: exitRefused, says: []string{".parquet"},
			damage: func(t *testing.T, _ *bench, ref *icebergtest.Ref) {
				overwrite(t, ref, ref.Expected.Live.DataFiles[0].Path, func(data []byte) { copy(data[4:], bytes.Repeat([]byte{0xff}, 60)) })
			},
		},
		{
			name: "data may not be read", table: "small_v2", args: rewrite, code: exitRefused, says: []string{".parquet", "not permitted"},
			damage: faults(store.Rule{Operation: store.OpGetRange, Contains: ".parquet", Err: store.ErrPermission},
				store.Rule{Operation: store.OpGet, Contains: ".parquet", Err: store.ErrPermission}),
		},
		{
			name: "data may not be written", table: "small_v2", args: rewrite, code: exitOther, says: []string{"permission"},
			damage: faults(store.Rule{Operation: store.OpCreate, Contains: "/data/", Err: store.ErrPermission},
				store.Rule{Operation: store.OpPut, Contains: "/data/", Err: store.ErrPermission}),
		},
		{
			name: "metadata may not be read", table: "small_v2", args: rewrite, code: exitRefused, says: []string{"read metadata file", "permission"},
			damage: faults(store.Rule{Operation: store.OpGet, Contains: "metadata.json", Err: store.ErrPermission}),
		},
		{
			name: "metadata may not be written", table: "small_v2", args: rewrite, code: exitRefused, says: []string{"permission"},
			damage: faults(store.Rule{Operation: store.OpPut, Contains: "/metadata/", Err: store.ErrPermission}),
		},
		{
			name: "disk full", table: "small_v2", args: rewrite, code: exitOther, says: []string{"no space left"},
			damage: faults(store.Rule{Operation: store.OpWrite, Contains: "/data/", Err: syscall.ENOSPC}),
		},
		{
			name: "gc.enabled=false", table: "snaps40", args: []string{"call", "expire_snapshots", "--table", "db.snaps40"}, code: exitRefused, says: []string{"gc.enabled"},
			damage: func(_ *testing.T, b *bench, _ *icebergtest.Ref) {
				b.must("sql", "ALTER TABLE db.snaps40 SET TBLPROPERTIES ('gc.enabled' = 'false')")
			},
		},
		{
			name: "ORC table", table: "fmt_orc", args: []string{"call", "rewrite_data_files", "--table", "db.fmt_orc", "--option", "rewrite-all=true"},
			code: exitRefused, says: []string{"ORC"},
		},
		{
			name: "catalog database is not there", table: "small_v2", args: []string{"-P", "uri=sqlite:////nowhere/catalog.db", "inspect", "--table", "db.small_v2"},
			code: exitOther, says: []string{"/nowhere/catalog.db"},
		},
		{
			name: "catalog service is down", table: "small_v2",
			args: []string{"-P", "type=rest", "-P", "uri=http://127.0.0.1:1", "inspect", "--table", "db.small_v2"}, code: exitOther,
			says: []string{"127.0.0.1:1", "refused", "uri"},
		},
		{
			name: "state folder cannot be written", table: "small_v2", args: rewrite, code: exitOther, says: []string{"taken"},
			damage: func(t *testing.T, b *bench, _ *icebergtest.Ref) {
				home := filepath.Join(b.proc.dir, "taken")
				if err := os.WriteFile(home, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				b.proc.environ = []string{"FIRN_HOME=" + filepath.Join(home, "home")}
			},
		},
	}
}

// faults lets the table's store disturb calls.
func faults(rules ...store.Rule) func(*testing.T, *bench, *icebergtest.Ref) {
	return func(_ *testing.T, b *bench, ref *icebergtest.Ref) {
		b.proc.stores["s3"] = store.NewFaults(ref.Store, rules...)
	}
}

// TestBadInput checks exit status and message, that --json prints exactly one object on stdout, and that the table is as before.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, c := range append(mistakes(), misfortunes()...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var ref *icebergtest.Ref
			if c.table != "" {
				ref = b.reference(c.table)
			}
			if c.damage != nil {
				c.damage(t, b, ref)
			}
			before := b.objects(ref)
			got := b.firn(c.args...)
			if got.code != c.code {
				t.Errorf("exit %d, want %d", got.code, c.code)
			}
			for _, part := range c.says {
				if !strings.Contains(got.stderr, part) {
					t.Errorf("the message does not say %q", part)
				}
			}
			withJSON := b.firn(append(slices.Clone(c.args), "--json")...)
			if withJSON.code != c.code {
				t.Errorf("with --json: exit %d, want %d", withJSON.code, c.code)
			}
			// A fault of the command line has no outcome: nothing was asked of a table.
			object := b.object(withJSON)
			if usage := c.code == exitUsage; object["reason"] == nil || (object["outcome"] == nil) != usage || (object["error"] == "usage") != usage {
				t.Errorf("object %v", object)
			}
			for _, part := range c.says {
				if reason, _ := object["reason"].(string); !strings.Contains(reason, part) {
					t.Errorf("the reason %q does not say %q", reason, part)
				}
			}
			if after := b.objects(ref); !slices.Equal(before, after) {
				t.Errorf("objects before %q\nafter %q", before, after)
			}
			if t.Failed() {
				t.Logf("stdout %s\nstderr %s\njson %s", got.stdout, got.stderr, withJSON.stdout)
			}
		})
	}
}

// objects lists what lies in the table's bucket.
func (b *bench) objects(ref *icebergtest.Ref) []string {
	b.t.Helper()
	var out []string
	if ref == nil {
		return nil
	}
	for info, err := range ref.Store.List(context.Background(), "s3://firn-ref/", store.ListOptions{}) {
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, info.Location)
	}
	return out
}

func remove(t *testing.T, ref *icebergtest.Ref, location string) {
	t.Helper()
	if _, failures, err := ref.Store.Delete(context.Background(), []string{location}); err != nil || len(failures) > 0 {
		t.Fatal(err, failures)
	}
}

func overwrite(t *testing.T, ref *icebergtest.Ref, location string, change func([]byte)) {
	t.Helper()
	data, err := ref.Store.Get(context.Background(), location)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Clone(data)
	change(data)
	if err := ref.Store.Put(context.Background(), location, data, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A run's reason is text by the time it is printed; what to do is said all the same.
func TestHintsOfOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcome    maintenance.Outcome
		reason, to string
	}{
		{maintenance.Failed, "write f: " + syscall.ENOSPC.Error(), "make room there, then run again"},
		{maintenance.Refused, "write f: " + syscall.EROFS.Error(), "make the file system writable, then run again"},
		{maintenance.Refused, "read manifest m: " + store.ErrNotFound.Error(), "a file that the table names is gone"},
		{maintenance.Refused, "open f: the object is missing", "a file that the table names is gone"},
		{maintenance.Failed, "read a plan: " + store.ErrNotFound.Error(), ""},
	} {
		if got := (&app{}).hint(&outcomeError{c.outcome, c.reason}); !strings.HasPrefix(got, c.to) || (c.to == "") != (got == "") {
			t.Errorf("%s, %s: %q", c.outcome, c.reason, got)
		}
	}
}
