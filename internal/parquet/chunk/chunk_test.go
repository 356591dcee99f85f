package chunk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/internal/parquet/chunk"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

func must(tb rapid.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// value makes a PLAIN value of a column (a boolean as one byte) out of a small range, so that values repeat.
func value(c *chunk.Column, rng *rand.Rand, spread int) []byte {
	n := rng.IntN(spread) - spread/2
	switch c.Type {
	case footer.Boolean:
		return []byte{byte(n & 1)}
	case footer.Int32:
		return binary.LittleEndian.AppendUint32(nil, uint32(int32(n)))
	case footer.Int64:
		return binary.LittleEndian.AppendUint64(nil, uint64(n*1_000_003))
	case footer.Float:
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(n)))
	case footer.Float64:
		v := float64(n)
		switch {
		case n%7 == 0:
			v = math.Copysign(0, v)
		case n == 19 || n == 800:
			v = math.NaN()
		}
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
	case footer.Fixed:
		v := make([]byte, c.Width)
		copy(v, fmt.Sprint(n))
		return v
	default:
		return encoding.AppendByteArray(nil, fmt.Appendf(nil, "%0*d", rng.IntN(20), n))
	}
}

// generate makes a vector of rows.
func generate(c *chunk.Column, rng *rand.Rand, rows, spread int) *chunk.Vector {
	v := &chunk.Vector{Rows: rows}
	add := func(rep, def uint8) {
		v.Entries++
		if c.MaxRep > 0 {
			v.Rep = append(v.Rep, rep)
		}
		if c.MaxDef > 0 {
			v.Def = append(v.Def, def)
		}
		if def == c.MaxDef {
			v.Values++
			v.Plain = append(v.Plain, value(c, rng, spread)...)
		}
	}
	for range rows {
		add(0, c.MaxDef-uint8(rng.IntN(int(c.MaxDef)+1))*uint8(rng.IntN(2)))
		for c.MaxRep > 0 && rng.IntN(3) > 0 {
			add(uint8(1+rng.IntN(int(c.MaxRep))), uint8(rng.IntN(int(c.MaxDef)+1)))
		}
	}
	return v
}

// coded is the vector with a dictionary of its own.
func coded(tb rapid.TB, c *chunk.Column, v *chunk.Vector) *chunk.Vector {
	d := encoding.NewDictionary(c.ValueWidth(), encoding.MaxPageBytes)
	idx, err := d.Add(v.Plain, v.Values)
	must(tb, err)
	out := *v
	out.Plain, out.Indices, out.Dictionary = nil, idx, &d.Entries
	return &out
}

// flat writes a vector as text, entry by entry.
func flat(tb rapid.TB, c *chunk.Column, v *chunk.Vector) (out []string) {
	plain, err := v.Plain, error(nil)
	if v.Dictionary != nil {
		plain, err = v.Dictionary.Expand(nil, v.Indices)
		must(tb, err)
	}
	for i := range v.Entries {
		rep, def := uint8(0), uint8(0)
		if c.MaxRep > 0 {
			rep = v.Rep[i]
		}
		text := "null"
		if c.MaxDef > 0 {
			def = v.Def[i]
		}
		if def == c.MaxDef {
			w := c.ValueWidth()
			if w == encoding.ByteArray {
				w = 4 + int(binary.LittleEndian.Uint32(plain))
			}
			text, plain = fmt.Sprintf("%x", plain[:w]), plain[w:]
		}
		out = append(out, fmt.Sprintf("%d/%d %s", rep, def, text))
	}
	if len(plain) > 0 {
		tb.Fatalf("%d bytes behind the values", len(plain))
	}
	return out
}

func columns() []chunk.Column {
	base := []chunk.Column{
		{Type: footer.Boolean, Order: encoding.Bytewise},
		{Type: footer.Int32, Order: encoding.Signed},
		{Type: footer.Int64, Order: encoding.Signed},
		{Type: footer.Float, Order: encoding.Floating},
		{Type: footer.Float64, Order: encoding.Floating},
		{Type: footer.ByteArray, Order: encoding.Bytewise, Text: true},
		{Type: footer.Fixed, Width: 5, Order: encoding.Bytewise},
		{Type: footer.Fixed, Width: 16, Order: encoding.BigDecimal},
	}
	var out []chunk.Column
	for _, c := range base {
		c.Path = []string{"a", "b"}
		for _, levels := range [][2]uint8{{0, 0}, {1, 0}, {3, 0}, {2, 1}, {5, 2}} {
			c.MaxDef, c.MaxRep = levels[0], levels[1]
			out = append(out, c)
		}
	}
	return out
}

// read decodes a whole chunk.
func read(tb rapid.TB, c *chunk.Column, codec encoding.Codec, data []byte, done chunk.Chunk) (out []string, pages int) {
	var r chunk.Reader
	must(tb, r.Open(c, data, chunk.Meta{Codec: codec, Values: done.Values, Rows: done.Rows}))
	var v chunk.Vector
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, pages
		}
		must(tb, err)
		must(tb, r.Decode(p, &v))
		out = append(out, flat(tb, c, &v)...)
		pages++
	}
}

// TestWriteRead writes random vectors in every form and reads the same entries again; counts, sums and bounds are those of the entries.
func TestWriteRead(t *testing.T) {
	t.Parallel()
	all := columns()
	rapid.Check(t, func(t *rapid.T) {
		c := all[rapid.IntRange(0, len(all)-1).Draw(t, "column")]
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		codec := rapid.SampledFrom([]encoding.Codec{encoding.Uncompressed, encoding.Snappy, encoding.Zstd}).Draw(t, "codec")
		compressor, err := encoding.NewCompressor(codec, 0)
		must(t, err)
		o := chunk.Options{
			Compressor: compressor, PageBytes: rapid.SampledFrom([]int{1, 60, 1000, 1 << 20}).Draw(t, "page bytes"),
			PageRows: rapid.SampledFrom([]int{1, 7, 100, 20_000}).Draw(t, "page rows"), DictBytes: rapid.SampledFrom([]int{1, 50, 300, 1 << 20}).Draw(t, "dict bytes"),
			Build: rapid.Bool().Draw(t, "build"),
		}
		spread := rapid.SampledFrom([]int{1, 2, 20, 2000}).Draw(t, "spread")
		given := c.Type != footer.Boolean && rapid.Bool().Draw(t, "given")
		var vectors []*chunk.Vector
		if given {
			o.Dictionary = encoding.NewDictionary(c.ValueWidth(), encoding.MaxPageBytes)
		}
		var want []string
		var sum uint64
		var rows, nulls int
		bounds := encoding.NewBounds(c.Order, c.ValueWidth())
		for range rapid.IntRange(0, 5).Draw(t, "vectors") {
			v := generate(&c, rng, rng.IntN(120), spread)
			want = append(want, flat(t, &c, v)...)
			rows, nulls = rows+v.Rows, nulls+v.Entries-v.Values
			must(t, bounds.AddPlain(v.Plain, v.Values))
			if c.Type != footer.Boolean && rng.IntN(2) == 0 {
				v = coded(t, &c, v)
				if given {
					_, err := o.Dictionary.Add(v.Dictionary.Bytes(), v.Dictionary.Len())
					must(t, err)
				}
			}
			var hashes []uint64
			if v.Dictionary != nil {
				hashes = chunk.HashEntries(nil, v.Dictionary)
			}
			s, err := v.Sum(&c, hashes)
			must(t, err)
			sum += s
			vectors = append(vectors, v)
		}
		var file bytes.Buffer
		var w chunk.Writer
		must(t, w.Open(&file, 4, &c, o))
		for _, v := range vectors {
			must(t, w.Append(v))
		}
		done, err := w.Close()
		must(t, err)
		got, pages := read(t, &c, codec, file.Bytes(), done)
		if !slices.Equal(got, want) {
			t.Fatalf("read %d entries, want %d", len(got), len(want))
		}
		if done.Sum != sum || done.Rows != int64(rows) || done.Nulls != int64(nulls) || done.Values != int64(len(want)) || done.SizeBytes != int64(file.Len()) {
			t.Fatalf("chunk %+v, want sum %d, %d rows, %d nulls, %d values, %d bytes", done, sum, rows, nulls, len(want), file.Len())
		}
		if done.NaNs != bounds.NaNs() {
			t.Fatalf("%d NaN, want %d", done.NaNs, bounds.NaNs())
		}
		if bounds.NaNs() > 0 {
			bounds.Lose()
		}
		lower, upper, ok := bounds.Result()
		if ok != (done.Min != nil) || !bytes.Equal(lower, done.Min) || !bytes.Equal(upper, done.Max) {
			t.Fatalf("bounds %x to %x, want %x to %x", done.Min, done.Max, lower, upper)
		}
		checkIndex(t, file.Bytes(), done, pages, bounds.NaNs() > 0)
	})
}

// checkIndex compares the page indexes with the pages.
func checkIndex(t *rapid.T, data []byte, done chunk.Chunk, pages int, nan bool) {
	if pages == 0 {
		return
	}
	if nan {
		if done.ColumnIndex != nil {
			t.Fatal("a column index over NaN")
		}
		return
	}
	places, err := footer.OffsetIndex(done.OffsetIndex)
	must(t, err)
	bounds, err := footer.ColumnIndex(done.ColumnIndex)
	must(t, err)
	if len(places) != pages || len(bounds) != pages {
		t.Fatalf("indexes of %d and %d pages, want %d", len(places), len(bounds), pages)
	}
	var row, values, nulls int64
	for i, p := range places {
		h, body, err := chunk.SplitPage(data[p.Offset-4:])
		must(t, err)
		if p.Bytes != int64(h.Length+len(body)) || p.FirstRow < row {
			t.Fatalf("page %d at %+v", i, p)
		}
		row = p.FirstRow
		values += h.Values()
		nulls += bounds[i].Nulls
	}
	if values != done.Values || nulls != done.Nulls {
		t.Fatalf("pages of %d values and %d nulls: %+v", values, nulls, done)
	}
}

// TestSelect compares the rows of random spans with the same rows picked one by one, pages that begin within a row included.
func TestSelect(t *testing.T) {
	t.Parallel()
	all := columns()
	rapid.Check(t, func(t *rapid.T) {
		c := all[rapid.IntRange(0, len(all)-1).Draw(t, "column")]
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		v := generate(&c, rng, rng.IntN(60), 20)
		if c.MaxRep > 0 && v.Entries > 0 && rapid.Bool().Draw(t, "begins within a row") {
			v.Rep[0] = 1
			v.Rows--
		}
		if c.Type != footer.Boolean && rapid.Bool().Draw(t, "coded") {
			v = coded(t, &c, v)
		}
		head := rapid.Bool().Draw(t, "head")
		var spans []encoding.Span
		keep := make([]bool, v.Rows)
		for i := range keep {
			if keep[i] = rng.IntN(3) > 0; keep[i] {
				spans = append(spans, encoding.Span{From: i, To: i + 1})
			}
		}
		var want []string
		row := -1
		for i, text := range flat(t, &c, v) {
			if c.MaxRep == 0 || v.Rep[i] == 0 {
				row++
			}
			if (row < 0 && head) || (row >= 0 && keep[row]) {
				want = append(want, text)
			}
		}
		var got chunk.Vector
		must(t, v.Select(&got, &c, spans, head))
		if text := flat(t, &c, &got); !slices.Equal(text, want) || got.Rows != encoding.SpanLen(spans) {
			t.Fatalf("selected %q of %d rows, want %q", text, got.Rows, want)
		}
	})
}
