package footer_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"firn/internal/icebergtest"
	"firn/internal/parquet/footer"
	"firn/internal/store"
)

// TestReferenceFilesRoundTrip reads the footer, every page header and every page index of every Parquet file that other engines wrote, and
// demands the same bytes when they are written again.
func TestReferenceFilesRoundTrip(t *testing.T) {
	t.Parallel()
	files, pages, indexes := 0, 0, 0
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		for info, err := range ref.Store.List(context.Background(), "s3://firn-ref/", store.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(info.Location, ".parquet") {
				continue
			}
			data, err := ref.Store.Get(context.Background(), info.Location)
			if err != nil {
				t.Fatal(err)
			}
			n, err := footer.Length(data, int64(len(data)))
			if err != nil {
				continue // Encrypted, or no Parquet file on purpose.
			}
			files++
			raw := data[int64(len(data))-n-footer.TrailerBytes:]
			f, err := footer.DecodeFile(raw[:n])
			if err != nil {
				t.Fatalf("%s: %v", info.Location, err)
			}
			if !bytes.Equal(footer.AppendFile(nil, f), raw) {
				t.Errorf("%s: the footer changed", info.Location)
			}
			p, i := chunks(t, info.Location, data, f)
			pages, indexes = pages+p, indexes+i
		}
	}
	if files < 100 || pages < 1000 || indexes < 100 {
		t.Errorf("only %d files, %d pages, %d indexes were seen", files, pages, indexes)
	}
	t.Logf("%d files, %d pages, %d indexes", files, pages, indexes)
}

func chunks(t *testing.T, at string, data []byte, f footer.File) (pages, indexes int) {
	t.Helper()
	rows := int64(0)
	for _, g := range f.RowGroups() {
		rows += g.Rows()
		for c, chunk := range g.Columns() {
			m := chunk.Metadata()
			offset, length := m.Span()
			var values, n int64
			for end := offset + length; offset < end; n++ {
				p, err := footer.DecodePage(data[offset:end])
				if err != nil {
					t.Fatalf("%s: column %d: %v", at, c, err)
				}
				if got := footer.Append(nil, p.Struct); !bytes.Equal(got, data[offset:offset+int64(p.Length)]) {
					t.Errorf("%s: column %d: a page header changed", at, c)
				}
				if p.Type() != footer.DictionaryPage {
					values += p.Values()
				} else {
					n--
				}
				offset += int64(p.Length) + p.CompressedBody()
				pages++
			}
			if values != m.IntOr(footer.ColumnValues, -1) {
				t.Errorf("%s: column %d: pages of %d values, the footer says %d", at, c, values, m.IntOr(footer.ColumnValues, -1))
			}
			if want, ok := m.DataPages(); ok && want != n {
				t.Errorf("%s: column %d: %d data pages, the footer says %d", at, c, n, want)
			}
			indexes += index(t, at, data, chunk, int(n))
		}
	}
	if rows != f.Rows() {
		t.Errorf("%s: row groups of %d rows, the footer says %d", at, rows, f.Rows())
	}
	return pages, indexes
}

func index(t *testing.T, at string, data []byte, c footer.Chunk, pages int) int {
	t.Helper()
	n := 0
	if from, ok := c.Int(footer.ChunkColumnIndex); ok {
		raw := data[from : from+c.IntOr(footer.ChunkColumnIndexLength, 0)]
		bounds, err := footer.ColumnIndex(raw)
		if err != nil || len(bounds) != pages {
			t.Errorf("%s: a column index of %d pages, there are %d: %v", at, len(bounds), pages, err)
		}
		s, _, err := footer.Decode(raw)
		if err != nil || !bytes.Equal(footer.Append(nil, s), raw) {
			t.Errorf("%s: a column index changed: %v", at, err)
		}
		n++
	}
	if from, ok := c.Int(footer.ChunkOffsetIndex); ok {
		raw := data[from : from+c.IntOr(footer.ChunkOffsetIndexLength, 0)]
		places, err := footer.OffsetIndex(raw)
		if err != nil || len(places) != pages {
			t.Errorf("%s: an offset index of %d pages, there are %d: %v", at, len(places), pages, err)
		}
		again, err := footer.OffsetIndex(footer.Append(nil, footer.NewOffsetIndex(places)))
		if err != nil || !slices.Equal(again, places) {
			t.Errorf("%s: an offset index changed: %v", at, err)
		}
		s, _, err := footer.Decode(raw)
		if err != nil || !bytes.Equal(footer.Append(nil, s), raw) {
			t.Errorf("%s: an offset index changed: %v", at, err)
		}
		n++
	}
	return n
}

// TestHostileCounts: a count or length beyond the data is an error, and does not allocate. It is not parallel, since it counts what the whole process
// allocates.
func TestHostileCounts(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x07}
	cases := map[string][]byte{
		"list":    append([]byte{0x19, 0xfc}, huge...),
		"map":     append([]byte{0x1b}, append(huge, 0x66)...),
		"binary":  append([]byte{0x18}, huge...),
		"depth":   bytes.Repeat([]byte{0x1c}, 1000),
		"lists":   bytes.Repeat([]byte{0x19, 0x19}, 1000),
		"varint":  bytes.Repeat([]byte{0xff}, 20),
		"empty":   nil,
		"kind":    {0x1d, 0x00},
		"long id": {0x05, 0xff, 0xff, 0xff, 0x0f, 0x02},
	}
	for name, data := range cases {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := footer.Decode(data)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, footer.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
	}
}

// TestUnknownFieldsSurvive: what this package does not know is written again, and absent null counts stay absent.
func TestUnknownFieldsSurvive(t *testing.T) {
	t.Parallel()
	s := &footer.Struct{}
	s.Put(300, footer.BinaryValue([]byte("new")))
	s.Put(2, footer.Int64Value(-5))
	s.Put(40, footer.BoolValue(true))
	s.Put(7, footer.Value{Kind: footer.Map, Items: &footer.Items{Key: footer.Binary, Element: footer.I32, Values: []footer.Value{
		footer.BinaryValue([]byte("k")), footer.Int32Value(9),
	}}})
	s.Put(9, footer.Value{Kind: footer.Double, Int: 0x3ff0000000000000})
	raw := footer.Append(nil, s)
	got, n, err := footer.Decode(append(bytes.Clone(raw), 1, 2, 3))
	if err != nil || n != len(raw) || !bytes.Equal(footer.Append(nil, got), raw) {
		t.Fatalf("%v, %d of %d bytes", err, n, len(raw))
	}
	if _, ok := got.Int(3); ok {
		t.Error("an absent field is there")
	}
	got.Put(2, footer.Int64Value(6))
	got.Drop(300)
	if v, _ := got.Int(2); v != 6 || got.Find(300) != nil {
		t.Error("a field was not changed")
	}
}

func FuzzDecode(f *testing.F) {
	s := &footer.Struct{}
	s.Put(1, footer.Int32Value(3))
	s.Put(2, footer.ListValue(footer.Record, []footer.Value{footer.RecordValue(footer.NewDictionaryPage(3, 9, 9, 1).Struct)}))
	f.Add(footer.Append(nil, s))
	f.Add(footer.Append(nil, footer.NewDictionaryPage(3, 9, 9, 1).Struct))
	f.Add(footer.Append(nil, footer.NewColumnIndex([]footer.Bounds{{Min: []byte("a"), Max: []byte("b"), Nulls: 1}}, footer.Ascending)))
	f.Add(footer.Append(nil, footer.NewOffsetIndex([]footer.Location{{Offset: 4, Bytes: 10}})))
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		defer func() {
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20+1000*uint64(len(data)) {
				t.Errorf("%d bytes allocated for %d", n, len(data))
			}
		}()
		if s, n, err := footer.Decode(data); err == nil {
			again, _, err := footer.Decode(footer.Append(nil, s))
			if err != nil || n > len(data) {
				t.Fatalf("%d of %d bytes: %v", n, len(data), err)
			}
			if !bytes.Equal(footer.Append(nil, again), footer.Append(nil, s)) {
				t.Fatal("not stable")
			}
			file := footer.File{Struct: s}
			file.Schema()
			file.TypeOrdered(0)
			for _, g := range file.RowGroups() {
				for _, c := range g.Columns() {
					c.Metadata().Span()
					c.Metadata().DataPages()
					c.Metadata().Encodings()
				}
			}
		}
		if p, err := footer.DecodePage(data); err == nil {
			p.V2()
			p.Statistics()
			p.LevelEncodings()
			if p.Type() != footer.IndexPage && p.Values() < 0 {
				t.Fatal("a page without values")
			}
		}
		_, _ = footer.ColumnIndex(data)
		_, _ = footer.OffsetIndex(data)
	})
}

// TestRecordsAreAllocatedOnce: a record's fields are allocated when their number is known, however many there are and however deep they lie.
func TestRecordsAreAllocatedOnce(t *testing.T) { //nolint:paralleltest // it counts allocations
	var s *footer.Struct
	for depth := range 20 {
		outer := &footer.Struct{}
		for id := range int16(7) {
			outer.Put(id+1, footer.Int64Value(int64(depth)))
		}
		if s != nil {
			outer.Put(8, footer.RecordValue(s))
		}
		s = outer
	}
	data := footer.Append(nil, s)
	back, n, err := footer.Decode(data)
	if err != nil || n != len(data) || !bytes.Equal(footer.Append(nil, back), data) {
		t.Fatalf("%d of %d bytes read, error %v", n, len(data), err)
	}
	const most = 2*20 + 4 // Each record and its fields, and the growth of the list of open ones.
	if n := testing.AllocsPerRun(10, func() { _, _, _ = footer.Decode(data) }); n > most {
		t.Errorf("%v allocations, want at most %d", n, most)
	}
}
