package local_test

import (
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/google/go-cmp/cmp"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/store"
)

const rewriteEqualityDeletes = maintenance.RewriteEqualityDeleteFiles

// deleteKinds counts live delete files by kind.
func deleteKinds(entries []lake.Entry) (equality, positions, vectors int) {
	for _, e := range entries {
		switch {
		case e.File.ContentType() == iceberg.EntryContentEqDeletes:
			equality++
		case lake.IsDeletionVector(e.File):
			vectors++
		default:
			positions++
		}
	}
	return equality, positions, vectors
}

// TestEqualityDeletesOfReferenceTables turns the equality deletes of every table that has some into position deletes: no data file is written, no row
// changes, none is left, and a second call finds nothing.
func TestEqualityDeletesOfReferenceTables(t *testing.T) {
	t.Parallel()
	for _, name := range icebergtest.ReferenceNames(t) {
		if icebergtest.Reference(t, name).Expected.Counts["equality_delete_files"] == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref := icebergtest.Reference(t, name)
			before, deletes := liveEntries(t, ref.Store, ref.Table(t))
			had, _, _ := deleteKinds(deletes)
			r := host(t, ref.Catalog, ref.Store, ref.Clock.Now)
			job := call(t, r, ref.ID, maintenance.JobRequest{Job: rewriteEqualityDeletes})
			if job.Outcome != maintenance.Committed || job.Columns["rewritten_delete_files_count"] < int64(had) {
				t.Fatalf("%d equality delete files: %+v", had, job)
			}
			after, deletes := liveEntries(t, ref.Store, ref.Table(t))
			equality, positions, vectors := deleteKinds(deletes)
			if equality != 0 || len(after) != len(before) {
				t.Errorf("%d equality delete files are left, %d of %d data files", equality, len(after), len(before))
			}
			t.Logf("%d equality delete files, then %d position delete files and %d vectors", had, positions, vectors)
			soundDeletes(t, ref.Store, ref.Table(t))
			content, err := icebergtest.ReadRows(t.Context(), ref.Store, ref.Table(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range content.Check(ref.Expected.Rows.RowCount, ref.Expected.Columns) {
				t.Error(fault)
			}
			if again := call(t, r, ref.ID, maintenance.JobRequest{Job: rewriteEqualityDeletes}); again.Outcome != maintenance.NothingToDo {
				t.Errorf("again: %+v", again)
			}
		})
	}
}

// scene is a table with equality deletes of two partitions, a global one, and on version 3 a vector.
type equalityScene struct {
	tbl   *icebergtest.Table
	files []string
	// sequence is the last sequence number before the global delete.
	sequence int64
}

func newEqualityScene(t *testing.T, w *icebergtest.World, version int) equalityScene {
	t.Helper()
	s := equalityScene{tbl: w.NewTable("db.t")}
	s.files = append(s.files, s.tbl.Commit(icebergtest.Append(rows(0, 10)...)).DataFiles...)
	s.tbl.Repartition("g")
	s.files = append(s.files, s.tbl.Commit(icebergtest.Append(rows(10, 20)...)).DataFiles...)
	s.tbl.Commit(icebergtest.DeletePositions(s.files[1], 0))
	if version == 3 {
		s.tbl.Upgrade(3)
		s.tbl.Commit(icebergtest.DeleteVector(s.files[0], 5))
	}
	s.sequence = s.tbl.State().Metadata.LastSequenceNumber()
	s.tbl.Commit(icebergtest.DeleteEqualGlobally([]string{"id"}, icebergtest.Row{int64(1)}, icebergtest.Row{int64(12)}, icebergtest.Row{int64(13)}))
	s.tbl.Commit(icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{int64(14), "g0"}, icebergtest.Row{int64(15), "g1"}, icebergtest.Row{int64(2), "g0"}))
	s.tbl.Commit(icebergtest.Append(icebergtest.Row{int64(12), "g0", 0.5}))
	return s
}

// TestEqualityDeletesBesideWriters: rows that other writers delete or write while equality deletes are turned into positions are as they left them.
func TestEqualityDeletesBesideWriters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		change  func(s equalityScene)
		outcome map[int]maintenance.Outcome
		reason  string
		// equality is how many equality delete files are left.
		equality map[int]int
	}{
		{"nothing happens", func(equalityScene) {}, map[int]maintenance.Outcome{2: maintenance.Committed, 3: maintenance.Committed}, "", map[int]int{}},
		{
			"rows are appended", func(s equalityScene) { s.tbl.Commit(icebergtest.Append(icebergtest.Row{int64(1), "g1", 1.0})) },
			map[int]maintenance.Outcome{2: maintenance.Committed, 3: maintenance.Committed},
			"",
			map[int]int{},
		},
		{
			"another equality delete arrives", func(s equalityScene) {
				s.tbl.Commit(icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{int64(16), "g0"}))
			},
			map[int]maintenance.Outcome{2: maintenance.Committed, 3: maintenance.Committed},
			"",
			map[int]int{2: 1, 3: 1},
		},
		{
			"a data file is removed", func(s equalityScene) { s.tbl.Commit(icebergtest.Remove(s.files[1])) },
			map[int]maintenance.Outcome{2: maintenance.Committed, 3: maintenance.Committed},
			"",
			map[int]int{},
		},
		{
			// A rewrite that started before the global delete: its output, of an older sequence number, still needs it.
			"a rewrite lands with an older sequence number", func(s equalityScene) {
				s.tbl.Commit(icebergtest.Remove(s.files[0]), icebergtest.AppendAt(&s.sequence, icebergtest.Row{int64(1), "g1", 1.0}, icebergtest.Row{int64(2), "g0", 1.0}))
			},
			// The delete of partition g1 matches nothing of it, and goes.
			map[int]maintenance.Outcome{2: maintenance.Committed, 3: maintenance.Committed},
			"",
			map[int]int{2: 2, 3: 2},
		},
		{
			"a rewrite lands that needs all of them", func(s equalityScene) {
				s.tbl.Commit(icebergtest.Remove(s.files[0]), icebergtest.AppendAt(&s.sequence, rows(0, 20)...))
			},
			map[int]maintenance.Outcome{2: maintenance.Conflict, 3: maintenance.Conflict},
			"need every equality delete",
			map[int]int{2: 3, 3: 3},
		},
		{
			"a vector or position delete arrives", func(s equalityScene) {
				if s.tbl.State().Metadata.Version() == 3 {
					s.tbl.Commit(icebergtest.DeleteVector(s.files[0], 7))
				} else {
					s.tbl.Commit(icebergtest.DeletePositions(s.files[0], 7))
				}
			},
			map[int]maintenance.Outcome{2: maintenance.Committed, 3: maintenance.Committed},
			"",
			map[int]int{3: 1},
		},
	} {
		for _, version := range []int{2, 3} {
			t.Run(c.name+"/"+string(rune('0'+version)), func(t *testing.T) {
				t.Parallel()
				w := icebergtest.NewWorld(t)
				s := newEqualityScene(t, w, version)
				memory := w.Store.(*store.Memory)
				r := host(t, w.Catalog, memory, w.Clock.Now)
				var want icebergtest.Content
				meanwhile(r, func() {
					c.change(s)
					want = s.tbl.Rows()
				})
				job := call(t, r, s.tbl.ID, maintenance.JobRequest{Job: rewriteEqualityDeletes})
				if job.Outcome != c.outcome[version] || !strings.Contains(job.Reason, c.reason) {
					t.Errorf("%+v", job)
				}
				if diff := cmp.Diff(want, s.tbl.Rows()); diff != "" {
					t.Errorf("rows changed:\n%s", diff)
				}
				_, deletes := liveEntries(t, memory, s.tbl.State())
				if equality, _, _ := deleteKinds(deletes); equality != c.equality[version] {
					t.Errorf("%d equality delete files are left, want %d: %v", equality, c.equality[version], deletes)
				}
				if job.Outcome == maintenance.Committed {
					soundDeletes(t, memory, s.tbl.State())
				}
				again := call(t, host(t, w.Catalog, memory, w.Clock.Now), s.tbl.ID, maintenance.JobRequest{Job: rewriteEqualityDeletes})
				if again.Outcome != maintenance.Committed && again.Outcome != maintenance.NothingToDo {
					t.Errorf("again: %+v", again)
				}
				if diff := cmp.Diff(want, s.tbl.Rows()); diff != "" {
					t.Errorf("rows changed in the next call:\n%s", diff)
				}
			})
		}
	}
}
