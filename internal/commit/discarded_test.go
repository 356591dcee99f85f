package commit

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// metadataOf lists the manifests and lists that carry the run's ID.
func (x *fixture) metadataOf(run maintenance.RunID) []string {
	x.t.Helper()
	var out []string
	for info, err := range x.world.Store.List(context.Background(), store.Join(x.table.State().Metadata.Location(), "metadata", ""), store.ListOptions{}) {
		x.check(err)
		if strings.Contains(path.Base(info.Location), string(run)) {
			out = append(out, info.Location)
		}
	}
	return out
}

// TestNamesCarryTheRun: whoever searches for orphans, from whatever machine, knows by its name what a run wrote.
func TestNamesCarryTheRun(t *testing.T) {
	x, before := ready(t)
	x.mustCommit(before)
	var fate handoff.Fate
	x.check(x.work.Read(context.Background(), x.work.Fate(maintenance.RewriteDataFiles, 0, 0), &fate))
	named := x.metadataOf(x.run.RunID)
	if len(fate.Metadata) < 2 || len(named) != len(fate.Metadata) {
		t.Errorf("announced %q, of these carry the run's ID %q", fate.Metadata, named)
	}
	if list := path.Base(x.head().ManifestList); !strings.HasPrefix(list, "snap-") || !strings.HasSuffix(list, ".avro") {
		t.Errorf("manifest list %s: other engines write snap-….avro", list)
	}
}

// TestUnannouncedManifestsAreUnneeded: what an attempt wrote that came to no entry of the log goes with the batch's leftovers.
func TestUnannouncedManifestsAreUnneeded(t *testing.T) {
	x, before := ready(t)
	st := store.NewFaults(x.world.Store)
	// Another execution has the entry first, and lost.
	st.Add(store.Rule{Operation: store.OpPut, Contains: "fate-0000-0000.json", Times: 1, Do: func() {
		x.put(x.work.Fate(maintenance.RewriteDataFiles, 0, 0), &handoff.Fate{V: 1, SnapshotID: 5, AssertedPointer: "an older one"})
		x.put(x.work.FateEnd(maintenance.RewriteDataFiles, 0, 0), &handoff.FateEnd{V: 1, Outcome: maintenance.Conflict})
	}})
	out, err := x.function(st, nil).Handle(context.Background(), x.input())
	x.check(err)
	if out.Outcome != maintenance.Committed || !slices.Equal(before, x.rows()) {
		t.Fatalf("outcome %s: %s", out.Outcome, out.Reason)
	}
	var fate handoff.Fate
	x.check(x.work.Read(context.Background(), x.work.Fate(maintenance.RewriteDataFiles, 0, 1), &fate))
	unneeded := x.result().Unneeded
	if len(unneeded) == 0 { // the manifest list at least: manifests may have been listed again
		t.Errorf("nothing is unneeded")
	}
	for _, location := range x.metadataOf(x.run.RunID) {
		if slices.Contains(fate.Metadata, location) == slices.Contains(unneeded, location) {
			t.Errorf("%s: in the snapshot, or unneeded?", location)
		}
	}
}

// TestFullStoreWhileBuilding: a manifest list that cannot be written leaves manifests in no entry of the log. They carry the run's ID, by which
// sweep finds them, and no entry was announced.
func TestFullStoreWhileBuilding(t *testing.T) {
	x, _ := ready(t)
	st := store.NewFaults(x.world.Store)
	st.Add(store.Rule{Operation: store.OpPut, Contains: "/snap-", Err: errors.New("no space left on device")})
	if _, err := x.function(st, nil).Handle(context.Background(), x.input()); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("error %v", err)
	}
	if left := x.metadataOf(x.run.RunID); len(left) == 0 {
		t.Error("no manifest carries the run's ID")
	}
	if _, err := x.world.Store.Head(context.Background(), x.work.Fate(maintenance.RewriteDataFiles, 0, 0)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an attempt was announced: %v", err)
	}
	for _, s := range x.table.State().Metadata.Snapshots() {
		if s.Summary.Properties[contract.SummaryRunID] != "" {
			t.Error("a snapshot was committed")
		}
	}
}
