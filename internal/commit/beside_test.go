package commit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
	"firn/internal/maintenance"
)

// other is what somebody else commits while groups {f0, f1} and {f2, f3} are rewritten, and which of them lands then.
type other struct {
	do func(x *rebaseWorld)
	// landing are the groups that land with partial progress; reason is why the first other one does not.
	landing []int
	reason  string
}

func others() map[string]other {
	both := []int{0, 1}
	rewriteOf := func(paths []string, rows ...icebergtest.Row) []icebergtest.Change {
		return []icebergtest.Change{icebergtest.Remove(paths...), icebergtest.Append(rows...), icebergtest.Operation(table.OpReplace)}
	}
	return map[string]other{
		"an append": {func(x *rebaseWorld) { x.commits(icebergtest.Append(numbered(900, 903)...)) }, both, ""},
		"an overwrite of another file": {func(x *rebaseWorld) {
			x.commits(icebergtest.Remove(x.paths[4]), icebergtest.Append(numbered(900, 903)...))
		}, both, ""},
		"another maintainer's rewrite of one group": {
			func(x *rebaseWorld) { x.commits(rewriteOf(x.paths[:2], numbered(0, 6)...)...) },
			[]int{1},
			"no longer live",
		},
		"another maintainer's rewrite across both groups": {
			func(x *rebaseWorld) { x.commits(rewriteOf(x.paths[1:3], numbered(3, 9)...)...) },
			nil, "no longer live",
		},
		"another maintainer's rewrite of other files": {func(x *rebaseWorld) { x.commits(rewriteOf(x.paths[4:], numbered(12, 15)...)...) }, both, ""},
		"a rewrite of the manifests": {func(x *rebaseWorld) {
			run, index, work := x.run, x.index, x.work
			x.planManifestsAs(4)
			if out, err := x.mergeWith(nil, nil); err != nil || out.Outcome != maintenance.Committed {
				x.t.Errorf("the rewrite of manifests: %+v, %v", out, err)
			}
			x.run, x.index, x.work = run, index, work
		}, both, ""},
		"an expiry of all but the head": {func(x *rebaseWorld) {
			x.commits(icebergtest.Append(numbered(900, 903)...))
			var old []int64
			for _, s := range x.table.State().Metadata.Snapshots() {
				if s.SnapshotID != x.head().SnapshotID {
					old = append(old, s.SnapshotID)
				}
			}
			x.table.Update(removeSnapshots(old...))
		}, both, ""},
		"a property": {func(x *rebaseWorld) { x.table.SetProperty("write.parquet.compression-codec", "zstd") }, both, ""},
		"a new spec": {func(x *rebaseWorld) { x.table.Repartition("identity(g)"); x.commits(icebergtest.Append(row(900, "z"))) }, both, ""},
		"a new column with rows": {func(x *rebaseWorld) {
			x.table.Evolve(icebergtest.AddColumn("extra", "int"))
			x.commits(icebergtest.Append(icebergtest.Row{int64(900), "a", nil, int32(7)}))
		}, both, ""},
		"a dropped column":             {func(x *rebaseWorld) { x.table.Evolve(icebergtest.DropColumn("val")) }, both, ""},
		"a tag on the pinned snapshot": {func(x *rebaseWorld) { x.table.Tag("keep", x.pinned.SnapshotID) }, both, ""},
		"a commit to a branch": {func(x *rebaseWorld) {
			x.table.Branch("audit", x.pinned.SnapshotID)
			x.table.CommitTo("audit", icebergtest.Remove(x.paths[0]))
		}, both, ""},
		"a fast-forward to a branch that deleted rows": {func(x *rebaseWorld) {
			x.table.Branch("audit", x.pinned.SnapshotID)
			c := x.table.CommitTo("audit", icebergtest.DeletePositions(x.paths[0], 1))
			x.table.Branch("main", c.Snapshot.SnapshotID)
		}, both, ""},
		"a fast-forward to a branch that removed a file": {func(x *rebaseWorld) {
			x.table.Branch("audit", x.pinned.SnapshotID)
			c := x.table.CommitTo("audit", icebergtest.Remove(x.paths[3]))
			x.table.Branch("main", c.Snapshot.SnapshotID)
		}, []int{0}, "no longer live"},
		"a rollback behind the last append": {func(x *rebaseWorld) {
			x.table.Branch("main", *x.head().ParentSnapshotID)
		}, both, ""},
		"a rollback, and other rows instead": {func(x *rebaseWorld) { // by sequence numbers alone the new file looks older than T0's successor
			x.table.Branch("main", *x.head().ParentSnapshotID)
			x.commits(icebergtest.Append(numbered(900, 903)...), icebergtest.DeletePositions(x.paths[2], 0))
		}, both, ""},
		"an equality delete": {func(x *rebaseWorld) {
			x.commits(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(1)}, icebergtest.Row{int64(10)}))
		}, both, ""},
		"an upsert by equality delete, and a position delete": {func(x *rebaseWorld) {
			x.commits(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(1)}), icebergtest.Append(row(1, "new")))
			x.commits(icebergtest.DeletePositions(x.paths[0], 2))
		}, both, ""},
		"a staged snapshot that nobody published": {func(x *rebaseWorld) {
			x.table.Branch("staged", x.pinned.SnapshotID)
			x.table.CommitTo("staged", icebergtest.Remove(x.paths[1]))
			x.table.Update(func(b *table.MetadataBuilder) error { return b.RemoveSnapshotRef("staged") })
		}, both, ""},
		"a cherry-pick of a staged append": {func(x *rebaseWorld) {
			x.table.Branch("staged", x.pinned.SnapshotID)
			c := x.table.CommitTo("staged", icebergtest.Append(numbered(900, 903)...))
			picked := x.entries(c.Snapshot.SnapshotID)[c.DataFiles[0]].File
			x.commits(icebergtest.AddFile(picked, nil), icebergtest.Operation(table.OpAppend),
				icebergtest.Summary("source-snapshot-id", fmt.Sprint(c.Snapshot.SnapshotID)))
		}, both, ""},
		"a fast-forward back to the pinned head after a rollback": {func(x *rebaseWorld) {
			head := x.head()
			x.table.Branch("main", *head.ParentSnapshotID)
			x.table.Branch("main", head.SnapshotID)
		}, both, ""},
		"a file removed and added again": {func(x *rebaseWorld) {
			again := x.entries(x.pinned.SnapshotID)[x.paths[0]].File
			x.commits(icebergtest.Remove(x.paths[0]))
			x.commits(icebergtest.AddFile(again, nil), icebergtest.Operation(table.OpAppend)) // its sequence number is new: older deletes apply no more
		}, []int{1}, "another file of its name"},
		"the same rewrite by another maintainer, and its rollback": {func(x *rebaseWorld) {
			head := x.head().SnapshotID
			x.commits(rewriteOf(x.paths[:2], numbered(0, 6)...)...)
			x.table.Branch("main", head)
		}, both, ""},
		"an upgrade of the format": {func(x *rebaseWorld) { x.table.Upgrade(3) }, nil, "format version"},
	}
}

// TestBesideOthers: whatever others commit before the first attempt, or between two, costs only the groups that it touches, and the rows are as
// the others left them.
func TestBesideOthers(t *testing.T) {
	t.Parallel()
	for name, c := range others() {
		// What lands whole between two attempts lands whole before the first one, too.
		for _, late := range []bool{false, true}[min(1, len(c.landing)/2):] {
			t.Run(fmt.Sprintf("%s, late %t", name, late), func(t *testing.T) {
				t.Parallel()
				x := besideWorld(t, true)
				var rows []string
				disturb := func() { c.do(x); rows = x.rows() }
				if !late {
					disturb()
				}
				out := x.handle(func(call int) error {
					if late && call == 1 {
						disturb()
					}
					return nil
				})
				r := x.result()
				if !slices.Equal(r.Groups, c.landing) || !slices.Equal(rows, x.rows()) {
					t.Fatalf("%+v: groups %v landed: want %v\nrows before %q\n     after  %q", out, r.Groups, c.landing, rows, x.rows())
				}
				if len(r.Groups)+len(r.Dropped) != 2 || len(r.Dropped) > 0 && !strings.Contains(r.Dropped[0].Reason, c.reason) {
					t.Errorf("dropped %+v: want %q", r.Dropped, c.reason)
				}
				if len(c.landing) == 0 && out.Outcome != maintenance.Conflict {
					t.Errorf("outcome %s: want conflict", out.Outcome)
				}
			})
		}
	}
}

// TestBesideOthersWithoutPartialProgress: one group in conflict keeps all of them from the table.
func TestBesideOthersWithoutPartialProgress(t *testing.T) {
	t.Parallel()
	for name, c := range others() {
		if len(c.landing) == 2 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := besideWorld(t, false)
			c.do(x)
			head, rows := x.head().SnapshotID, x.rows()
			out, err := x.commit()
			if err != nil || out.Outcome != maintenance.Conflict || !strings.Contains(out.Reason, c.reason) || x.head().SnapshotID != head ||
				!slices.Equal(rows, x.rows()) {
				t.Errorf("%+v, %v: want a conflict that changes nothing", out, err)
			}
		})
	}
}

func besideWorld(t *testing.T, partial bool) *rebaseWorld {
	t.Helper()
	x := &rebaseWorld{fixture: newFixture(t)}
	x.atRealTime() // iceberg-go stamps a moved ref with the real time
	x.paths = x.small(5)
	x.pin(partial, x.paths[:2], x.paths[2:4])
	x.compact()
	x.world.Clock.Set(realNow())
	return x
}
