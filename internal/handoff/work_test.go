package handoff_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
)

const run = maintenance.RunID("abcdefghijklmnopqrstuvwxyz")

func open(t *testing.T) (*handoff.Work, *store.Memory) {
	t.Helper()
	st := store.NewMemory(func() time.Time { return time.UnixMilli(1_800_000_000_000) })
	return handoff.Open(st, "mem://bucket/firn", run), st
}

// TestFirstWriterWins: a second attempt reads the first one's object, and nothing of its own survives in it.
func TestFirstWriterWins(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w, _ := open(t)
	location := w.Result(maintenance.RewriteDataFiles, 3)
	mine := handoff.GroupResult{V: contract.PayloadVersion, Index: 3, Attempt: "a", Outcome: maintenance.Refused, Reason: "format ORC"}
	if first, err := w.WriteOnce(ctx, location, &mine); !first || err != nil {
		t.Fatalf("first write: %t, %v", first, err)
	}
	theirs := handoff.GroupResult{V: contract.PayloadVersion, Index: 3, Attempt: "b", Outcome: maintenance.Committed, RowMap: "mem://bucket/rowmap"}
	if first, err := w.WriteOnce(ctx, location, &theirs); first || err != nil {
		t.Fatalf("second write: %t, %v", first, err)
	}
	if diff := cmp.Diff(mine, theirs); diff != "" {
		t.Errorf("the second attempt holds other values:\n%s", diff)
	}
}

// TestReadRefusesOtherVersions: an object of another version is refused and not guessed at.
func TestReadRefusesOtherVersions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w, st := open(t)
	location := w.Index(maintenance.ExpireSnapshots)
	for text, want := range map[string]error{`{"v":2,"job":"expire_snapshots"}`: handoff.ErrVersion, `{"job":"expire_snapshots"}`: handoff.ErrVersion, `{"v":1`: nil} {
		if err := st.Put(ctx, location, []byte(text), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		var index handoff.Index
		if err := w.Read(ctx, location, &index); err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), location) {
			t.Errorf("read %s: error %v, want %v and the location", text, err, want)
		}
	}
	var index handoff.Index
	if err := w.Read(ctx, w.Index(maintenance.RewriteManifests), &index); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("missing object: error %v", err)
	}
}

// TestNamesDiffer: no two objects of a run share a location, and all lie in the run's folder.
func TestNamesDiffer(t *testing.T) {
	t.Parallel()
	w, _ := open(t)
	seen := map[string]bool{}
	for _, job := range maintenance.Jobs() {
		for _, location := range []string{
			w.Index(job), w.Part(job, "a", "x"), w.Part(job, "b", "x"), w.Result(job, 1), w.Result(job, 11), w.RowMap(job, 1, "a"), w.RowMap(job, 1, "b"),
			w.Fate(job, 1, 11), w.Fate(job, 11, 1), w.FateEnd(job, 1, 11), w.Commit(job, 1), w.Listed(job, 1), w.Reach(job, 1), w.Deleted(job, 1, 11),
			w.Deleted(job, 11, 1), w.Abandoned(job),
		} {
			if seen[location] || !strings.HasPrefix(location, "mem://bucket/firn/runs/"+string(run)+"/") {
				t.Errorf("location %s is taken, or outside of the run's folder", location)
			}
			seen[location] = true
		}
	}
}

// TestObjectsReturnToLocations: what an item reader is given leads back to the object.
func TestObjectsReturnToLocations(t *testing.T) {
	t.Parallel()
	for location, scheme := range map[string]string{"s3://b/runs/x y/items%20.jsonl": "s3", "mem://b/k": "mem", "file:///tmp/work/items.jsonl": "file"} {
		object, err := handoff.Object(location)
		if got := handoff.Location(scheme, object); err != nil || got != location {
			t.Errorf("%s became %+v and %s: %v", location, object, got, err)
		}
	}
	if object, err := handoff.Object("/tmp/work/x"); err != nil || object.Bucket != "file" || object.Key != "/tmp/work/x" {
		t.Errorf("a bare path is %+v, %v", object, err)
	}
	if _, err := handoff.Object("relative/path"); err == nil {
		t.Error("a relative path is an object")
	}
}

// TestSweepSummaryFoldsRanges: results of ranges are added up, names are bounded, and a range without a result is told.
func TestSweepSummaryFoldsRanges(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w, _ := open(t)
	job := maintenance.RemoveOrphanFiles
	if _, err := w.SweepSummary(ctx, job, 0); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("before reach: error %v", err)
	}
	reached := handoff.SweepReach{V: contract.PayloadVersion, ItemCount: 3, Summary: handoff.SweepSummary{
		V: contract.PayloadVersion, Outcome: maintenance.Committed, Columns: map[string]int64{"a": 0}, Candidates: 60,
	}}
	if _, err := w.WriteOnce(ctx, w.Reach(job, 0), &reached); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		part := handoff.SweepDeleted{V: contract.PayloadVersion, Range: i}
		for range 15 {
			part.Count("a", 10)
			part.Count("", -1)
			part.Fail("mem://bucket/f", "permission", "denied")
			part.Keep("mem://bucket/k", "reachable again")
		}
		if _, err := w.WriteOnce(ctx, w.Deleted(job, 0, i), &part); err != nil {
			t.Fatal(err)
		}
	}
	s, err := w.SweepSummary(ctx, job, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.Deleted != 60 || s.Bytes != 300 || s.Failed != 30 || s.KeptCount != 30 || s.UnfinishedRanges != 1 || s.Candidates != 60 {
		t.Errorf("summary %+v", s)
	}
	if s.Columns["a"] != 30 || s.FailedByKind["permission"] != 30 || len(s.Failures) != 20 || len(s.Kept) != 20 {
		t.Errorf("columns %v, failures by kind %v, %d named failures, %d named kept", s.Columns, s.FailedByKind, len(s.Failures), len(s.Kept))
	}
}

// TestMoved: a call is over when what it asserted has moved; what cannot be compared has not.
func TestMoved(t *testing.T) {
	for _, c := range []struct {
		asserted, version string
		head              int64
		want              bool
	}{
		{"a", "a", 1, false},
		{"a", "b", 1, true},
		{"a", "", 1, false},
		{"a", "", 2, false},
		{"", "", 1, false},
		{"", "", 2, true},
		{"", "b", 1, false},
		{"", "b", 2, true},
	} {
		f := handoff.Fate{AssertedPointer: c.asserted, AssertedSnapshotID: 1}
		if f.Moved(handoff.Head{Version: c.version, BranchHead: c.head}) != c.want {
			t.Errorf("%+v: want %v", c, c.want)
		}
	}
}

// TestMovedBySequenceNumber: where a branch's head is asserted, a rollback moves it and a second one brings it back; a snapshot is over only when the
// table has its sequence number.
func TestMovedBySequenceNumber(t *testing.T) {
	for _, c := range []struct {
		sequence, head, last int64
		want                 bool
	}{
		{7, 1, 6, false}, {7, 2, 6, false}, {7, 2, 7, true}, {7, 1, 7, true}, {7, 2, 8, true}, {0, 1, 0, false}, {0, 2, 0, false},
	} {
		f := handoff.Fate{SnapshotID: 9, AssertedSnapshotID: 1, SequenceNumber: c.sequence}
		if f.Moved(handoff.Head{BranchHead: c.head, LastSequenceNumber: c.last}) != c.want {
			t.Errorf("%+v: want %v", c, c.want)
		}
	}
}
