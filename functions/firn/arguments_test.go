package main

import (
	"testing"

	"firn/internal/maintenance"
)

// TestArgumentsOfSparkAreTaken gives each procedure the arguments that Spark's has, as --arg does. Table, dry_run, snapshot_ids and options have flags of
// their own; file_list_view names a view that only Spark has.
func TestArgumentsOfSparkAreTaken(t *testing.T) {
	for job, names := range map[maintenance.Job][]string{
		maintenance.RewriteDataFiles:           {"strategy", "sort_order", "where", "branch"},
		maintenance.RewritePositionDeleteFiles: {"where"},
		maintenance.RewriteManifests:           {"use_caching", "spec_id", "sort_by"},
		maintenance.ExpireSnapshots:            {"older_than", "retain_last", "max_concurrent_deletes", "stream_results", "clean_expired_metadata"},
		maintenance.RemoveOrphanFiles: {
			"older_than", "location", "max_concurrent_deletes", "equal_schemes", "equal_authorities", "prefix_mismatch_mode", "prefix_listing", "stream_results",
		},
	} {
		for _, name := range names {
			if err := checkFlags(maintenance.JobRequest{Job: job, Args: map[string]string{name: "true"}}); err != nil {
				t.Errorf("%s with %s: %v", job, name, err)
			}
		}
	}
}
