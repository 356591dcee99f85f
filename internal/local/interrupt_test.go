package local_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/workflow"
)

// TestInterruptedRunIsClosed cancels a run in each of its states: the table holds the same rows, no output and no lease is left, and the next run
// does the work.
func TestInterruptedRunIsClosed(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"Plan", "CompactGroup", "Commit", "SweepAbandon", "Report"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			ref := icebergtest.Reference(t, "pos_parted")
			before, err := icebergtest.ReadRows(context.Background(), ref.Store, ref.Table(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			head := ref.Table(t).Metadata.CurrentSnapshot().SnapshotID
			runner := host(t, ref.Catalog, ref.Store, ref.Clock.Now)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			runner.Observe = func(e workflow.Event) {
				if e.Type == "TaskStateEntered" && e.State == state {
					cancel()
				}
			}
			request := maintenance.Request{Trigger: "call", Jobs: []maintenance.JobRequest{
				{Job: maintenance.RewriteDataFiles, Options: map[string]string{"rewrite-all": "true"}},
			}}
			report, err := runner.Run(ctx, ref.ID, request)
			if err != nil {
				t.Fatal(err)
			}
			landed := ref.Table(t).Metadata.CurrentSnapshot().SnapshotID != head
			switch state {
			case "Plan", "CompactGroup":
				if landed {
					t.Error("a run that was interrupted before its commit landed")
				}
			case "SweepAbandon", "Report":
				if !landed {
					t.Error("the commit of a run that was interrupted after it is not there")
				}
			case "Commit":
				// Either is right: commit finishes what it began, and may have begun when the run was interrupted.
			}
			want := maintenance.Failed
			if landed {
				want = maintenance.Committed // all that was asked for
			}
			if report.Outcome != want || !strings.Contains(report.Reason, "interrupted") {
				t.Errorf("landed %t, outcome %s, reason %q", landed, report.Outcome, report.Reason)
			}
			checkRows(t, ref, before)
			unreferenced(t, ref)
			st, err := runner.Clients.State(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if lease, held, err := st.Current(context.Background(), ref.ID); held || err != nil {
				t.Errorf("lease %+v is held (%v)", lease, err)
			}
			runner.Observe = nil
			if report, err = runner.Run(context.Background(), ref.ID, request); err != nil || report.Outcome != maintenance.Committed {
				t.Errorf("the next run: %s %s, %v", report.Outcome, report.Reason, err)
			}
			checkRows(t, ref, before)
		})
	}
}

func checkRows(t *testing.T, ref *icebergtest.Ref, want icebergtest.Content) {
	t.Helper()
	got, err := icebergtest.ReadRows(context.Background(), ref.Store, ref.Table(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows changed:\n%s", diff)
	}
}

// unreferenced reports data files of ours that no snapshot names.
func unreferenced(t *testing.T, ref *icebergtest.Ref) {
	t.Helper()
	known := map[string]bool{}
	manifests, err := lake.Manifests(context.Background(), ref.Store, ref.Table(t).Metadata.CurrentSnapshot())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		for e, err := range lake.Entries(context.Background(), ref.Store, m, lake.EntryOptions{WithoutStats: true}) {
			if err != nil {
				t.Fatal(err)
			}
			known[e.File.FilePath()] = true
		}
	}
	for _, o := range ref.Expected.Objects {
		known["s3://firn-ref/"+o.Key] = true
	}
	for info, err := range ref.Store.List(context.Background(), "s3://firn-ref/", store.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(info.Location, ".parquet") && !known[info.Location] {
			t.Errorf("%s is left", info.Location)
		}
	}
}
