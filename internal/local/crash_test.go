package local_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/edge"
	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/local"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// crashing is a runner whose process "dies" when the store does: nothing works after the n-th change. What it wrote stays, and so does the state.
func crashing(t *testing.T, w *icebergtest.World, statePath string, stores map[string]store.Full) *local.Runner {
	t.Helper()
	config, err := catalogs.LoadConfig(catalogs.Sources{Flags: []string{"type=in-memory"}})
	if err != nil {
		t.Fatal(err)
	}
	clients := edge.NewClients(config, edge.Settings{WorkLocation: "mem://work/firn", StateLocation: statePath}, stores)
	t.Cleanup(func() { _ = clients.Close() })
	mux, err := store.New(store.Config{Stores: stores})
	if err != nil {
		t.Fatal(err)
	}
	clients.UseLake(clients.DefaultCatalog(), edge.Lake{Catalog: w.Catalog, Store: mux})
	runner, err := local.NewRunner(context.Background(), clients, local.Options{LockDir: t.TempDir(), Now: w.Clock.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// reachable lists what the table's head names, by its own means: not with the code that sweeps.
func reachable(t *testing.T, st store.Reader, tbl *icebergtest.Table) []string {
	t.Helper()
	ctx := context.Background()
	state := tbl.State()
	found := map[string]bool{state.Pointer.MetadataLocation: true}
	for entry := range state.Metadata.PreviousFiles() {
		found[entry.MetadataFile] = true
	}
	for _, snap := range state.Metadata.Snapshots() {
		found[snap.ManifestList] = true
		manifests, err := lake.Manifests(ctx, st, &snap)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manifests {
			found[m.FilePath()] = true
			for e, err := range lake.Entries(ctx, st, m, lake.EntryOptions{WithoutStats: true}) {
				if err != nil {
					t.Fatal(err)
				}
				found[e.File.FilePath()] = true
			}
		}
	}
	var names []string
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func objects(t *testing.T, st store.Full, tbl *icebergtest.Table) []string {
	t.Helper()
	ctx := context.Background()
	location := store.Join(tbl.State().Metadata.Location(), "")
	var names []string
	for info, err := range st.List(ctx, location, store.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Location)
	}
	for upload, err := range st.Uploads(ctx, location) {
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("incomplete upload of %s is left", upload.Location)
	}
	return names
}

// TestCrashAtEveryWriteOfARun lets the process die after each change of any object in turn, with what it wrote half done. The next run closes the dead
// one and ends in the same table; the orphan sweep then finds everything that the dead run left.
func TestCrashAtEveryWriteOfARun(t *testing.T) {
	t.Parallel()
	expire := maintenance.JobRequest{
		Job: maintenance.ExpireSnapshots, Args: map[string]string{"older_than": "2030-01-01 00:00:00", "retain_last": "1"},
	}
	all := map[string]string{"rewrite-all": "true"}
	for _, c := range []struct {
		name  string
		build func(w *icebergtest.World) *icebergtest.Table
		jobs  []maintenance.JobRequest
	}{
		{"data files", tableWithADelete, []maintenance.JobRequest{{Job: maintenance.RewriteDataFiles, Options: all}, expire}},
		{"position deletes", tableWithManyDeletes(2), []maintenance.JobRequest{{Job: maintenance.RewritePositionDeleteFiles, Options: all}}},
		{
			"equality deletes", func(w *icebergtest.World) *icebergtest.Table { return newEqualityScene(t, w, 3).tbl },
			[]maintenance.JobRequest{{Job: maintenance.RewriteEqualityDeleteFiles}},
		},
		{"deletion vectors", tableWithManyDeletes(3), []maintenance.JobRequest{{Job: maintenance.RewritePositionDeleteFiles, Options: all}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			crashEverywhere(t, c.build, maintenance.Request{Trigger: "call", Jobs: c.jobs})
		})
	}
}

func tableWithADelete(w *icebergtest.World) *icebergtest.Table {
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	for i := range 3 {
		c := tbl.Commit(icebergtest.Append(rows(i*4, 4)...))
		if i == 1 {
			tbl.Commit(icebergtest.DeletePositions(c.DataFiles[0], 0))
		}
	}
	return tbl
}

// tableWithManyDeletes has two partitions with position deletes, one of them of a data file that is gone, and on version 3 a vector.
func tableWithManyDeletes(version int) func(w *icebergtest.World) *icebergtest.Table {
	return func(w *icebergtest.World) *icebergtest.Table {
		tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
		files := tbl.Commit(icebergtest.Append(rows(0, 8)...)).DataFiles
		dead := tbl.Commit(icebergtest.Append(rows(8, 4)...)).DataFiles
		for i := range 2 {
			tbl.Commit(icebergtest.DeletePositions(files[0], int64(i)), icebergtest.DeletePositions(files[1], int64(i)))
		}
		tbl.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: dead[0], Pos: 0}), icebergtest.Remove(dead[0]))
		if version == 3 {
			tbl.Upgrade(3)
			tbl.Commit(icebergtest.DeleteVector(files[0], 0, 1, 2))
		}
		return tbl
	}
}

func crashEverywhere(t *testing.T, build func(w *icebergtest.World) *icebergtest.Table, request maintenance.Request) {
	t.Helper()
	for n := 0; ; n++ {
		w := icebergtest.NewWorld(t)
		tbl := build(w)
		want := tbl.Rows()
		statePath := t.TempDir() + "/state.db"
		faults := store.NewFaults(w.Store, store.CrashAfter(n))
		first, err := crashing(t, w, statePath, map[string]store.Full{"s3": faults, "mem": faults}).Run(context.Background(), tbl.ID, request)
		died := err != nil || first.Outcome != maintenance.Committed
		again := crashing(t, w, statePath, map[string]store.Full{"s3": w.Store, "mem": w.Store})
		second, err := again.Run(context.Background(), tbl.ID, request)
		if err != nil {
			t.Fatalf("run after a crash at change %d: %v", n, err)
		}
		if second.Outcome != maintenance.Committed && second.Outcome != maintenance.NothingToDo {
			t.Fatalf("run after a crash at change %d ended %s: %s %+v", n, second.Outcome, second.Reason, second.Jobs)
		}
		if diff := cmp.Diff(want, tbl.Rows()); diff != "" {
			t.Fatalf("after a crash at change %d rows changed:\n%s", n, diff)
		}
		w.At(w.Clock.Now().Add(30 * 24 * time.Hour))
		orphans := maintenance.Request{Trigger: "call", Jobs: []maintenance.JobRequest{{Job: maintenance.RemoveOrphanFiles}}}
		if swept, err := again.Run(context.Background(), tbl.ID, orphans); err != nil || swept.Jobs[0].Outcome == maintenance.Failed {
			t.Fatalf("orphan sweep after a crash at change %d: %+v, %v", n, swept, err)
		}
		if diff := cmp.Diff(reachable(t, w.Store, tbl), objects(t, w.Store, tbl)); diff != "" {
			t.Fatalf("after a crash at change %d and a sweep, objects (+) differ from what is reachable (-):\n%s", n, diff)
		}
		if diff := cmp.Diff(want, tbl.Rows()); diff != "" {
			t.Fatalf("after a crash at change %d and a sweep rows changed:\n%s", n, diff)
		}
		if !died {
			if n < 15 {
				t.Fatalf("the run has only %d changes", n)
			}
			t.Logf("the run has %d changes", n)
			return
		}
	}
}

// TestFinishedGroupsOfADeadRunLand lets a run of several groups die after each change in turn. The next run, which is asked for something else, first commits
// every group that the dead one had finished; nothing is written twice.
func TestFinishedGroupsOfADeadRunLand(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rewrite := maintenance.Request{Trigger: "call", Jobs: []maintenance.JobRequest{{
		Job: maintenance.RewriteDataFiles, Options: map[string]string{"rewrite-all": "true", "partial-progress.enabled": "true"},
	}}}
	other := maintenance.Request{Trigger: "call", Jobs: []maintenance.JobRequest{{
		Job: maintenance.ExpireSnapshots, Args: map[string]string{"retain_last": "1000"},
	}}}
	saved := 0
	for n := 0; ; n++ {
		w := icebergtest.NewWorld(t)
		tbl := tableWithADelete(w)
		want, head := tbl.Rows(), tbl.State().Metadata.CurrentSnapshot().SnapshotID
		statePath := t.TempDir() + "/state.db"
		faults := store.NewFaults(w.Store, store.CrashAfter(n))
		first, err := crashing(t, w, statePath, map[string]store.Full{"s3": faults, "mem": faults}).Run(ctx, tbl.ID, rewrite)
		if len(finishedOutputs(t, w.Store)) == 0 {
			continue // TestCrashAtEveryWriteOfARun looks at these
		}
		died := err != nil || first.Outcome != maintenance.Committed
		unfinished := tbl.State().Metadata.CurrentSnapshot().SnapshotID == head
		if _, err := crashing(t, w, statePath, map[string]store.Full{"s3": w.Store, "mem": w.Store}).Run(ctx, tbl.ID, other); err != nil {
			t.Fatalf("run after a crash at change %d: %v", n, err)
		}
		if diff := cmp.Diff(want, tbl.Rows()); diff != "" {
			t.Fatalf("after a crash at change %d rows changed:\n%s", n, diff)
		}
		live := reachable(t, w.Store, tbl)
		for _, output := range finishedOutputs(t, w.Store) {
			if !slices.Contains(live, output) {
				t.Errorf("after a crash at change %d the finished output %s is not in the table", n, output)
			}
			if unfinished {
				saved++
			}
		}
		if !died {
			break
		}
	}
	if saved == 0 {
		t.Error("no run died between its first finished group and its commit")
	}
}

// finishedOutputs are the outputs of all groups of all runs that have a finished result.
func finishedOutputs(t *testing.T, st store.Full) []string {
	t.Helper()
	ctx := context.Background()
	var out []string
	for info, err := range st.List(ctx, "mem://work/firn/", store.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(info.Location, "/result-") {
			continue
		}
		var result handoff.GroupResult
		if err := handoff.Open(st, "mem://work/firn", "").Read(ctx, info.Location, &result); err != nil {
			t.Fatal(err)
		}
		for _, o := range result.Outputs {
			out = append(out, o.Path)
		}
	}
	return out
}
