package encoding_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"pgregory.net/rapid"

	"firn/internal/parquet/encoding"
)

// naiveDeltas encodes integers as the format's description says, by bits, with blocks of 128 in 4 parts.
func naiveDeltas(values []int64) []byte {
	out := binary.AppendUvarint(nil, 128)
	out = binary.AppendUvarint(out, 4)
	out = binary.AppendUvarint(out, uint64(len(values)))
	if len(values) == 0 {
		return append(out, 0)
	}
	out = binary.AppendVarint(out, values[0])
	var deltas []int64
	for i := 1; i < len(values); i++ {
		deltas = append(deltas, values[i]-values[i-1])
	}
	for block := range slices.Chunk(deltas, 128) {
		least := slices.Min(block)
		out = binary.AppendVarint(out, least)
		var widths, data []byte
		for mini := range slices.Chunk(block, 32) {
			width := 0
			for _, v := range mini {
				width = max(width, 64-leadingZeros(uint64(v-least)))
			}
			widths = append(widths, byte(width))
			packed := make([]byte, 4*width)
			for i, v := range mini {
				for b := range width {
					packed[(i*width+b)/8] |= byte(uint64(v-least)>>b&1) << ((i*width + b) % 8)
				}
			}
			data = append(data, packed...)
		}
		out = append(append(out, append(widths, 99, 99, 99)[:4]...), data...) // widths without values mean nothing
	}
	return out
}

func leadingZeros(v uint64) int {
	n := 0
	for ; n < 64 && v>>(63-n)&1 == 0; n++ {
	}
	return n
}

func TestDeltas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-9, 9), rapid.Just(int64(math.MinInt64))), 0, 400).Draw(t, "values")
		src := naiveDeltas(v)
		var long, short []byte
		for _, x := range v {
			long, short = append(long, le64(x)...), append(short, le32(int32(x))...)
		}
		if got, err := encoding.DecodeDelta([]byte("kept"), src, 8, len(v)); err != nil || string(got) != "kept"+string(long) {
			t.Fatalf("longs are %x, want %x: %v", got, long, err)
		}
		if got, err := encoding.DecodeDelta(nil, src, 4, len(v)); err != nil || !bytes.Equal(got, short) {
			t.Fatalf("ints are %x, want %x: %v", got, short, err)
		}
		for _, wrong := range []int{len(v) - 1, len(v) + 1} {
			if _, err := encoding.DecodeDelta(nil, src, 8, wrong); !errors.Is(err, encoding.ErrCorrupt) {
				t.Fatalf("%d values read as %d: %v", len(v), wrong, err)
			}
		}
		if _, err := encoding.DecodeDelta(nil, append(src, 0), 8, len(v)); !errors.Is(err, encoding.ErrCorrupt) {
			t.Fatalf("a byte behind: %v", err)
		}
	})
	// The example of the format's description: 7, 5, 3, 1, 2, 3, 4, 5 in blocks of 128.
	src := []byte{0x80, 0x01, 0x04, 0x08, 0x0e, 0x03, 0x02, 0x00, 0x00, 0x00, 0xc0, 0x3f, 0, 0, 0, 0, 0, 0}
	if got, err := encoding.DecodeDelta(nil, src, 4, 8); err != nil || !bytes.Equal(got, plain(4, le32(int32(7)), le32(int32(5)), le32(int32(3)), le32(int32(1)), le32(int32(2)), le32(int32(3)), le32(int32(4)), le32(int32(5)))) {
		t.Errorf("the example is %x: %v", got, err)
	}
	if got, err := encoding.DecodeDelta(nil, src[:12], 4, 8); err != nil || len(got) != 32 {
		t.Errorf("the example without padding is %x: %v", got, err)
	}
}

// TestDeltaPagesOfArrow reads the values of pages that arrow-go wrote with each encoding.
func TestDeltaPagesOfArrow(t *testing.T) {
	t.Parallel()
	decoders := map[parquet.Encoding]func(src []byte, width, n int) ([]byte, error){
		parquet.Encodings.DeltaBinaryPacked: func(src []byte, width, n int) ([]byte, error) {
			return encoding.DecodeDelta(nil, src, width, n)
		},
		parquet.Encodings.DeltaLengthByteArray: func(src []byte, _, n int) ([]byte, error) { return encoding.DecodeDeltaLength(nil, src, n) },
		parquet.Encodings.DeltaByteArray: func(src []byte, width, n int) ([]byte, error) {
			return encoding.DecodeDeltaByteArray(nil, src, width, n)
		},
		parquet.Encodings.ByteStreamSplit: func(src []byte, width, n int) ([]byte, error) {
			return encoding.DecodeStreamSplit(nil, src, width, n)
		},
	}
	l := leaves(t)
	long, fixed, text := l[0], l[1], l[2]
	for _, c := range []struct {
		leaf leaf
		enc  parquet.Encoding
	}{
		{long, parquet.Encodings.DeltaBinaryPacked},
		{long, parquet.Encodings.ByteStreamSplit},
		{fixed, parquet.Encodings.ByteStreamSplit},
		{text, parquet.Encodings.DeltaByteArray},
		{text, parquet.Encodings.DeltaLengthByteArray},
	} {
		for _, rows := range []int{1, 129, 3000} {
			t.Run(fmt.Sprintf("%s/%s/%d", c.leaf.name, c.enc, rows), func(t *testing.T) {
				t.Parallel()
				want := c.leaf.draw(rand.New(rand.NewPCG(uint64(rows), 3)), rows, 1000)
				var got []byte
				for _, p := range c.leaf.encoded(t, c.enc, want) {
					values, err := decoders[c.enc](p.values, c.leaf.width, p.present)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, values...)
				}
				if !bytes.Equal(got, plain(c.leaf.width, want.values...)) {
					t.Errorf("read %d bytes of values that arrow-go did not write", len(got))
				}
			})
		}
	}
}

// TestSharedPrefixes encodes as the format's description says; arrow-go does not write it for fixed values.
func TestSharedPrefixes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{encoding.ByteArray, 1, 5}).Draw(t, "width")
		var (
			values          [][]byte
			prefixes, sizes []int64
			data            []byte
		)
		for i := range rapid.IntRange(0, 200).Draw(t, "values") {
			n := width
			if n == encoding.ByteArray {
				n = rapid.IntRange(0, 6).Draw(t, "length")
			}
			v := rapid.SliceOfN(rapid.SampledFrom([]byte("ab")), n, n).Draw(t, "value")
			prefix := 0
			for i > 0 && prefix < len(v) && prefix < len(values[i-1]) && v[prefix] == values[i-1][prefix] {
				prefix++
			}
			values, prefixes, sizes = append(values, v), append(prefixes, int64(prefix)), append(sizes, int64(len(v)-prefix))
			data = append(data, v[prefix:]...)
		}
		src := slices.Concat(naiveDeltas(prefixes), naiveDeltas(sizes), data)
		got, err := encoding.DecodeDeltaByteArray([]byte("kept"), src, width, len(values))
		if err != nil || string(got) != "kept"+string(plain(width, values...)) {
			t.Fatalf("read %x of %q: %v", got, values, err)
		}
	})
}

type encodedPage struct {
	values  []byte
	present int
}

// encoded writes a chunk with an encoding and returns the values of its pages.
func (l leaf) encoded(t *testing.T, e parquet.Encoding, c chunk) (pages []encodedPage) {
	var out bytes.Buffer
	w := file.NewParquetWriter(&out, l.root, file.WithWriterProps(parquet.NewWriterProperties(parquet.WithDictionaryDefault(false),
		parquet.WithEncoding(e), parquet.WithDataPageSize(4000), parquet.WithBatchSize(64))))
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
	f, err := file.NewParquetReader(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.RowGroup(0).GetColumnPageReader(0)
	if err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		rest := bytes.Clone(r.Page().Data())
		if l.maxRep > 0 {
			_, rest = split(t, rest)
		}
		def, values := split(t, rest)
		present, err := encoding.CountLevels(def, encoding.LevelWidth(int(l.maxDef)), int(r.Page().NumValues()), l.maxDef)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, encodedPage{values, present})
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return pages
}

func TestStreamSplit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{2, 4, 8, 12}).Draw(t, "width")
		n := rapid.IntRange(0, 50).Draw(t, "values")
		want := rapid.SliceOfN(rapid.Byte(), n*width, n*width).Draw(t, "bytes")
		var src []byte
		for k := range width {
			for i := range n {
				src = append(src, want[i*width+k])
			}
		}
		if got, err := encoding.DecodeStreamSplit([]byte("kept"), src, width, n); err != nil || string(got) != "kept"+string(want) {
			t.Fatalf("read %x, want %x: %v", got, want, err)
		}
	})
}

func TestDamagedDeltas(t *testing.T) {
	t.Parallel()
	one, two := naiveDeltas([]int64{1}), naiveDeltas([]int64{1, 2})
	for name, got := range map[string]func() ([]byte, error){
		"nothing":           func() ([]byte, error) { return encoding.DecodeDelta(nil, nil, 8, 0) },
		"no block":          func() ([]byte, error) { return encoding.DecodeDelta(nil, two[:5], 8, 2) },
		"no widths":         func() ([]byte, error) { return encoding.DecodeDelta(nil, two[:6], 8, 2) },
		"blocks of nothing": func() ([]byte, error) { return encoding.DecodeDelta(nil, []byte{0, 4, 1, 0}, 8, 1) },
		"no miniblock":      func() ([]byte, error) { return encoding.DecodeDelta(nil, []byte{128, 1, 0, 1, 0}, 8, 1) },
		"65 bits": func() ([]byte, error) {
			return encoding.DecodeDelta(nil, append([]byte{8, 1, 2, 0, 0, 65}, make([]byte, 65)...), 8, 2)
		},
		"width 3":         func() ([]byte, error) { return encoding.DecodeDelta(nil, one, 3, 1) },
		"negative length": func() ([]byte, error) { return encoding.DecodeDeltaLength(nil, naiveDeltas([]int64{-1}), 1) },
		"bytes missing":   func() ([]byte, error) { return encoding.DecodeDeltaLength(nil, append(two, 1, 2), 2) },
		"bytes behind":    func() ([]byte, error) { return encoding.DecodeDeltaLength(nil, append(one, 1, 2), 1) },
		"prefix of nothing": func() ([]byte, error) {
			return encoding.DecodeDeltaByteArray(nil, slices.Concat(one, one, []byte{1}), 0, 1)
		},
		"value of wrong width": func() ([]byte, error) {
			return encoding.DecodeDeltaByteArray(nil, slices.Concat(naiveDeltas([]int64{0}), one, []byte{1}), 2, 1)
		},
		"split bytes missing": func() ([]byte, error) { return encoding.DecodeStreamSplit(nil, make([]byte, 7), 4, 2) },
		"split of no width":   func() ([]byte, error) { return encoding.DecodeStreamSplit(nil, nil, 0, 0) },
	} {
		if out, err := got(); !errors.Is(err, encoding.ErrCorrupt) {
			t.Errorf("%s: %x: %v", name, out, err)
		}
	}
	long := make([]int64, 1<<17)
	for i := range long {
		long[i] = 1000
	}
	long[0] = 0
	src := slices.Concat(naiveDeltas(long), naiveDeltas(append([]int64{1000}, make([]int64, len(long)-1)...)), make([]byte, 1000))
	if _, err := encoding.DecodeDeltaByteArray(nil, src, encoding.ByteArray, len(long)); !errors.Is(err, encoding.ErrTooLarge) {
		t.Errorf("%d bytes that stand for 131 MB: %v", len(src), err)
	}
}

func FuzzDeltas(f *testing.F) {
	f.Add(naiveDeltas([]int64{7, 5, 3, 1, 2, 3, 4, 5}), uint8(8), uint16(8))
	f.Add(slices.Concat(naiveDeltas([]int64{1, 2}), []byte("abc")), uint8(0), uint16(2))
	f.Add(slices.Concat(naiveDeltas([]int64{0, 1}), naiveDeltas([]int64{2, 1}), []byte("abc")), uint8(0), uint16(2))
	f.Add(slices.Concat(naiveDeltas([]int64{0, 1}), naiveDeltas([]int64{2, 1}), []byte("abc")), uint8(2), uint16(2))
	f.Fuzz(func(t *testing.T, src []byte, width uint8, n uint16) {
		for _, w := range []int{4, 8} {
			if out, err := encoding.DecodeDelta(nil, src, w, int(n)); err == nil && len(out) != w*int(n) {
				t.Fatalf("%d bytes for %d integers", len(out), n)
			}
		}
		for _, decode := range []func() ([]byte, error){
			func() ([]byte, error) { return encoding.DecodeDeltaLength(nil, src, int(n)) },
			func() ([]byte, error) { return encoding.DecodeDeltaByteArray(nil, src, encoding.ByteArray, int(n)) },
		} {
			if out, err := decode(); err == nil {
				if _, err := encoding.ParseEntries(out, encoding.ByteArray, int(n)); err != nil {
					t.Fatal(err)
				}
			}
		}
		out, err := encoding.DecodeDeltaByteArray(nil, src, int(width), int(n))
		if err == nil && width > 0 && len(out) != int(width)*int(n) {
			t.Fatalf("%d bytes for %d values of %d", len(out), n, width)
		}
		_, _ = encoding.DecodeStreamSplit(nil, src, int(width), int(n))
	})
}

func BenchmarkDeltas(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	v := make([]int64, 20_000)
	for i := range v {
		v[i] = int64(i)*1000 + int64(r.IntN(5000))
	}
	src := naiveDeltas(v)
	var dst []byte
	b.Run("binary packed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst, _ = encoding.DecodeDelta(dst[:0], src, 8, len(v))
		}
		perValue(b, len(v))
	})
	split := make([]byte, 8*len(v))
	b.Run("stream split", func(b *testing.B) {
		for b.Loop() {
			dst, _ = encoding.DecodeStreamSplit(dst[:0], split, 8, len(v))
		}
		perValue(b, len(v))
	})
}
