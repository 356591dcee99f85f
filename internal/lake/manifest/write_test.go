package manifest_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/codec"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"firn/internal/lake"
	"firn/internal/lake/manifest"
)

// copyManifest writes the live entries of another engine's manifest again and lets iceberg-go read them: nothing is lost, what was inherited stands
// in them, and the list says of the new manifest what the library's own writer would say. It returns their number.
func copyManifest(t *testing.T, name string, tbl *lake.Table, m iceberg.ManifestFile, data []byte) int {
	t.Helper()
	spec := *tbl.Metadata.PartitionSpecByID(int(m.PartitionSpecID()))
	schema, err := tbl.SpecSchema(spec)
	if err != nil {
		t.Fatal(err)
	}
	version := tbl.Metadata.Version()
	layout, err := manifest.NewLayout(version, spec, schema)
	if err != nil {
		t.Fatal(err)
	}
	w, err := layout.NewWriter(m.ManifestContent(), 77, "s3://b/copy.avro")
	if err != nil {
		t.Fatal(err)
	}
	var entries []manifest.Entry
	if err := manifest.Read(data, m, manifest.Options{}, nil, func(e manifest.Entry) bool {
		entries = append(entries, e)
		err := w.Existing(e)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return err == nil
	}); err != nil || len(entries) == 0 {
		return 0
	}
	out, line, err := w.Close("s3://b/copy.avro")
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	read := libraryEntries(t, out, listed(line))
	for i, e := range entries {
		e.Status = iceberg.EntryStatusEXISTING
		if i >= len(read) {
			t.Fatalf("%s: %d entries came back of %d", name, len(read), len(entries))
		}
		if got, want := describeLibrary(read[i]), describeEntry(e); got != want {
			t.Errorf("%s: a copied entry\n%s\nwant\n%s", name, got, want)
		}
	}
	library, err := libraryLine(version, spec, schema, m, data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if got, want := describeLine(line), describeLine(library); got != want {
		t.Errorf("%s: a line\n%s\nwant\n%s", name, got, want)
	}
	return len(entries)
}

// listed is a new manifest as it stands in a list: with the sequence number of its commit.
func listed(m iceberg.ManifestFile) iceberg.ManifestFile {
	b := iceberg.NewManifestFile(m.Version(), m.FilePath(), m.Length(), m.PartitionSpecID(), m.SnapshotID()).Content(m.ManifestContent())
	if m.Version() > 1 {
		b = b.SequenceNum(9, 0)
	}
	return b.Build()
}

// libraryLine lets iceberg-go write the same manifest.
func libraryLine(version int, spec iceberg.PartitionSpec, schema *iceberg.Schema, m iceberg.ManifestFile, data []byte) (iceberg.ManifestFile, error) {
	var out bytes.Buffer
	w, err := iceberg.NewManifestWriter(version, &out, spec, schema, 77, iceberg.WithManifestWriterContent(m.ManifestContent()))
	if err != nil {
		return nil, err
	}
	entries, err := iceberg.ReadManifest(m, bytes.NewReader(data), true)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := w.Existing(e); err != nil {
			return nil, err
		}
	}
	return w.ToManifestFile("s3://b/copy.avro", 0)
}

// describeLine is describeManifest without the length, which two compressors make different.
func describeLine(m iceberg.ManifestFile) string {
	return strings.Replace(describeManifest(m), fmt.Sprint(m.FilePath(), m.Length()), m.FilePath(), 1)
}

// everyType is a table with a column of each type that may be a partition, and a spec with all of them.
func everyType(t testing.TB) (*iceberg.Schema, iceberg.PartitionSpec) {
	t.Helper()
	types := []iceberg.Type{
		iceberg.PrimitiveTypes.Bool, iceberg.PrimitiveTypes.Int32, iceberg.PrimitiveTypes.Int64, iceberg.PrimitiveTypes.Float32,
		iceberg.PrimitiveTypes.Float64, iceberg.PrimitiveTypes.String, iceberg.PrimitiveTypes.Binary, iceberg.PrimitiveTypes.Date,
		iceberg.PrimitiveTypes.Time, iceberg.PrimitiveTypes.Timestamp, iceberg.PrimitiveTypes.TimestampTz, iceberg.PrimitiveTypes.UUID,
		iceberg.FixedTypeOf(3), iceberg.DecimalTypeOf(9, 2), iceberg.PrimitiveTypes.TimestampNs,
	}
	var fields []iceberg.NestedField
	var parts []iceberg.PartitionField
	for i, typ := range types {
		fields = append(fields, iceberg.NestedField{ID: i + 1, Name: fmt.Sprintf("c%d", i), Type: typ})
		parts = append(parts, iceberg.PartitionField{
			SourceIDs: []int{i + 1}, FieldID: 1000 + i, Name: fmt.Sprintf("c%d", i), Transform: iceberg.IdentityTransform{},
		})
	}
	return iceberg.NewSchema(0, fields...), iceberg.NewPartitionSpecID(4, parts...)
}

// drawTuple draws a value or null for each field of everyType.
func drawTuple(t *rapid.T) map[int]any {
	n := rapid.Int64().Draw(t, "n")
	raw := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes")
	values := []any{
		n&1 == 0, int32(n), n, float32(n), math.Float64frombits(uint64(n)), rapid.String().Draw(t, "text"), raw[:n&7], iceberg.Date(n >> 40),
		iceberg.Time(n & 0xfffffff), iceberg.Timestamp(n >> 8), iceberg.Timestamp(n >> 9), uuid.UUID(raw), raw[:3],
		iceberg.DecimalLiteral{Scale: 2, Val: decimal128.FromI64(n % 1_000_000_000)},
		iceberg.TimestampNano(n >> 1),
	}
	out := map[int]any{}
	for i, v := range values {
		if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
			v = nil
		}
		out[1000+i] = v
	}
	return out
}

// drawFile draws a file with any of its fields.
func drawFile(t *rapid.T, spec iceberg.PartitionSpec, deletes bool, version int) iceberg.DataFile {
	kind, format := iceberg.EntryContentData, iceberg.ParquetFile
	if deletes {
		kind = rapid.SampledFrom([]iceberg.ManifestEntryContent{iceberg.EntryContentPosDeletes, iceberg.EntryContentEqDeletes}).Draw(t, "kind")
	}
	b, err := iceberg.NewDataFileBuilder(spec, kind, "s3://b/"+rapid.StringN(1, 20, 60).Draw(t, "path"), format, drawTuple(t), nil, nil,
		rapid.Int64Range(0, math.MaxInt64/4).Draw(t, "count"), rapid.Int64Range(0, math.MaxInt64).Draw(t, "size"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := rapid.MapOfN(rapid.IntRange(1, 300), rapid.Int64(), 0, 5)
	bounds := rapid.MapOfN(rapid.IntRange(1, 300), rapid.SliceOfN(rapid.Byte(), 1, 9), 0, 5)
	some := func() bool { return rapid.Bool().Draw(t, "some") }
	if some() {
		b = b.ColumnSizes(numbers.Draw(t, "sizes")).ValueCounts(numbers.Draw(t, "values")).NullValueCounts(numbers.Draw(t, "nulls"))
	}
	if some() {
		b = b.NaNValueCounts(numbers.Draw(t, "nans")).LowerBoundValues(bounds.Draw(t, "lower")).UpperBoundValues(bounds.Draw(t, "upper"))
	}
	if some() {
		b = b.KeyMetadata([]byte{1, 2}).SplitOffsets([]int64{4, rapid.Int64().Draw(t, "split")}).SortOrderID(7)
	}
	if deletes && some() {
		b = b.EqualityFieldIDs([]int{1, 4})
	}
	if version == 3 && some() {
		b = b.ReferencedDataFile("s3://b/x").ContentOffset(4).ContentSizeInBytes(9)
	}
	return b.Build()
}

// TestRandomEntriesBothWays: what the library writes is read as the library reads it, written again and read by the library as it was; and the
// library decodes what was encoded for transport.
func TestRandomEntriesBothWays(t *testing.T) {
	t.Parallel()
	schema, spec := everyType(t)
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.IntRange(1, 3).Draw(t, "version")
		content := iceberg.ManifestContentData
		if version > 1 && rapid.Bool().Draw(t, "deletes") {
			content = iceberg.ManifestContentDeletes
		}
		var out bytes.Buffer
		w, err := iceberg.NewManifestWriter(version, &out, spec, schema, 5, iceberg.WithManifestWriterContent(content))
		if err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(1, 4).Draw(t, "entries")
		for range n {
			f := drawFile(t, spec, content == iceberg.ManifestContentDeletes, version)
			sequence := rapid.Int64Range(0, 9).Draw(t, "sequence")
			if err := w.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, nil, &sequence, nil, f)); err != nil {
				t.Fatal(err)
			}
		}
		line, err := w.ToManifestFile("s3://b/m.avro", int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		first := readBoth(t, out.Bytes(), listed(line))
		again, err := manifest.NewLayout(version, spec, schema)
		if err != nil {
			t.Fatal(err)
		}
		mine, err := again.NewWriter(content, 6, "x")
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range first {
			transported(t, e.File, spec, schema)
			if i%2 == 0 {
				err = mine.Existing(e)
			} else {
				err = mine.Delete(e)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		data, made, err := mine.Close("s3://b/m2.avro")
		if err != nil {
			t.Fatal(err)
		}
		second := readBoth(t, data, listed(made))
		if len(first) != n || len(second) != n {
			t.Fatalf("%d entries were written, %d and %d read", n, len(first), len(second))
		}
		for i := range first {
			if got, want := describeFile(second[i].File), describeFile(first[i].File); got != want {
				t.Fatalf("a file came back as\n%s\nwant\n%s", got, want)
			}
		}
	})
}

// readBoth reads a manifest and compares the result with the library's.
func readBoth(t *rapid.T, data []byte, m iceberg.ManifestFile) []manifest.Entry {
	var got []manifest.Entry
	if err := manifest.Read(data, m, manifest.Options{IncludeDeleted: true}, nil, func(e manifest.Entry) bool {
		got = append(got, e)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	want, err := iceberg.ReadManifest(m, bytes.NewReader(data), false)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d entries, the library reads %d", len(got), len(want))
	}
	for i, e := range got {
		if g, w := describeEntry(e), describeLibrary(want[i]); g != w {
			t.Fatalf("entry\n%s\nwant\n%s", g, w)
		}
	}
	return got
}

func transport(t rapid.TB, spec iceberg.PartitionSpec, schema *iceberg.Schema) *manifest.Transport {
	t.Helper()
	c, err := manifest.NewTransport(spec, schema)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func transported(t *rapid.T, f iceberg.DataFile, spec iceberg.PartitionSpec, schema *iceberg.Schema) {
	c := transport(t, spec, schema)
	data, err := c.Append(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	library, err := codec.DecodeDataFile(data, spec, schema, 3)
	if err != nil {
		t.Fatal(err)
	}
	own, err := c.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Append(nil, library)
	if err != nil {
		t.Fatal(err)
	}
	want := describeFile(f)
	if got := describeFile(library); got != want {
		t.Fatalf("the library decodes\n%s\nwant\n%s", got, want)
	}
	if got := describeFile(own); got != want {
		t.Fatalf("decoded\n%s\nwant\n%s", got, want)
	}
	if twice, err := c.Decode(again); err != nil || describeFile(twice) != want {
		t.Fatalf("the library's file is encoded otherwise: %v", err)
	}
}

// TestPromotedPartitions: a manifest whose partition was written before the source column was promoted, or with a plain number for a day, is
// written with the type that the table has now.
func TestPromotedPartitions(t *testing.T) {
	t.Parallel()
	spec := func(n int) iceberg.PartitionSpec {
		return iceberg.NewPartitionSpecID(n, iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{}})
	}
	for name, c := range map[string]struct {
		before, after iceberg.Type
		value, want   any
	}{
		"int to long":     {iceberg.PrimitiveTypes.Int32, iceberg.PrimitiveTypes.Int64, int32(-7), int64(-7)},
		"float to double": {iceberg.PrimitiveTypes.Float32, iceberg.PrimitiveTypes.Float64, float32(0.5), 0.5},
		"wider decimal": {
			iceberg.DecimalTypeOf(4, 2), iceberg.DecimalTypeOf(18, 2),
			iceberg.DecimalLiteral{Scale: 2, Val: decimal128.FromI64(-150)},
			iceberg.DecimalLiteral{Scale: 2, Val: decimal128.FromI64(-150)},
		},
		"day as a number": {iceberg.PrimitiveTypes.Int32, iceberg.PrimitiveTypes.Date, int32(19000), iceberg.Date(19000)},
	} {
		old := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "c", Type: c.before})
		b, err := iceberg.NewDataFileBuilder(spec(0), iceberg.EntryContentData, "s3://b/f", iceberg.ParquetFile, map[int]any{1000: c.value}, nil, nil, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		before := transport(t, spec(0), old)
		data, err := before.Append(nil, b.Build())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f, err := before.Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		now := iceberg.NewSchema(1, iceberg.NestedField{ID: 1, Name: "c", Type: c.after})
		after := transport(t, spec(0), now)
		if data, err = after.Append(nil, f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f, err = after.Decode(data); err != nil || fmt.Sprintf("%T%v", f.Partition()[1000], f.Partition()[1000]) !=
			fmt.Sprintf("%T%v", c.want, c.want) {
			t.Errorf("%s: %v, error %v", name, f.Partition(), err)
		}
	}
}

// TestTransportIsShared: files that one transport decoded keep no description of the format of their own, which would weigh more than they do.
func TestTransportIsShared(t *testing.T) { //nolint:paralleltest // it counts allocations
	schema, spec := everyType(t)
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, "s3://b/f", iceberg.ParquetFile, nil, nil, nil, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	c := transport(t, spec, schema)
	data, err := c.Append(nil, b.Build())
	if err != nil {
		t.Fatal(err)
	}
	const most = 8 // The file, its path, the bytes of its fields, and pointers to numbers.
	if n := testing.AllocsPerRun(10, func() {
		if _, err := c.Decode(data); err != nil {
			t.Error(err)
		}
	}); n > most {
		t.Errorf("a file is decoded with %v allocations, want at most %d", n, most)
	}
}

func TestWhatCannotBeWrittenIsRefused(t *testing.T) {
	t.Parallel()
	schema, spec := everyType(t)
	layout, err := manifest.NewLayout(2, spec, schema)
	if err != nil {
		t.Fatal(err)
	}
	w, err := layout.NewWriter(iceberg.ManifestContentData, 1, "x")
	if err != nil {
		t.Fatal(err)
	}
	build := func(content iceberg.ManifestEntryContent, tuple map[int]any) iceberg.DataFile {
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, content, "s3://b/f", iceberg.ParquetFile, tuple, nil, nil, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		return b.Build()
	}
	for want, f := range map[string]iceberg.DataFile{
		"content EQUALITY":        build(iceberg.EntryContentEqDeletes, nil),
		"fields that spec 4":      build(iceberg.EntryContentData, map[int]any{1: int32(1)}),
		"partition field 1001":    build(iceberg.EntryContentData, map[int]any{1001: "text"}),
		"value 3000000000 of typ": build(iceberg.EntryContentData, map[int]any{1001: int64(3_000_000_000)}),
	} {
		if err := w.Add(f, nil); err == nil || !strings.Contains(strings.ToUpper(err.Error()), strings.ToUpper(want)) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, _, err := w.Close("x"); err == nil {
		t.Error("a manifest without entries was written")
	}
	if _, err := manifest.NewLayout(4, spec, schema); err == nil {
		t.Error("format version 4 was accepted")
	}
	one, err := manifest.NewLayout(1, spec, schema)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.NewWriter(iceberg.ManifestContentDeletes, 1, "x"); err == nil {
		t.Error("a delete manifest of version 1 was started")
	}
	partial := slices.Collect(func(yield func(iceberg.DataFile) bool) { yieldPartial(t, schema, spec, yield) })
	if _, err := transport(t, spec, schema).Append(nil, partial[0]); err == nil {
		t.Error("a file without its statistics was encoded")
	}
}

func yieldPartial(t *testing.T, schema *iceberg.Schema, spec iceberg.PartitionSpec, yield func(iceberg.DataFile) bool) {
	t.Helper()
	var out bytes.Buffer
	w, err := iceberg.NewManifestWriter(2, &out, spec, schema, 5)
	if err != nil {
		t.Fatal(err)
	}
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, "s3://b/f", iceberg.ParquetFile, nil, nil, nil, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, nil, nil, nil, b.Build())); err != nil {
		t.Fatal(err)
	}
	m, err := w.ToManifestFile("s3://b/m", int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	line := iceberg.NewManifestFile(2, m.FilePath(), m.Length(), 4, 5).SequenceNum(3, 3).Build()
	if err := manifest.Read(out.Bytes(), line, manifest.Options{WithoutStats: true}, nil, func(e manifest.Entry) bool { return yield(e.File) }); err != nil {
		t.Fatal(err)
	}
}
