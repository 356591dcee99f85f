package encoding_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"firn/internal/parquet/encoding"
)

func le32[T ~int32 | ~uint32](v T) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) }

func le64[T ~int64 | ~uint64](v T) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }
func double(v float64) []byte             { return le64(math.Float64bits(v)) }
func single(v float32) []byte             { return le32(math.Float32bits(v)) }
func half(bits uint16) []byte             { return binary.LittleEndian.AppendUint16(nil, bits) }
func values(v ...[]byte) [][]byte         { return v }
func negativeZero() float64               { return math.Copysign(0, -1) }
func nanWith(payload uint64, neg bool) []byte {
	bits := 0x7ff0_0000_0000_0000 | payload
	if neg {
		bits |= 1 << 63
	}
	return le64(bits)
}

func TestBoundsByOrder(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for _, c := range []struct {
		name         string
		order        encoding.Order
		width        int
		values       [][]byte
		lower, upper []byte // nil: unknown
		nans         int64
	}{
		{"int", encoding.Signed, 4, values(le32(int32(3)), le32(int32(-5)), le32(int32(0))), le32(int32(-5)), le32(int32(3)), 0},
		{"long", encoding.Signed, 8, values(le64(int64(math.MaxInt64)), le64(int64(math.MinInt64))), le64(int64(math.MinInt64)), le64(int64(math.MaxInt64)), 0},
		{"uint", encoding.Unsigned, 4, values(le32(uint32(math.MaxUint32)), le32(uint32(7))), le32(uint32(7)), le32(uint32(math.MaxUint32)), 0},
		{"ulong", encoding.Unsigned, 8, values(le64(uint64(1<<63)), le64(uint64(7))), le64(uint64(7)), le64(uint64(1 << 63)), 0},
		{"double", encoding.Floating, 8, values(double(1), double(-inf), double(2)), double(-inf), double(2), 0},
		{"float", encoding.Floating, 4, values(single(1), single(-3)), single(-3), single(1), 0},
		{"half", encoding.Floating, 2, values(half(0x3c00), half(0xc000), half(0x7e00)), half(0xc000), half(0x3c00), 1},
		{"NaN is left out", encoding.Floating, 8, values(double(math.NaN()), double(1), nanWith(1, true)), double(1), double(1), 2},
		{"nothing but NaN", encoding.Floating, 8, values(nanWith(1, false), nanWith(1<<51, true)), nil, nil, 2},
		{"infinity is not NaN", encoding.Floating, 4, values(single(float32(inf))), single(float32(inf)), single(float32(inf)), 0},
		{"+0 widens below", encoding.Floating, 8, values(double(0), double(4)), double(negativeZero()), double(4), 0},
		{"-0 widens above", encoding.Floating, 8, values(double(negativeZero()), double(-4)), double(-4), double(0), 0},
		{"half zero widens", encoding.Floating, 2, values(half(0)), half(0x8000), half(0), 0},
		{"-4 and 4 do not widen", encoding.Floating, 8, values(double(-4), double(0), double(4)), double(-4), double(4), 0},
		{"fixed decimal", encoding.BigDecimal, 2, values([]byte{0xff, 0xfe}, []byte{0, 1}), []byte{0xff, 0xfe}, []byte{0, 1}, 0},
		{"decimals of other lengths", encoding.BigDecimal, encoding.ByteArray, values([]byte{0xff, 0x7f}, []byte{0x80}, []byte{0x00, 0x80}, []byte{0x7f}), []byte{0xff, 0x7f}, []byte{0x00, 0x80}, 0},
		{"string", encoding.Bytewise, encoding.ByteArray, values([]byte("b"), []byte{0xff}, []byte("a"), nil), []byte{}, []byte{0xff}, 0},
		{"uuid", encoding.Bytewise, 2, values([]byte{0x80, 0}, []byte{0x7f, 9}), []byte{0x7f, 9}, []byte{0x80, 0}, 0},
		{"int96", encoding.Undefined, 12, values(make([]byte, 12)), nil, nil, 0},
		{"no value", encoding.Signed, 4, nil, nil, nil, 0},
		{"an integer of three bytes", encoding.Signed, 3, values([]byte{1, 2, 3}), nil, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := encoding.NewBounds(c.order, c.width)
			for _, v := range c.values { // one by one is as all at once
				if err := b.AddPlain(plain(c.width, v), 1); err != nil {
					t.Fatal(err)
				}
			}
			all := encoding.NewBounds(c.order, c.width)
			if err := all.AddPlain(plain(c.width, c.values...), len(c.values)); err != nil {
				t.Fatal(err)
			}
			for _, b := range []encoding.Bounds{b, all} {
				lower, upper, ok := b.Result()
				if ok != (c.lower != nil) || !bytes.Equal(lower, c.lower) || !bytes.Equal(upper, c.upper) || b.NaNs() != c.nans {
					t.Errorf("bounds %x to %x (%t), %d NaN; want %x to %x, %d", lower, upper, ok, b.NaNs(), c.lower, c.upper, c.nans)
				}
			}
		})
	}
}

func TestMergedBounds(t *testing.T) {
	t.Parallel()
	type pair [2][]byte
	for _, c := range []struct {
		name  string
		order encoding.Order
		width int
		in    []pair
		want  pair // nil: unknown
	}{
		{"longs", encoding.Signed, 8, []pair{{le64(int64(-1)), le64(int64(1))}, {le64(int64(0)), le64(int64(5))}}, pair{le64(int64(-1)), le64(int64(5))}},
		{"absent", encoding.Signed, 8, []pair{{le64(int64(-1)), le64(int64(1))}, {nil, nil}}, pair{}},
		{"absent string", encoding.Bytewise, 0, []pair{{[]byte("a"), []byte("b")}, {nil, []byte("c")}}, pair{}},
		{"empty string", encoding.Bytewise, 0, []pair{{[]byte{}, []byte("b")}}, pair{[]byte{}, []byte("b")}},
		{"wrong length", encoding.Signed, 8, []pair{{le32(int32(-1)), le32(int32(1))}}, pair{}},
		{"turned round", encoding.Signed, 4, []pair{{le32(int32(1)), le32(int32(-1))}}, pair{}},
		{"decimals ordered as unsigned", encoding.BigDecimal, 1, []pair{{[]byte{0}, []byte{0xff}}}, pair{}},
		{"decimal without a byte", encoding.BigDecimal, 0, []pair{{[]byte{}, []byte{1}}}, pair{}},
		{"strings turned round", encoding.Bytewise, 0, []pair{{[]byte("b"), []byte("a")}}, pair{}},
		{"NaN", encoding.Floating, 8, []pair{{double(1), double(2)}, {double(math.NaN()), double(2)}}, pair{}},
		{"NaN above", encoding.Floating, 8, []pair{{double(1), double(math.NaN())}}, pair{}},
		{"zeros of a careless writer", encoding.Floating, 8, []pair{{double(0), double(negativeZero())}}, pair{double(negativeZero()), double(0)}},
		{"fixed bounds cut short", encoding.Bytewise, 4, []pair{{[]byte{1, 2}, []byte{1, 3}}}, pair{[]byte{1, 2}, []byte{1, 3}}},
	} {
		b := encoding.NewBounds(c.order, c.width)
		for _, p := range c.in {
			b.Merge(p[0], p[1])
		}
		lower, upper, ok := b.Result()
		if ok != (c.want[0] != nil) || !bytes.Equal(lower, c.want[0]) || !bytes.Equal(upper, c.want[1]) {
			t.Errorf("%s: %x to %x (%t), want %x", c.name, lower, upper, ok, c.want)
		}
	}
	b := encoding.NewBounds(encoding.Signed, 4)
	b.Merge(le32(int32(1)), le32(int32(1)))
	b.Lose()
	b.Merge(le32(int32(1)), le32(int32(1)))
	if _, _, ok := b.Result(); ok {
		t.Error("lost bounds came back")
	}
}

func TestDecimalOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xfe, 0xff}), 1, 5).Draw(t, "a")
		c := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xfe, 0xff}), 1, 5).Draw(t, "b")
		b := encoding.NewBounds(encoding.BigDecimal, encoding.ByteArray)
		if err := b.AddPlain(plain(encoding.ByteArray, a, c), 2); err != nil {
			t.Fatal(err)
		}
		lower, upper, _ := b.Result()
		low, high := signed(a), signed(c)
		if low.Cmp(high) > 0 {
			low, high = high, low
		}
		if signed(lower).Cmp(low) != 0 || signed(upper).Cmp(high) != 0 {
			t.Fatalf("%x and %x have bounds %x and %x", a, c, lower, upper)
		}
	})
}

// signed is the number of big-endian two's complement bytes.
func signed(v []byte) *big.Int {
	n := new(big.Int).SetBytes(v)
	if v[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
	}
	return n
}

func TestFloatOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64(), 1, 20).Draw(t, "values")
		low, high := v[0], v[0]
		page := []byte{}
		for _, x := range v {
			page = append(page, double(x)...)
			low, high = math.Min(low, x), math.Max(high, x)
		}
		b := encoding.NewBounds(encoding.Floating, 8)
		if err := b.AddPlain(page, len(v)); err != nil {
			t.Fatal(err)
		}
		lower, upper, ok := b.Result()
		gotLow, gotHigh := math.Float64frombits(binary.LittleEndian.Uint64(lower)), math.Float64frombits(binary.LittleEndian.Uint64(upper))
		if !ok || gotLow != low || gotHigh != high {
			t.Fatalf("bounds %v to %v, want %v to %v", gotLow, gotHigh, low, high)
		}
	})
}

func TestDamagedValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		order encoding.Order
		width int
		page  []byte
		n     int
	}{
		{encoding.Signed, 4, make([]byte, 7), 2},
		{encoding.Signed, 4, make([]byte, 8), 1},
		{encoding.Bytewise, 0, []byte{1, 0, 0, 0}, 1},
		{encoding.Bytewise, 0, []byte{0, 0, 0, 0, 0}, 1},
		{encoding.BigDecimal, 0, []byte{0, 0, 0, 0}, 1},
		{encoding.Signed, 4, nil, -1},
	} {
		b := encoding.NewBounds(c.order, c.width)
		if err := b.AddPlain(c.page, c.n); !errors.Is(err, encoding.ErrCorrupt) {
			t.Errorf("order %d, width %d, page %x: %v", c.order, c.width, c.page, err)
		}
	}
}

func BenchmarkBounds(b *testing.B) {
	page := make([]byte, 160_000)
	for i := range page {
		page[i] = byte(i * i >> 3)
	}
	for name, o := range map[string]encoding.Order{"signed": encoding.Signed, "floating": encoding.Floating} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				bounds := encoding.NewBounds(o, 8)
				_ = bounds.AddPlain(page, len(page)/8)
			}
			perValue(b, len(page)/8)
		})
	}
}

func TestCutBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in           string
		n            int
		text         bool
		lower, upper string
		ok           bool
	}{
		{"abc", 5, true, "abc", "abc", true},
		{"abcdef", 3, true, "abc", "abd", true},
		{"ab\u00e9def", 3, true, "ab", "ac", true},
		{"ab\u00e9def", 4, true, "ab\u00e9", "ab\u00ea", true},
		{"ab\ud7ffdef", 5, true, "ab\ud7ff", "ab\ue000", true},
		{"a\U0010ffff\U0010ffffz", 9, true, "a\U0010ffff\U0010ffff", "b", true},
		{"\U0010ffff\U0010ffff", 4, true, "\U0010ffff", "", false},
		{"a\xff\xffz", 3, false, "a\xff\xff", "b", true},
		{"a\xff\xffz", 3, true, "a\xff\xff", "b", true}, // no UTF-8, so bytes
		{"\xff\xff\xff", 2, false, "\xff\xff", "", false},
	} {
		lower := encoding.CutLower([]byte(c.in), c.n, c.text)
		upper, ok := encoding.CutUpper([]byte(c.in), c.n, c.text)
		if string(lower) != c.lower || string(upper) != c.upper || ok != c.ok {
			t.Errorf("%q to %d: %q, %q, %t: want %q, %q, %t", c.in, c.n, lower, upper, ok, c.lower, c.upper, c.ok)
		}
		if string(lower) > c.in || (ok && string(upper) < c.in) {
			t.Errorf("%q is outside of %q to %q", c.in, lower, upper)
		}
	}
}

// TestTakeAndExact: bounds of parts become those of the whole, and zeros stay as they were but in statistics.
func TestTakeAndExact(t *testing.T) {
	t.Parallel()
	plain := func(values ...float64) (out []byte) {
		for _, v := range values {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
		}
		return out
	}
	all := encoding.NewBounds(encoding.Floating, 8)
	for _, values := range [][]float64{{0, 3}, {}, {1, 2}} {
		part := encoding.NewBounds(encoding.Floating, 8)
		if err := part.AddPlain(plain(values...), len(values)); err != nil {
			t.Fatal(err)
		}
		all.Take(&part)
	}
	if lower, upper, ok := all.Exact(); !ok || !bytes.Equal(lower, plain(0)) || !bytes.Equal(upper, plain(3)) {
		t.Errorf("exact %x to %x, %t", lower, upper, ok)
	}
	if lower, _, _ := all.Result(); !bytes.Equal(lower, plain(math.Copysign(0, -1))) {
		t.Errorf("lower %x", lower)
	}
	if encoding.Floating.Compare(plain(0), plain(math.Copysign(0, -1))) != 0 || encoding.Floating.Compare(plain(-1), plain(1)) >= 0 {
		t.Error("floats do not compare")
	}
	if encoding.Signed.Compare([]byte{0xff, 0xff, 0xff, 0xff}, []byte{1, 0, 0, 0}) >= 0 || encoding.BigDecimal.Compare([]byte{0xff}, []byte{1}) >= 0 {
		t.Error("negative numbers do not compare")
	}
	lost := encoding.NewBounds(encoding.Floating, 8)
	lost.Lose()
	all.Take(&lost)
	if _, _, ok := all.Result(); ok {
		t.Error("what one part does not know the whole knows")
	}
}
