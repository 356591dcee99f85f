package encoding_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/internal/parquet/encoding"
)

// naive decodes a hybrid stream bit by bit: an oracle that shares no code with the package.
func naive(src []byte, width, n int) ([]uint32, bool) {
	var out []uint32
	for len(out) < n {
		header, k := binary.Uvarint(src)
		if k <= 0 {
			return nil, false
		}
		src = src[k:]
		if header&1 == 0 {
			size := (width + 7) / 8
			if size > len(src) {
				return nil, false
			}
			var v uint64
			for i := range size {
				v |= uint64(src[i]) << (8 * i)
			}
			for range min(header>>1, uint64(n-len(out)+1)) { // one too many is as wrong as a million
				out = append(out, uint32(v))
			}
			src = src[size:]
			continue
		}
		values := int(header>>1) * 8
		for i := range min(values, n-len(out)) {
			var v uint32
			for b := range width {
				bit := i*width + b
				if bit/8 < len(src) {
					v |= uint32(src[bit/8]>>(bit%8)&1) << b
				}
			}
			out = append(out, v)
		}
		src = src[min(len(src), values*width/8):]
	}
	return out, len(src) == 0
}

// indices draws values below 2^width with runs in them.
func indices(t *rapid.T, width int) []uint32 {
	high := uint32(1<<width - 1)
	var out []uint32
	for range rapid.IntRange(0, 12).Draw(t, "pieces") {
		v := rapid.Uint32Range(0, high).Draw(t, "value")
		if rapid.Bool().Draw(t, "run") {
			out = append(out, slices.Repeat([]uint32{v}, rapid.IntRange(1, 700).Draw(t, "length"))...)
			continue
		}
		r := rand.New(rand.NewPCG(uint64(v), 1))
		for range rapid.IntRange(1, 700).Draw(t, "length") {
			out = append(out, r.Uint32()&high)
		}
	}
	return out
}

func TestIndicesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(0, encoding.MaxBitWidth).Draw(t, "width")
		idx := indices(t, width)
		prefix := []byte("kept")
		stream, err := encoding.EncodeIndices(slices.Clone(prefix), idx, width)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(stream, prefix) {
			t.Fatal("what dst held is lost")
		}
		stream = stream[len(prefix):]
		if want, ok := naive(stream, width, len(idx)); !ok || !slices.Equal(want, idx) {
			t.Fatal("the oracle reads other values than were written")
		}
		got, err := encoding.DecodeIndices(make([]uint32, 3), stream, width, len(idx))
		if err != nil || !slices.Equal(got, idx) {
			t.Fatalf("read %d values of %d: %v", len(got), len(idx), err)
		}
	})
}

func TestRemapIsDecodeMapEncode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(1, 70_000)).Draw(t, "entries")
		table := make([]uint32, entries)
		to := rapid.IntRange(0, encoding.MaxBitWidth).Draw(t, "to")
		r := rand.New(rand.NewPCG(uint64(entries), uint64(to)))
		for i := range table {
			table[i] = r.Uint32() & uint32(1<<to-1)
		}
		from := encoding.IndexWidth(entries) + rapid.IntRange(0, 2).Draw(t, "spare")
		idx := indices(t, from)
		for i := range idx {
			idx[i] %= uint32(entries)
		}
		stream, err := encoding.EncodeIndices(nil, idx, from)
		if err != nil {
			t.Fatal(err)
		}
		mapped, err := encoding.RemapIndices([]byte("kept"), stream, len(idx), encoding.Remap{FromWidth: from, ToWidth: to, Table: table})
		if err != nil {
			t.Fatal(err)
		}
		got, err := encoding.DecodeIndices(nil, mapped[len("kept"):], to, len(idx))
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range idx {
			if got[i] != table[v] {
				t.Fatalf("value %d: index %d became %d, not %d", i, v, got[i], table[v])
			}
		}
	})
}

// TestIndicesOfTheFormat reads and writes streams spelled by hand after the format's description and parquet-mr's encoder.
func TestIndicesOfTheFormat(t *testing.T) {
	t.Parallel()
	up := func(n int) []uint32 {
		v := make([]uint32, n)
		for i := range v {
			v[i] = uint32(i) % 8
		}
		return v
	}
	for _, c := range []struct {
		name   string
		width  int
		values []uint32
		stream []byte
	}{
		{"0 to 7 in three bits", 3, up(8), []byte{1<<1 | 1, 0x88, 0xc6, 0xfa}},
		{"the last group is padded", 3, up(3), []byte{1<<1 | 1, 0x88, 0x00, 0x00}},
		{"eight equal values are a run", 3, slices.Repeat([]uint32{4}, 8), []byte{8 << 1, 4}},
		{"seven are not", 1, slices.Repeat([]uint32{1}, 7), []byte{1<<1 | 1, 0x7f}},
		{"a long run", 1, slices.Repeat([]uint32{1}, 300), []byte{0xd8, 0x04, 1}},
		{"a run of two bytes a value", 9, slices.Repeat([]uint32{0x101}, 8), []byte{8 << 1, 0x01, 0x01}},
		{"a group, then a run", 3, append(up(8), slices.Repeat([]uint32{7}, 9)...), []byte{1<<1 | 1, 0x88, 0xc6, 0xfa, 9 << 1, 7}},
		{"one entry", 0, make([]uint32, 5), []byte{5 << 1}},
		{"no value", 4, nil, nil},
		{"63 groups a header", 3, up(64 * 8), slices.Concat([]byte{63<<1 | 1}, bytes.Repeat([]byte{0x88, 0xc6, 0xfa}, 63), []byte{1<<1 | 1, 0x88, 0xc6, 0xfa})},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stream, err := encoding.EncodeIndices(nil, c.values, c.width)
			if err != nil || !bytes.Equal(stream, c.stream) {
				t.Errorf("wrote %x, want %x: %v", stream, c.stream, err)
			}
			values, err := encoding.DecodeIndices(nil, c.stream, c.width, len(c.values))
			if err != nil || !slices.Equal(values, c.values) {
				t.Errorf("read %v, want %v: %v", values, c.values, err)
			}
		})
	}
}

// TestForeignStreams reads what others write and we do not.
func TestForeignStreams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		width  int
		stream []byte
		want   []uint32
	}{
		{"the last group cut to its values", 3, []byte{1<<1 | 1, 0x88}, []uint32{0, 1}},
		{"a long group cut to its values", 12, []byte{1<<1 | 1, 0x34, 0x12}, []uint32{0x234}},
		{"a run of two", 3, []byte{2 << 1, 5}, []uint32{5, 5}},
		{"groups beyond the last value", 3, []byte{3<<1 | 1, 0x88, 0xc6, 0xfa, 1, 2, 3, 4, 5, 6}, []uint32{0, 1, 2}},
		{"values of no bits beyond the last", 0, []byte{200<<1&0x7f | 0x81, 3}, make([]uint32, 3)},
		{"bit-packed values of no bits", 0, []byte{2<<1 | 1}, make([]uint32, 16)},
	} {
		got, err := encoding.DecodeIndices(nil, c.stream, c.width, len(c.want))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: read %v, want %v: %v", c.name, got, c.want, err)
		}
	}
}

func TestDamagedIndices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		width  int
		n      int
		stream []byte
		want   error
	}{
		{"nothing", 3, 1, nil, encoding.ErrCorrupt},
		{"bytes behind the last run", 3, 8, []byte{8 << 1, 4, 0}, encoding.ErrCorrupt},
		{"a run too long", 3, 7, []byte{8 << 1, 4}, encoding.ErrCorrupt},
		{"a run too short", 3, 9, []byte{8 << 1, 4}, encoding.ErrCorrupt},
		{"an empty run", 3, 8, []byte{0, 4, 8 << 1, 4}, encoding.ErrCorrupt},
		{"no group", 3, 8, []byte{1, 8 << 1, 4}, encoding.ErrCorrupt},
		{"groups beyond the last value, cut off", 3, 8, []byte{3<<1 | 1, 1, 2, 3, 4, 5, 6}, encoding.ErrCorrupt},
		{"half a group", 3, 16, []byte{2<<1 | 1, 1, 2, 3, 4, 5}, encoding.ErrCorrupt},
		{"a value missing in the last group", 3, 3, []byte{1<<1 | 1, 0x88}, encoding.ErrCorrupt},
		{"a run's value too wide", 3, 8, []byte{8 << 1, 8}, encoding.ErrCorrupt},
		{"a run without its value", 3, 8, []byte{8 << 1}, encoding.ErrCorrupt},
		{"a header beyond 32 bits", 3, 8, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 4}, encoding.ErrCorrupt},
		{"33 bits", 33, 8, []byte{8 << 1, 1, 1, 1, 1, 1}, encoding.ErrCorrupt},
		{"fewer than no values", 3, -1, nil, encoding.ErrCorrupt},
		{"two thousand million values in five bytes", 1, 1<<31 - 1, []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 1}, encoding.ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, err := encoding.DecodeIndices(nil, c.stream, c.width, c.n); !errors.Is(err, c.want) {
				t.Errorf("read %v: %v", got, err)
			}
			remap := encoding.Remap{FromWidth: c.width, ToWidth: 3, Table: make([]uint32, 8)}
			if got, err := encoding.RemapIndices(nil, c.stream, c.n, remap); !errors.Is(err, c.want) {
				t.Errorf("remapped to %x: %v", got, err)
			}
		})
	}
}

func TestIndexOutsideTheDictionary(t *testing.T) {
	t.Parallel()
	for _, stream := range [][]byte{{8 << 1, 3}, {1<<1 | 1, 0xff, 0xff}} {
		_, err := encoding.RemapIndices(nil, stream, 8, encoding.Remap{FromWidth: 2, ToWidth: 2, Table: make([]uint32, 3)})
		if !errors.Is(err, encoding.ErrCorrupt) {
			t.Errorf("stream %x: %v", stream, err)
		}
		_, err = encoding.RemapIndices(nil, stream, 8, encoding.Remap{FromWidth: 2, ToWidth: 2, Table: []uint32{0, 1, 2, 4}})
		if !errors.Is(err, encoding.ErrCorrupt) {
			t.Errorf("stream %x, entry of three bits: %v", stream, err)
		}
	}
	if _, err := encoding.EncodeIndices(nil, []uint32{1, 4}, 2); err == nil {
		t.Error("an index of three bits was written in two")
	}
}

func TestIndexWidth(t *testing.T) {
	t.Parallel()
	for entries, want := range map[int]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 256: 8, 257: 9, 1 << 16: 16, 1<<16 + 1: 17} {
		if got := encoding.IndexWidth(entries); got != want {
			t.Errorf("%d entries: %d bits, want %d", entries, got, want)
		}
	}
	if !encoding.Identity([]uint32{0, 1, 2}) || encoding.Identity([]uint32{0, 2}) {
		t.Error("identity is told wrongly")
	}
}

func TestSplitIndices(t *testing.T) {
	t.Parallel()
	if w, s, err := encoding.SplitIndices([]byte{3, 9, 8}); w != 3 || !bytes.Equal(s, []byte{9, 8}) || err != nil {
		t.Errorf("split into %d, %x: %v", w, s, err)
	}
	if w, s, err := encoding.SplitIndices(nil); w != 0 || len(s) != 0 || err != nil {
		t.Errorf("an empty page: %d, %x: %v", w, s, err)
	}
	if _, _, err := encoding.SplitIndices([]byte{33}); !errors.Is(err, encoding.ErrCorrupt) {
		t.Errorf("33 bits: %v", err)
	}
}

// TestPagesNeedNoMemory: once buffers have their size, a page of indices, levels and values allocates nothing. It runs alone, as it counts.
func TestPagesNeedNoMemory(t *testing.T) {
	idx := make([]uint32, 5000)
	levels := make([]uint8, len(idx))
	for i := range idx {
		idx[i], levels[i] = uint32(i*i)%300, uint8(i*i%7/4)
	}
	d := encoding.NewDictionary(8, 1<<20)
	page := make([]byte, 300*8)
	for i := range 300 {
		page[8*i], page[8*i+1] = byte(i), byte(i>>8)
	}
	table, err := d.Add(page, 300)
	if err != nil {
		t.Fatal(err)
	}
	compressor, err := encoding.NewCompressor(encoding.Zstd, encoding.DefaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	var (
		decompressor                                     encoding.Decompressor
		stream, mapped, encoded, expanded, packed, again []byte
		back                                             []uint32
		levelsBack                                       []uint8
		errs                                             [8]error
		spans                                            = []encoding.Span{{From: 3, To: 900}, {From: 901, To: 5000}}
		selected                                         []byte
	)
	allocs := testing.AllocsPerRun(20, func() {
		stream, errs[0] = encoding.EncodeIndices(stream[:0], idx, 9)
		mapped, errs[1] = encoding.RemapIndices(mapped[:0], stream, len(idx), encoding.Remap{FromWidth: 9, ToWidth: 9, Table: table})
		back, errs[2] = encoding.DecodeIndices(back, mapped, 9, len(idx))
		expanded, errs[3] = d.Expand(expanded[:0], back)
		encoded, errs[4] = encoding.EncodeLevels(encoded[:0], levels, 1)
		levelsBack, errs[5] = encoding.DecodeLevels(levelsBack, encoded, 1, len(levels))
		packed, errs[6] = compressor.Append(packed[:0], expanded)
		again, errs[7] = decompressor.Decompress(again, packed, encoding.Zstd, len(expanded))
		selected, _ = encoding.SelectPlain(selected[:0], again, 8, len(idx), spans)
	})
	if err := errors.Join(errs[:]...); err != nil || !bytes.Equal(again, expanded) || !slices.Equal(levels, levelsBack) {
		t.Fatal(err)
	}
	if len(selected) != 8*(len(idx)-4) {
		t.Errorf("selected %d bytes", len(selected))
	}
	if allocs > 0 {
		t.Errorf("a page takes %v allocations", allocs)
	}
}

func FuzzIndices(f *testing.F) {
	f.Add([]byte{1<<1 | 1, 0x88, 0xc6, 0xfa, 9 << 1, 7}, uint8(3), uint32(17))
	f.Add([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 1}, uint8(1), uint32(1<<24))
	f.Add([]byte{1<<1 | 1, 0x34, 0x12}, uint8(12), uint32(1))
	f.Fuzz(func(t *testing.T, src []byte, width uint8, n uint32) {
		n %= 1 << 16
		got, err := encoding.DecodeIndices(nil, src, int(width), int(n))
		table := make([]uint32, 1<<10)
		for i := range table {
			table[i] = uint32(i) ^ 1
		}
		m := encoding.Remap{FromWidth: int(width), ToWidth: 10, Table: table}
		mapped, mapErr := encoding.RemapIndices(nil, src, int(n), m)
		if err != nil {
			if mapErr == nil {
				t.Fatalf("remapped what cannot be read: %v", err)
			}
			return
		}
		want, ok := naive(src, int(width), int(n))
		if !ok || !slices.Equal(got, want) {
			t.Fatal("the oracle reads other values")
		}
		if mapErr != nil {
			if !slices.ContainsFunc(got, func(v uint32) bool { return v >= 1<<10 }) {
				t.Fatal(mapErr)
			}
			return
		}
		back, err := encoding.DecodeIndices(nil, mapped, 10, int(n))
		if err != nil {
			t.Fatal(err)
		}
		for i := range back {
			if back[i]^1 != got[i] {
				t.Fatalf("value %d: %d became %d", i, got[i], back[i])
			}
		}
	})
}

func BenchmarkDecodeIndices(b *testing.B) {
	for _, width := range []int{1, 4, 7, 12, 17, 24} {
		idx, stream := benchIndices(b, width)
		dst := make([]uint32, len(idx))
		b.Run(fmt.Sprintf("width=%d", width), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = encoding.DecodeIndices(dst, stream, width, len(idx)); err != nil {
					b.Fatal(err)
				}
			}
			perValue(b, len(idx))
		})
	}
}

func BenchmarkEncodeIndices(b *testing.B) {
	for _, width := range []int{1, 4, 7, 12, 17, 24} {
		idx, stream := benchIndices(b, width)
		b.Run(fmt.Sprintf("width=%d", width), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				stream, _ = encoding.EncodeIndices(stream[:0], idx, width)
			}
			perValue(b, len(idx))
		})
	}
}

func BenchmarkRemapIndices(b *testing.B) {
	for _, width := range []int{1, 4, 7, 12, 17} {
		idx, stream := benchIndices(b, width)
		m := encoding.Remap{FromWidth: width, ToWidth: width + 1, Table: make([]uint32, 1<<width)}
		for i := range m.Table {
			m.Table[i] = uint32(i*7919) & uint32(1<<(width+1)-1)
		}
		var dst []byte
		b.Run(fmt.Sprintf("width=%d", width), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = encoding.RemapIndices(dst[:0], stream, len(idx), m); err != nil {
					b.Fatal(err)
				}
			}
			perValue(b, len(idx))
		})
	}
}

func benchIndices(b *testing.B, width int) (idx []uint32, stream []byte) {
	r := rand.New(rand.NewPCG(1, 2))
	idx = make([]uint32, 20_000)
	for i := range idx {
		idx[i] = r.Uint32() & uint32(1<<width-1)
	}
	stream, err := encoding.EncodeIndices(nil, idx, width)
	if err != nil {
		b.Fatal(err)
	}
	return idx, stream
}

func perValue(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/value")
}
