package manifest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
	"firn/internal/lake/manifest"
)

// snapshotsOfEach is how many snapshots of a reference table are read.
const snapshotsOfEach = 6

// TestReferenceTablesAsTheLibraryReadsThem compares every field of lists and manifests that other engines wrote with what iceberg-go reads, and
// writes the current snapshot's manifests again.
func TestReferenceTablesAsTheLibraryReadsThem(t *testing.T) {
	t.Parallel()
	ctx, lists, entries, copied := context.Background(), 0, 0, 0
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		tbl := ref.Table(t)
		memo, met := &manifest.Memo{}, map[string]bool{}
		snapshots := tbl.Metadata.Snapshots()
		for _, snap := range snapshots[max(0, len(snapshots)-snapshotsOfEach):] {
			data, err := ref.Store.Get(ctx, snap.ManifestList)
			if err != nil {
				continue // a table whose old files are gone
			}
			lists++
			manifests := sameList(t, name, data, memo)
			for _, m := range manifests {
				if met[m.FilePath()] {
					continue
				}
				met[m.FilePath()] = true
				data, err := ref.Store.Get(ctx, m.FilePath())
				if err != nil {
					continue
				}
				entries += sameEntries(t, name, data, m, memo)
				if snap.SnapshotID == tbl.Metadata.CurrentSnapshot().SnapshotID {
					copied += copyManifest(t, name, tbl, m, data)
				}
			}
		}
	}
	if lists < 100 || entries < 900 || copied < 400 {
		t.Errorf("only %d lists and %d entries were compared, %d copied", lists, entries, copied)
	}
}

func sameList(t *testing.T, name string, data []byte, memo *manifest.Memo) []iceberg.ManifestFile {
	t.Helper()
	want, err := iceberg.ReadManifestList(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got, err := manifest.ReadList(data, memo)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d manifests, want %d", name, len(got), len(want))
	}
	for i := range got {
		if g, w := describeManifest(got[i]), describeManifest(want[i]); g != w {
			t.Errorf("%s: manifest\n%s\nwant\n%s", name, g, w)
		}
	}
	sameListBut(t, name, data, memo, want)
	return want
}

// sameListBut reads past every other manifest.
func sameListBut(t *testing.T, name string, data []byte, memo *manifest.Memo, want []iceberg.ManifestFile) {
	t.Helper()
	asked := 0
	got, count, err := manifest.ReadListBut(data, memo, func(path []byte) bool {
		if asked >= len(want) || string(path) != want[asked].FilePath() {
			t.Errorf("%s: asked for %q as manifest %d", name, path, asked)
		}
		asked++
		return asked%2 == 0
	})
	if err != nil || count != len(want) || len(got) != (len(want)+1)/2 {
		t.Fatalf("%s: got %d of %d manifests, want every other of %d: %v", name, len(got), count, len(want), err)
	}
	for i := range got {
		if g, w := describeManifest(got[i]), describeManifest(want[2*i]); g != w {
			t.Errorf("%s: manifest\n%s\nwant\n%s", name, g, w)
		}
	}
}

func sameEntries(t *testing.T, name string, data []byte, m iceberg.ManifestFile, memo *manifest.Memo) int {
	t.Helper()
	want := libraryEntries(t, data, m)
	for _, stream := range []bool{false, true} {
		var got []manifest.Entry
		visit := func(e manifest.Entry) bool {
			got = append(got, e)
			return true
		}
		opts := manifest.Options{IncludeDeleted: true}
		var err error
		if stream {
			err = manifest.ReadStream(io.MultiReader(bytes.NewReader(data[:len(data)/2]), bytes.NewReader(data[len(data)/2:])), m, opts, nil, visit)
		} else {
			err = manifest.Read(data, m, opts, memo, visit)
		}
		if err != nil {
			t.Fatalf("%s: %s: %v", name, m.FilePath(), err)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %s: %d entries, want %d", name, m.FilePath(), len(got), len(want))
		}
		for i, e := range got {
			if g, w := describeEntry(e), describeLibrary(want[i]); g != w {
				t.Errorf("%s: %s: entry %d\n%s\nwant\n%s", name, m.FilePath(), i, g, w)
			}
		}
	}
	return len(want)
}

func libraryEntries(t *testing.T, data []byte, m iceberg.ManifestFile) []iceberg.ManifestEntry {
	t.Helper()
	r, err := iceberg.NewManifestReader(m, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var out []iceberg.ManifestEntry
	for {
		e, err := r.ReadEntry()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
}

func describeManifest(m iceberg.ManifestFile) string {
	parts := []string{fmt.Sprint(m.Version(), m.FilePath(), m.Length(), m.PartitionSpecID(), m.ManifestContent(), m.SnapshotID(), m.AddedDataFiles(),
		m.ExistingDataFiles(), m.DeletedDataFiles(), m.AddedRows(), m.ExistingRows(), m.DeletedRows(), m.SequenceNum(), m.MinSequenceNum(),
		[]any{m.KeyMetadata()}, deref(m.FirstRowID()), m.Partitions() == nil)}
	for _, s := range m.Partitions() {
		parts = append(parts, fmt.Sprintf("%t %v %v %v", s.ContainsNull, deref(s.ContainsNaN), deref(s.LowerBound), deref(s.UpperBound)))
	}
	return strings.Join(parts, "; ")
}

func describeEntry(e manifest.Entry) string {
	return fmt.Sprint(e.Status, e.SnapshotID, e.DataSequence, e.FileSequence) + describeFile(e.File)
}

func describeLibrary(e iceberg.ManifestEntry) string {
	sequence, file := e.SequenceNum(), int64(manifest.UnknownSequence)
	if n := e.FileSequenceNum(); n != nil {
		file = *n
	}
	return fmt.Sprint(e.Status(), e.SnapshotID(), sequence, file) + describeFile(e.DataFile())
}

func describeFile(f iceberg.DataFile) string {
	parts := []string{fmt.Sprint(f.ContentType(), f.FilePath(), f.FileFormat(), f.Count(), f.FileSizeBytes(), f.SpecID())}
	parts = append(parts, fmt.Sprintf("%T%v", f.Partition(), f.Partition()), fmt.Sprint(f.ColumnSizes(), f.ValueCounts(), f.NullValueCounts(),
		f.NaNValueCounts(), f.DistinctValueCounts(), f.LowerBoundValues(), f.UpperBoundValues()), fmt.Sprint([]any{f.KeyMetadata()}, f.SplitOffsets(),
		f.EqualityFieldIDs()), fmt.Sprint(deref(f.SortOrderID()), deref(f.FirstRowID()), deref(f.ReferencedDataFile()), deref(f.ContentOffset()),
		deref(f.ContentSizeInBytes())))
	for _, id := range slices.Sorted(maps.Keys(f.Partition())) {
		parts = append(parts, fmt.Sprintf("%d %T", id, f.Partition()[id]))
	}
	return strings.Join(parts, "; ")
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}
