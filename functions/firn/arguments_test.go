package main

import (
	"strings"
	"testing"

	"firn/internal/maintenance"
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

// TestArgumentsOfSparkAreTaken gives each procedure the arguments that Spark's has, as --arg does. Table, dry_run, snapshot_ids and options have flags of
// their own.
func TestArgumentsOfSparkAreTaken(t *testing.T) {
	for job, names := range map[maintenance.Job][]string{
		maintenance.RewriteDataFiles:           {"strategy", "sort_order", "where", "branch"},
		maintenance.RewritePositionDeleteFiles: {"where"},
		maintenance.RewriteManifests:           {"use_caching", "spec_id", "sort_by"},
		maintenance.ExpireSnapshots:            {"older_than", "retain_last", "max_concurrent_deletes", "stream_results", "clean_expired_metadata"},
		maintenance.RemoveOrphanFiles: {
			"older_than", "location", "max_concurrent_deletes", "equal_schemes", "equal_authorities", "prefix_mismatch_mode", "prefix_listing", "stream_results",
			"file_list_view",
		},
	} {
		for _, name := range names {
			if err := checkFlags(maintenance.JobRequest{Job: job, Args: map[string]string{name: "true"}}); err != nil {
				t.Errorf("%s with %s: %v", job, name, err)
			}
		}
	}
}
