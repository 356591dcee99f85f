package compact_test

import (
	"strings"
	"testing"

	"firn/internal/icebergtest"
	"firn/internal/maintenance"
)

// same rewrites a table and demands that its rows are those of want, read by iceberg-go, and that each group's proof holds.
func same(t *testing.T, w *icebergtest.World, tbl *icebergtest.Table, want ...string) {
	t.Helper()
	b := newBench(t, w.Store, tbl.State())
	results := b.rewriteAll()
	for i, r := range results {
		checkProof(t, b, i, r)
	}
	b.commit(tbl, results)
	got := tbl.Rows()
	if strings.Join(got.Rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got.Rows, "\n"), strings.Join(want, "\n"))
	}
}

// TestNullsInEqualityDeletes is case A69: a null key equals null and nothing else.
func TestNullsInEqualityDeletes(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("a int", "b string"))
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a"}, icebergtest.Row{2, nil}, icebergtest.Row{nil, "b"}, icebergtest.Row{nil, nil},
		icebergtest.Row{3, nil}, icebergtest.Row{2, "x"}))
	tbl.Commit(icebergtest.DeleteEqual([]string{"a", "b"}, icebergtest.Row{2, nil}))
	tbl.Commit(icebergtest.DeleteEqual([]string{"a"}, icebergtest.Row{1}))
	want := []string{`{"a":2,"b":"x"}`, `{"a":3,"b":null}`, `{"a":null,"b":"b"}`, `{"a":null,"b":null}`}
	if got := tbl.Rows().Rows; strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("before: %v", got)
	}
	same(t, w, tbl, want...)
	tbl.Commit(icebergtest.DeleteEqual([]string{"a", "b"}, icebergtest.Row{nil, nil}))
	same(t, w, tbl, want[:3]...)
	// An old file that lacks the column has null there.
	tbl.Evolve(icebergtest.AddColumn("c", "long"))
	tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 9}))
	tbl.Commit(icebergtest.DeleteEqual([]string{"b", "c"}, icebergtest.Row{"x", nil}))
	same(t, w, tbl, `{"a":3,"b":null,"c":null}`, `{"a":9,"b":"z","c":9}`, `{"a":null,"b":"b","c":null}`)
}

// TestEqualityDeleteStaysInItsPartition is case A70.
func TestEqualityDeleteStaysInItsPartition(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("day int", "id long"), icebergtest.Partitioned("day"))
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, 7}, icebergtest.Row{2, 7}, icebergtest.Row{1, 8}))
	tbl.Repartition("bucket(4, id)")
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, 7}))
	tbl.Repartition("day")
	tbl.Commit(icebergtest.DeleteEqual([]string{"day", "id"}, icebergtest.Row{1, 7}))
	same(t, w, tbl, `{"day":1,"id":7}`, `{"day":1,"id":8}`, `{"day":2,"id":7}`)
}

// TestEqualityColumnWasDropped is case A75: the column of a delete is found over all schemas that the table had.
func TestEqualityColumnWasDropped(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("a int", "b string", "v long"))
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, "x", 1}, icebergtest.Row{1, "y", 2}, icebergtest.Row{2, "x", 3}))
	tbl.Commit(icebergtest.DeleteEqual([]string{"a", "b"}, icebergtest.Row{1, "x"}))
	tbl.Evolve(icebergtest.DropColumn("b"))
	same(t, w, tbl, `{"a":1,"v":2}`, `{"a":2,"v":3}`)
}

// TestEqualityDeleteOfPromotedColumn compares in the wider type, whichever side is older.
func TestEqualityDeleteOfPromotedColumn(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("i int", "f float", "d decimal(9,2)"))
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, float32(0.1), "1.00"}, icebergtest.Row{2, float32(1.5), "2.00"}, icebergtest.Row{3, float32(2), "3.00"}))
	tbl.Commit(icebergtest.DeleteEqual([]string{"i"}, icebergtest.Row{1}))
	tbl.Evolve(icebergtest.PromoteColumn("i", "long"), icebergtest.PromoteColumn("f", "double"), icebergtest.PromoteColumn("d", "decimal(20,2)"))
	tbl.Commit(icebergtest.DeleteEqual([]string{"i", "d"}, icebergtest.Row{2, "2.00"}))
	same(t, w, tbl, `{"i":3,"f":"0x4000000000000000","d":"3.00"}`)
}

// TestEqualityDeleteSparesNewerRows: a delete does not touch rows that are as new as the delete, or newer: deleted and inserted again, also in the same commit.
func TestEqualityDeleteSparesNewerRows(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("k long", "v long"))
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, 1}, icebergtest.Row{2, 1}))
	tbl.Commit(icebergtest.DeleteEqual([]string{"k"}, icebergtest.Row{1}), icebergtest.Append(icebergtest.Row{1, 2}))
	tbl.Commit(icebergtest.DeleteEqual([]string{"k"}, icebergtest.Row{2}))
	tbl.Commit(icebergtest.Append(icebergtest.Row{2, 3}))
	same(t, w, tbl, `{"k":1,"v":2}`, `{"k":2,"v":3}`)
}

// TestAllRowsDeleted is case A35: a file without surviving rows gives no output, and no empty file.
func TestAllRowsDeleted(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long"))
	c := tbl.Commit(icebergtest.Append(icebergtest.Row{1}, icebergtest.Row{2}))
	tbl.Commit(icebergtest.DeletePositions(c.DataFiles[0], 0, 1, 99))
	b := newBench(t, w.Store, tbl.State())
	r := b.rewriteAll()[0]
	if len(r.Outputs) != 0 || r.Proof.RowsIn != 2 || r.Proof.RowsDeleted != 2 || r.Proof.RowsOut != 0 {
		t.Errorf("outputs %v, proof %+v", r.Outputs, r.Proof)
	}
	checkProof(t, b, 0, r)
}

// TestOtherSchemeInPositionDeletes is case A71: paths are compared in their canonical spelling.
func TestOtherSchemeInPositionDeletes(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long"))
	c := tbl.Commit(icebergtest.Append(icebergtest.Row{1}, icebergtest.Row{2}, icebergtest.Row{3}))
	s3a := strings.Replace(c.DataFiles[0], "s3://", "s3a://", 1)
	tbl.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: c.DataFiles[0], Pos: 0}, icebergtest.Position{Path: s3a, Pos: 2}))
	same(t, w, tbl, `{"id":2}`)
}

// TestOneVectorOfSeveral is case A66: one Puffin file holds the vectors of two data files; each applies to its own.
func TestOneVectorOfSeveral(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long"), icebergtest.Version(3))
	a := tbl.Commit(icebergtest.Append(icebergtest.Row{1}, icebergtest.Row{2})).DataFiles[0]
	b := tbl.Commit(icebergtest.Append(icebergtest.Row{3}, icebergtest.Row{4})).DataFiles[0]
	tbl.Commit(icebergtest.DeleteVectors(map[string][]int64{a: {0}, b: {1}}))
	lineage := tbl.Lineage()
	same(t, w, tbl, `{"id":2}`, `{"id":3}`)
	if got := tbl.Lineage(); got.Digest != lineage.Digest {
		t.Errorf("row lineage changed:\n%v\n%v", lineage.Rows, got.Rows)
	}
}

// TestTwoVectors is case A67: two live vectors on one file are a fault of the table; the group is refused and both are named.
func TestTwoVectors(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long"), icebergtest.Version(3))
	a := tbl.Commit(icebergtest.Append(icebergtest.Row{1}, icebergtest.Row{2})).DataFiles[0]
	tbl.Commit(icebergtest.DeleteVector(a, 0))
	b := newBench(t, w.Store, tbl.State())
	b.groups[0].Deletes = append(b.groups[0].Deletes, b.groups[0].Deletes[0])
	b.groups[0].Inputs[0].Deletes = []int{0, 1}
	if r := b.rewrite(0); r.Outcome != maintenance.Refused || !strings.Contains(r.Reason, "two deletion vectors") {
		t.Errorf("%s: %s", r.Outcome, r.Reason)
	}
}
