package lake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/store"
)

func newScan(t *testing.T, st store.Reader, tbl *lake.Table) *lake.Scan {
	t.Helper()
	head, err := tbl.Head("")
	if err != nil {
		t.Fatal(err)
	}
	s, err := lake.NewScan(context.Background(), st, tbl, head)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func files(t *testing.T, s *lake.Scan, filter lake.Filter) []maintenance.FileStats {
	t.Helper()
	var out []maintenance.FileStats
	for f, err := range s.Files(context.Background(), filter) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

func selectAll(t *testing.T, s *lake.Scan, refs ...int) []lake.Selected {
	t.Helper()
	var out []lake.Selected
	for f, err := range s.Select(context.Background(), refs) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

// TestScanOfReferenceTables compares the stream with what is live, and the deletes of each file with those that iceberg-go's planner attaches
// (which leaves out fewer equality deletes, since it does not look at their bounds).
func TestScanOfReferenceTables(t *testing.T) {
	t.Parallel()
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		tbl := ref.Table(t)
		s := newScan(t, ref.Store, tbl)
		live, tasks := map[string]icebergtest.ExpectedEntry{}, planned(t, ref, tbl)
		for _, e := range ref.Expected.Live.DataFiles {
			live[e.Path] = e
		}
		all := files(t, s, nil)
		if len(all) != len(live) {
			t.Errorf("%s: %d files, want %d", name, len(all), len(live))
		}
		var refs []int
		for i, f := range all {
			w := live[f.Path]
			if f.Ref != i || f.SizeBytes != w.FileSize || f.RecordCount != w.RecordCount || f.SpecID != w.SpecID ||
				f.DataSequence != w.DataSequenceNumber || f.HasRowLineage != (w.FirstRowID != nil) {
				t.Errorf("%s: file %+v, want %+v", name, f, w)
			}
			refs = append(refs, f.Ref)
		}
		for i, sel := range selectAll(t, s, refs...) {
			if sel.Fault != nil || sel.Ref != i || sel.Entry.File.FilePath() != all[i].Path || len(sel.Deletes) != all[i].DeleteFiles {
				t.Errorf("%s: selected %s with %d deletes, fault %v: want %+v", name, sel.Entry, len(sel.Deletes), sel.Fault, all[i])
			}
			compareDeletes(t, sel, tasks[all[i].Path])
		}
	}
}

func planned(t *testing.T, ref *icebergtest.Ref, tbl *lake.Table) map[string]table.FileScanTask {
	t.Helper()
	io := func(ctx context.Context) (iceio.IO, error) { return lake.FileIO(ctx, ref.Store), nil }
	tasks := map[string]table.FileScanTask{}
	if tbl.Metadata.CurrentSnapshot() == nil {
		return tasks
	}
	all, err := table.New(table.Identifier{"t"}, tbl.Metadata, tbl.Pointer.MetadataLocation, io, nil).Scan().PlanFiles(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range all {
		tasks[task.File.FilePath()] = task
	}
	return tasks
}

func compareDeletes(t *testing.T, sel lake.Selected, task table.FileScanTask) {
	t.Helper()
	name := func(f iceberg.DataFile) string { return place(f.FilePath(), f.ContentOffset()) }
	var positions, equality, want, wider []string
	for _, d := range sel.Deletes {
		if d.File.ContentType() == iceberg.EntryContentEqDeletes {
			equality = append(equality, name(d.File))
		} else {
			positions = append(positions, name(d.File))
		}
	}
	for _, d := range slices.Concat(task.DeleteFiles, task.DeletionVectorFiles) {
		want = append(want, name(d))
	}
	for _, d := range task.EqualityDeleteFiles {
		wider = append(wider, name(d))
	}
	slices.Sort(positions)
	slices.Sort(want)
	if !slices.Equal(positions, want) {
		t.Errorf("position deletes of %s: %v, want %v", sel.Entry, positions, want)
	}
	for _, d := range equality {
		if !slices.Contains(wider, d) {
			t.Errorf("equality delete %s applies to %s, but not in iceberg-go", d, sel.Entry)
		}
	}
}

func TestScanFilter(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}, icebergtest.Row{2, "b", 0.5}))
	tbl.Commit(icebergtest.Append(icebergtest.Row{3, "a", 0.5}))
	s := newScan(t, w.Store, tbl.State())
	got := files(t, s, func(e lake.Entry) (bool, error) {
		if len(e.File.LowerBoundValues()) == 0 {
			return false, errors.New("the filter sees no bounds")
		}
		return e.File.LowerBoundValues()[1][0] > 1, nil
	})
	if len(got) != 2 || got[0].Partition != `1000="a"` || got[1].Partition != `1000="b"` {
		t.Fatalf("files %+v", got)
	}
	sel := selectAll(t, s, got[1].Ref)
	if len(sel) != 1 || sel[0].Entry.File.FilePath() != got[1].Path {
		t.Errorf("selected %v, want %s", sel, got[1].Path)
	}
	for _, err := range s.Files(context.Background(), func(lake.Entry) (bool, error) { return false, errors.New("no") }) {
		if err == nil {
			t.Error("the filter's error is lost")
		}
	}
	for _, err := range s.Select(context.Background(), []int{99}) {
		if err == nil {
			t.Error("an unknown number is selected")
		}
	}
}

func entryOf(t *testing.T, w *icebergtest.World, tbl *icebergtest.Table, path string) lake.Entry {
	t.Helper()
	state := tbl.State()
	manifests, err := lake.Manifests(context.Background(), w.Store, state.Metadata.CurrentSnapshot())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		for e, err := range lake.Entries(context.Background(), w.Store, m, lake.EntryOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.File.FilePath() == path {
				return e
			}
		}
	}
	t.Fatalf("%s is not live", path)
	return lake.Entry{}
}

func TestPathThatIsLiveTwiceIsAFault(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	one := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}))
	two := tbl.Commit(icebergtest.Append(icebergtest.Row{2, "a", 0.5}))
	again := entryOf(t, w, tbl, one.DataFiles[0])
	tbl.Commit(icebergtest.AddFile(again.File, nil))
	s := newScan(t, w.Store, tbl.State())
	all := files(t, s, nil)
	if len(all) != 2 {
		t.Fatalf("%d files, want each path once", len(all))
	}
	fault := s.Faults()[one.DataFiles[0]]
	if !errors.Is(fault, lake.ErrTableFault) || !strings.Contains(fault.Error(), again.Manifest) || strings.Count(fault.Error(), "manifest") < 2 {
		t.Errorf("fault %v", fault)
	}
	for _, sel := range selectAll(t, s, all[0].Ref, all[1].Ref) {
		if bad := sel.Entry.File.FilePath() == one.DataFiles[0]; bad != (sel.Fault != nil) {
			t.Errorf("%s has fault %v", sel.Entry, sel.Fault)
		}
		if sel.Entry.File.FilePath() == two.DataFiles[0] && sel.Fault != nil {
			t.Error("the other file is at fault too")
		}
	}
}

func TestTwoVectorsAreAFault(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Version(3))
	one := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}, icebergtest.Row{2, "a", 0.5}))
	tbl.Commit(icebergtest.DeleteVector(one.DataFiles[0], 0))
	tbl.Commit(icebergtest.DeleteVectorBeside(one.DataFiles[0], 1))
	s := newScan(t, w.Store, tbl.State())
	if all := files(t, s, nil); len(all) != 1 {
		t.Fatalf("files %+v", all)
	}
	sel := selectAll(t, s, 0)
	if len(sel) != 1 || !errors.Is(sel[0].Fault, lake.ErrTableFault) || strings.Count(sel[0].Fault.Error(), ".puffin") != 2 {
		t.Errorf("selected %+v", sel)
	}
}

func TestDeleteInAnotherPartitionIsAFault(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	one := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}, icebergtest.Row{2, "b", 0.5}))
	del := tbl.Commit(icebergtest.DeletePositions(one.DataFiles[0], 0)).DeleteFiles[0]
	e := entryOf(t, w, tbl, del)
	spec := tbl.State().Metadata.PartitionSpec()
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentPosDeletes, del, iceberg.ParquetFile, map[int]any{1000: "b"}, nil, nil,
		e.File.Count(), e.File.FileSizeBytes())
	if err != nil {
		t.Fatal(err)
	}
	wrong := b.LowerBoundValues(e.File.LowerBoundValues()).UpperBoundValues(e.File.UpperBoundValues()).Build()
	tbl.Commit(icebergtest.Remove(del), icebergtest.AddFile(wrong, nil))
	s := newScan(t, w.Store, tbl.State())
	files(t, s, nil)
	for _, sel := range selectAll(t, s, 0, 1) {
		if bad := sel.Entry.File.FilePath() == one.DataFiles[0]; bad != errors.Is(sel.Fault, lake.ErrTableFault) {
			t.Errorf("%s has fault %v", sel.Entry, sel.Fault)
		}
	}
}

func TestDeletesFollowSequenceNumbers(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long", "g string"))
	one := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a"}, icebergtest.Row{2, "a"}))
	same := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "same"}), icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{1}),
		icebergtest.DeletePositionsTogether(icebergtest.Position{Path: one.DataFiles[0], Pos: 1}))
	later := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "later"}))
	other := tbl.Commit(icebergtest.Append(icebergtest.Row{7, "other"}))
	tbl.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{7}))
	s := newScan(t, w.Store, tbl.State())
	want := map[string]int{
		one.DataFiles[0]:   2, // equality delete of 1 and the partition's position deletes; the delete of 7 is out of its bounds
		same.DataFiles[0]:  1, // an equality delete is not applied to its own commit, a position delete is
		later.DataFiles[0]: 0,
		other.DataFiles[0]: 1,
	}
	for _, f := range files(t, s, nil) {
		if f.DeleteFiles != want[f.Path] || f.FileScopedDeletedRows != 0 {
			t.Errorf("%s has %d delete files, %d scoped rows: want %d and 0", f.Path, f.DeleteFiles, f.FileScopedDeletedRows, want[f.Path])
		}
	}
}

func TestVectorHidesPositionDeletes(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	one := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}, icebergtest.Row{2, "a", 0.5}, icebergtest.Row{3, "a", 0.5}))
	tbl.Commit(icebergtest.DeletePositions(one.DataFiles[0], 0))
	tbl.Upgrade(3)
	tbl.Commit(icebergtest.DeleteVector(one.DataFiles[0], 0, 1))
	s := newScan(t, w.Store, tbl.State())
	all := files(t, s, nil)
	if len(all) != 1 || all[0].DeleteFiles != 1 || all[0].FileScopedDeletedRows != 2 {
		t.Errorf("files %+v: want one delete file of two rows", all)
	}
	if scoped := s.Deletes().Scoped(one.DataFiles[0]); len(scoped) != 2 || s.Deletes().Len() != 2 || len(s.Deletes().All()) != 2 {
		t.Errorf("scoped deletes %v of %d", scoped, s.Deletes().Len())
	}
}

// TestDeletesMatchAcrossSchemes: a delete file may spell its target's location with another S3 scheme.
func TestDeletesMatchAcrossSchemes(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Version(3))
	one := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}, icebergtest.Row{2, "a", 0.5}))
	tbl.Commit(icebergtest.DeleteVector(strings.Replace(one.DataFiles[0], "s3://", "s3a://", 1), 0))
	all := files(t, newScan(t, w.Store, tbl.State()), nil)
	if len(all) != 1 || all[0].DeleteFiles != 1 {
		t.Errorf("files %+v: want one with one delete file", all)
	}
}

// TestPartitionedEqualityDeletesStayInTheirSpec: a tuple of another spec with an equal value is another partition.
func TestPartitionedEqualityDeletesStayInTheirSpec(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id int", "g int"), icebergtest.Partitioned("g"))
	one := tbl.Commit(icebergtest.Append(icebergtest.Row{7, 1}, icebergtest.Row{7, 2}))
	tbl.Repartition("bucket(4, id)")
	old := tbl.State().Metadata.DefaultPartitionSpec()
	tbl.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{7}))
	for _, f := range files(t, newScan(t, w.Store, tbl.State()), nil) {
		if f.DeleteFiles != 0 {
			t.Errorf("delete of spec %d applies to %s of spec %d", old, one.DataFiles, f.SpecID)
		}
	}
}

func TestScanOfEmptyTable(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	if all := files(t, newScan(t, w.Store, w.NewTable("db.t").State()), nil); len(all) != 0 {
		t.Error(fmt.Sprint(all))
	}
}
