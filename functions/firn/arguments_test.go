package main

import (
	"strings"
	"testing"
)

// TestArgumentsOfSpark gives the arguments of Spark's that have no effect here: they are taken, as in a pasted CALL.
func TestArgumentsOfSpark(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("small_v2")
	for _, procedure := range []string{"expire_snapshots", "remove_orphan_files"} {
		b.must("call", procedure, "--table", "db.small_v2", "--dry-run", "--arg", "stream_results=true", "--arg", "max_concurrent_deletes=4")
		got := b.firn("call", procedure, "--table", "db.small_v2", "--dry-run", "--arg", "stream_results=perhaps")
		if got.code != exitUsage || !strings.Contains(got.stderr, "perhaps") {
			t.Errorf("%s with a bad value: exit %d, %s", procedure, got.code, got.stderr)
		}
	}
}

// TestRegisterTakenName registers a table twice: a definite no, not a failure.
func TestRegisterTakenName(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ref := b.reference("small_v2")
	got := b.firn("register", "--table", "db.small_v2", "--metadata-location", ref.Expected.MetadataFile)
	if got.code != exitRefused || !strings.Contains(got.stderr, "table exists") {
		t.Errorf("exit %d, %s", got.code, got.stderr)
	}
}
