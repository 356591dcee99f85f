package decide_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/decide"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// history describes a table's snapshots and refs as a caller with iceberg-go would.
func history(t *lake.Table) (snapshots []decide.Snapshot, refs []decide.Ref) {
	for _, s := range t.Metadata.Snapshots() {
		d := decide.Snapshot{ID: s.SnapshotID, ParentID: s.ParentSnapshotID, TimestampMS: s.TimestampMs}
		if s.Summary != nil {
			d.Summary = s.Summary.Properties
		}
		snapshots = append(snapshots, d)
	}
	for name, r := range t.Metadata.Refs() {
		refs = append(refs, decide.Ref{
			Name: name, SnapshotID: r.SnapshotID, Branch: r.SnapshotRefType == table.BranchRef,
			MinSnapshotsToKeep: r.MinSnapshotsToKeep, MaxSnapshotAgeMS: r.MaxSnapshotAgeMs, MaxRefAgeMS: r.MaxRefAgeMs,
		})
	}
	return snapshots, refs
}

// TestSnapshotsOracle gives every expire_snapshots call of the reference to the retention rules. A second call of the same case works on what
// the first left; a call behind a rewrite has another history and is left out.
func TestSnapshotsOracle(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := reference(t, name)
		tab := ref.Table(t)
		for _, caseName := range ref.OracleNames() {
			snapshots, refs := history(tab)
			properties := map[string]string{}
			maps.Copy(properties, tab.Metadata.Properties())
			for _, step := range ref.Oracle(t, caseName).Steps {
				if step.Statement == "ALTER TABLE ref.db.orphans SET TBLPROPERTIES ('gc.enabled'='false')" {
					properties["gc.enabled"] = "false"
				}
				if step.Procedure == string(maintenance.RemoveOrphanFiles) {
					continue
				}
				if step.Procedure != string(maintenance.ExpireSnapshots) {
					if step.Procedure != "" {
						break
					}
					continue
				}
				request := bind(t, step.Call)
				opts, err := decide.ParseSnapshotsOptions(request.Args, request.SnapshotIDs, properties, time.UnixMilli(step.NowMS))
				if err == nil {
					var plan decide.SnapshotsPlan
					plan, err = decide.Snapshots(decide.SnapshotsInput{Snapshots: snapshots, Refs: refs, NowMS: step.NowMS, Options: opts})
					if err == nil {
						checkExpiry(t, name+":"+caseName, step, plan)
						snapshots, refs = after(snapshots, refs, plan)
					}
				}
				if (err != nil) != (step.Error != "") {
					t.Errorf("%s:%s: error %v, Spark says %q", name, caseName, err, step.Error)
				}
				compared++
			}
		}
	}
	t.Logf("compared %d calls", compared)
	if compared < 25 {
		t.Errorf("compared %d calls: the reference has more", compared)
	}
}

func checkExpiry(t *testing.T, name string, step icebergtest.OracleStep, plan decide.SnapshotsPlan) {
	t.Helper()
	if step.Error != "" {
		return
	}
	got, want := slices.Sorted(slices.Values(plan.ExpiredIDs)), slices.Sorted(slices.Values(step.SnapshotsRemoved))
	if !slices.Equal(got, want) {
		t.Errorf("%s: %s: expired %d: %v\nwant %d: %v", name, step.Call, len(got), got, len(want), want)
	}
	if want := slices.Sorted(slices.Values(step.RefsRemoved)); !slices.Equal(plan.RemovedRefs, want) {
		t.Errorf("%s: removed refs %q, want %q", name, plan.RemovedRefs, want)
	}
}

// after applies a plan to a history.
func after(snapshots []decide.Snapshot, refs []decide.Ref, plan decide.SnapshotsPlan) ([]decide.Snapshot, []decide.Ref) {
	snapshots = slices.DeleteFunc(snapshots, func(s decide.Snapshot) bool { return slices.Contains(plan.ExpiredIDs, s.ID) })
	refs = slices.DeleteFunc(refs, func(r decide.Ref) bool { return slices.Contains(plan.RemovedRefs, r.Name) })
	return snapshots, refs
}

// TestReferenceRefsHaveRetention guards the oracle test: without refs of their own retention it would prove little.
func TestReferenceRefsHaveRetention(t *testing.T) {
	t.Parallel()
	_, refs := history(reference(t, "snaps40").Table(t))
	own := 0
	for _, r := range refs {
		if r.MinSnapshotsToKeep != nil || r.MaxSnapshotAgeMS != nil || r.MaxRefAgeMS != nil {
			own++
		}
	}
	if own < 3 {
		text, _ := json.Marshal(refs)
		t.Errorf("%d of %d refs have retention: %s", own, len(refs), text)
	}
}
