package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// rebaseWorld has files f0, f1, f2 with three rows each and a group of the first two.
type rebaseWorld struct {
	*fixture
	paths []string
}

func newRebase(t *testing.T, version int, before func(x *rebaseWorld)) *rebaseWorld {
	t.Helper()
	x := &rebaseWorld{fixture: newFixture(t, icebergtest.Version(version))}
	x.paths = x.small(3)
	if before != nil {
		before(x)
	}
	return x
}

func (x *rebaseWorld) commits(changes ...icebergtest.Change) { x.table.Commit(changes...) }

func (x *rebaseWorld) plan() {
	x.t.Helper()
	x.pin(true, x.paths[:2])
	x.compact()
}

// describe spells the head's position deletes, one line each: its kind, the number of its positions, what it is scoped to, and whether it has the
// new snapshot's sequence number.
func (x *rebaseWorld) describe() []string {
	x.t.Helper()
	_, live := x.live()
	names := map[string]string{}
	for i, p := range x.paths {
		names[p] = fmt.Sprintf("f%d", i)
	}
	for _, g := range x.index.Groups {
		var group handoff.Group
		x.check(x.work.Read(context.Background(), g, &group))
		var r handoff.GroupResult
		x.check(x.work.Read(context.Background(), x.work.Result(maintenance.RewriteDataFiles, group.Index), &r))
		for i, o := range r.Outputs {
			names[o.Path] = fmt.Sprintf("g%d/%d", group.Index, i)
		}
	}
	var out []string
	for _, d := range live {
		if d.File.ContentType() != iceberg.EntryContentPosDeletes {
			continue
		}
		kind, scope, age := "positions", "partition", "old"
		if lake.IsDeletionVector(d.File) {
			kind = "vector"
		}
		if path, ok := lake.FileScoped(d.File); ok {
			scope = names[path]
		}
		if d.DataSequence == x.head().SequenceNumber {
			age = "new"
		}
		out = append(out, fmt.Sprintf("%s of %d for %s, %s", kind, d.File.Count(), scope, age))
	}
	slices.Sort(out)
	return out
}

// TestRebase: deletes that arrive on replaced files are carried over to the outputs, whatever form they have and whatever operation brings them.
func TestRebase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version int
		rows    int64 // of an output; 0 means one output
		before  func(x *rebaseWorld)
		// arrive are the commits between the rewrite and its commit.
		arrive func(x *rebaseWorld)
		want   []string
		rebase handoff.Rebased
	}{
		"file-scoped": {
			2, 0, nil, func(x *rebaseWorld) { x.commits(icebergtest.DeletePositions(x.paths[0], 0)) },
			[]string{"positions of 1 for g0/0, new"},
			handoff.Rebased{Groups: 1, DeleteFiles: 1, Positions: 1},
		},
		"two outputs": {2, 4, nil, func(x *rebaseWorld) {
			x.commits(icebergtest.DeletePositions(x.paths[0], 0, 2))
			x.commits(icebergtest.DeletePositions(x.paths[1], 0, 2))
		}, []string{"positions of 1 for g0/1, new", "positions of 3 for g0/0, new"}, handoff.Rebased{Groups: 1, DeleteFiles: 2, Positions: 4}},
		"partition-scoped, with another target": {2, 0, nil, func(x *rebaseWorld) {
			x.commits(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: x.paths[0], Pos: 1}, icebergtest.Position{Path: x.paths[2], Pos: 1}))
		}, []string{"positions of 1 for g0/0, new", "positions of 2 for partition, old"}, handoff.Rebased{Groups: 1, DeleteFiles: 1, Positions: 1}},
		"partition-scoped, replaced files only": {2, 0, nil, func(x *rebaseWorld) {
			x.commits(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: x.paths[0], Pos: 1}, icebergtest.Position{Path: x.paths[1], Pos: 2}))
		}, []string{"positions of 2 for g0/0, new"}, handoff.Rebased{Groups: 1, DeleteFiles: 1, Positions: 2}},
		"a row deleted twice": {
			2, 0, func(x *rebaseWorld) { x.commits(icebergtest.DeletePositions(x.paths[0], 1)) },
			func(x *rebaseWorld) { x.commits(icebergtest.DeletePositions(x.paths[0], 1)) }, nil,
			handoff.Rebased{Groups: 1},
		},
		"every row": {2, 0, nil, func(x *rebaseWorld) {
			x.commits(icebergtest.DeletePositions(x.paths[0], 0, 1, 2), icebergtest.DeletePositions(x.paths[1], 0, 1, 2))
		}, []string{"positions of 6 for g0/0, new"}, handoff.Rebased{Groups: 1, DeleteFiles: 1, Positions: 6}},
		"the same deletes, merged by another maintainer": {2, 0, func(x *rebaseWorld) {
			x.commits(icebergtest.DeletePositions(x.paths[0], 0))
			x.commits(icebergtest.DeletePositions(x.paths[0], 1))
		}, func(x *rebaseWorld) {
			x.commits(icebergtest.Remove(x.positionDeletes()...), icebergtest.DeletePositions(x.paths[0], 0, 1), icebergtest.Operation(table.OpReplace))
		}, nil, handoff.Rebased{Groups: 1}},
		"vector": {
			3, 0, nil, func(x *rebaseWorld) { x.commits(icebergtest.DeleteVector(x.paths[0], 0, 2)) },
			[]string{"vector of 2 for g0/0, new"},
			handoff.Rebased{Groups: 1, DeleteFiles: 1, Positions: 2},
		},
		"vector by a replace snapshot": {3, 0, nil, func(x *rebaseWorld) {
			x.commits(icebergtest.DeleteVector(x.paths[0], 0), icebergtest.Operation(table.OpReplace))
		}, []string{"vector of 1 for g0/0, new"}, handoff.Rebased{Groups: 1, DeleteFiles: 1, Positions: 1}},
		"vectors of replaced and other files in one Puffin file": {
			3, 3, nil, func(x *rebaseWorld) {
				x.commits(icebergtest.DeleteVectors(map[string][]int64{x.paths[0]: {0}, x.paths[1]: {1, 2}, x.paths[2]: {0}}))
			},
			[]string{"vector of 1 for f2, old", "vector of 1 for g0/0, new", "vector of 2 for g0/1, new"},
			handoff.Rebased{Groups: 1, DeleteFiles: 2, Positions: 3},
		},
		"grown vector": {3, 0, func(x *rebaseWorld) { x.commits(icebergtest.DeleteVector(x.paths[0], 0)) }, func(x *rebaseWorld) {
			x.commits(icebergtest.DeleteVector(x.paths[0], 1))
			x.commits(icebergtest.DeleteVector(x.paths[0], 2))
		}, []string{"vector of 2 for g0/0, new"}, handoff.Rebased{Groups: 1, DeleteFiles: 1, Positions: 2}},
		"grown vector after an equality delete": {
			3, 0, func(x *rebaseWorld) {
				x.commits(icebergtest.DeleteVector(x.paths[0], 0))
				x.commits(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(1)}))
			}, func(x *rebaseWorld) { x.commits(icebergtest.DeleteVector(x.paths[0], 2)) },
			[]string{"vector of 1 for g0/0, new"},
			handoff.Rebased{Groups: 1, DeleteFiles: 1, Positions: 1},
		},
		"position deletes of before an upgrade become a vector": {2, 0, func(x *rebaseWorld) {
			x.commits(icebergtest.DeletePositions(x.paths[0], 0))
			x.table.Upgrade(3)
			x.commits(icebergtest.Append(row(50, "a"))) // gives the files their row IDs
		}, func(x *rebaseWorld) {
			x.commits(icebergtest.Remove(x.positionDeletes()...), icebergtest.DeleteVector(x.paths[0], 0, 1))
		}, []string{"vector of 1 for g0/0, new"}, handoff.Rebased{Groups: 1, DeleteFiles: 1, Positions: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRebase(t, c.version, c.before)
			x.outputRows = c.rows
			x.plan()
			c.arrive(x)
			r := x.want(maintenance.Committed, "")
			if got := x.describe(); !slices.Equal(got, c.want) {
				t.Errorf("live position deletes %q: want %q", got, c.want)
			}
			if r.Rebased == nil || *r.Rebased != c.rebase {
				t.Errorf("rebased %+v: want %+v", r.Rebased, c.rebase)
			}
			x.recount()
			x.checkManifests()
		})
	}
}

// positionDeletes are the paths of the live position delete files and vectors.
func (x *rebaseWorld) positionDeletes() []string {
	x.t.Helper()
	_, live := x.live()
	var paths []string
	for _, d := range live {
		if d.File.ContentType() == iceberg.EntryContentPosDeletes && !slices.Contains(paths, d.File.FilePath()) {
			paths = append(paths, d.File.FilePath())
		}
	}
	return paths
}

// damage spoils an object.
func (x *rebaseWorld) damage(path string) {
	x.t.Helper()
	x.overwrite(path, func(b []byte) []byte { b[10] ^= 0x55; return b })
}

// TestRebaseConflicts: whatever cannot be translated exactly costs its group, and only it; the rows stay as they are.
func TestRebaseConflicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version int
		before  func(x *rebaseWorld)
		// after changes what the workers left, arrive commits.
		after, arrive func(x *rebaseWorld)
		reason        string
	}{
		"no row map": {
			2, nil, func(x *rebaseWorld) { x.editResult(0, func(r *handoff.GroupResult) { r.RowMap = "" }) },
			func(x *rebaseWorld) { x.table.Commit(icebergtest.DeletePositions(x.paths[0], 0)) }, "left no row map",
		},
		"row map is gone": {
			2, nil, func(x *rebaseWorld) { x.deleteObject(x.work.RowMap(maintenance.RewriteDataFiles, 0, "a")) },
			func(x *rebaseWorld) { x.table.Commit(icebergtest.DeletePositions(x.paths[0], 0)) }, "object not found",
		},
		"row map with a gap": {2, nil, func(x *rebaseWorld) {
			x.editRowMap(0, func(m *handoff.RowMap) { m.Sources[1].Ranges = m.Sources[1].Ranges[1:] })
		}, func(x *rebaseWorld) { x.table.Commit(icebergtest.DeletePositions(x.paths[0], 0)) }, "come from no source"},
		"row map of another group": {2, nil, func(x *rebaseWorld) {
			x.editRowMap(0, func(m *handoff.RowMap) { m.Sources[1].Path = x.paths[2] })
		}, func(x *rebaseWorld) { x.table.Commit(icebergtest.DeletePositions(x.paths[0], 0)) }, "it lacks source"},
		"two rows in one place": {2, nil, func(x *rebaseWorld) {
			x.editRowMap(0, func(m *handoff.RowMap) { m.Sources[1].Ranges[0].Offset = 0 })
		}, func(x *rebaseWorld) { x.table.Commit(icebergtest.DeletePositions(x.paths[0], 0)) }, "or from two"},
		"damaged vector": {3, nil, nil, func(x *rebaseWorld) {
			x.table.Commit(icebergtest.DeleteVector(x.paths[0], 0))
			x.damage(x.positionDeletes()[0])
		}, "cannot be read"},
		"vector shrank": {3, func(x *rebaseWorld) { x.table.Commit(icebergtest.DeleteVector(x.paths[0], 0, 1)) }, nil, func(x *rebaseWorld) {
			x.table.Commit(icebergtest.Remove(x.positionDeletes()...), icebergtest.DeleteVectorBeside(x.paths[0], 1))
		}, "1 rows of"},
		"vector left": {
			3, func(x *rebaseWorld) { x.table.Commit(icebergtest.DeleteVector(x.paths[0], 0, 1)) }, nil,
			func(x *rebaseWorld) { x.table.Commit(icebergtest.Remove(x.positionDeletes()...)) }, "2 rows of",
		},
		"vector shrank beside an equality delete": {3, func(x *rebaseWorld) {
			x.table.Commit(icebergtest.DeleteVector(x.paths[0], 0))
			x.table.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(1)}))
		}, nil, func(x *rebaseWorld) {
			x.table.Commit(icebergtest.Remove(x.positionDeletes()...), icebergtest.DeleteVectorBeside(x.paths[0], 2))
		}, "rows that it removed are back"},
		"equality delete left": {2, func(x *rebaseWorld) {
			x.table.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(1)}))
		}, nil, func(x *rebaseWorld) {
			_, live := x.live()
			x.table.Commit(icebergtest.Remove(live[0].File.FilePath()))
		}, "are not any more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRebase(t, c.version, func(x *rebaseWorld) {
				x.paths = append(x.paths, x.table.Commit(icebergtest.Append(numbered(100, 103)...)).DataFiles...)
				if c.before != nil {
					c.before(x)
				}
			})
			x.pin(true, x.paths[:2], x.paths[2:])
			x.compact()
			if c.after != nil {
				c.after(x)
			}
			c.arrive(x)
			var out maintenance.CommitOutput
			var err error
			if name == "damaged vector" { // nobody can read the table
				out, err = x.commit()
				x.check(err)
			} else {
				x.want(maintenance.Committed, "")
				out.Outcome = maintenance.Committed
			}
			r := x.result()
			if out.Outcome != maintenance.Committed || len(r.Groups) != 1 || r.Groups[0] != 1 || len(r.Dropped) != 1 ||
				r.Dropped[0].Outcome != maintenance.Conflict || !strings.Contains(r.Dropped[0].Reason, c.reason) {
				t.Errorf("outcome %s, groups %v, dropped %+v: want group 0 in conflict with %q", out.Outcome, r.Groups, r.Dropped, c.reason)
			}
		})
	}
}

// editResult writes a group's result anew.
func (x *rebaseWorld) editResult(group int, edit func(r *handoff.GroupResult)) {
	x.t.Helper()
	var r handoff.GroupResult
	at := x.work.Result(maintenance.RewriteDataFiles, group)
	x.check(x.work.Read(context.Background(), at, &r))
	edit(&r)
	x.check(x.world.Store.Put(context.Background(), at, x.json(&r), writeOver))
}

func (x *rebaseWorld) editRowMap(group int, edit func(m *handoff.RowMap)) {
	x.t.Helper()
	var m handoff.RowMap
	at := x.work.RowMap(maintenance.RewriteDataFiles, group, "a")
	x.check(x.work.Read(context.Background(), at, &m))
	edit(&m)
	x.check(x.world.Store.Put(context.Background(), at, x.json(&m), writeOver))
}

// hooked runs before each call of the catalog.
type hooked struct {
	committer.Committer
	before func(call int) error
	calls  int
}

func (h *hooked) Commit(ctx context.Context, head *lake.Table, c committer.Change) (committer.Result, error) {
	h.calls++
	if err := h.before(h.calls); err != nil {
		return committer.Result{}, err
	}
	return h.Committer.Commit(ctx, head, c)
}

// handle runs a commit with a hook before the catalog's calls.
func (x *rebaseWorld) handle(before func(call int) error) maintenance.CommitOutput {
	x.t.Helper()
	c, err := committer.New(x.world.Catalog, x.world.Store, committer.Options{Now: x.world.Clock.Now})
	x.check(err)
	out, err := x.function(nil, &hooked{Committer: c, before: before}).Handle(context.Background(), x.input())
	x.check(err)
	return out
}

// TestRebaseIsAnew: each attempt translates from T0. What an attempt wrote for a head that moved is left for sweep, and is not merged into the next.
func TestRebaseIsAnew(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		x := newRebase(t, version, nil)
		x.plan()
		del := func(pos int64) {
			if version == 3 {
				x.table.Commit(icebergtest.DeleteVector(x.paths[0], pos))
			} else {
				x.table.Commit(icebergtest.DeletePositions(x.paths[0], pos))
			}
		}
		del(0)
		var before []string
		out := x.handle(func(call int) error {
			if call < 3 {
				del(int64(call))
				before = x.rows()
			}
			return nil
		})
		if out.Outcome != maintenance.Committed || !slices.Equal(before, x.rows()) || len(before) != 6 {
			t.Fatalf("v%d: %+v, rows %q: want %q", version, out, x.rows(), before)
		}
		r := x.result()
		want := []string{"positions of 3 for g0/0, new"}
		if version == 3 {
			want = []string{"vector of 3 for g0/0, new"}
		}
		if got := x.describe(); !slices.Equal(got, want) || r.Rebased.Positions != 3 {
			t.Errorf("v%d: live %q, %+v: want %q", version, got, r.Rebased, want)
		}
		var lost, live int
		for _, location := range x.metadataOf(x.run.RunID) {
			switch {
			case !strings.Contains(location, "-deletes."):
			case slices.Contains(r.Unneeded, location):
				lost++
			default:
				live++
			}
		}
		if lost != 2 || live != 1 {
			t.Errorf("v%d: %d delete files are left to sweep, %d are not: want 2 and 1", version, lost, live)
		}
	}
}

// TestRebaseSentAgain: an attempt whose answer was lost, and did not land, is sent again as it was: with the same delete files.
func TestRebaseSentAgain(t *testing.T) {
	t.Parallel()
	x := newRebase(t, 3, nil)
	x.plan()
	x.table.Commit(icebergtest.DeleteVector(x.paths[1], 1))
	before := x.rows()
	out := x.handle(func(call int) error {
		if call == 1 {
			return errors.New("connection reset")
		}
		return nil
	})
	if out.Outcome != maintenance.Committed || !slices.Equal(before, x.rows()) {
		t.Fatalf("%+v, rows %q: want %q", out, x.rows(), before)
	}
	n := 0
	for _, location := range x.metadataOf(x.run.RunID) {
		if strings.HasSuffix(location, ".puffin") {
			n++
		}
	}
	if got := x.describe(); n != 1 || !slices.Equal(got, []string{"vector of 1 for g0/0, new"}) {
		t.Errorf("%d Puffin files, live %q", n, got)
	}
}

// TestRebaseFailsWhileWriting: a delete file that cannot be written leaves nothing behind that is not listed, and the next execution lands.
func TestRebaseFailsWhileWriting(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		x := newRebase(t, version, nil)
		x.plan()
		if version == 3 {
			x.table.Commit(icebergtest.DeleteVector(x.paths[1], 1))
		} else {
			x.table.Commit(icebergtest.DeletePositions(x.paths[1], 1))
		}
		st := store.NewFaults(x.world.Store)
		st.Add(store.Rule{Operation: store.OpPut, Contains: "-deletes.", Times: 1, Err: errors.New("no space left on device")})
		f := x.function(st, nil)
		if _, err := f.Handle(context.Background(), x.input()); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Fatalf("v%d: error %v", version, err)
		}
		x.want(maintenance.Committed, "")
	}
}

// TestRebaseIntoAnotherSpec: the delete set has the spec and partition of the output, not those of the source.
func TestRebaseIntoAnotherSpec(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		x := newRebase(t, version, func(x *rebaseWorld) { x.table.Repartition("identity(g)") })
		x.pin(true, x.paths[:2])
		spec := x.table.State().Metadata.PartitionSpec()
		field := spec.Field(0).FieldID
		x.compactGroupInto(0, map[int]any{field: "a"})
		if version == 3 {
			x.table.Commit(icebergtest.DeleteVector(x.paths[1], 1))
		} else {
			x.table.Commit(icebergtest.DeletePositions(x.paths[1], 1))
		}
		x.want(maintenance.Committed, "")
		_, live := x.live()
		if len(live) != 1 || live[0].SpecID != x.table.State().Metadata.DefaultPartitionSpec() || live[0].File.Partition()[field] != "a" {
			t.Errorf("v%d: delete files %v: want one in partition a of the new spec", version, live)
		}
	}
}

// TestRebaseAfterExpiry: T0 may have expired when deletes arrive, as long as those of T0 stand.
func TestRebaseAfterExpiry(t *testing.T) {
	t.Parallel()
	x := newRebase(t, 2, func(x *rebaseWorld) { x.table.Commit(icebergtest.DeletePositions(x.paths[0], 0)) })
	x.plan()
	x.table.Commit(icebergtest.DeletePositions(x.paths[0], 1))
	x.table.Update(removeSnapshots(x.pinned.SnapshotID))
	x.want(maintenance.Committed, "")
	if got := x.describe(); !slices.Equal(got, []string{"positions of 1 for g0/0, new"}) {
		t.Errorf("live %q", got)
	}
}

// TestRebaseIsFast: 10,000 deletes over 100 outputs are carried over in less than a second.
func TestRebaseIsFast(t *testing.T) {
	x := &rebaseWorld{fixture: newFixture(t, icebergtest.Version(3))}
	const rows, outputs = 20_000, 100
	x.paths = x.table.Commit(icebergtest.Append(numbered(0, rows)...)).DataFiles
	x.outputRows = rows / outputs
	x.pin(false, x.paths)
	x.compact()
	var positions []int64
	for i := int64(0); i < rows; i += 2 {
		positions = append(positions, i)
	}
	x.table.Commit(icebergtest.DeleteVector(x.paths[0], positions...))
	started := time.Now()
	out, err := x.commit()
	took := time.Since(started)
	x.check(err)
	if r := x.result(); out.Outcome != maintenance.Committed || r.Rebased.Positions != rows/2 || r.Rebased.DeleteFiles != outputs {
		t.Fatalf("%+v, %+v", out, r.Rebased)
	}
	if got := len(x.rows()); got != rows/2 {
		t.Errorf("%d rows: want %d", got, rows/2)
	}
	t.Logf("%v", took)
	if took > 10*time.Second { // a second on a quiet machine
		t.Errorf("the commit took %v", took)
	}
}
