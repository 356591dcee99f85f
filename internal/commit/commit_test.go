package commit

import (
	"fmt"
	"testing"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
)

func TestRewriteOfEachVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2, 3} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			x := newFixture(t, icebergtest.Version(version))
			paths := x.small(5)
			if version == 2 {
				x.table.Commit(icebergtest.DeletePositions(paths[0], 1))
			}
			if version == 3 {
				x.table.Commit(icebergtest.DeleteVector(paths[0], 1))
			}
			before := x.rows()
			x.pin(false, paths[:4])
			x.compact()
			r := x.mustCommit(before)
			data, deletes := x.live()
			if len(data) != 2 || len(deletes) != 0 {
				t.Fatalf("%d data files and %d delete files are live: want 2 and 0", len(data), len(deletes))
			}
			if got := r.Columns["rewritten_data_files_count"]; got != 4 {
				t.Errorf("rewritten_data_files_count %d: want 4", got)
			}
			if head := x.head(); head.SnapshotID != r.SnapshotID || head.Summary.Operation != "replace" {
				t.Errorf("head is %d, %s: want %d, replace", head.SnapshotID, head.Summary.Operation, r.SnapshotID)
			}
			// A second execution answers the same and changes nothing.
			location := x.table.Pointer().MetadataLocation
			out, err := x.commit()
			if err != nil || out.SnapshotID != r.SnapshotID || x.table.Pointer().MetadataLocation != location {
				t.Errorf("second execution: %+v, %v", out, err)
			}
		})
	}
}

// TestResultStands: a batch whose result says that it did not land is not committed by an execution that comes after it, although it could be: its files are
// being swept.
func TestResultStands(t *testing.T) {
	t.Parallel()
	for _, outcome := range []maintenance.Outcome{maintenance.Conflict, maintenance.Refused, maintenance.NothingToDo} {
		x := newFixture(t)
		paths := x.small(4)
		x.pin(false, paths[:4])
		x.compact()
		x.put(x.work.Commit(maintenance.RewriteDataFiles, 0), &handoff.CommitResult{V: 1, Outcome: outcome, Reason: "lost every race"})
		location := x.table.Pointer().MetadataLocation
		out, err := x.commit()
		if err != nil || out.Outcome != outcome || x.table.Pointer().MetadataLocation != location {
			t.Errorf("%+v, %v, metadata %s: want the result, %s", out, err, x.table.Pointer().MetadataLocation, outcome)
		}
	}
}

func TestLostGroupCommitsNothingWithoutPartialProgress(t *testing.T) {
	t.Parallel()
	for _, partial := range []bool{false, true} {
		t.Run(fmt.Sprint("partial ", partial), func(t *testing.T) {
			x := newFixture(t)
			paths := x.small(4)
			before := x.rows()
			x.pin(partial, paths[:2], paths[2:])
			x.compactGroup(0, nil)
			out, err := x.commit()
			x.check(err)
			r := x.result()
			if len(r.Dropped) != 1 || r.Columns["failed_data_files_count"] != 2 {
				t.Errorf("dropped %+v, columns %v: want one group of two files", r.Dropped, r.Columns)
			}
			want, files := maintenance.Failed, 4
			if partial {
				want, files = maintenance.Committed, 3
			}
			data, _ := x.live()
			if out.Outcome != want || len(data) != files {
				t.Errorf("outcome %s, %d files: want %s, %d", out.Outcome, len(data), want, files)
			}
			if after := x.rows(); fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("rows changed: %q, %q", before, after)
			}
		})
	}
}

func TestAppendBesideMergesWithTheSameOutputs(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(3)
	x.pin(false, paths)
	x.compact()
	x.table.Commit(icebergtest.Append(numbered(100, 103)...))
	x.mustCommit(x.rows())
	data, _ := x.live()
	if len(data) != 2 {
		t.Errorf("%d live data files: want 2", len(data))
	}
}
