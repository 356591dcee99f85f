package sweep_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// A12: under a table without snapshot, files of an older incarnation are reported, and go only when that is asked for.
func TestA12EmptyTable(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	r := newRoom(t, w, tbl.ID)
	r.put("s3://world/db/t/data/old.parquet", 10)
	r.put("s3://world/db/t/metadata/00007-old.metadata.json", 10)
	r.age(tbl.Pointer().MetadataLocation, 10)
	before := r.objects("")
	s := r.orphans(nil)
	if s.Outcome != maintenance.Refused || s.Candidates != 2 || len(s.Files) != 2 {
		t.Errorf("summary %+v", s)
	}
	r.gone(before)
	r.newRun()
	r.orphans(map[string]string{"empty_table": "true"})
	r.gone(before, "s3://world/db/t/data/old.parquet", "s3://world/db/t/metadata/00007-old.metadata.json")
}

// A13, A105: many files go in ranges and batches of at most 1,000; what fails is named and counted by kind, and the rest goes.
func TestA13PartialFailures(t *testing.T) {
	t.Parallel()
	r, _ := simple(t)
	r.once = true
	for i := range 2345 {
		r.put(fmt.Sprintf("s3://world/db/t/data/orphan-%04d.parquet", i), 10)
	}
	r.st.Add(store.Rule{Operation: store.OpDelete, Contains: "orphan-120", Err: store.ErrPermission},
		store.Rule{Operation: store.OpDelete, Contains: "orphan-230", Err: store.ErrTransient})
	before := r.objects("")
	s := r.orphans(nil)
	if s.Deleted != 2325 || s.Failed != 20 || s.FailedByKind["permission"] != 10 || s.FailedByKind["transient"] != 10 || len(s.Failures) != 20 {
		t.Errorf("deleted %d, failed %d: %v", s.Deleted, s.Failed, s.FailedByKind)
	}
	if got := len(r.missing(before)); got != 2325 {
		t.Errorf("%d objects are gone", got)
	}
	for _, c := range r.st.Calls() {
		if c.Operation == store.OpDelete && c.Objects > 1000 {
			t.Errorf("a batch of %d", c.Objects)
		}
	}
	r.check()
}

// A14: ages that would take files of writers at work, or are in another unit, are refused.
func TestA14BadAges(t *testing.T) {
	t.Parallel()
	r, _ := simple(t)
	r.put("s3://world/db/t/data/orphan.parquet", 2.0/24)
	before := r.objects("")
	seconds := fmt.Sprint(r.now.Add(-10 * 24 * time.Hour).Unix())
	for _, bad := range []string{
		"0", "-1", "3", "3 days", "soon", seconds, r.now.Add(time.Hour).Format(time.RFC3339), r.now.Format(time.RFC3339),
		r.now.Add(-23 * time.Hour).Format(time.RFC3339),
	} {
		r.newRun()
		if s := r.orphans(map[string]string{"older_than": bad}); s.Outcome != maintenance.Refused || !strings.Contains(s.Reason, "older_than") {
			t.Errorf("older_than %q: outcome %s (%s)", bad, s.Outcome, s.Reason)
		}
	}
	r.newRun()
	if s := r.orphans(map[string]string{"older_than": r.now.Add(time.Hour).Format(time.RFC3339), "unsafe_older_than": "true"}); s.Outcome != maintenance.Refused {
		t.Errorf("the future, even if unsafe: outcome %s", s.Outcome)
	}
	r.gone(before)
	r.newRun()
	r.orphans(map[string]string{"older_than": r.now.Add(-time.Hour).Format(time.RFC3339), "unsafe_older_than": "true"})
	r.gone(before, "s3://world/db/t/data/orphan.parquet")
}

// A22: a table that does not own its files is refused, for orphans as for expiry.
func TestA22GCDisabled(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	tbl.SetProperty("gc.enabled", "FALSE")
	r.put("s3://world/db/t/data/orphan.parquet", 10)
	before := r.objects("")
	if s := r.orphans(nil); s.Outcome != maintenance.Refused || !strings.Contains(s.Reason, "gc.enabled") {
		t.Errorf("outcome %s (%s)", s.Outcome, s.Reason)
	}
	first := tbl.State().Metadata.Snapshots()[0].SnapshotID
	r.expire(first)
	s, err := r.reachAndDelete(maintenance.ExpireSnapshots)
	r.must(err)
	if s.Outcome != maintenance.Refused || s.Deleted != 0 {
		t.Errorf("expiry: %+v", s)
	}
	r.gone(before)
}

// A24: files of an expiry that died after its commit are found as orphans: content, manifests, lists and statistics.
func TestA24ExpiryDiedAfterItsCommit(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	doomed := tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5}))
	tbl.Commit(icebergtest.Remove(doomed.DataFiles[0]))
	tbl.Commit(icebergtest.Append(icebergtest.Row{10, "z", 0.5}))
	tbl.Commit(icebergtest.Append(icebergtest.Row{11, "z", 0.5}))
	var ids []int64
	snaps := tbl.State().Metadata.Snapshots()
	for _, s := range snaps[:len(snaps)-1] {
		ids = append(ids, s.SnapshotID)
	}
	before := r.objects("")
	r.removeSnapshots(ids)
	for _, l := range r.objects("") {
		r.age(l, 10)
	}
	s := r.orphans(nil)
	missing := r.missing(before)
	if !slices.Contains(missing, doomed.DataFiles[0]) || int(s.Deleted) != len(missing) || len(missing) < len(ids)+2 {
		t.Errorf("%d objects are gone: %v", len(missing), missing)
	}
	r.check()
	r.newRun()
	if s := r.orphans(nil); s.Outcome != maintenance.NothingToDo {
		t.Errorf("a second sweep found %v", s.Files)
	}
}

// A90: metadata files that left the log long ago go as orphans; the current one and those in the log stay.
func TestA90OldMetadata(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	for range 12 {
		tbl.Update(func(b *table.MetadataBuilder) error {
			b.TrimMetadataLogs(3)
			return b.SetProperties(iceberg.Properties{"k": fmt.Sprint(r.world.Clock.Now())})
		})
	}
	before := r.objects("")
	for _, l := range before {
		r.age(l, 10)
	}
	named := map[string]bool{tbl.Pointer().MetadataLocation: true}
	for e := range tbl.State().Metadata.PreviousFiles() {
		named[e.MetadataFile] = true
	}
	var want []string
	for _, l := range before {
		if strings.HasSuffix(l, ".metadata.json") && !named[l] {
			want = append(want, l)
		}
	}
	if len(want) < 5 || len(named) < 3 {
		t.Fatalf("%d files left the log, %d are in it", len(want), len(named))
	}
	r.orphans(nil)
	r.gone(before, want...)
}

// A95: buckets of S3 Tables are not ours to clean.
func TestA95TableBucket(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.At("s3://63a8e430-6e0b-46f5--table-s3/t"))
	r := newRoom(t, w, tbl.ID)
	if s := r.orphans(nil); s.Outcome != maintenance.Refused || !strings.Contains(s.Reason, "S3 Tables") {
		t.Errorf("outcome %s (%s)", s.Outcome, s.Reason)
	}
}

// A98: when deleting is not allowed, the job says so and does not ask a thousand times.
func TestA98DeleteDenied(t *testing.T) {
	t.Parallel()
	r, _ := simple(t)
	for i := range 3500 {
		r.put(fmt.Sprintf("s3://world/db/t/data/orphan-%04d.parquet", i), 10)
	}
	r.st.Add(store.Rule{Operation: store.OpDelete, Contains: "orphan", Err: store.ErrPermission})
	before := r.objects("")
	r.once = true
	s := r.orphans(nil)
	if s.Deleted != 0 || s.Failed != 3500 || s.FailedByKind["permission"] != 3500 || len(s.Failures) != 20 {
		t.Errorf("deleted %d, failed %d %v", s.Deleted, s.Failed, s.FailedByKind)
	}
	if n := r.st.Count(store.OpDelete); n != 1 {
		t.Errorf("%d calls", n)
	}
	r.gone(before)
}

// A105: 25,000 files go in ranges that each fit a worker's time, and the end is visible.
func TestA105ManyFiles(t *testing.T) {
	t.Parallel()
	r, _ := simple(t)
	r.once = true
	for i := range 25_000 {
		r.put(fmt.Sprintf("s3://world/db/t/data/orphan-%05d.parquet", i), 10)
	}
	r.planOrphans(nil, false)
	var index handoff.Index
	r.must(r.work().Read(context.Background(), r.work().Index(maintenance.RemoveOrphanFiles), &index))
	for _, item := range r.items(index.Batches[0].Items) {
		_, err := r.step(maintenance.SweepInput{Step: maintenance.SweepList, Job: maintenance.RemoveOrphanFiles, Item: &item})
		r.must(err)
	}
	out, err := r.step(maintenance.SweepInput{Step: maintenance.SweepReach, Job: maintenance.RemoveOrphanFiles})
	r.must(err)
	if out.ItemCount != 3 {
		t.Errorf("%d ranges: want 3", out.ItemCount)
	}
	left := 3
	for _, item := range r.items(out.Items) {
		_, err := r.step(maintenance.SweepInput{Step: maintenance.SweepDelete, Job: maintenance.RemoveOrphanFiles, Item: &item})
		r.must(err)
		left--
		s, err := r.work().SweepSummary(context.Background(), maintenance.RemoveOrphanFiles, 0)
		r.must(err)
		if s.UnfinishedRanges != left || s.Candidates != 25_000 {
			t.Errorf("%d ranges unfinished: want %d", s.UnfinishedRanges, left)
		}
	}
	r.check()
}

// The seed figure: 40 orphans among 1,240 files are found, and no tracked file is touched. The dry run names the same 40.
func TestSeedFortyOrphans(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	tbl.Commit(icebergtest.Append(icebergtest.Row{0, "a", 1.5}))
	r := newRoom(t, w, tbl.ID)
	changes := make([]icebergtest.Change, 0, 1200)
	for i := range 1199 {
		location := fmt.Sprintf("s3://world/db/t/data/live-%04d.parquet", i)
		r.put(location, 10)
		changes = append(changes, icebergtest.AddFile(r.namedFile(location), nil))
	}
	tbl.Commit(changes...)
	r.lost = map[string]bool{"": true}
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprintf("s3://world/db/t/data/p=%d/orphan-%02d.parquet", i%4, i))
		r.put(want[i], 10)
	}
	before := r.objects("")
	data := 0
	for _, l := range before {
		if strings.Contains(l, "/data/") {
			data++
		}
	}
	if data != 1240 {
		t.Fatalf("%d data files: want 1240", data)
	}
	r.planOrphans(nil, true)
	dry, err := r.sweepOrphans()
	r.must(err)
	equal(t, "dry run", listed(t, r, dry.FilesLocation), want)
	r.gone(before)
	r.newRun()
	s := r.orphans(nil)
	equal(t, "real run", listed(t, r, s.FilesLocation), want)
	r.gone(before, want...)
	if s.Deleted != 40 {
		t.Errorf("%d deleted", s.Deleted)
	}
}
