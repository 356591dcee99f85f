package sweep_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// marked wants the run to be marked as one that left something, or not.
func (r *room) marked(want bool) {
	r.t.Helper()
	location := store.Join(handoff.Unsettled(workLocation, r.run.TableUUID), string(r.run.RunID)+".json")
	if _, err := r.world.Store.Head(context.Background(), location); (err == nil) != want {
		r.t.Errorf("mark of the run: %v", err)
	}
}

// next ends another run on the table, which found nothing to do, and returns what it deleted for earlier runs.
func (r *room) next() handoff.EarlierDeletions {
	r.t.Helper()
	return r.nextRun(handoff.Index{Outcome: maintenance.NothingToDo})
}

func (r *room) nextRun(index handoff.Index) (done handoff.EarlierDeletions) {
	r.t.Helper()
	mine := r.run
	r.newRun()
	index.V, index.Run, index.Job = 1, r.run, maintenance.RewriteManifests
	_, err := r.work().WriteOnce(context.Background(), r.work().Index(index.Job), &index)
	r.must(err)
	_, err = r.step(maintenance.SweepInput{Step: maintenance.SweepAbandon})
	r.must(err)
	if err := r.work().Read(context.Background(), r.work().Earlier(), &done); err != nil && !errors.Is(err, store.ErrNotFound) {
		r.must(err)
	}
	r.run = mine
	return done
}

// expired is a table of a service whose first snapshot has expired: its manifest list waits for 15 minutes.
func expired(t *testing.T) (*room, *icebergtest.Table) {
	t.Helper()
	r, tbl := simple(t)
	r.grace = 15 * time.Minute
	doomed := tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5}))
	tbl.Commit(icebergtest.Remove(doomed.DataFiles[0]))
	r.expire(doomed.Snapshot.SnapshotID)
	return r, tbl
}

// end ends the room's run.
func (r *room) end() {
	r.t.Helper()
	_, err := r.step(maintenance.SweepInput{Step: maintenance.SweepAbandon})
	r.must(err)
}

// The grace period of an expiry is not waited for: the run ends, later runs delete when it is over, once, and say for whom.
func TestGracePeriodIsLeftToALaterRun(t *testing.T) {
	t.Parallel()
	r, _ := expired(t)
	before := r.objects("")
	out, err := r.step(maintenance.SweepInput{Step: maintenance.SweepReach, Job: maintenance.ExpireSnapshots})
	r.must(err)
	if out.Next != maintenance.NextPlan || out.ItemCount != 0 {
		t.Errorf("after reach comes %+v: want the next job", out)
	}
	r.marked(true)
	r.end()
	s, err := r.work().SweepSummary(context.Background(), maintenance.ExpireSnapshots, 0)
	r.must(err)
	if s.Candidates != 3 || s.Deleted != 0 || s.UnfinishedRanges != 1 || s.NotBeforeMS != r.now.Add(r.grace).UnixMilli() {
		t.Errorf("summary %+v: want three files that wait", s)
	}
	r.passed = 14*time.Minute + 59*time.Second
	if done := r.next(); len(done.Runs) > 0 {
		t.Errorf("deleted too early: %+v", done)
	}
	r.gone(before)
	r.marked(true)
	r.passed = 15 * time.Minute
	if done := r.nextRun(handoff.Index{DryRun: true}); len(done.Runs) > 0 {
		t.Errorf("a dry run deleted %+v", done)
	}
	r.gone(before)
	done := r.next()
	if len(done.Runs) != 1 || done.Runs[0].RunID != r.run.RunID || done.Runs[0].Deleted.Deleted != 3 ||
		done.Runs[0].Deleted.Columns["deleted_data_files_count"] != 1 {
		t.Errorf("deleted %+v: want the three files of run %s", done, r.run.RunID)
	}
	if gone := r.missing(before); len(gone) != 3 {
		t.Errorf("gone: %v", gone)
	}
	r.marked(false)
	if again := r.next(); len(again.Runs) > 0 {
		t.Errorf("deleted again: %+v", again)
	}
	s, err = r.work().SweepSummary(context.Background(), maintenance.ExpireSnapshots, 0)
	r.must(err)
	if s.Deleted != 3 || s.NotBeforeMS != 0 {
		t.Errorf("summary %+v", s)
	}
	r.check()
}

// A step delete that comes too early, by another function's clock, deletes nothing and leaves the range to a later run.
func TestDeleteThatComesTooEarly(t *testing.T) {
	t.Parallel()
	r, _ := expired(t)
	before := r.objects("")
	r.passed = time.Hour
	out, err := r.step(maintenance.SweepInput{Step: maintenance.SweepReach, Job: maintenance.ExpireSnapshots})
	r.must(err)
	if out.Next != maintenance.NextDelete {
		t.Fatalf("after reach comes %s", out.Next)
	}
	item := r.items(out.Items)[0]
	r.passed = 14 * time.Minute
	_, err = r.step(maintenance.SweepInput{Step: maintenance.SweepDelete, Job: maintenance.ExpireSnapshots, Item: &item})
	r.must(err)
	r.gone(before)
	r.marked(true)
	r.end()
	r.passed = 16 * time.Minute
	if done := r.next(); len(done.Runs) != 1 {
		t.Errorf("deleted %+v", done)
	}
	r.check()
}

// What is reachable again when its time has come stays: a file that a writer added again.
func TestWaitingFileComesBack(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	r.grace = 15 * time.Minute
	doomed := tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5}))
	again := r.fileOf(tbl, doomed)
	tbl.Commit(icebergtest.Remove(doomed.DataFiles[0]))
	r.expire(doomed.Snapshot.SnapshotID)
	before := r.objects("")
	r.reached()
	r.end()
	tbl.Commit(icebergtest.AddFile(again, nil))
	r.passed = time.Hour
	done := r.next()
	gone := r.missing(before)
	if len(done.Runs) != 1 || done.Runs[0].Deleted.KeptCount != 1 || slices.Contains(gone, doomed.DataFiles[0]) || len(gone) != 2 {
		t.Errorf("%+v, gone: %v", done, gone)
	}
	r.marked(false)
	r.check()
}

// reached runs the step reach of the expiry.
func (r *room) reached() {
	r.t.Helper()
	_, err := r.step(maintenance.SweepInput{Step: maintenance.SweepReach, Job: maintenance.ExpireSnapshots})
	r.must(err)
}

// What became forbidden while files waited stays forbidden: they are left for good, and the mark goes.
func TestWaitingFilesOfATableThatSharesThem(t *testing.T) {
	t.Parallel()
	changes := map[string]func(r *room, tbl *icebergtest.Table){
		"gc.enabled is false": func(_ *room, tbl *icebergtest.Table) { tbl.SetProperty("gc.enabled", "false") },
		"registered twice": func(r *room, tbl *icebergtest.Table) {
			other := maintenance.TableID{Namespace: "db", Name: "twin"}
			r.must(r.world.Catalog.Register(context.Background(), other, tbl.Pointer().MetadataLocation))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			r, tbl := expired(t)
			r.reached()
			r.end()
			change(r, tbl)
			before := r.objects("")
			r.passed = time.Hour
			if done := r.next(); len(done.Runs) > 0 {
				t.Errorf("deleted %+v", done)
			}
			r.gone(before)
			r.marked(false)
		})
	}
}

// An expiry that was committed by a run that died before it looked for files is finished by a later run, on services after their grace period.
func TestLaterRunFinishesAnExpiry(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, 15 * time.Minute} {
		r, _ := expired(t)
		r.grace = grace
		before := r.objects("")
		r.end()
		r.marked(true)
		done := r.next()
		if early := grace > 0; early != (len(done.Runs) == 0) {
			t.Errorf("grace period %s: deleted %+v at once", grace, done)
		}
		r.passed = time.Hour
		r.next()
		if gone := r.missing(before); len(gone) != 3 {
			t.Errorf("grace period %s: gone: %v", grace, gone)
		}
		r.marked(false)
		r.check()
	}
}

// The removal of orphans does not take what waits, however old it is: nobody but the expiry's own proof and time decide about it.
func TestOrphansLeaveWaitingFiles(t *testing.T) {
	t.Parallel()
	for _, reached := range []bool{true, false} {
		r, _ := expired(t)
		for _, location := range r.objects("") {
			r.age(location, 10)
		}
		r.put("s3://world/db/t/data/orphan.parquet", 10)
		before := r.objects("")
		if reached {
			r.reached()
		}
		r.end()
		mine := r.run
		r.newRun()
		if s := r.orphans(nil); s.Deleted != 1 {
			t.Errorf("summary %+v", s)
		}
		r.gone(before, "s3://world/db/t/data/orphan.parquet")
		r.passed = time.Hour
		r.run = mine
		r.next()
		if gone := r.missing(before); len(gone) != 4 {
			t.Errorf("gone: %v", gone)
		}
		r.marked(false)
	}
}

// The removal of orphans does not take what left the table within the grace period either, whoever expired it, nor what of that is gone already.
func TestOrphansLeaveWhatLeftLately(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{false, true} {
		r, tbl := simple(t)
		r.grace = 15 * time.Minute
		doomed := tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5}))
		tbl.Commit(icebergtest.Remove(doomed.DataFiles[0]))
		var oldest string
		for e := range tbl.State().Metadata.PreviousFiles() {
			oldest = e.MetadataFile
			break
		}
		r.removeSnapshots([]int64{doomed.Snapshot.SnapshotID})
		r.now = r.world.Clock.Now()
		for _, location := range r.objects("") {
			r.age(location, 10)
		}
		if cut { // by the writer, before the log is written anew: the next one tells
			_, _, err := r.world.Store.Delete(context.Background(), []string{oldest})
			r.must(err)
			r.lost = map[string]bool{oldest: true}
		}
		r.put("s3://world/db/t/data/orphan.parquet", 10)
		before := r.objects("")
		if s := r.orphans(nil); s.Deleted != 1 {
			t.Errorf("summary %+v", s)
		}
		r.gone(before, "s3://world/db/t/data/orphan.parquet")
		r.passed = 15 * time.Minute
		r.newRun()
		if s := r.orphans(nil); s.Deleted == 0 {
			t.Errorf("after the grace period: summary %+v", s)
		}
		if gone := r.missing(before); len(gone) < 3 || !slices.Contains(gone, doomed.DataFiles[0]) {
			t.Errorf("gone: %v", gone)
		}
	}
}

// announced is an expiry whose run died when its request was announced on a head: nobody wrote down how it ended.
func (r *room) announced(head int64, ids ...int64) {
	r.t.Helper()
	ctx, w, job := context.Background(), r.work(), maintenance.ExpireSnapshots
	_, err := w.WriteOnce(ctx, w.Index(job), &handoff.Index{V: 1, Run: r.run, Job: job, PlannedAtMS: r.now.UnixMilli()})
	r.must(err)
	_, err = w.WriteOnce(ctx, w.Fate(job, 0, 0), &handoff.Fate{V: 1, AssertedSnapshotID: head, Expired: r.wouldExpire(ids...).Expired})
	r.must(err)
}

// landed removes the snapshots now. With cut, the metadata log does not tell of them any more.
func (r *room) landed(cut bool, ids ...int64) {
	r.t.Helper()
	r.removeSnapshots(ids)
	r.now = r.world.Clock.Now()
	if !cut {
		return
	}
	r.lost = map[string]bool{}
	var before []string
	for e := range r.world.Open(r.id).State().Metadata.PreviousFiles() {
		before, r.lost[e.MetadataFile] = append(before, e.MetadataFile), true
	}
	_, _, err := r.world.Store.Delete(context.Background(), before)
	r.must(err)
}

// wrote says that a rewrite of this run wrote a file, and that the attempt to commit it was refused.
func (r *room) wrote(location string) {
	r.t.Helper()
	ctx, w := context.Background(), r.work()
	_, err := w.WriteOnce(ctx, w.Index(rewrite), &handoff.Index{V: 1, Run: r.run, Job: rewrite, Batches: []handoff.Batch{{}}})
	r.must(err)
	_, err = w.WriteOnce(ctx, w.Fate(rewrite, 0, 0), &handoff.Fate{V: 1, SnapshotID: 7, Paths: []string{location}})
	r.must(err)
	_, err = w.WriteOnce(ctx, w.FateEnd(rewrite, 0, 0), &handoff.FateEnd{V: 1, Outcome: maintenance.Refused})
	r.must(err)
}

// What an expiry removed whose run died with it is nobody's to delete within the grace period, although nothing but the dead run's announcement names it:
// neither the removal of orphans nor the end of another run. Then it is an orphan. An expiry that did not land leaves no mark.
func TestExpiryOfADeadRunWaits(t *testing.T) {
	t.Parallel()
	for _, landed := range []bool{true, false} {
		r, tbl := simple(t)
		r.grace = 15 * time.Minute
		doomed := tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5}))
		tbl.Commit(icebergtest.Remove(doomed.DataFiles[0]))
		r.announced(-1, doomed.Snapshot.SnapshotID)
		if landed {
			r.landed(true, doomed.Snapshot.SnapshotID)
		}
		for _, location := range r.objects("") {
			r.age(location, 10)
		}
		before := r.objects("")
		r.end()
		r.marked(landed)
		mine := r.run
		r.newRun()
		r.wrote(doomed.DataFiles[0])
		r.end()
		r.newRun()
		r.orphans(nil)
		if r.gone(before); !landed {
			continue
		}
		r.passed = 15 * time.Minute
		r.next()
		r.gone(before)
		r.run = mine
		r.marked(false)
		r.newRun()
		r.orphans(nil)
		if gone := r.missing(before); len(gone) != 3 || !slices.Contains(gone, doomed.DataFiles[0]) {
			t.Errorf("after the grace period are gone: %v", gone)
		}
	}
}

// An expiry that may still land is looked at by each later run; the grace period begins when one sees that it landed, and the mark tells its end.
func TestExpiryOfADeadRunLandsLate(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	r.grace = 15 * time.Minute
	doomed := tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5}))
	gone := tbl.Commit(icebergtest.Remove(doomed.DataFiles[0]))
	r.announced(gone.Snapshot.SnapshotID, doomed.Snapshot.SnapshotID)
	r.end()
	r.marked(true)
	r.next()
	r.marked(true)
	r.landed(false, doomed.Snapshot.SnapshotID)
	r.next()
	r.marked(true)
	r.passed = 15 * time.Minute
	r.next()
	r.marked(false)
}

// A list that lost all behind its header, of a snapshot that left lately, names nothing to protect: orphans are not looked for then.
func TestListOfALateSnapshotIsCut(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	r.grace = 15 * time.Minute
	doomed := tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5}))
	tbl.Commit(icebergtest.Remove(doomed.DataFiles[0]))
	r.landed(false, doomed.Snapshot.SnapshotID)
	ctx, location := context.Background(), doomed.Snapshot.ManifestList
	data, err := r.world.Store.Get(ctx, location)
	r.must(err)
	marker := data[len(data)-16:] // the header ends with it, and each block
	r.must(r.world.Store.Put(ctx, location, data[:bytes.Index(data, marker)+16], store.WriteOptions{}))
	for _, object := range r.objects("") {
		r.age(object, 10)
	}
	before := r.objects("")
	r.planOrphans(nil, false)
	if s, err := r.sweepOrphans(); err == nil && s.Outcome != maintenance.Refused {
		t.Errorf("summary %+v: want a refusal", s)
	}
	r.gone(before)
}

// A later run is killed at each of its changes while it deletes for an earlier one: the next finishes, and nothing that is named goes.
func TestCrashWhileDeletingForAnEarlierRun(t *testing.T) {
	t.Parallel()
	crashes(t, func(t *testing.T) *room {
		r, _ := expired(t)
		r.reached()
		r.end()
		r.passed = time.Hour
		r.newRun()
		_, err := r.work().WriteOnce(context.Background(), r.work().Index(maintenance.RewriteManifests), &handoff.Index{
			V: 1, Run: r.run, Job: maintenance.RewriteManifests, Outcome: maintenance.NothingToDo,
		})
		r.must(err)
		return r
	}, func(r *room) error {
		if _, err := r.step(maintenance.SweepInput{Step: maintenance.SweepAbandon}); err != nil {
			return err
		}
		if r.st.Fired() > 0 {
			return store.ErrCrashed // trouble with an earlier run is only logged
		}
		return nil
	}, func(r *room, before []string) {
		if gone := r.missing(before); len(gone) != 3 {
			r.t.Errorf("gone: %v", gone)
		}
		r.check()
	})
}
