package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestDeleteProceduresOnTheCommandLine: both rewrites of deletes are called by name, by Spark's text and as a dry run, which changes nothing.
func TestDeleteProceduresOnTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("eq_mixed")
	for _, c := range []struct{ procedure, rewritten string }{
		{"rewrite_equality_delete_files", "3"}, {"rewrite_position_delete_files", "0"},
	} {
		before, _ := b.load("db.eq_mixed")
		dry := b.object(b.must("call", c.procedure, "--table", "db.eq_mixed", "--dry-run", "--json"))
		if after, _ := b.load("db.eq_mixed"); after.Pointer.MetadataLocation != before.Pointer.MetadataLocation {
			t.Errorf("%s: the dry run committed: %v", c.procedure, dry)
		}
		got := b.object(b.must("sql", "--json", fmt.Sprintf("CALL spark_catalog.system.%s(table => 'db.eq_mixed')", c.procedure)))
		if fmt.Sprint(got["rewritten_delete_files_count"]) != c.rewritten {
			t.Errorf("%s: %v: want %s rewritten", c.procedure, got, c.rewritten)
		}
	}
	if got := b.firn("run", "--table", "db.eq_mixed", "--job", "rewrite_equality_delete_files"); got.code != exitDone || !strings.Contains(got.stdout, "nothing_to_do") {
		t.Errorf("run: exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
}
