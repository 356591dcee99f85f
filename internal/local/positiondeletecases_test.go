package local_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/iceberg-go"
	"github.com/google/go-cmp/cmp"

	"firn/internal/deletes"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// lossy is a catalog that swaps and then loses its answer.
type lossy struct {
	*icebergtest.Catalog
	losses int
}

func (c *lossy) Swap(ctx context.Context, id maintenance.TableID, base catalogs.Pointer, location string) error {
	err := c.Catalog.Swap(ctx, id, base, location)
	if err == nil && c.losses > 0 {
		c.losses--
		return errors.New("connection reset")
	}
	return err
}

// TestPositionDeletesWithALostAnswer: a commit whose answer is lost is found in the table, and made once.
func TestPositionDeletesWithALostAnswer(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := tableWithManyDeletes(3)(w)
	want, snapshots := tbl.Rows(), len(tbl.State().Metadata.Snapshots())
	memory := w.Store.(*store.Memory)
	r := host(t, &lossy{w.Catalog, 1}, memory, w.Clock.Now)
	job := call(t, r, tbl.ID, maintenance.JobRequest{Job: rewritePositionDeletes, Options: map[string]string{"rewrite-all": "true"}})
	if job.Outcome != maintenance.Committed || job.Columns["added_delete_files_count"] != 2 {
		t.Errorf("%+v", job)
	}
	if n := len(tbl.State().Metadata.Snapshots()); n != snapshots+1 {
		t.Errorf("%d snapshots: want one of ours after %d", n, snapshots)
	}
	if diff := cmp.Diff(want, tbl.Rows()); diff != "" {
		t.Errorf("rows changed:\n%s", diff)
	}
	soundDeletes(t, memory, tbl.State())
}

// rewriteDeletes rewrites all position deletes, or those of a condition, and returns the delete files that are live then.
func rewriteDeletes(t *testing.T, w *icebergtest.World, tbl *icebergtest.Table, where string) (maintenance.JobOutcome, []lake.Entry) {
	t.Helper()
	memory := w.Store.(*store.Memory)
	request := maintenance.JobRequest{Job: rewritePositionDeletes, Args: map[string]string{}, Options: map[string]string{"rewrite-all": "true"}}
	if where != "" {
		request.Args["where"] = where
	}
	job := call(t, host(t, w.Catalog, memory, w.Clock.Now), tbl.ID, request)
	_, deletes := liveEntries(t, memory, tbl.State())
	return job, deletes
}

// TestPositionDeletesA66OneVectorOfSeveral replaces one vector of a Puffin file; the other stays where it is.
func TestPositionDeletesA66OneVectorOfSeveral(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	files := tbl.Commit(icebergtest.Append(rows(0, 20)...)).DataFiles
	more := tbl.Commit(icebergtest.Append(icebergtest.Row{int64(100), "g0", 1.0}, icebergtest.Row{int64(101), "g0", 1.0})).DataFiles
	tbl.Commit(icebergtest.DeletePositions(more[0], 1))
	tbl.Upgrade(3)
	puffin := tbl.Commit(icebergtest.DeleteVectors(map[string][]int64{files[0]: {1}, files[1]: {2}})).DeleteFiles[0]
	want := tbl.Rows()
	job, deletes := rewriteDeletes(t, w, tbl, "g = 'g0'")
	if job.Outcome != maintenance.Committed || job.Columns["rewritten_delete_files_count"] != 2 || len(deletes) != 3 {
		t.Fatalf("%+v, %v", job, deletes)
	}
	kept := 0
	for _, d := range deletes {
		if d.File.FilePath() == puffin {
			kept++
			if *d.File.ReferencedDataFile() != files[1] {
				t.Errorf("the vector of %s stayed", *d.File.ReferencedDataFile())
			}
		}
	}
	if diff := cmp.Diff(want, tbl.Rows()); diff != "" || kept != 1 {
		t.Errorf("%d vectors stayed; rows changed:\n%s", kept, diff)
	}
}

// TestPositionDeletesA67TwoVectors refuses a group whose data file has two vectors, and says so.
func TestPositionDeletesA67TwoVectors(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	files := append(tbl.Commit(icebergtest.Append(rows(0, 10)...)).DataFiles, tbl.Commit(icebergtest.Append(rows(10, 10)...)).DataFiles...)
	tbl.Commit(icebergtest.DeletePositions(files[1], 1))
	tbl.Upgrade(3)
	tbl.Commit(icebergtest.DeleteVector(files[0], 1))
	tbl.Commit(icebergtest.DeleteVectorBeside(files[0], 2))
	job, deletes := rewriteDeletes(t, w, tbl, "")
	if job.Outcome != maintenance.Refused || !strings.Contains(job.Reason, "two deletion vectors") || !strings.Contains(job.Reason, files[0]) || len(deletes) != 3 {
		t.Errorf("%+v, %v", job, deletes)
	}
}

// TestPositionDeletesA71OtherScheme matches paths of another scheme, and writes them as the data file's entry spells them.
func TestPositionDeletesA71OtherScheme(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	file := tbl.Commit(icebergtest.Append(rows(0, 10)...)).DataFiles[0]
	tbl.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: strings.Replace(file, "s3://", "s3a://", 1), Pos: 4}))
	job, deletes := rewriteDeletes(t, w, tbl, "")
	if job.Outcome != maintenance.Committed || len(deletes) != 1 {
		t.Fatalf("%+v, %v", job, deletes)
	}
	if path, scoped := lake.FileScoped(deletes[0].File); !scoped || path != file {
		t.Errorf("the new file names %s (%t)", path, scoped)
	}
	if n := tbl.Rows().Count; n != 9 {
		t.Errorf("%d rows", n)
	}
}

// TestPositionDeletesA72ListsAndOldSpecs rewrites position deletes of two specs of a table with a list column.
func TestPositionDeletesA72ListsAndOldSpecs(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Schema(iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "g", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 3, Name: "tags", Type: &iceberg.ListType{ElementID: 4, Element: iceberg.PrimitiveTypes.String}},
	)))
	row := func(id int64, g string) icebergtest.Row { return icebergtest.Row{id, g, []any{"a", "b"}} }
	old := tbl.Commit(icebergtest.Append(row(1, "a"), row(2, "b"), row(3, "c"))).DataFiles[0]
	tbl.Repartition("g")
	fresh := tbl.Commit(icebergtest.Append(row(4, "a"), row(5, "a"))).DataFiles[0]
	for i := range 2 {
		tbl.Commit(icebergtest.DeletePositions(old, int64(i)))
	}
	tbl.Commit(icebergtest.DeletePositions(fresh, 0))
	want := tbl.Rows()
	job, deletes := rewriteDeletes(t, w, tbl, "")
	if job.Outcome != maintenance.Committed || job.Columns["rewritten_delete_files_count"] != 3 || len(deletes) != 2 {
		t.Errorf("%+v, %v", job, deletes)
	}
	if diff := cmp.Diff(want, tbl.Rows()); diff != "" {
		t.Errorf("rows changed:\n%s", diff)
	}
}

// TestPositionDeletesA73OtherPartition leaves a delete file alone whose data file is in another partition, and says so; the others are rewritten.
func TestPositionDeletesA73OtherPartition(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	files := tbl.Commit(icebergtest.Append(rows(0, 20)...)).DataFiles
	tbl.Commit(icebergtest.DeletePositions(files[0], 1))
	data, _ := liveEntries(t, w.Store, tbl.State())
	other := data[slices.IndexFunc(data, func(e lake.Entry) bool { return e.File.FilePath() == files[1] })]
	wrong, err := deletes.WritePositions(context.Background(), w.Store, files[0]+"-wrong", []deletes.FileDeletes{{
		Path: files[0], Positions: roaring64.BitmapOf(3), Spec: *tbl.State().Metadata.PartitionSpecByID(other.SpecID), Partition: other.File.Partition(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	tbl.Commit(icebergtest.AddFile(wrong, nil))
	job, live := rewriteDeletes(t, w, tbl, "")
	if job.Outcome != maintenance.Committed || job.Columns["rewritten_delete_files_count"] != 1 || len(live) != 2 || len(job.Refusals) != 1 ||
		!strings.Contains(job.Refusals[0], wrong.FilePath()) || !strings.Contains(job.Refusals[0], "partition") {
		t.Errorf("%+v, %v", job, live)
	}
}

// TestRunsOfWhatIsDueDropWhatDangles: one delete file that applies to nothing makes the job due, so that a run of what is due takes it away; a call
// selects by size alone, as Spark does.
func TestRunsOfWhatIsDueDropWhatDangles(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t")
		files := append(tbl.Commit(icebergtest.Append(rows(0, 10)...)).DataFiles, tbl.Commit(icebergtest.Append(rows(10, 10)...)).DataFiles...)
		tbl.Commit(icebergtest.DeletePositions(files[0], 1), icebergtest.DeletePositions(files[1], 2))
		tbl.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: files[1], Pos: 3}))
		tbl.Commit(icebergtest.Remove(files[0]))
		if version == 3 {
			tbl.Upgrade(3)
		}
		want := tbl.Rows()
		memory := w.Store.(*store.Memory)
		r := host(t, w.Catalog, memory, w.Clock.Now)
		request := maintenance.JobRequest{Job: rewritePositionDeletes}
		if job := call(t, r, tbl.ID, request); job.Outcome != maintenance.NothingToDo {
			t.Errorf("call: %+v", job)
		}
		report, err := r.Run(context.Background(), tbl.ID, maintenance.Request{Jobs: []maintenance.JobRequest{request}, Automatic: true, Trigger: "event"})
		if err != nil {
			t.Fatal(err)
		}
		job := report.Jobs[0]
		if job.Outcome != maintenance.Committed || job.Columns["rewritten_delete_files_count"] != 1 || job.Columns["added_delete_files_count"] != 0 {
			t.Errorf("run: %+v", job)
		}
		if _, deletes := liveEntries(t, memory, tbl.State()); len(deletes) != 2 {
			t.Errorf("%v", deletes)
		}
		if diff := cmp.Diff(want, tbl.Rows()); diff != "" {
			t.Errorf("rows changed:\n%s", diff)
		}
	}
}
