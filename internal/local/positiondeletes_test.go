package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/google/go-cmp/cmp"

	"firn/internal/contract"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/local"
	"firn/internal/maintenance"
	"firn/internal/sparksql"
	"firn/internal/store"
)

const rewritePositionDeletes = maintenance.RewritePositionDeleteFiles

// liveEntries reads the live entries of the table's head, data files and delete files apart.
func liveEntries(t *testing.T, st store.Reader, table *lake.Table) (data, deletes []lake.Entry) {
	t.Helper()
	ctx := context.Background()
	manifests, err := lake.Manifests(ctx, st, table.Metadata.CurrentSnapshot())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		for e, err := range lake.Entries(ctx, st, m, lake.EntryOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.File.ContentType() == iceberg.EntryContentData {
				data = append(data, e)
			} else {
				deletes = append(deletes, e)
			}
		}
	}
	return data, deletes
}

// soundDeletes checks what holds after every commit of ours: at most one vector a data file, and no vector beside position deletes that it does
// not hide.
func soundDeletes(t *testing.T, st store.Reader, table *lake.Table) {
	t.Helper()
	data, deletes := liveEntries(t, st, table)
	live := map[string]bool{}
	for _, d := range data {
		live[lake.SameFile(d.File.FilePath())] = true
	}
	vectors := map[string]int{}
	for _, d := range deletes {
		path, scoped := lake.FileScoped(d.File)
		if scoped && !live[lake.SameFile(path)] {
			t.Errorf("%s names %s, which is not live", d, path)
		}
		if lake.IsDeletionVector(d.File) {
			vectors[path]++
		}
	}
	for path, n := range vectors {
		if n > 1 {
			t.Errorf("%s has %d vectors", path, n)
		}
	}
}

// call runs one job.
func call(t *testing.T, r *local.Runner, id maintenance.TableID, request maintenance.JobRequest) maintenance.JobOutcome {
	t.Helper()
	report, err := r.Run(context.Background(), id, maintenance.Request{Jobs: []maintenance.JobRequest{request}, Trigger: "call"})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Jobs) != 1 {
		t.Fatalf("report %+v", report)
	}
	return report.Jobs[0]
}

// addedLine describes a new delete file so that Spark's and ours can be compared: everything but names, sizes and where a vector's blob is.
func addedLine(kind string, sequence int64, spec int, records int64, target string) string {
	return fmt.Sprintf("%s@%d spec %d, %d positions, for %q", kind, sequence, spec, records, target)
}

// TestPositionDeletesAsSpark replays every rewrite_position_delete_files of the reference: the new snapshot removes and adds what Spark's did, with the
// same sequence numbers and totals, and no row changes.
func TestPositionDeletesAsSpark(t *testing.T) {
	t.Parallel()
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		for _, kase := range ref.OracleNames() {
			step := ref.Oracle(t, kase).Steps[0]
			if step.Procedure != string(rewritePositionDeletes) {
				continue
			}
			t.Run(name+"/"+kase, func(t *testing.T) {
				t.Parallel()
				replay(t, icebergtest.Reference(t, name), step)
			})
		}
	}
}

func replay(t *testing.T, ref *icebergtest.Ref, step icebergtest.OracleStep) {
	t.Helper()
	statements, err := sparksql.Parse(step.Call)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := statements[0].(*sparksql.Call).Bind()
	if err != nil {
		t.Fatal(err)
	}
	_, before := liveEntries(t, ref.Store, ref.Table(t))
	job := call(t, host(t, ref.Catalog, ref.Store, ref.Clock.Now), ref.ID, bound.Request)
	for column, want := range step.Result[0] {
		if column != "added_bytes_count" && fmt.Sprint(job.Columns[column]) != string(want) {
			t.Errorf("%s is %d, Spark %s", column, job.Columns[column], want)
		}
	}
	table := ref.Table(t)
	soundDeletes(t, ref.Store, table)
	content, err := icebergtest.ReadRows(context.Background(), ref.Store, table, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range content.Check(ref.Expected.Rows.RowCount, ref.Expected.Columns) {
		t.Error(fault)
	}
	if want := ref.Expected.Rows.Lineage; want != nil {
		lineage, err := icebergtest.ReadLineage(context.Background(), ref.Store, table, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range lineage.Check(*want, nil) {
			t.Error(fault)
		}
	}
	if len(step.Commits) == 0 {
		if job.Outcome != maintenance.NothingToDo {
			t.Errorf("outcome %s: %s", job.Outcome, job.Reason)
		}
		return
	}
	compareCommit(t, ref, step.Commits[0], before)
}

// compareCommit compares the head of the table with a commit of Spark's.
func compareCommit(t *testing.T, ref *icebergtest.Ref, theirs icebergtest.OracleCommit, before []lake.Entry) {
	t.Helper()
	table := ref.Table(t)
	ours := table.Metadata.CurrentSnapshot()
	_, after := liveEntries(t, ref.Store, table)
	var got, want, gone, goneWant []string
	for _, e := range after {
		if e.SnapshotID != ours.SnapshotID {
			continue
		}
		kind, target := "position-deletes", ""
		if lake.IsDeletionVector(e.File) {
			kind = "deletion-vector"
		}
		if path, scoped := lake.FileScoped(e.File); scoped {
			target = path
		}
		got = append(got, addedLine(kind, e.DataSequence, e.SpecID, e.File.Count(), target))
	}
	for _, e := range theirs.Added {
		target := ""
		if e.ReferencedDataFile != nil {
			target = *e.ReferencedDataFile
		} else if bound, ok := e.LowerBounds["2147483546"]; ok {
			target = unhex(t, bound)
		}
		want = append(want, addedLine(e.Kind, e.DataSequenceNumber, e.SpecID, e.RecordCount, target))
	}
	for _, e := range before {
		if !slices.ContainsFunc(after, func(a lake.Entry) bool {
			return a.File.FilePath() == e.File.FilePath() && a.File.Count() == e.File.Count()
		}) {
			gone = append(gone, e.File.FilePath())
		}
	}
	for _, e := range theirs.Removed {
		goneWant = append(goneWant, e.Path)
	}
	for _, list := range [][]string{got, want, gone, goneWant} {
		slices.Sort(list)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("added files (-Spark +ours):\n%s", diff)
	}
	if diff := cmp.Diff(goneWant, gone); diff != "" {
		t.Errorf("removed files (-Spark +ours):\n%s", diff)
	}
	if theirs.Operation != string(ours.Summary.Operation) || theirs.SequenceNumber != ours.SequenceNumber {
		t.Errorf("operation %s, sequence number %d: Spark %s, %d", ours.Summary.Operation, ours.SequenceNumber, theirs.Operation, theirs.SequenceNumber)
	}
	for key, value := range theirs.Summary {
		known := strings.HasPrefix(key, "added-") || strings.HasPrefix(key, "removed-") || strings.HasPrefix(key, "total-")
		if known && !strings.HasSuffix(key, "files-size") && ours.Summary.Properties[key] != value {
			t.Errorf("summary %s is %q, Spark %q", key, ours.Summary.Properties[key], value)
		}
	}
}

func unhex(t *testing.T, text string) string {
	t.Helper()
	var out []byte
	if _, err := fmt.Sscanf(text, "0x%x", &out); err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestManyPositionDeletes: 3,000 position delete files, some of dead data files, become a handful, and none dangles; on format version 3 one vector a
// data file.
func TestManyPositionDeletes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		property string
		upgrade  bool
		files    int
		most     int
	}{
		{"partition", "partition", false, 3000, 2}, {"file", "file", false, 300, 8}, {"vectors", "file", true, 300, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := icebergtest.NewWorld(t)
			tbl := w.NewTable("db.t", icebergtest.Partitioned("g"), icebergtest.Property("write.delete.granularity", c.property))
			var files []string
			for i := range 5 {
				files = append(files, tbl.Commit(icebergtest.Append(rows(i*1000, 1000)...)).DataFiles...)
			}
			var changes []icebergtest.Change
			for i := range c.files {
				path, pos := files[i%len(files)], int64(i/len(files))
				if i%2 == 0 {
					changes = append(changes, icebergtest.DeletePositions(path, pos))
				} else {
					changes = append(changes, icebergtest.DeletePositionsTogether(icebergtest.Position{Path: path, Pos: pos}))
				}
			}
			tbl.Commit(changes...)
			tbl.Commit(icebergtest.Remove(files[0], files[1]))
			if c.upgrade {
				tbl.Upgrade(3)
			}
			want := tbl.Rows()
			memory := w.Store.(*store.Memory)
			job := call(t, host(t, w.Catalog, memory, w.Clock.Now), tbl.ID, maintenance.JobRequest{Job: rewritePositionDeletes})
			if job.Outcome != maintenance.Committed || job.Columns["rewritten_delete_files_count"] != int64(c.files) {
				t.Fatalf("%+v", job)
			}
			if diff := cmp.Diff(want, tbl.Rows()); diff != "" {
				t.Errorf("rows changed:\n%s", diff)
			}
			_, deletes := liveEntries(t, memory, tbl.State())
			if len(deletes) != c.most || job.Columns["added_delete_files_count"] != int64(c.most) {
				t.Errorf("%d delete files are left, %d were added: want %d", len(deletes), job.Columns["added_delete_files_count"], c.most)
			}
			positions := int64(0)
			for _, d := range deletes {
				positions += d.File.Count()
				if _, scoped := lake.FileScoped(d.File); scoped != (c.name != "partition") {
					t.Errorf("%s is scoped to a data file: %t", d, scoped)
				}
			}
			if positions != int64(c.files*8/10) {
				t.Errorf("%d positions: want those of the 8 data files that are live", positions)
			}
			soundDeletes(t, memory, tbl.State())
		})
	}
}

// meanwhile makes changes between the rewrite and its first commit.
func meanwhile(r *local.Runner, change func()) {
	commit := r.Functions[contract.FunctionCommit]
	done := false
	r.Functions[contract.FunctionCommit] = func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error) {
		if !done {
			done = true
			change()
		}
		return commit(ctx, payload)
	}
}

// TestPositionDeletesBesideWriters: what other writers do between plan and commit is settled a data file at a time, or the group is a conflict; no
// row comes back and none goes.
func TestPositionDeletesBesideWriters(t *testing.T) {
	t.Parallel()
	type scene struct {
		w     *icebergtest.World
		tbl   *icebergtest.Table
		files []string
		old   []string
	}
	for _, c := range []struct {
		name    string
		version int
		change  func(s scene)
		outcome maintenance.Outcome
		reason  string
		deletes int
	}{
		{
			"a delete arrives on version 2", 2, func(s scene) { s.tbl.Commit(icebergtest.DeletePositions(s.files[0], 9)) }, maintenance.Committed, "", 2,
		},
		{"rows are appended", 2, func(s scene) { s.tbl.Commit(icebergtest.Append(rows(500, 4)...)) }, maintenance.Committed, "", 1},
		{
			"a replaced file is gone", 2, func(s scene) { s.tbl.Commit(icebergtest.Remove(s.old[0])) }, maintenance.Conflict, "no longer live", 4,
		},
		{
			"a data file is replaced", 2, func(s scene) { s.tbl.Commit(icebergtest.Remove(s.files[0])) }, maintenance.Committed, "", 1,
		},
		{
			"all data files are replaced", 2, func(s scene) { s.tbl.Commit(icebergtest.Remove(s.files...), icebergtest.Append(rows(900, 3)...)) },
			maintenance.Committed, "", 0,
		},
		{
			"a vector that holds everything arrives", 3, func(s scene) { s.tbl.Commit(icebergtest.DeleteVector(s.files[0], 0, 1, 2, 7)) }, maintenance.Committed, "", 3,
		},
		{
			"a vector that does not hold what was deleted arrives", 3, func(s scene) { s.tbl.Commit(icebergtest.DeleteVector(s.files[0], 7)) },
			maintenance.Conflict, "does not hold", 7,
		},
		{"a vector is merged", 3, func(s scene) { s.tbl.Commit(icebergtest.DeleteVector(s.files[2], 8)) }, maintenance.Committed, "", 3},
		{"a vector is taken back", 3, func(s scene) { s.tbl.Commit(icebergtest.Remove(s.old[len(s.old)-1])) }, maintenance.Conflict, "was removed", 5},
		{
			"position deletes arrive on version 3", 3, func(s scene) { s.tbl.Commit(icebergtest.DeletePositions(s.files[1], 9)) }, maintenance.Conflict, "arrived", 7,
		},
		{
			"position deletes of the partition arrive on version 3", 3,
			func(s scene) {
				s.tbl.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: s.files[1], Pos: 9}))
			},
			maintenance.Conflict, "arrived in the partition", 7,
		},
		{"the table is upgraded", 2, func(s scene) { s.tbl.Upgrade(3) }, maintenance.Conflict, "format version became 3", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := icebergtest.NewWorld(t)
			s := scene{w: w, tbl: w.NewTable("db.t")}
			for i := range 3 {
				s.files = append(s.files, s.tbl.Commit(icebergtest.Append(rows(i*20, 20)...)).DataFiles...)
			}
			for i := range 5 {
				made := s.tbl.Commit(icebergtest.DeletePositionsTogether(
					icebergtest.Position{Path: s.files[i%2], Pos: int64(i / 2)}, icebergtest.Position{Path: s.files[2], Pos: int64(i)}))
				s.old = append(s.old, made.DeleteFiles...)
			}
			if c.version == 3 {
				s.tbl.Upgrade(3)
				s.old = append(s.old, s.tbl.Commit(icebergtest.DeleteVector(s.files[2], 0, 1, 2, 3, 4, 5)).DeleteFiles...)
			}
			memory := w.Store.(*store.Memory)
			r := host(t, w.Catalog, memory, w.Clock.Now)
			var want icebergtest.Content
			meanwhile(r, func() {
				c.change(s)
				want = s.tbl.Rows()
			})
			job := call(t, r, s.tbl.ID, maintenance.JobRequest{Job: rewritePositionDeletes})
			if job.Outcome != c.outcome || !strings.Contains(job.Reason, c.reason) {
				t.Errorf("outcome %s: %s: want %s, %q", job.Outcome, job.Reason, c.outcome, c.reason)
			}
			if diff := cmp.Diff(want, s.tbl.Rows()); diff != "" {
				t.Errorf("rows changed:\n%s", diff)
			}
			if _, deletes := liveEntries(t, memory, s.tbl.State()); len(deletes) != c.deletes {
				t.Errorf("%d delete files are live, want %d: %v", len(deletes), c.deletes, deletes)
			}
			if c.outcome == maintenance.Committed {
				soundDeletes(t, memory, s.tbl.State())
			}
			again := call(t, host(t, w.Catalog, memory, w.Clock.Now), s.tbl.ID,
				maintenance.JobRequest{Job: rewritePositionDeletes, Options: map[string]string{"rewrite-all": "true"}})
			if again.Outcome != maintenance.Committed && again.Outcome != maintenance.NothingToDo {
				t.Errorf("the next call: %+v", again)
			}
			if diff := cmp.Diff(want, s.tbl.Rows()); diff != "" {
				t.Errorf("rows changed in the next call:\n%s", diff)
			}
		})
	}
}

// TestPositionDeleteStepsTwice: a second attempt at any step changes nothing.
func TestPositionDeleteStepsTwice(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t")
		file := tbl.Commit(icebergtest.Append(rows(0, 20)...)).DataFiles[0]
		for i := range 6 {
			tbl.Commit(icebergtest.DeletePositions(file, int64(i)))
		}
		if version == 3 {
			tbl.Upgrade(3)
		}
		want := tbl.Rows()
		memory := w.Store.(*store.Memory)
		r := host(t, w.Catalog, memory, w.Clock.Now)
		for _, name := range []string{contract.FunctionPlan, contract.FunctionCompact, contract.FunctionCommit} {
			step := r.Functions[name]
			r.Functions[name] = func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error) {
				first, err := step(ctx, payload)
				if err != nil {
					return first, err
				}
				second, err := step(ctx, payload)
				if string(first) != string(second) {
					t.Errorf("%s answered %s, then %s", name, first, second)
				}
				return second, err
			}
		}
		job := call(t, r, tbl.ID, maintenance.JobRequest{Job: rewritePositionDeletes})
		if job.Outcome != maintenance.Committed || job.Columns["added_delete_files_count"] != 1 {
			t.Errorf("%+v", job)
		}
		if n := len(tbl.State().Metadata.Snapshots()); n != 8 {
			t.Errorf("%d snapshots: want one of ours", n)
		}
		if diff := cmp.Diff(want, tbl.Rows()); diff != "" {
			t.Errorf("rows changed:\n%s", diff)
		}
	}
}
