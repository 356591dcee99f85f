package pages

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/zeebo/xxh3"

	"firn/internal/compact/engine"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/layout"
)

// tools are coders and buffers that are used again for every page.
type tools struct {
	codec      encoding.Codec
	compress   *encoding.Compressor
	decompress encoding.Decompressor
	// dictionary is a decompressed dictionary page, body a data page, made its new form, packed that compressed, header a page header.
	dictionary, body, made, packed, header []byte
	indices                                []uint32
	levels                                 []uint8
}

func newTools(r engine.Job) (*tools, error) {
	codec := encoding.Codec(r.Writer.Codec)
	c, err := encoding.NewCompressor(codec, r.Writer.Level)
	return &tools{codec: codec, compress: c}, err
}

// tally is the proof of a column: sums of hashes of what was read and of what was written. A page that is copied counts with the hash of its
// body, of a page that is made anew every value does.
type tally struct {
	in, out           uint64
	nullsIn, nullsOut int64
}

// columnWriter writes one column chunk of an output from chunks of inputs.
type columnWriter struct {
	*rewrite
	out  *output
	leaf *layout.Leaf
	// maxDef is the leaf's maximum definition level in the files.
	maxDef int16
	// start is the chunk's offset; dataPage that of its first data page.
	start, dataPage int64
	merged          *merge
	raw, values     int64
	encodings       []footer.Encoding
	counts          []pageCount
	stats           limits
	locations       []footer.Location
	bounds          []footer.Bounds
	rows            int64
	// noPlaces says that rows of a page are not known, noBounds that its statistics are not.
	noPlaces, noBounds bool
}

// pageCount is one line of the chunk's encoding statistics.
type pageCount struct {
	kind     footer.PageType
	encoding footer.Encoding
	pages    int64
}

// where wraps a fault of an input with its place.
func (c *columnWriter) where(s rowGroupOf, page int, err error) error {
	if errors.Is(err, encoding.ErrTooLarge) || errors.Is(err, encoding.ErrUnsupported) {
		return decline("column %s of %s: %v", c.leaf.Path, s.in.FilePath(), err) // Sound, but not for this engine.
	}
	return fmt.Errorf("copy %s: row group %d, column %s, page %d: %w: %w", s.in.FilePath(), s.number, c.leaf.Path, page, err, engine.ErrRefused)
}

// copy writes the chunk.
func (c *columnWriter) copy(ctx context.Context, f *fetcher, sources []rowGroupOf) error {
	if err := c.dictionaries(f, sources); err != nil {
		return err
	}
	c.dataPage = c.out.size
	nulls := int64(0)
	for i, s := range sources {
		if err := ctx.Err(); err != nil {
			return err
		}
		ch := &s.chunks[c.leaf.Index]
		data, err := f.get(f.chunks[c.leaf.Index][i])
		if err != nil {
			return err
		}
		if err := c.source(s, data); err != nil {
			return err
		}
		f.release(f.chunks[c.leaf.Index][i])
		c.stats.add(c.leaf, ch.values, ch.nulls, ch.min, ch.max)
		nulls += max(ch.nulls, 0)
	}
	if !c.stats.noNulls {
		c.proof[c.leaf.Index].nullsIn += nulls
		c.proof[c.leaf.Index].nullsOut += c.stats.nulls
	}
	return nil
}

// page writes a page, and counts it.
func (c *columnWriter) page(kind footer.PageType, e footer.Encoding, header, body []byte, size int64) error {
	c.raw += int64(len(header)) + size
	at := slices.IndexFunc(c.counts, func(p pageCount) bool { return p.kind == kind && p.encoding == e })
	if at < 0 {
		at = len(c.counts)
		c.counts = append(c.counts, pageCount{kind: kind, encoding: e})
	}
	c.counts[at].pages++
	c.encoded(e)
	if err := c.out.write(header); err != nil {
		return err
	}
	return c.out.write(body)
}

func (c *columnWriter) encoded(e footer.Encoding) {
	if !slices.Contains(c.encodings, e) {
		c.encodings = append(c.encodings, e)
	}
}

// merge is the merged dictionary of a column chunk. Of the sources' dictionaries only one is in memory at a time: they are read to merge them, and
// again with the pages that refer to them.
type merge struct {
	dictionary *encoding.Dictionary
	// full says that it grew too large: the values of dictionary-coded pages are written out instead.
	full   bool
	hashes []uint64
}

// sourceDictionary is the dictionary of one source, with the hash and the new index of each entry.
type sourceDictionary struct {
	present  bool
	entries  encoding.Entries
	hashes   []uint64
	remap    []uint32
	identity bool
}

// valueWidth is the length of a leaf's PLAIN values; booleans have no dictionaries.
func valueWidth(leaf *layout.Leaf) int {
	switch leaf.Kind {
	case layout.Int32, layout.Float:
		return 4
	case layout.Int64, layout.Double:
		return 8
	case layout.Fixed:
		return leaf.Width
	default:
		return encoding.ByteArray
	}
}

// dictionaries merges the dictionaries of all sources and writes the merged one.
func (c *columnWriter) dictionaries(f *fetcher, sources []rowGroupOf) error {
	d := encoding.NewDictionary(valueWidth(c.leaf), int(min(c.job.Writer.DictBytes, encoding.MaxPageBytes)))
	c.merged = &merge{dictionary: d}
	found := false
	for i, s := range sources {
		if s.chunks[c.leaf.Index].dictionary == 0 {
			continue
		}
		found = true
		part := f.dictionaries[c.leaf.Index][i]
		data, err := f.get(part)
		if err != nil {
			return err
		}
		if !c.merged.full {
			h, page, err := c.dictionaryPage(data)
			if err == nil {
				_, err = d.Add(page, int(h.Values()))
			}
			c.merged.full = errors.Is(err, encoding.ErrDictionaryFull)
			if err != nil && !c.merged.full {
				return c.where(s, 0, err)
			}
		}
		f.release(part)
	}
	if !found || c.merged.full {
		return nil
	}
	c.merged.hashes = hashEntries(&d.Entries)
	packed, err := c.tools.compress.Append(c.tools.packed[:0], d.Bytes())
	if err != nil {
		return err
	}
	c.tools.packed = packed
	h := footer.NewDictionaryPage(d.Len(), d.SizeBytes(), len(packed), crc32.ChecksumIEEE(packed))
	c.tools.header = footer.Append(c.tools.header[:0], h.Struct)
	return c.page(footer.DictionaryPage, footer.Plain, c.tools.header, packed, int64(d.SizeBytes()))
}

// dictionaryPage decompresses a dictionary page, which has to fill data. The page is valid until the next one.
func (c *columnWriter) dictionaryPage(data []byte) (footer.Page, []byte, error) {
	h, body, err := splitPage(data)
	if err != nil {
		return h, nil, err
	}
	if h.Type() != footer.DictionaryPage || len(data) != h.Length+len(body) || (h.Encoding() != footer.Plain && h.Encoding() != footer.PlainDictionary) {
		return h, nil, decline("a dictionary page of another form, type %d, encoding %d", h.Type(), h.Encoding())
	}
	if c.leaf.Kind == layout.Boolean {
		return h, nil, decline("a dictionary of booleans")
	}
	page, err := c.tools.decompress.Decompress(c.tools.dictionary, body, c.tools.codec, int(h.Body()))
	if err == nil && c.tools.codec != encoding.Uncompressed {
		c.tools.dictionary = page
	}
	return h, page, err
}

// dictionary reads a source's dictionary for its pages. Each entry must be in the merged dictionary under the hash that it has here.
func (c *columnWriter) dictionary(data []byte) (*sourceDictionary, error) {
	h, page, err := c.dictionaryPage(data)
	if err != nil {
		return nil, err
	}
	s := &sourceDictionary{present: true}
	if s.entries, err = encoding.ParseEntries(page, valueWidth(c.leaf), int(h.Values())); err != nil {
		return nil, err
	}
	s.hashes = hashEntries(&s.entries)
	if c.merged.full {
		return s, nil
	}
	if s.remap, err = c.merged.dictionary.Add(page, int(h.Values())); err != nil {
		return nil, err
	}
	if n := c.merged.dictionary.Len(); n != len(c.merged.hashes) {
		return nil, fmt.Errorf("the dictionary changed between two readings: %d entries became %d: %w", len(c.merged.hashes), n, footer.ErrMalformed)
	}
	for n, to := range s.remap {
		if s.hashes[n] != c.merged.hashes[to] {
			return nil, fmt.Errorf("merge dictionaries: entry %d became another value: %w", n, footer.ErrMalformed)
		}
	}
	s.identity = encoding.Identity(s.remap)
	return s, nil
}

func hashEntries(e *encoding.Entries) []uint64 {
	out := make([]uint64, e.Len())
	for i := range out {
		out[i] = xxh3.Hash(e.Value(i))
	}
	return out
}

// splitPage takes a page apart and compares its checksum. The header is decoded from the front of data.
func splitPage(data []byte) (footer.Page, []byte, error) {
	h, err := footer.DecodePage(data)
	if err != nil {
		return h, nil, err
	}
	size := h.CompressedBody()
	if size > int64(len(data)-h.Length) {
		return h, nil, fmt.Errorf("a page of %d bytes where %d are left: %w", size, len(data)-h.Length, footer.ErrMalformed)
	}
	body := data[h.Length : h.Length+int(size)]
	if crc, ok := h.CRC(); ok && crc != crc32.ChecksumIEEE(body) {
		return h, nil, fmt.Errorf("the page's checksum is %08x, its bytes have %08x: %w", crc, crc32.ChecksumIEEE(body), footer.ErrMalformed)
	}
	return h, body, nil
}
