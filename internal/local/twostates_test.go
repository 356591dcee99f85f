package local_test

import (
	"context"
	"testing"

	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/workflow"
)

// TestRunsOfTwoStateStoresKeepApart is two laptops on one table: their state stores hand out the same lease token for the same head. The run that
// is given up must not take the other's outputs for its own; it did, and a snapshot whose files were gone was committed.
func TestRunsOfTwoStateStoresKeepApart(t *testing.T) {
	t.Parallel()
	ref := icebergtest.Reference(t, "pos_parted")
	before, err := icebergtest.ReadRows(context.Background(), ref.Store, ref.Table(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	request := maintenance.Request{Trigger: "call", Jobs: []maintenance.JobRequest{
		{Job: maintenance.RewriteDataFiles, Options: map[string]string{"rewrite-all": "true"}},
	}}
	first, second := host(t, ref.Catalog, ref.Store, ref.Clock.Now), host(t, ref.Catalog, ref.Store, ref.Clock.Now)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	second.Observe = func(e workflow.Event) {
		if e.Type == "TaskStateEntered" && e.State == "CompactGroup" {
			cancel()
		}
	}
	var other maintenance.ReportOutput
	first.Observe = func(e workflow.Event) {
		if e.Type != "TaskStateEntered" || e.State != "Commit" || other.Run.RunID != "" {
			return
		}
		if other, err = second.Run(ctx, ref.ID, request); err != nil {
			t.Error(err)
		}
	}
	report, err := first.Run(context.Background(), ref.ID, request)
	if err != nil {
		t.Fatal(err)
	}
	if other.Run.RunID == "" || other.Run.RunID == report.Run.RunID {
		t.Errorf("runs %q and %q share an ID, or the second never ran", report.Run.RunID, other.Run.RunID)
	}
	if report.Outcome != maintenance.Committed {
		t.Errorf("the run that went on: %s %s", report.Outcome, report.Reason)
	}
	checkRows(t, ref, before)
	unreferenced(t, ref)
}
