package commit

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
)

// want commits the batch and checks the outcome; rows must be what they are right before the commit.
func (x *fixture) want(outcome maintenance.Outcome, reason string) handoff.CommitResult {
	x.t.Helper()
	before := x.rows()
	out, err := x.commit()
	if err != nil || out.Outcome != outcome || !strings.Contains(out.Reason, reason) {
		x.t.Fatalf("%+v, %v: want %s with %q", out, err, outcome, reason)
	}
	if after := x.rows(); !slices.Equal(before, after) {
		x.t.Fatalf("rows changed:\n before %q\n after  %q", before, after)
	}
	return x.result()
}

func row(id int64, g string) icebergtest.Row { return icebergtest.Row{id, g, nil} }

func (x *fixture) eqCount() int {
	_, deletes := x.live()
	n := 0
	for _, d := range deletes {
		if d.File.ContentType() == iceberg.EntryContentEqDeletes {
			n++
		}
	}
	return n
}

// An equality delete that is committed while the rewrite runs still hits the merged file, since that carries the pinned sequence number.
func TestEqualityDeleteBesideRewrite(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		x := newFixture(t, icebergtest.Version(version))
		first := x.table.Commit(icebergtest.Append(row(1, "a"), row(2, "a"), row(3, "a")))
		x.pin(false, first.DataFiles)
		x.compact()
		x.table.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(2)}))
		x.table.Commit(icebergtest.Append(row(4, "a")))
		x.want(maintenance.Committed, "")
		if len(x.rows()) != 3 || x.eqCount() != 1 {
			t.Errorf("v%d: rows %q, %d equality deletes: want ids 1, 3, 4 and the delete live", version, x.rows(), x.eqCount())
		}
		data, _ := x.live()
		for _, e := range data {
			if e.File.FilePath() != first.DataFiles[0] && e.DataSequence == 1 && e.FileSequence != x.head().SequenceNumber {
				t.Errorf("output has file sequence number %d: want the new snapshot's, %d", e.FileSequence, x.head().SequenceNumber)
			}
		}
	}
}

// Without the starting sequence number it would not, so that the group is a conflict.
func TestEqualityDeleteBesideRewriteThatInherits(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	first := x.table.Commit(icebergtest.Append(row(1, "a"), row(2, "a")))
	x.pin(false, first.DataFiles)
	x.index.Request.Options = map[string]string{"use-starting-sequence-number": "false"}
	x.replan()
	x.compact()
	x.setSequence(0, 0)
	x.table.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(2)}))
	x.want(maintenance.Conflict, "would not apply")
}

func (x *fixture) setSequence(group int, sequence int64) {
	x.t.Helper()
	x.groups[group].DataSequence = sequence
	data := x.json(&x.groups[group])
	x.check(x.world.Store.Put(context.Background(), x.index.Groups[group], data, writeOver))
}

func TestInheritedSequenceNumber(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(3)
	x.pin(false, paths)
	x.index.Request.Options = map[string]string{"use-starting-sequence-number": "false"}
	x.replan()
	x.compact()
	x.setSequence(0, 0)
	x.want(maintenance.Committed, "")
	data, _ := x.live()
	if len(data) != 1 || data[0].DataSequence != x.head().SequenceNumber {
		t.Errorf("data sequence number %d: want the new snapshot's, %d", data[0].DataSequence, x.head().SequenceNumber)
	}
}

// A partition-scoped position delete that points elsewhere is no conflict: its paths are read.
func TestPositionDeleteForAnotherFile(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(3)
	x.pin(false, paths[:2])
	x.compact()
	x.table.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: paths[2], Pos: 1}))
	x.want(maintenance.Committed, "")
	if _, deletes := x.live(); len(deletes) != 1 {
		t.Errorf("%d delete files are live: want the other file's", len(deletes))
	}
}

func TestReplacedFileIsGone(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(4)
	x.pin(true, paths[:2], paths[2:])
	x.compact()
	x.table.Commit(icebergtest.Remove(paths[0]))
	r := x.want(maintenance.Committed, "")
	if len(r.Groups) != 1 || r.Groups[0] != 1 || len(r.Dropped) != 1 || !strings.Contains(r.Dropped[0].Reason, "no longer live") {
		t.Errorf("groups %v, dropped %+v: want group 1 to land and group 0 in conflict", r.Groups, r.Dropped)
	}
}

// A rollback behind T0 brings back a state in which an applied delete does not exist.
func TestRollback(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		x := newFixture(t)
		x.world.Clock.Set(time.Now().Add(-time.Hour)) // iceberg-go stamps a rollback with the real time
		paths := x.small(2)
		back := x.head().SnapshotID
		if deleted {
			x.table.Commit(icebergtest.DeletePositions(paths[0], 0))
		} else {
			x.table.Commit(icebergtest.Append(row(100, "a")))
		}
		x.pin(false, paths)
		x.compact()
		x.world.Clock.Set(time.Now())
		x.table.Branch("main", back)
		if deleted {
			x.want(maintenance.Conflict, "no known ancestor")
		} else {
			x.want(maintenance.Committed, "")
		}
	}
}

// T0 may expire while the rewrite runs.
func TestExpiredPin(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(3)
	x.table.Commit(icebergtest.DeletePositions(paths[0], 0))
	x.pin(false, paths)
	x.compact()
	x.table.Commit(icebergtest.Append(row(100, "a")))
	x.table.Update(removeSnapshots(x.pinned.SnapshotID))
	x.want(maintenance.Committed, "")
}

func TestSchemaBetween(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(2)
	old := x.table.State().Metadata.CurrentSchema().ID
	x.table.Evolve(icebergtest.DropColumn("val"))
	x.pin(false, paths)
	x.compact()
	x.table.Evolve(icebergtest.AddColumn("extra", "int"))
	x.table.Update(func(b *table.MetadataBuilder) error { return b.SetCurrentSchemaID(old) })
	x.want(maintenance.Conflict, "column 3 came back")
}

func TestHarmlessEvolution(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Columns("id int", "g string"))
	first := x.table.Commit(icebergtest.Append(icebergtest.Row{1, "a"}, icebergtest.Row{2, "a"}))
	x.pin(false, first.DataFiles)
	x.compact()
	x.table.Evolve(icebergtest.AddColumn("extra", "int"), icebergtest.PromoteColumn("id", "long"), icebergtest.RenameColumn("g", "h"))
	x.want(maintenance.Committed, "")
}

func TestUpgradeBetween(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(2)
	x.pin(false, paths)
	x.compact()
	x.table.Upgrade(3)
	x.want(maintenance.Conflict, "format version")
}

func TestTableIsGone(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(2)
	x.pin(false, paths)
	x.compact()
	x.run.Table.Name = "dropped"
	out, err := x.commit()
	if err != nil || out.Outcome != maintenance.Refused || !strings.Contains(out.Reason, "no such table") {
		t.Errorf("%+v, %v: want refused", out, err)
	}
}

// The same path live twice is a fault of the table: the group is refused and never silently de-duplicated.
func TestFileListedTwice(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	first := x.table.Commit(icebergtest.Append(row(1, "a")))
	e := x.entries(x.head().SnapshotID)[first.DataFiles[0]]
	x.pin(false, first.DataFiles)
	x.compact()
	x.table.Commit(icebergtest.AddFile(e.File, nil))
	x.want(maintenance.Refused, "live 2 times")
}

func TestTwoVectorsForOneFile(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Version(3))
	first := x.table.Commit(icebergtest.Append(row(1, "a"), row(2, "a"), row(3, "a")))
	x.table.Commit(icebergtest.DeleteVector(first.DataFiles[0], 0))
	x.pin(false, first.DataFiles)
	x.compact()
	x.table.Commit(icebergtest.DeleteVectorBeside(first.DataFiles[0], 1))
	out, err := x.commit()
	if err != nil || out.Outcome != maintenance.Refused || !strings.Contains(out.Reason, "2 live deletion vectors") {
		t.Errorf("%+v, %v: want refused", out, err)
	}
}

func TestBadResults(t *testing.T) {
	t.Parallel()
	for reason, edit := range map[string]func(x *fixture, r *handoff.GroupResult){
		"pinned state lacks": func(_ *fixture, r *handoff.GroupResult) { r.Outputs[0].SpecID = 7 },
		"rows were read":     func(_ *fixture, r *handoff.GroupResult) { r.Proof.RowsIn++ },
		"rows were written":  func(_ *fixture, r *handoff.GroupResult) { r.Proof.RowsOut-- },
		"without a delete": func(_ *fixture, r *handoff.GroupResult) {
			r.Outputs, r.Proof.RowsOut, r.Proof.RowsDeleted = nil, 0, r.Proof.RowsIn
		},
		"column 2 changed": func(_ *fixture, r *handoff.GroupResult) {
			r.Proof.Columns = []handoff.ColumnProof{{FieldID: 2, HashIn: "a", HashOut: "b"}}
		},
		"named twice": func(_ *fixture, r *handoff.GroupResult) {
			r.Outputs = append(r.Outputs, r.Outputs[0])
			r.Proof.RowsOut *= 2
		},
		"is not there": func(x *fixture, r *handoff.GroupResult) { x.deleteObject(r.Outputs[0].Path) },
		"bytes, its entry": func(x *fixture, r *handoff.GroupResult) {
			x.overwrite(r.Outputs[0].Path, func(b []byte) []byte { return b[1:] })
		},
		"no readable Parquet": func(x *fixture, r *handoff.GroupResult) {
			x.overwrite(r.Outputs[0].Path, func(b []byte) []byte { b[len(b)-1] = 'X'; return b })
		},
		"corrupt page": func(_ *fixture, r *handoff.GroupResult) { r.Outcome, r.Reason = maintenance.Refused, "corrupt page" },
	} {
		t.Run(reason, func(t *testing.T) {
			x := newFixture(t)
			paths := x.small(2)
			x.pin(false, paths)
			x.compactGroup(0, func(r *handoff.GroupResult) { edit(x, r) })
			x.want(maintenance.Refused, reason)
		})
	}
}

func (x *fixture) deleteObject(location string) {
	_, _, err := x.world.Store.Delete(context.Background(), []string{location})
	x.check(err)
}

func (x *fixture) overwrite(location string, edit func([]byte) []byte) {
	data, err := x.world.Store.Get(context.Background(), location)
	x.check(err)
	x.check(x.world.Store.Put(context.Background(), location, edit(slices.Clone(data)), writeOver))
}

// A branch keeps its retention, and a commit to another branch is no race lost for good.
func TestBranchRetentionAndOtherBranch(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	x.world.Clock.Set(time.Now().Add(-time.Hour)) // iceberg-go stamps a moved ref with the real time
	paths := x.small(3)
	x.world.Clock.Set(time.Now())
	x.table.Branch("x", x.head().SnapshotID)
	x.table.Update(func(b *table.MetadataBuilder) error {
		return b.SetSnapshotRef("main", x.head().SnapshotID, table.BranchRef, table.WithMinSnapshotsToKeep(7), table.WithMaxSnapshotAgeMs(1000))
	})
	x.pin(false, paths)
	x.compact()
	x.table.CommitTo("x", icebergtest.Append(row(1000, "x")))
	x.want(maintenance.Committed, "")
	for name, ref := range x.table.State().Metadata.Refs() {
		if name == "main" && (ref.MinSnapshotsToKeep == nil || *ref.MinSnapshotsToKeep != 7 || ref.MaxSnapshotAgeMs == nil) {
			t.Errorf("main lost its retention: %+v", ref)
		}
	}
	if fmt.Sprint(x.head().SequenceNumber) != fmt.Sprint(x.table.State().Metadata.LastSequenceNumber()) {
		t.Error("the snapshot has not the last sequence number")
	}
}

// The same path with the same sequence number may be another file after all: it was removed and added again, and its rows have other IDs.
func TestFileAddedAgain(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Version(3))
	first := x.table.Commit(icebergtest.Append(row(1, "a"), row(2, "a")))
	f := x.writeFile(x.table.State(), 0, x.read(x.table.State()), nil, "again.parquet")
	added := x.table.Commit(icebergtest.Remove(first.DataFiles...), icebergtest.AddFile(f, nil))
	x.pin(false, added.DataFiles)
	x.compact()
	sequence := x.head().SequenceNumber
	x.table.Commit(icebergtest.Remove(f.FilePath()))
	x.table.Commit(icebergtest.AddFile(f, &sequence))
	x.want(maintenance.Conflict, "another file of its name")
}

// A clock behind the head's does not make time run backwards.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(3)
	x.pin(false, paths)
	x.compact()
	parent := x.head()
	x.world.Clock.Set(x.world.Clock.Now().Add(-time.Hour))
	x.want(maintenance.Committed, "")
	if got := x.head().TimestampMs; got <= parent.TimestampMs {
		t.Errorf("timestamp %d: want one after the parent's, %d", got, parent.TimestampMs)
	}
}
