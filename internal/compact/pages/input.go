package pages

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/layout"
	"firn/internal/store"
)

const (
	// tailBytes is what the first request fetches from a file's end: nearly every footer and page index fits.
	tailBytes = 128 << 10
	// indexBytes is the most of a file's page index that is read; beyond, the output has none for its columns. keptIndexBytes bounds what all
	// inputs together keep in memory; beyond, a page index is read again when it is needed.
	indexBytes, keptIndexBytes = 4 << 20, 8 << 20
)

// input is a data file of the group: what its footer says of the table's columns, without the footer.
type input struct {
	engine.Input
	index int
	// whole is the file when it is held in memory.
	whole  []byte
	groups []group
	shape  *shape
	// indexSpan is where column and offset indexes are; pageIndex holds them while they are in memory, for good if indexKept.
	indexSpan span
	pageIndex []byte
	indexKept bool
}

// group is a row group; chunks are in the order of the table's leaves.
type group struct {
	rows   int64
	chunks []chunk
	// codec is that of all chunks; mixed if there are several.
	codec int64
	// kept is the footer of a row group that is copied as a whole, with the chunks of the table's leaves; else nil.
	kept []byte
	// declined says why its pages cannot be copied, which does not matter for one that is kept.
	declined error
}

// raw says that the pages of a leaf can be copied as they are. Nulls of row lineage have a meaning, which has to be written out.
func (g *group) raw(in *input, leaf int) bool {
	m := &in.shape.maps[leaf]
	return m.Raw() && (in.FirstRowID == nil || !m.IsLineage() || g.chunks[leaf].nulls == 0)
}

// none is the codec of a group without columns, mixed that of one with several.
const none, mixed = -2, -1

func (g *group) bytes() (n int64) {
	for i := range g.chunks {
		n += g.chunks[i].length
	}
	return n
}

// chunk is what is known of a column chunk. Offsets are in the file.
type chunk struct {
	offset, length int64
	// dictionary is the length of the dictionary page in front; 0 when there is none.
	dictionary int64
	values     int64
	codec      encoding.Codec
	// pages is the number of data pages; 0 when unknown.
	pages int64
	// nulls is metrics.Unknown, min and max are nil when absent or not to be trusted.
	nulls    int64
	min, max []byte
	// trusted says that bounds of its pages may be used.
	trusted                  bool
	columnIndex, offsetIndex span
	// bloom is where a bloom filter is; its length is 0 when the footer does not say it.
	bloom span
}

type span struct{ offset, length int64 }

// unreadable leaves a file at fault to the other engine, which says what is wrong with it.
func (in *input) unreadable(err error) error {
	return decline("the footer of %s cannot be used: %v", in.FilePath(), err)
}

// open reads the footer, and keeps the whole file if it is to be held.
func (in *input) open(ctx context.Context, r *rewrite, whole bool) error {
	size := in.FileSizeBytes()
	n := min(size, tailBytes)
	if whole {
		n = size
	}
	var buf []byte
	if !whole { // Nothing of the end is kept.
		var at int64
		buf, at = r.arena.take(n + 1)
		defer func() { r.arena.give(buf, at) }()
	}
	tail, err := in.fetchEnd(ctx, r.store, size-n, buf)
	if err != nil {
		return err
	}
	if whole {
		in.whole = tail
	}
	length, err := footer.Length(tail, size)
	if err != nil {
		return in.unreadable(err)
	}
	if missing := length + footer.TrailerBytes - int64(len(tail)); missing > 0 {
		front, err := in.fetch(ctx, r.store, span{size - int64(len(tail)) - missing, missing}, nil)
		if err != nil {
			return err
		}
		tail = append(front, tail...) // In memory of its own.
	}
	end := int64(len(tail)) - footer.TrailerBytes
	f, err := footer.DecodeFile(tail[end-length : end])
	if err != nil {
		return in.unreadable(err)
	}
	if err := in.describe(r, f, size-footer.TrailerBytes-length); err != nil {
		return err
	}
	in.findIndex()
	if in.indexSpan.length == 0 || r.heldIndexes.Add(in.indexSpan.length) > keptIndexBytes {
		return nil
	}
	in.indexKept = true
	return in.readIndex(ctx, r.store, tail)
}

// fetchEnd reads the end of the file, into buf if that has room, and asks for one byte more to see that it ends there.
func (in *input) fetchEnd(ctx context.Context, st store.Reader, offset int64, buf []byte) ([]byte, error) {
	length := in.FileSizeBytes() - offset
	data, err := store.Buffered(st).GetRangeInto(ctx, in.FilePath(), offset, length+1, buf)
	if err := in.fault(err); err != nil {
		return nil, err
	}
	if int64(len(data)) != length {
		return nil, in.unreadable(fmt.Errorf("the object has not the %d bytes that its manifest entry says", in.FileSizeBytes()))
	}
	return data, nil
}

// fault sorts the errors of reading.
func (in *input) fault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrArchived), errors.Is(err, store.ErrPermission):
		return in.unreadable(err)
	default:
		return fmt.Errorf("read %s: %w", in.FilePath(), err)
	}
}

// fetch reads a range of the file, into buf if that has room; less than was asked for means that the file is shorter than its entry says.
func (in *input) fetch(ctx context.Context, st store.Reader, s span, buf []byte) ([]byte, error) {
	if s.length == 0 {
		return nil, nil
	}
	if in.whole != nil {
		return in.whole[s.offset : s.offset+s.length], nil
	}
	data, err := store.Buffered(st).GetRangeInto(ctx, in.FilePath(), s.offset, s.length, buf)
	if err := in.fault(err); err != nil {
		return nil, err
	}
	if int64(len(data)) != s.length {
		return nil, in.unreadable(fmt.Errorf("the object is shorter than the %d bytes of its manifest entry", in.FileSizeBytes()))
	}
	return data, nil
}

// describe takes out of a footer what is needed; end is where the footer begins in the file.
func (in *input) describe(r *rewrite, f footer.File, end int64) error {
	if f.Encrypted() {
		return in.unreadable(footer.ErrEncrypted)
	}
	var err error
	if in.shape, err = r.shapes.of(&r.job, in, f); err != nil {
		return decline("%s: %v", in.FilePath(), err)
	}
	columns, trust := make([]int, len(in.shape.maps)), make([]bool, len(in.shape.maps))
	for i := range in.shape.maps {
		m := &in.shape.maps[i]
		columns[i] = m.Column()
		trust[i] = m.Same() && trusted(r.job.Target.Layout.Leaves[i], f, columns[i])
	}
	var rows int64
	for n, g := range f.RowGroups() {
		own := group{rows: g.Rows(), codec: none}
		chunks := g.Columns()
		for leaf, c := range columns {
			if c < 0 {
				own.chunks = append(own.chunks, chunk{values: own.rows, nulls: -1})
				continue
			}
			if c >= len(chunks) || own.rows < 0 {
				return in.unreadable(fmt.Errorf("row group %d has %d columns and %d rows", n, len(chunks), own.rows))
			}
			if chunks[c].Encrypted() {
				return in.unreadable(footer.ErrEncrypted)
			}
			ch, err := newChunk(chunks[c], trust[leaf], end)
			if err != nil {
				return in.unreadable(fmt.Errorf("row group %d, column %s: %w", n, r.job.Target.Layout.Leaves[leaf].Path, err))
			}
			if !in.shape.maps[leaf].Own() {
				ch.dictionary, ch.nulls, ch.bloom = 0, -1, span{} // Only its levels are of use.
			}
			own.chunks = append(own.chunks, ch)
			if codec := chunks[c].Metadata().IntOr(footer.ColumnCodec, mixed); own.codec == none {
				own.codec = codec
			} else if codec != own.codec {
				own.codec = mixed
			}
		}
		for leaf, c := range columns {
			if own.declined == nil && c >= 0 {
				own.declined = r.acceptChunk(leaf, chunks[c])
			}
		}
		if in.deletedIn(rows, own.rows) == 0 {
			r.keep(in, &own, g)
		}
		if own.kept == nil && own.declined != nil {
			return own.declined
		}
		rows += own.rows
		in.groups = append(in.groups, own)
	}
	if rows != f.Rows() || rows != in.Count() {
		return in.unreadable(fmt.Errorf("row groups of %d rows, the footer says %d, the manifest entry %d", rows, f.Rows(), in.Count()))
	}
	return nil
}

func newChunk(c footer.Chunk, trust bool, end int64) (chunk, error) {
	m := c.Metadata()
	out := chunk{values: m.IntOr(footer.ColumnValues, -1), codec: encoding.Codec(m.IntOr(footer.ColumnCodec, mixed)), nulls: -1, trusted: trust}
	out.offset, out.length = m.Span()
	if data := m.IntOr(footer.ColumnDataPage, -1); data > out.offset {
		out.dictionary = data - out.offset
	}
	if out.values < 0 || out.offset < int64(len(footer.Magic)) || out.length < out.dictionary || out.offset > end-out.length {
		return chunk{}, fmt.Errorf("%d values at byte %d, %d long, in %d bytes: %w", out.values, out.offset, out.length, end, footer.ErrMalformed)
	}
	out.pages, _ = m.DataPages()
	s := m.Statistics()
	if n, ok := s.Int(footer.StatNulls); ok && n >= 0 && n <= out.values {
		out.nulls = n
	}
	if trust {
		out.min, out.max = bounds(s)
	}
	out.bloom.offset, out.bloom.length = m.Bloom()
	out.columnIndex = span{c.IntOr(footer.ChunkColumnIndex, 0), c.IntOr(footer.ChunkColumnIndexLength, 0)}
	out.offsetIndex = span{c.IntOr(footer.ChunkOffsetIndex, 0), c.IntOr(footer.ChunkOffsetIndexLength, 0)}
	for _, s := range []*span{&out.columnIndex, &out.offsetIndex} {
		if s.offset < 0 || s.length <= 0 || s.offset > end-s.length {
			*s = span{} // A page index out of place is no page index.
		}
	}
	if out.bloom.offset < int64(len(footer.Magic)) || out.bloom.offset > end-out.bloom.length {
		out.bloom = span{}
	}
	return out, nil
}

// bounds are the min_value and max_value of statistics, in memory of their own.
func bounds(s footer.Statistics) (lower, upper []byte) {
	if b, ok := s.Binary(footer.StatMin); ok {
		lower = append([]byte{}, b...)
	}
	if b, ok := s.Binary(footer.StatMax); ok {
		upper = append([]byte{}, b...)
	}
	return lower, upper
}

// trusted says whether a file's own bounds of a column mean what the format says. Without a column order they do so for types with one order
// only. parquet-go compares decimals in bytes without their sign, and leaves values out where a float column has NaN.
func trusted(leaf *layout.Leaf, f footer.File, column int) bool {
	if _, geometry := leaf.Type.(iceberg.GeometryType); geometry || leaf.Part {
		return false // Their bytes have no order.
	}
	single := leaf.Kind == layout.Boolean || leaf.Kind == layout.Int32 || leaf.Kind == layout.Int64
	if !f.TypeOrdered(column) && !single {
		return false
	}
	by := f.CreatedBy()
	if strings.Contains(by, "github.com/parquet-go") || strings.Contains(by, "segmentio") {
		return order(leaf) != encoding.BigDecimal && order(leaf) != encoding.Floating
	}
	return true
}

// findIndex finds the part of the file that holds page indexes.
func (in *input) findIndex() {
	first, last := in.FileSizeBytes(), int64(0)
	for i := range in.groups {
		for j := range in.groups[i].chunks {
			c := &in.groups[i].chunks[j]
			for _, s := range []span{c.columnIndex, c.offsetIndex} {
				if s.length > 0 {
					first, last = min(first, s.offset), max(last, s.offset+s.length)
				}
			}
		}
	}
	if first < last && last-first <= indexBytes {
		in.indexSpan = span{first, last - first}
	}
}

// readIndex puts the page indexes into memory; tail is what was read of the file's end.
func (in *input) readIndex(ctx context.Context, st store.Reader, tail []byte) error {
	if in.pageIndex != nil || in.indexSpan.length == 0 {
		return nil
	}
	if at := in.indexSpan.offset - in.FileSizeBytes() + int64(len(tail)); at >= 0 {
		in.pageIndex = append([]byte{}, tail[at:at+in.indexSpan.length]...)
		return nil
	}
	data, err := in.fetch(ctx, st, in.indexSpan, nil)
	in.pageIndex = data
	return err
}

// deletedIn is how many of n rows from first on are deleted.
func (in *input) deletedIn(first, n int64) int64 {
	if in.Mask == nil || n <= 0 {
		return 0
	}
	below := func(row int64) uint64 {
		if row <= 0 {
			return 0
		}
		return in.Mask.Rank(uint64(row - 1))
	}
	return int64(below(first+n) - below(first))
}

// spans are those of n rows from first on that are not deleted, counted from first.
func (in *input) spans(first, n int64) []encoding.Span {
	out := []encoding.Span{}
	it := in.Mask.Iterator()
	it.AdvanceIfNeeded(uint64(first))
	from := first
	for it.HasNext() && from < first+n {
		at := min(int64(it.Next()), first+n)
		if at > from {
			out = append(out, encoding.Span{From: int(from - first), To: int(at - first)})
		}
		from = at + 1
	}
	if from < first+n {
		out = append(out, encoding.Span{From: int(from - first), To: int(n)})
	}
	return out
}

// indexOf returns the bytes of a page index, nil when there are none.
func (in *input) indexOf(s span) []byte {
	at := s.offset - in.indexSpan.offset
	if s.length == 0 || at < 0 || at > int64(len(in.pageIndex))-s.length {
		return nil
	}
	return in.pageIndex[at : at+s.length]
}
