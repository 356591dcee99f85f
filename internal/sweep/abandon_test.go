package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

const rewrite = maintenance.RewriteDataFiles

// rewriteRun is a run with one rewrite job, told in words: how many batches of one group each.
type rewriteRun struct {
	*room
	table *icebergtest.Table
}

// newRewrite plans a rewrite of batches with one group each.
func newRewrite(t testing.TB, batches int) *rewriteRun {
	t.Helper()
	r, tbl := simple(t)
	x := &rewriteRun{room: r, table: tbl}
	ctx, w := context.Background(), r.work()
	index := handoff.Index{V: 1, Run: r.run, Job: rewrite, PlannedAtMS: r.now.UnixMilli()}
	for b := range batches {
		location := w.Part(rewrite, "a", fmt.Sprintf("group-%d.json", b))
		_, err := w.WriteOnce(ctx, location, &handoff.Group{V: 1, Run: r.run, Job: rewrite, Batch: b, Index: b, OutputLocation: "s3://world/db/t/data"})
		r.must(err)
		index.Groups = append(index.Groups, location)
		index.Batches = append(index.Batches, handoff.Batch{First: b, Count: 1})
	}
	index.PinnedLocation = w.Part(rewrite, "a", "pinned.json")
	_, err := w.WriteOnce(ctx, index.PinnedLocation, &handoff.Pinned{V: 1, Table: r.run.Table, UUID: r.run.TableUUID, Branch: "main"})
	r.must(err)
	_, err = w.WriteOnce(ctx, w.Index(rewrite), &index)
	r.must(err)
	return x
}

// output is the location of the output of a group.
func (x *rewriteRun) output(group int) string {
	return fmt.Sprintf("s3://world/db/t/data/%05d-%s-1.parquet", group, x.run.RunID)
}

// compacted writes a group's output and result.
func (x *rewriteRun) compacted(group int) string {
	x.t.Helper()
	location := x.output(group)
	x.put(location, 0)
	_, err := x.work().WriteOnce(context.Background(), x.work().Result(rewrite, group), &handoff.GroupResult{
		V: 1, Run: x.run, Job: rewrite, Batch: group, Index: group, Outcome: maintenance.Committed,
		Outputs: []handoff.Entry{{Path: location}},
	})
	x.must(err)
	return location
}

// manifest is the manifest that an attempt at a batch wrote.
func (x *rewriteRun) manifest(batch, n int) string {
	return fmt.Sprintf("s3://world/db/t/metadata/%s-%d-%d-m0.avro", x.run.RunID, batch, n)
}

// attempted announces an attempt on the table's head with the batch's output; an outcome settles it.
func (x *rewriteRun) attempted(batch, n int, outcome maintenance.Outcome) {
	x.t.Helper()
	ctx, w := context.Background(), x.work()
	x.put(x.manifest(batch, n), 0)
	_, err := w.WriteOnce(ctx, w.Fate(rewrite, batch, n), &handoff.Fate{
		V: 1, CommitID: maintenance.NewCommitID(x.run.RunID, rewrite, batch), SnapshotID: int64(batch*10 + n), Groups: []int{batch},
		AssertedPointer: x.table.State().Pointer.Version,
		Paths:           []string{x.output(batch)}, Metadata: []string{x.manifest(batch, n)},
	})
	x.must(err)
	if outcome != "" {
		x.ended(batch, n, outcome)
	}
}

// ended writes how an attempt ended.
func (x *rewriteRun) ended(batch, n int, outcome maintenance.Outcome) {
	x.t.Helper()
	_, err := x.work().WriteOnce(context.Background(), x.work().FateEnd(rewrite, batch, n), &handoff.FateEnd{V: 1, Outcome: outcome})
	x.must(err)
}

// settled writes the batch's result.
func (x *rewriteRun) settled(batch int, result handoff.CommitResult) {
	x.t.Helper()
	result.V = 1
	_, err := x.work().WriteOnce(context.Background(), x.work().Commit(rewrite, batch), &result)
	x.must(err)
}

// land commits an output to the table.
func (x *rewriteRun) land(group int) {
	x.t.Helper()
	x.table.Commit(icebergtest.AddFile(x.namedFile(x.output(group)), nil))
	x.lost = map[string]bool{"": true}
}

// abandoned runs the step and reads what report reads.
func (x *rewriteRun) abandoned() handoff.SweepSummary {
	x.t.Helper()
	_, err := x.step(maintenance.SweepInput{Step: maintenance.SweepAbandon})
	x.must(err)
	var s handoff.SweepSummary
	x.must(x.work().Read(context.Background(), x.work().Abandoned(rewrite), &s))
	return s
}

// closed reports whether entry n of a batch's fate log abandons it.
func (x *rewriteRun) closed(batch, n int) bool {
	x.t.Helper()
	var f handoff.Fate
	err := x.work().Read(context.Background(), x.work().Fate(rewrite, batch, n), &f)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		x.t.Fatal(err)
	}
	return f.Abandoned
}

// A run whose batches all landed leaves nothing, and its logs are not touched.
func TestAbandonAfterSuccess(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 2)
	for b := range 2 {
		x.compacted(b)
		x.attempted(b, 0, maintenance.Committed)
		x.land(b)
		x.settled(b, handoff.CommitResult{Outcome: maintenance.Committed, Groups: []int{b}})
	}
	before := x.objects("")
	s := x.abandoned()
	if s.Outcome != maintenance.NothingToDo || s.KeptCount != 0 || x.closed(0, 1) {
		t.Errorf("summary %+v", s)
	}
	x.gone(before)
}

// A run that failed before its first commit: outputs go, lost workers' strays and uploads too, other files do not.
func TestAbandonBeforeCommit(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 2)
	first := x.compacted(0)
	stray := x.output(1) // its worker was lost: no result
	x.put(stray, 0)
	others := "s3://world/db/t/data/00000-" + string(maintenance.NewRunID("other", 1, 1)) + "-1.parquet"
	x.put(others, 0)
	ctx := context.Background()
	up, err := x.world.Store.Create(ctx, x.output(7), store.WriteOptions{})
	x.must(err)
	_, err = up.Write([]byte("part"))
	x.must(err)
	foreign, err := x.world.Store.Create(ctx, others+".2", store.WriteOptions{})
	x.must(err)
	before := x.objects("")
	s := x.abandoned()
	x.gone(before, first, stray)
	if s.Deleted != 2 || s.AbortedUploads != 1 || !x.closed(0, 0) || !x.closed(1, 0) {
		t.Errorf("summary %+v", s)
	}
	if up.Commit(ctx) == nil {
		t.Error("the run's own upload could still be completed")
	}
	x.must(foreign.Commit(ctx))
}

// An attempt that nobody settled: nothing that it names is touched, it is reported, and the log is closed. What only a refused attempt wrote goes.
func TestAbandonUnknown(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 2)
	x.compacted(0)
	x.attempted(0, 0, maintenance.Conflict)
	x.attempted(0, 1, "")
	free := x.compacted(1)
	x.attempted(1, 0, maintenance.Refused)
	before := x.objects("")
	s := x.abandoned()
	x.gone(before, free, x.manifest(1, 0), x.manifest(0, 0))
	var kept []string
	for _, k := range s.Kept {
		kept = append(kept, k.Location)
	}
	equal(t, "reported", kept, []string{x.output(0), x.manifest(0, 1)})
	if !x.closed(0, 2) || !x.closed(1, 1) {
		t.Error("a log is open")
	}
}

// An attempt without answer that did land: its files are live and no leftovers.
func TestAbandonLandedWithoutAnswer(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 1)
	x.compacted(0)
	x.attempted(0, 0, "")
	x.land(0)
	before := x.objects("")
	s := x.abandoned()
	if s.KeptCount != 0 {
		t.Errorf("kept %v", s.Kept)
	}
	x.gone(before, x.manifest(0, 0)) // the world's commit wrote a manifest of its own
	x.marked(false)
}

// A run that nobody could settle is marked. Later runs on the table look at it again: nothing is touched while the pointer that its attempt asserted
// has not moved; when it has, what did not land goes, manifests included, and the mark with it.
func TestLaterRunSettlesAbsentAttempt(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 2)
	x.compacted(0)
	x.attempted(0, 0, "")
	x.compacted(1)
	before := x.objects("")
	x.abandoned()
	x.gone(before, x.output(1))
	x.marked(true)
	x.next()
	x.gone(before, x.output(1))
	x.marked(true)
	x.table.Commit(icebergtest.Append(icebergtest.Row{77, "z", 0.5}))
	x.next()
	x.gone(before, x.output(1), x.output(0), x.manifest(0, 0))
	x.marked(false)
	x.check()
}

// The commit itself learns that its attempt is absent, after its run was marked: the next run finds nothing unsettled, and sweeps what is left all the
// same.
func TestLaterRunSweepsWhatSettledItself(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 1)
	x.compacted(0)
	x.attempted(0, 0, "")
	before := x.objects("")
	x.abandoned()
	x.marked(true)
	x.table.Commit(icebergtest.Append(icebergtest.Row{77, "z", 0.5}))
	x.ended(0, 0, maintenance.Conflict)
	x.next()
	x.gone(before, x.output(0), x.manifest(0, 0))
	x.marked(false)
	x.check()
}

// The attempt had landed after all: its files stay, and the run is settled.
func TestLaterRunSettlesLandedAttempt(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 1)
	x.compacted(0)
	x.attempted(0, 0, "")
	before := x.objects("")
	x.abandoned()
	x.land(0)
	x.next()
	x.gone(before, x.manifest(0, 0)) // the world's commit wrote a manifest of its own
	x.marked(false)
}

// Trouble with an earlier run is not the later run's.
func TestLaterRunGoesOnWithoutTheEarlier(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 1)
	x.compacted(0)
	x.attempted(0, 0, "")
	x.abandoned()
	before := x.objects("")
	x.table.Commit(icebergtest.Append(icebergtest.Row{77, "z", 0.5}))
	x.st.Add(store.Rule{Operation: store.OpGet, Contains: "fate-0000", Err: store.ErrPermission})
	x.next()
	x.gone(before)
	x.marked(true)
}

// A commit whose metadata could not be written died before it announced itself: its manifests are in no entry of the log, and go by their names.
func TestAbandonUnannouncedManifests(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 1)
	output := x.compacted(0)
	x.put(x.manifest(0, 0), 0)
	before := x.objects("")
	x.abandoned()
	x.gone(before, output, x.manifest(0, 0))
}

// A zombie lands right before the log is closed, without an entry: the head is loaded after the closing, so that its files are seen.
func TestAbandonLoadsTheHeadLast(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 1)
	x.compacted(0)
	x.st.Add(store.Rule{Operation: store.OpPut, Contains: "fate-0000-0000", Times: 1, Do: func() { x.land(0) }})
	before := x.objects("")
	s := x.abandoned()
	if s.Deleted != 0 || s.KeptCount != 1 {
		t.Errorf("summary %+v", s)
	}
	x.gone(before)
}

// A commit writes the next entry while sweep is about to: the log is read on, and the new attempt's outputs stay.
func TestAbandonRacesWithAnAttempt(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 1)
	x.compacted(0)
	x.attempted(0, 0, maintenance.Conflict)
	x.st.Add(store.Rule{Operation: store.OpPut, Contains: "fate-0000-0001", Times: 1, Do: func() { x.attempted(0, 1, "") }})
	before := x.objects("")
	s := x.abandoned()
	if !x.closed(0, 2) {
		t.Errorf("summary %+v", s)
	}
	x.gone(before, x.manifest(0, 0)) // the refused attempt's
}

// A settled batch with a dropped group: the group's outputs go, those that landed stay, and so does what an unsettled attempt holds.
func TestAbandonDroppedGroups(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 2)
	dropped := x.compacted(0)
	x.settled(0, handoff.CommitResult{
		Outcome: maintenance.Conflict, Dropped: []handoff.DroppedGroup{{Index: 0, Outcome: maintenance.Conflict, Files: 3}},
	})
	x.compacted(1)
	x.attempted(1, 0, maintenance.Conflict)
	x.attempted(1, 1, "")
	x.attempted(1, 2, maintenance.Committed)
	x.land(1)
	x.settled(1, handoff.CommitResult{
		Outcome: maintenance.Committed, Groups: []int{1}, Dropped: []handoff.DroppedGroup{{Index: 5}}, Unneeded: []string{x.manifest(1, 0)},
	})
	before := x.objects("")
	s := x.abandoned()
	x.gone(before, dropped, x.manifest(1, 0))
	if !x.closed(0, 0) || !x.closed(1, 3) {
		t.Error("a log is open")
	}
	if s.Deleted != 2 {
		t.Errorf("summary %+v", s)
	}
}

// A91: metadata files that left the log go at the end of the run; one that is in the log again, or is current, never.
func TestA91UnneededMetadata(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 1)
	x.compacted(0)
	x.attempted(0, 0, maintenance.Committed)
	x.land(0)
	var unneeded []string
	for n := range 95 {
		location := fmt.Sprintf("s3://world/db/t/metadata/%05d-old.metadata.json", n)
		x.put(location, 10)
		unneeded = append(unneeded, location)
	}
	var stays []string
	for e := range x.table.State().Metadata.PreviousFiles() {
		stays = append(stays, e.MetadataFile)
	}
	stays = append(stays, x.table.Pointer().MetadataLocation)
	x.settled(0, handoff.CommitResult{Outcome: maintenance.Committed, Groups: []int{0}, Unneeded: append(slices.Clone(unneeded), stays...)})
	before := x.objects("")
	s := x.abandoned()
	x.gone(before, unneeded...)
	if s.Deleted != 95 || s.Manifests != 0 {
		t.Errorf("summary %+v: want 95 deleted and no manifest read", s)
	}
}

// A table that is gone, or has another UUID, proves nothing.
func TestAbandonWithoutTable(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 1)
	out := x.compacted(0)
	x.run.TableUUID = "00000000-0000-0000-0000-000000000000"
	before := x.objects("")
	s := x.abandoned()
	if s.Outcome != maintenance.Refused || len(s.Kept) != 1 || s.Kept[0].Location != out {
		t.Errorf("summary %+v", s)
	}
	x.gone(before)
}

// A kept manifest that cannot be read proves nothing: an error, and nothing is deleted.
func TestAbandonWithUnreadableManifest(t *testing.T) {
	t.Parallel()
	x := newRewrite(t, 1)
	x.compacted(0)
	manifest := x.manifestsOf(x.table)[0]
	x.st.Add(store.Rule{Operation: store.OpGet, Contains: manifest, Err: store.ErrNotFound})
	before := x.objects("")
	if _, err := x.step(maintenance.SweepInput{Step: maintenance.SweepAbandon}); err == nil || !strings.Contains(err.Error(), manifest) {
		t.Errorf("error %v", err)
	}
	x.gone(before)
}

// A run without any plan, and a dry run, end without a trace.
func TestAbandonNothing(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	r.dryExpiry(handoff.Expired{SnapshotIDs: []int64{tbl.State().Metadata.Snapshots()[0].SnapshotID}})
	before := r.objects("")
	out, err := r.step(maintenance.SweepInput{Step: maintenance.SweepAbandon})
	if err != nil || out.Deleted != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	r.gone(before)
}
