package lake_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
	"firn/internal/lake"
)

// place names an entry: deletion vectors of one Puffin file differ by offset.
func place(path string, offset *int64) string {
	if offset == nil {
		return path
	}
	return fmt.Sprintf("%s@%d", path, *offset)
}

func expectedEntries(live icebergtest.ExpectedLive) map[string]icebergtest.ExpectedEntry {
	entries := map[string]icebergtest.ExpectedEntry{}
	for _, kind := range [][]icebergtest.ExpectedEntry{live.DataFiles, live.PositionDeleteFiles, live.EqualityDeleteFiles, live.DeletionVectors} {
		for _, e := range kind {
			entries[place(e.Path, e.ContentOffset)] = e
		}
	}
	return entries
}

// TestEntriesOfReferenceTables compares every inherited number with what the Iceberg Java library says, and sends each file through the codec.
func TestEntriesOfReferenceTables(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		tbl := ref.Table(t)
		manifests, err := lake.Manifests(ctx, ref.Store, tbl.Metadata.CurrentSnapshot())
		if err != nil {
			t.Fatal(err)
		}
		want := expectedEntries(ref.Expected.Live)
		for _, m := range manifests {
			for e, err := range lake.Entries(ctx, ref.Store, m, lake.EntryOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				at := place(e.File.FilePath(), e.File.ContentOffset())
				w, ok := want[at]
				if !ok {
					t.Errorf("%s: entry %s is not expected, or twice", name, e)
					continue
				}
				delete(want, at)
				compareEntry(t, e, w)
				roundTrip(t, tbl, e)
			}
		}
		for at := range want {
			t.Errorf("%s: entry %s is missing", name, at)
		}
	}
}

func compareEntry(t *testing.T, e lake.Entry, want icebergtest.ExpectedEntry) {
	t.Helper()
	file := int64(lake.UnknownSequence)
	if want.FileSequenceNumber != nil {
		file = *want.FileSequenceNumber
	}
	if e.SnapshotID != want.SnapshotID || e.DataSequence != want.DataSequenceNumber || e.FileSequence != file || e.SpecID != want.SpecID {
		t.Errorf("%s: snapshot %d, sequences %d and %d, spec %d: want %+v", e, e.SnapshotID, e.DataSequence, e.FileSequence, e.SpecID, want)
	}
	if fmt.Sprint(deref(e.FirstRowID)) != fmt.Sprint(deref(want.FirstRowID)) {
		t.Errorf("%s: first row ID %v, want %v", e, deref(e.FirstRowID), deref(want.FirstRowID))
	}
}

func deref(p *int64) any {
	if p == nil {
		return nil
	}
	return *p
}

func roundTrip(t *testing.T, tbl *lake.Table, e lake.Entry) {
	t.Helper()
	spec := *tbl.Metadata.PartitionSpecByID(e.SpecID)
	schema, err := tbl.SpecSchema(spec)
	if err != nil {
		t.Fatal(err)
	}
	data, err := lake.EncodeFile(e.File, spec, schema)
	if err != nil {
		t.Fatal(err)
	}
	back, err := lake.DecodeFile(data, spec, schema)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describe(t, spec, back), describe(t, spec, e.File); got != want {
		t.Errorf("file changed on its way through the codec:\n%s\nwant\n%s", got, want)
	}
}

// describe spells everything that a data file knows.
func describe(t *testing.T, spec iceberg.PartitionSpec, f iceberg.DataFile) string {
	t.Helper()
	key, err := lake.PartitionKey(spec, f.Partition())
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(f.ContentType(), f.FilePath(), f.FileFormat(), key, f.Count(), f.FileSizeBytes(), f.ColumnSizes(), f.ValueCounts(),
		f.NullValueCounts(), f.NaNValueCounts(), f.LowerBoundValues(), f.UpperBoundValues(), string(f.KeyMetadata()), f.SplitOffsets(),
		f.EqualityFieldIDs(), f.SpecID(), deref(f.FirstRowID()), deref(f.ContentOffset()), deref(f.ContentSizeInBytes()))
	if f.SortOrderID() != nil {
		text += fmt.Sprint(" order ", *f.SortOrderID())
	}
	if f.ReferencedDataFile() != nil {
		text += " of " + *f.ReferencedDataFile()
	}
	return text
}
