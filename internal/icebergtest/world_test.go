package icebergtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/store"
)

func rowsText(c icebergtest.Content) string { return strings.Join(c.Rows, "\n") }

func TestWorldWritesEveryVersionAndEveryDelete(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 3; version++ {
		for _, parts := range [][]string{nil, {"g"}, {"bucket(4, id)", "day(ts)"}} {
			t.Run(fmt.Sprint("version ", version, parts), func(t *testing.T) {
				t.Parallel()
				w := icebergtest.NewWorld(t)
				tbl := w.NewTable("db.t", icebergtest.Version(version), icebergtest.Partitioned(parts...),
					icebergtest.Columns("id int required", "g string", "ts timestamptz"))
				first := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0}, icebergtest.Row{2, "a", 0}, icebergtest.Row{3, nil, -1}))
				tbl.Commit(icebergtest.Append(icebergtest.Row{4, "a", 1}))
				if got := tbl.Rows(); got.Count != 4 {
					t.Fatalf("rows:\n%s", rowsText(got))
				}
				switch version {
				case 1:
					tbl.Commit(icebergtest.Remove(first.DataFiles[0]))
				case 2:
					tbl.Commit(icebergtest.DeletePositions(first.DataFiles[0], 0))
				case 3:
					tbl.Commit(icebergtest.DeleteVector(first.DataFiles[0], 0))
				}
				if got := tbl.Rows(); got.Count == 4 || strings.Contains(rowsText(got), `"id":1,`) {
					t.Errorf("row 1 is still there:\n%s", rowsText(got))
				}
			})
		}
	}
}

func TestWorldEqualityDeletes(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long", "g string"))
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a"}, icebergtest.Row{2, "b"}, icebergtest.Row{nil, "c"}))
	tbl.Repartition("g")
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a"}, icebergtest.Row{1, "b"}))
	tbl.Commit(icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{1, "b"}))
	if got, want := rowsText(tbl.Rows()), `{"id":1,"g":"a"}`+"\n"+`{"id":1,"g":"a"}`+"\n"+`{"id":2,"g":"b"}`+"\n"+`{"id":null,"g":"c"}`; got != want {
		t.Errorf("after the delete in one partition:\n%s\nwant\n%s", got, want)
	}
	tbl.Commit(icebergtest.DeleteEqualGlobally([]string{"id"}, icebergtest.Row{1}, icebergtest.Row{nil}), icebergtest.Append(icebergtest.Row{1, "new"}))
	if got, want := rowsText(tbl.Rows()), `{"id":1,"g":"new"}`+"\n"+`{"id":2,"g":"b"}`; got != want {
		t.Errorf("after the global delete:\n%s\nwant\n%s", got, want)
	}
}

func TestWorldEvolution(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id int", "f float", "d decimal(4,2)"))
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, 0.5, "1.50"}))
	tbl.Evolve(icebergtest.PromoteColumn("id", "long"), icebergtest.PromoteColumn("f", "double"), icebergtest.PromoteColumn("d", "decimal(9,2)"),
		icebergtest.RenameColumn("f", "g"), icebergtest.AddColumn("n", "binary"))
	tbl.Commit(icebergtest.Append(icebergtest.Row{int64(1) << 40, -0.5, "-12345.60", "x"}))
	want := `{"id":1,"g":"0x3fe0000000000000","d":"1.50","n":null}` + "\n" + `{"id":1099511627776,"g":"0xbfe0000000000000","d":"-12345.60","n":"78"}`
	if got := rowsText(tbl.Rows()); got != want {
		t.Errorf("rows:\n%s\nwant\n%s", got, want)
	}
	tbl.Evolve(icebergtest.DropColumn("g"))
	if got := rowsText(tbl.Rows()); strings.Contains(got, `"g"`) {
		t.Errorf("dropped column is still there:\n%s", got)
	}
}

func TestWorldLineageAndUpgrade(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id int"))
	first := tbl.Commit(icebergtest.Append(icebergtest.Row{1}, icebergtest.Row{2}))
	tbl.Upgrade(3)
	tbl.Commit(icebergtest.Append(icebergtest.Row{3}))
	tbl.Commit(icebergtest.DeleteVectors(map[string][]int64{first.DataFiles[0]: {0}}))
	tbl.Commit(icebergtest.DeleteVector(first.DataFiles[0], 1))
	state := tbl.State()
	if got := rowsText(tbl.Lineage()); got != `{"id":3,"_row_id":0,"_last_updated_sequence_number":2}` {
		t.Errorf("lineage:\n%s", got)
	}
	head, err := state.Head("")
	if err != nil {
		t.Fatal(err)
	}
	if got := head.Summary.Properties["total-delete-files"]; got != "1" {
		t.Errorf("total-delete-files %s after a vector was replaced, want 1", got)
	}
	if state.Metadata.NextRowID() != 3 {
		t.Errorf("next row ID %d, want 3", state.Metadata.NextRowID())
	}
}

// TestWorldVectorOfAFileAddedAgain: the vector that a file had before it was removed and added again does not apply to it, and its positions are not taken over.
func TestWorldVectorOfAFileAddedAgain(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id int"), icebergtest.Version(3))
	a := tbl.Commit(icebergtest.Append(icebergtest.Row{1}, icebergtest.Row{2})).DataFiles[0]
	b := tbl.Commit(icebergtest.Append(icebergtest.Row{3}, icebergtest.Row{4})).DataFiles[0]
	tbl.Commit(icebergtest.DeleteVectors(map[string][]int64{a: {0}, b: {0}}))
	ctx, state := context.Background(), tbl.State()
	manifests, err := lake.Manifests(ctx, w.Store, state.Metadata.CurrentSnapshot())
	if err != nil {
		t.Fatal(err)
	}
	var again iceberg.DataFile
	for _, m := range manifests {
		for e, err := range lake.Entries(ctx, w.Store, m, lake.EntryOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.File.FilePath() == a {
				again = e.File
			}
		}
	}
	tbl.Commit(icebergtest.Remove(a)) // its vector lies in a file with another one
	tbl.Commit(icebergtest.AddFile(again, nil))
	tbl.Commit(icebergtest.DeleteVector(a, 1))
	if got := rowsText(tbl.Rows()); got != "{\"id\":1}\n{\"id\":4}" {
		t.Errorf("rows:\n%s", got)
	}
}

func TestWorldIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	build := func() string {
		tbl := icebergtest.NewWorld(t).NewTable("db.t")
		c := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}))
		tbl.SetProperty("k", "v")
		tbl.Tag("one", c.Snapshot.SnapshotID)
		return fmt.Sprint(tbl.Pointer().MetadataLocation, c.Snapshot, c.DataFiles)
	}
	if a, b := build(), build(); a != b {
		t.Errorf("two builds differ:\n%s\n%s", a, b)
	}
}

func TestWorldOnDiskAndBranches(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewLocalWorld(t)
	tbl := w.NewTable("a.b.t")
	one := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}))
	tbl.Branch("dev", one.Snapshot.SnapshotID)
	dev := tbl.CommitTo("dev", icebergtest.Append(icebergtest.Row{2, "a", 0.5}))
	if main, other := tbl.Rows().Count, tbl.RowsAt(dev.Snapshot.SnapshotID).Count; main != 1 || other != 2 {
		t.Errorf("main has %d rows and dev %d, want 1 and 2", main, other)
	}
	info, err := w.Store.Head(context.Background(), one.DataFiles[0])
	if err != nil || info.SizeBytes == 0 {
		t.Errorf("data file: %+v, %v", info, err)
	}
}

// TestConcurrentWriterOnReferenceTable commits to a table that Spark wrote.
func TestConcurrentWriterOnReferenceTable(t *testing.T) {
	t.Parallel()
	ref := icebergtest.Reference(t, "dv")
	tbl := ref.World(t).Open(ref.ID)
	before := tbl.Rows().Count
	tbl.Commit(icebergtest.Append(icebergtest.Row{1_000_000, "new", 1.0}))
	if got := tbl.Rows().Count; got != before+1 {
		t.Errorf("%d rows, want %d", got, before+1)
	}
	if _, err := lake.Load(context.Background(), ref.Catalog, ref.Store, ref.ID); err != nil {
		t.Error(err)
	}
}

// TestQuickWorld: what a quick world keeps of its metadata is what its files say, and iceberg-go reads the manifests of both writers.
func TestQuickWorld(t *testing.T) {
	t.Parallel()
	for version := 2; version <= 3; version++ {
		w := icebergtest.NewWorld(t)
		w.StockEvery, w.Memo = 3, &lake.Memo{}
		tbl := w.NewTable("db.t", icebergtest.Columns("id long", "g string"), icebergtest.Partitioned("g"), icebergtest.Version(version))
		first := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a"}, icebergtest.Row{2, "a"}, icebergtest.Row{3, "b"}))
		for n := range 4 {
			tbl.Commit(icebergtest.Append(icebergtest.Row{4 + n, "a"}))
		}
		if version == 2 {
			tbl.Commit(icebergtest.DeletePositions(first.DataFiles[0], 0))
		} else {
			tbl.Commit(icebergtest.DeleteVector(first.DataFiles[0], 0))
		}
		tbl.Commit(icebergtest.Remove(first.DataFiles[1]), icebergtest.Append(icebergtest.Row{9, "c"}))
		tbl.SetProperty("owner", "me")
		tbl.Tag("kept", first.Snapshot.SnapshotID)
		if got := tbl.Rows(); got.Count != 6 || strings.Contains(rowsText(got), `"id":1,`) || strings.Contains(rowsText(got), `"id":3,`) {
			t.Errorf("version %d: rows\n%s", version, rowsText(got))
		}
		tbl.Commit(icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{5, "a"}))
		tbl.Evolve(icebergtest.AddColumn("x", "long"))

		known := 0
		for info, err := range w.Store.List(t.Context(), "s3://world/db/t/metadata/", store.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			kept, ok := w.Known(info.Location)
			if !ok {
				continue
			}
			known++
			data, err := w.Store.Get(t.Context(), info.Location)
			if err != nil {
				t.Fatal(err)
			}
			read, err := lake.ParseMetadata(data)
			if err != nil {
				t.Fatal(err)
			}
			if !kept.Equals(read) || !read.Equals(kept) {
				t.Errorf("version %d: %s is kept as\n%v\nand says\n%v", version, info.Location, kept, read)
			}
			a, errA := json.Marshal(kept)
			b, errB := json.Marshal(read)
			if errA != nil || errB != nil || string(a) != string(b) {
				t.Errorf("version %d: %s is kept as\n%s\nand says\n%s", version, info.Location, a, b)
			}
		}
		if known < 10 {
			t.Errorf("version %d: %d metadata files are known", version, known)
		}
	}
}
