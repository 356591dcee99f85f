package encoding_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/internal/parquet/encoding"
)

func levels(t *rapid.T, high uint8) []uint8 {
	out := make([]uint8, 0, 100)
	for _, v := range indices(t, encoding.LevelWidth(int(high))) {
		out = append(out, uint8(v%(uint32(high)+1)))
	}
	return out
}

func TestLevelsRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		high := rapid.OneOf(rapid.Uint8Range(0, 4), rapid.Uint8()).Draw(t, "max")
		want := levels(t, high)
		stream, err := encoding.EncodeLevels(nil, want, high)
		if err != nil {
			t.Fatal(err)
		}
		width := encoding.LevelWidth(int(high))
		if high > 0 {
			if wide, ok := naive(stream, width, len(want)); !ok || !equalLevels(wide, want) {
				t.Fatal("the oracle reads other levels than were written")
			}
		}
		stale := bytes.Repeat([]byte{77}, len(want)+3)
		got, err := encoding.DecodeLevels(stale, stream, high, len(want))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("read %v, want %v: %v", got, want, err)
		}
		for _, level := range []uint8{0, 1, high} {
			n := 0
			for _, v := range want {
				if v == level {
					n++
				}
			}
			if got, err := encoding.CountLevels(stream, width, len(want), level); err != nil || got != n {
				t.Fatalf("counted %d at level %d, want %d: %v", got, level, n, err)
			}
		}
		page := append(encoding.AppendPrefixed(nil, stream), "rest"...)
		again, rest, err := encoding.SplitPrefixed(page)
		if err != nil || !bytes.Equal(again, stream) || string(rest) != "rest" {
			t.Fatalf("split into %x and %q: %v", again, rest, err)
		}
	})
}

// TestLevelsAreEncodedAsIndices: there is one hybrid encoding.
func TestLevelsAreEncodedAsIndices(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		high := rapid.Uint8Range(1, 9).Draw(t, "max")
		v := levels(t, high)
		wide := make([]uint32, len(v))
		for i := range v {
			wide[i] = uint32(v[i])
		}
		a, err := encoding.EncodeLevels(nil, v, high)
		if err != nil {
			t.Fatal(err)
		}
		b, err := encoding.EncodeIndices(nil, wide, encoding.LevelWidth(int(high)))
		if err != nil || !bytes.Equal(a, b) {
			t.Fatalf("levels %x, indices %x: %v", a, b, err)
		}
	})
}

func equalLevels(wide []uint32, v []uint8) bool {
	return slices.EqualFunc(wide, v, func(a uint32, b uint8) bool { return a == uint32(b) })
}

func TestDamagedLevels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		max    uint8
		n      int
		stream []byte
		want   error
	}{
		{"a run above the highest", 2, 8, []byte{8 << 1, 3}, encoding.ErrCorrupt},
		{"a packed level above the highest", 2, 8, []byte{1<<1 | 1, 0xff, 0xff}, encoding.ErrCorrupt},
		{"bytes where there is one level", 0, 8, []byte{8 << 1}, encoding.ErrCorrupt},
		{"bytes behind", 1, 8, []byte{8 << 1, 1, 1}, encoding.ErrCorrupt},
		{"too many", 1, 1 << 30, []byte{8 << 1, 1}, encoding.ErrTooLarge},
		{"too many of one level", 0, 1 << 30, nil, encoding.ErrTooLarge},
	} {
		if got, err := encoding.DecodeLevels(nil, c.stream, c.max, c.n); !errors.Is(err, c.want) {
			t.Errorf("%s: read %v: %v", c.name, got, err)
		}
	}
	for _, page := range [][]byte{nil, {1, 0, 0}, {1, 0, 0, 0}, {255, 255, 255, 255, 0}} {
		if _, _, err := encoding.SplitPrefixed(page); !errors.Is(err, encoding.ErrCorrupt) {
			t.Errorf("levels %x: %v", page, err)
		}
	}
	if _, err := encoding.EncodeLevels(nil, []uint8{2}, 1); err == nil {
		t.Error("level 2 of 1 was written")
	}
}

func FuzzLevels(f *testing.F) {
	f.Add([]byte{8 << 1, 1, 1<<1 | 1, 0x55}, uint8(1), uint32(16))
	f.Add([]byte{1<<1 | 1, 0x88, 0xc6, 0xfa}, uint8(7), uint32(8))
	f.Add([]byte{}, uint8(0), uint32(8))
	f.Fuzz(func(t *testing.T, src []byte, high uint8, n uint32) {
		n %= 1 << 16
		got, err := encoding.DecodeLevels(nil, src, high, int(n))
		sum := 0
		for level := range int(high) + 1 {
			k, countErr := encoding.CountLevels(src, encoding.LevelWidth(int(high)), int(n), uint8(level))
			if err == nil && countErr != nil {
				t.Fatal(countErr)
			}
			sum += k
		}
		if err != nil {
			return
		}
		if sum != int(n) {
			t.Fatalf("counted %d levels of %d", sum, n)
		}
		stream, err := encoding.EncodeLevels(nil, got, high)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := encoding.DecodeLevels(nil, stream, high, int(n)); err != nil || !slices.Equal(again, got) {
			t.Fatal(err)
		}
	})
}

func BenchmarkLevels(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, high := range []uint8{1, 3} {
		v := make([]uint8, 20_000)
		for i := range v {
			v[i] = uint8(r.Uint32()) % (high + 1)
		}
		stream, _ := encoding.EncodeLevels(nil, v, high)
		width := encoding.LevelWidth(int(high))
		b.Run(fmt.Sprintf("decode/max=%d", high), func(b *testing.B) {
			for b.Loop() {
				v, _ = encoding.DecodeLevels(v, stream, high, len(v))
			}
			perValue(b, len(v))
		})
		b.Run(fmt.Sprintf("count/max=%d", high), func(b *testing.B) {
			for b.Loop() {
				_, _ = encoding.CountLevels(stream, width, len(v), high)
			}
			perValue(b, len(v))
		})
		b.Run(fmt.Sprintf("encode/max=%d", high), func(b *testing.B) {
			for b.Loop() {
				stream, _ = encoding.EncodeLevels(stream[:0], v, high)
			}
			perValue(b, len(v))
		})
	}
}
