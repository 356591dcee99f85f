package encoding_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"firn/internal/parquet/encoding"
)

// chunk is a column in memory: the levels of all its positions and the values that are present, in PLAIN form without lengths.
type chunk struct {
	def, rep []uint8
	values   [][]byte
}

// leaf is a column that both sides know: arrow-go writes and reads it with its own encoders, the package moves its pages.
type leaf struct {
	name           string
	root           *schema.GroupNode
	maxDef, maxRep uint8
	width          int
	write          func(file.ColumnChunkWriter, chunk) error
	read           func(file.ColumnChunkReader, int) (chunk, error)
}

func widen16(v []uint8) []int16 {
	if len(v) == 0 {
		return nil // a flat column has none
	}
	out := make([]int16, len(v))
	for i, x := range v {
		out[i] = int16(x)
	}
	return out
}

func narrow(v []int16) []uint8 {
	out := make([]uint8, len(v))
	for i, x := range v {
		out[i] = uint8(x)
	}
	return out
}

func primitive(t *testing.T, rep parquet.Repetition, typ parquet.Type, length int) schema.Node {
	n, err := schema.NewPrimitiveNode("v", rep, typ, -1, int32(length))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func groupOf(t *testing.T, name string, rep parquet.Repetition, child schema.Node) *schema.GroupNode {
	n, err := schema.NewGroupNode(name, rep, schema.FieldList{child}, -1)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// leaves are a flat and a nested column of three physical types.
func leaves(t *testing.T) []leaf {
	required, optional, repeated := parquet.Repetitions.Required, parquet.Repetitions.Optional, parquet.Repetitions.Repeated
	flat := groupOf(t, "schema", required, primitive(t, optional, parquet.Types.Int64, -1))
	fixed := groupOf(t, "schema", required, primitive(t, optional, parquet.Types.FixedLenByteArray, 12))
	items := groupOf(t, "items", repeated, primitive(t, optional, parquet.Types.ByteArray, -1))
	nested := groupOf(t, "schema", required, groupOf(t, "list", optional, items))
	return []leaf{
		{"long", flat, 1, 0, 8, writeInt64, readInt64},
		{"fixed", fixed, 1, 0, 12, writeFixed, readFixed},
		{"nested strings", nested, 3, 1, encoding.ByteArray, writeBytes, readBytes},
	}
}

func writeInt64(w file.ColumnChunkWriter, c chunk) error {
	v := make([]int64, len(c.values))
	for i, b := range c.values {
		v[i] = int64(binary.LittleEndian.Uint64(b))
	}
	_, err := w.(*file.Int64ColumnChunkWriter).WriteBatch(v, widen16(c.def), widen16(c.rep))
	return err
}

func readInt64(r file.ColumnChunkReader, n int) (c chunk, err error) {
	v, def := make([]int64, n), make([]int16, n)
	total, got := int64(0), 0
	for int(total) < n && err == nil && r.HasNext() {
		k, m, e := r.(*file.Int64ColumnChunkReader).ReadBatch(int64(n)-total, v[got:], def[total:], nil)
		total, got, err = total+k, got+m, e
	}
	for _, x := range v[:got] {
		c.values = append(c.values, le64(x))
	}
	c.def = narrow(def[:total])
	return c, errors.Join(err, r.Err())
}

func writeFixed(w file.ColumnChunkWriter, c chunk) error {
	v := make([]parquet.FixedLenByteArray, len(c.values))
	for i, b := range c.values {
		v[i] = b
	}
	_, err := w.(*file.FixedLenByteArrayColumnChunkWriter).WriteBatch(v, widen16(c.def), widen16(c.rep))
	return err
}

func readFixed(r file.ColumnChunkReader, n int) (c chunk, err error) {
	for err == nil && len(c.def) < n && r.HasNext() {
		v, def := make([]parquet.FixedLenByteArray, n), make([]int16, n)
		k, m, e := r.(*file.FixedLenByteArrayColumnChunkReader).ReadBatch(int64(n), v, def, nil)
		for _, x := range v[:m] {
			c.values = append(c.values, bytes.Clone(x))
		}
		c.def, err = append(c.def, narrow(def[:k])...), e
	}
	return c, errors.Join(err, r.Err())
}

func writeBytes(w file.ColumnChunkWriter, c chunk) error {
	v := make([]parquet.ByteArray, len(c.values))
	for i, b := range c.values {
		v[i] = b
	}
	_, err := w.(*file.ByteArrayColumnChunkWriter).WriteBatch(v, widen16(c.def), widen16(c.rep))
	return err
}

func readBytes(r file.ColumnChunkReader, n int) (c chunk, err error) {
	for err == nil && len(c.def) < n && r.HasNext() {
		v, def, rep := make([]parquet.ByteArray, n), make([]int16, n), make([]int16, n)
		k, m, e := r.(*file.ByteArrayColumnChunkReader).ReadBatch(int64(n), v, def, rep)
		for _, x := range v[:m] {
			c.values = append(c.values, bytes.Clone(x))
		}
		c.def, c.rep, err = append(c.def, narrow(def[:k])...), append(c.rep, narrow(rep[:k])...), e
	}
	return c, errors.Join(err, r.Err())
}

// draw makes a chunk with runs, nulls and, when nested, lists of several lengths.
func (l leaf) draw(r *rand.Rand, rows, distinct int) chunk {
	var c chunk
	for range rows {
		items := 1
		if l.maxRep > 0 {
			items = 1 + r.IntN(3)
		}
		for i := range items {
			d := l.maxDef
			switch {
			case r.IntN(5) == 0 && items == 1:
				d = uint8(r.IntN(int(l.maxDef) + 1))
			case r.IntN(5) == 0:
				d = l.maxDef - 1
			}
			c.def = append(c.def, d)
			if l.maxRep > 0 {
				c.rep = append(c.rep, uint8(min(i, 1)))
			}
			if d == l.maxDef {
				c.values = append(c.values, l.value(r.IntN(distinct)))
			}
		}
	}
	return c
}

func (l leaf) value(k int) []byte {
	if l.width == encoding.ByteArray {
		return []byte(fmt.Sprint("value ", k*k))
	}
	return append(le64(uint64(k)*0x1234567), make([]byte, l.width-8)...)
}

// TestPagesOfArrow takes pages that arrow-go wrote, checks what they hold, merges the dictionaries of two files, and lets arrow-go read the pages
// made anew, once with indices into the merged dictionary and once expanded to PLAIN values.
func TestPagesOfArrow(t *testing.T) {
	t.Parallel()
	for _, l := range leaves(t) {
		for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
			for _, distinct := range []int{1, 2, 9, 300, 3000} {
				t.Run(fmt.Sprintf("%s/v%d/%d", l.name, version+1, distinct), func(t *testing.T) {
					t.Parallel()
					r := rand.New(rand.NewPCG(uint64(distinct), uint64(version)))
					var (
						want     chunk
						sources  []source
						d        = encoding.NewDictionary(l.width, 1<<20)
						pages    []file.Page
						expanded []file.Page
					)
					for range 2 {
						c := l.draw(r, 3000, distinct)
						want.def, want.rep, want.values = append(want.def, c.def...), append(want.rep, c.rep...), append(want.values, c.values...)
						s := l.takeApart(t, l.file(t, version, c))
						s.table = merge(t, d, s)
						sources = append(sources, s)
					}
					for _, s := range sources {
						indices, values := l.renew(t, s, d)
						pages, expanded = append(pages, indices...), append(expanded, values...)
					}
					if mixed := slices.ContainsFunc(sources[0].pages, func(p sourcePage) bool { return p.plain != nil }); mixed != (distinct == 3000) {
						t.Errorf("%d distinct values: dictionary given up: %t", distinct, mixed)
					}
					if d.Len() > distinct || (distinct < 10 && d.Len() != distinct) {
						t.Errorf("%d distinct values became %d entries", distinct, d.Len())
					}
					dict := file.NewDictionaryPage(memory.NewBufferBytes(d.Bytes()), int32(d.Len()), parquet.Encodings.Plain)
					l.compare(t, &pageList{pages: append([]file.Page{dict}, pages...)}, want)
					l.compare(t, &pageList{pages: expanded}, want)
				})
			}
		}
	}
}

// source is a chunk taken apart.
type source struct {
	dictionary []byte
	entries    int
	table      []uint32
	pages      []sourcePage
}

type sourcePage struct {
	n                int // positions
	present          int
	rep, def, levels []byte // levels are rep and def as version 1 has them
	width            int
	stream           []byte
	plain            []byte // values of a page after the dictionary was given up
}

// dictionaryLimit makes arrow-go go on with PLAIN pages where there are 3000 distinct values.
const dictionaryLimit = 10_000

func (l leaf) file(t *testing.T, version parquet.DataPageVersion, c chunk) []byte {
	var out bytes.Buffer
	props := parquet.NewWriterProperties(parquet.WithDictionaryDefault(true), parquet.WithDataPageSize(600), parquet.WithBatchSize(64), parquet.WithDataPageVersion(version),
		parquet.WithDictionaryCostFallbackFor(schema.NewSchema(l.root).Column(0).Path(), false), parquet.WithDictionaryPageSizeLimit(dictionaryLimit))
	w := file.NewParquetWriter(&out, l.root, file.WithWriterProps(props))
	rg, err := w.AppendRowGroupChecked()
	if err != nil {
		t.Fatal(err)
	}
	col, err := rg.NextColumn()
	if err == nil {
		err = l.write(col, c)
	}
	if err = errors.Join(err, col.Close(), rg.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (l leaf) takeApart(t *testing.T, data []byte) source {
	f, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.RowGroup(0).GetColumnPageReader(0)
	if err != nil {
		t.Fatal(err)
	}
	var s source
	for r.Next() {
		var p sourcePage
		rest := bytes.Clone(r.Page().Data())
		switch page := r.Page().(type) {
		case *file.DictionaryPage:
			s.dictionary, s.entries = rest, int(page.NumValues())
			continue
		case *file.DataPageV1:
			whole := rest
			if l.maxRep > 0 {
				p.rep, rest = split(t, rest)
			}
			p.def, rest = split(t, rest)
			p.levels = whole[:len(whole)-len(rest)]
		case *file.DataPageV2:
			reps, defs := page.RepetitionLevelByteLen(), page.DefinitionLevelByteLen()
			p.rep, p.def, rest = rest[:reps], rest[reps:reps+defs], rest[reps+defs:]
			if l.maxRep > 0 {
				p.levels = encoding.AppendPrefixed(p.levels, p.rep)
			}
			p.levels = encoding.AppendPrefixed(p.levels, p.def)
		}
		p.n = int(r.Page().NumValues())
		if p.present, err = encoding.CountLevels(p.def, encoding.LevelWidth(int(l.maxDef)), p.n, l.maxDef); err != nil {
			t.Fatal(err)
		}
		if r.Page().Encoding().String() == "PLAIN" {
			p.plain = rest
		} else if p.width, p.stream, err = encoding.SplitIndices(rest); err != nil {
			t.Fatal(err)
		}
		s.pages = append(s.pages, p)
	}
	if r.Err() != nil || len(s.pages) < 3 {
		t.Fatalf("%d pages: %v", len(s.pages), r.Err())
	}
	return s
}

func split(t *testing.T, page []byte) (stream, rest []byte) {
	stream, rest, err := encoding.SplitPrefixed(page)
	if err != nil {
		t.Fatal(err)
	}
	return stream, rest
}

func merge(t *testing.T, d *encoding.Dictionary, s source) []uint32 {
	table, err := d.Add(s.dictionary, s.entries)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// renew makes the pages of a source anew: with the levels as they are, and with levels decoded and encoded.
func (l leaf) renew(t *testing.T, s source, d *encoding.Dictionary) (indices, values []file.Page) {
	to := encoding.IndexWidth(d.Len())
	for _, p := range s.pages {
		if p.plain != nil {
			page := dataPage(append(slices.Clone(p.levels), p.plain...), p.n, parquet.Encodings.Plain)
			indices, values = append(indices, page), append(values, page)
			continue
		}
		stream, err := encoding.RemapIndices([]byte{byte(to)}, p.stream, p.present, encoding.Remap{FromWidth: p.width, ToWidth: to, Table: s.table})
		if err != nil {
			t.Fatal(err)
		}
		indices = append(indices, dataPage(append(slices.Clone(p.levels), stream...), p.n, parquet.Encodings.RLEDict))
		idx, err := encoding.DecodeIndices(nil, stream[1:], to, p.present)
		if err != nil {
			t.Fatal(err)
		}
		var body []byte
		if l.maxRep > 0 {
			body = encoding.AppendPrefixed(body, recode(t, p.rep, l.maxRep, p.n))
		}
		body = encoding.AppendPrefixed(body, recode(t, p.def, l.maxDef, p.n))
		if body, err = d.Expand(body, idx); err != nil {
			t.Fatal(err)
		}
		values = append(values, dataPage(body, p.n, parquet.Encodings.Plain))
	}
	return indices, values
}

func recode(t *testing.T, stream []byte, high uint8, n int) []byte {
	levels, err := encoding.DecodeLevels(nil, stream, high, n)
	if err != nil {
		t.Fatal(err)
	}
	out, err := encoding.EncodeLevels(nil, levels, high)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func dataPage(body []byte, n int, e parquet.Encoding) file.Page {
	return file.NewDataPageV1(memory.NewBufferBytes(body), int32(n), e, parquet.Encodings.RLE, parquet.Encodings.RLE, int32(len(body)))
}

// compare lets arrow-go decode pages.
func (l leaf) compare(t *testing.T, pages *pageList, want chunk) {
	pool := &sync.Pool{New: func() any { return memory.NewResizableBuffer(memory.DefaultAllocator) }}
	//nolint:staticcheck // There is no other way to have arrow-go decode pages that lie in no file.
	r := file.NewColumnReader(schema.NewSchema(l.root).Column(0), pages, memory.DefaultAllocator, pool)
	got, err := l.read(r, len(want.def))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.def, want.def) || !slices.Equal(got.rep, want.rep) {
		t.Errorf("arrow-go reads other levels: %d of %d", len(got.def), len(want.def))
	}
	if !slices.EqualFunc(got.values, want.values, bytes.Equal) {
		t.Errorf("arrow-go reads other values: %d of %d", len(got.values), len(want.values))
	}
}

// pageList gives pages in memory to a column reader of arrow-go.
type pageList struct {
	pages []file.Page
	at    int
}

func (p *pageList) SetMaxPageHeaderSize(int) {}
func (p *pageList) Page() file.Page          { return p.pages[p.at-1] }
func (p *pageList) Err() error               { return nil }
func (p *pageList) Close() error             { return nil }
func (p *pageList) SeekToPageWithRow(int64) error {
	return errors.ErrUnsupported
}

func (p *pageList) Next() bool {
	p.at++
	return p.at <= len(p.pages)
}

func (p *pageList) Reset(parquet.BufferedReader, int64, compress.Compression, *file.CryptoContext) {}

func (p *pageList) GetDictionaryPage() (*file.DictionaryPage, error) {
	return nil, errors.ErrUnsupported
}
