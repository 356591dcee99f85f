package encoding_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/internal/parquet/encoding"
)

// drawSpans draws a mask of n positions and its spans, some of them empty or touching.
func drawSpans(t *rapid.T, n int) (keep []bool, spans []encoding.Span) {
	keep = make([]bool, n)
	for at := 0; at < n; {
		from := rapid.IntRange(at, n).Draw(t, "from")
		to := rapid.IntRange(from, n).Draw(t, "to")
		spans = append(spans, encoding.Span{From: from, To: to})
		for i := from; i < to; i++ {
			keep[i] = true
		}
		at = max(to, at+1)
		if rapid.Bool().Draw(t, "stop") {
			break
		}
	}
	// A span may have begun before the last one ended by the step over an empty one.
	for i := 1; i < len(spans); i++ {
		spans[i].From = max(spans[i].From, spans[i-1].To)
	}
	return keep, spans
}

func TestSelect(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{encoding.ByteArray, 1, 4, 8, 12}).Draw(t, "width")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		values := make([][]byte, rapid.IntRange(0, 60).Draw(t, "values"))
		for i := range values {
			n := width
			if n == encoding.ByteArray {
				n = r.IntN(9)
			}
			values[i] = bytes.Repeat([]byte{byte(i)}, n)
		}
		keep, spans := drawSpans(t, len(values))
		var kept [][]byte
		for i, v := range values {
			if keep[i] {
				kept = append(kept, v)
			}
		}
		got, err := encoding.SelectPlain([]byte("kept"), plain(width, values...), width, len(values), spans)
		if err != nil || string(got) != "kept"+string(plain(width, kept...)) {
			t.Fatalf("selected %x of %v: %v", got, spans, err)
		}
		items, err := encoding.Select(nil, values, spans)
		if err != nil || len(items) != len(kept) || encoding.SpanLen(spans) != len(kept) {
			t.Fatalf("selected %d items, want %d: %v", len(items), len(kept), err)
		}
	})
}

// TestSpansOfNestedRows goes from rows to levels to values and compares with a walk over every level.
func TestSpansOfNestedRows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(0, 40).Draw(t, "rows")
		keep, spans := drawSpans(t, rows)
		var rep, def, wantDef []uint8
		var wantValues, wantLevels []int
		values := 0
		for row := range rows {
			for i := range rapid.IntRange(1, 4).Draw(t, "items") {
				d := rapid.Uint8Range(0, 2).Draw(t, "def")
				if keep[row] {
					wantLevels, wantDef = append(wantLevels, len(rep)), append(wantDef, d)
				}
				if d == 2 {
					if keep[row] {
						wantValues = append(wantValues, values)
					}
					values++
				}
				rep, def = append(rep, uint8(min(i, 1))), append(def, d)
			}
		}
		levelSpans, err := encoding.LevelSpans(nil, rep, spans)
		if err != nil || !slices.Equal(positions(levelSpans), wantLevels) {
			t.Fatalf("rows %v are levels %v, want %v: %v", spans, levelSpans, wantLevels, err)
		}
		valueSpans, err := encoding.ValueSpans(nil, def, 2, levelSpans)
		if err != nil || !slices.Equal(positions(valueSpans), wantValues) {
			t.Fatalf("levels %v are values %v, want %v: %v", levelSpans, valueSpans, wantValues, err)
		}
		if got, err := encoding.Select(nil, def, levelSpans); err != nil || !slices.Equal(got, wantDef) {
			t.Fatalf("definition levels %v, want %v: %v", got, wantDef, err)
		}
		if rows > 0 {
			if _, err := encoding.LevelSpans(nil, rep, []encoding.Span{{From: 0, To: rows + 1}}); !errors.Is(err, encoding.ErrCorrupt) {
				t.Fatalf("a row behind the page: %v", err)
			}
		}
	})
}

func positions(spans []encoding.Span) []int {
	var out []int
	for _, s := range spans {
		for i := s.From; i < s.To; i++ {
			out = append(out, i)
		}
	}
	return out
}

func TestWrongSelections(t *testing.T) {
	t.Parallel()
	one := []encoding.Span{{From: 0, To: 1}}
	for _, c := range []struct {
		name  string
		width int
		page  []byte
		n     int
		spans []encoding.Span
	}{
		{"span behind the values", 4, make([]byte, 8), 2, []encoding.Span{{From: 1, To: 3}}},
		{"span backwards", 4, make([]byte, 8), 2, []encoding.Span{{From: 1, To: 0}}},
		{"spans overlap", 4, make([]byte, 8), 2, []encoding.Span{{From: 0, To: 2}, {From: 1, To: 2}}},
		{"page too short", 4, make([]byte, 7), 2, one},
		{"byte arrays too few", encoding.ByteArray, plain(0, []byte("a")), 2, one},
		{"byte arrays too many", encoding.ByteArray, plain(0, []byte("a"), nil), 1, one},
		{"byte array cut", encoding.ByteArray, []byte{9, 0, 0, 0, 1}, 1, one},
	} {
		if got, err := encoding.SelectPlain([]byte("kept"), c.page, c.width, c.n, c.spans); !errors.Is(err, encoding.ErrCorrupt) || string(got) != "kept" {
			t.Errorf("%s: %x: %v", c.name, got, err)
		}
	}
	if _, err := encoding.LevelSpans(nil, []uint8{1, 0}, one); !errors.Is(err, encoding.ErrCorrupt) {
		t.Errorf("a page that begins within a row: %v", err)
	}
}

func TestBooleans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.Uint8Range(0, 1)).Draw(t, "values")
		page := encoding.EncodeBooleans(bytes.Repeat([]byte{255}, 3), want)[3:]
		got, err := encoding.DecodeBooleans([]uint8{7, 7, 7, 7}, page, len(want))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("read %v, want %v: %v", got, want, err)
		}
		if _, err := encoding.DecodeBooleans(nil, append(page, 0), len(want)); !errors.Is(err, encoding.ErrCorrupt) {
			t.Fatalf("a byte too many: %v", err)
		}
	})
	if got := encoding.EncodeBooleans(nil, []uint8{1, 0, 1, 1, 0, 0, 0, 0, 1}); !bytes.Equal(got, []byte{0x0d, 0x01}) {
		t.Errorf("booleans are %x", got)
	}
}

func TestByteArrays(t *testing.T) {
	t.Parallel()
	page := encoding.AppendByteArray(encoding.AppendByteArray(nil, []byte("one")), nil)
	v, rest, err := encoding.NextByteArray(page)
	if string(v) != "one" || err != nil {
		t.Fatalf("first value %q: %v", v, err)
	}
	if v, rest, err = encoding.NextByteArray(rest); len(v) != 0 || len(rest) != 0 || err != nil {
		t.Fatalf("second value %q, %d bytes behind: %v", v, len(rest), err)
	}
	if _, _, err := encoding.NextByteArray(rest); !errors.Is(err, encoding.ErrCorrupt) {
		t.Errorf("a value of nothing: %v", err)
	}
}

func FuzzSelectPlain(f *testing.F) {
	f.Add(plain(0, []byte("a"), []byte("bc"), nil), uint8(0), uint16(3), uint16(1), uint16(2))
	f.Add(make([]byte, 12), uint8(4), uint16(3), uint16(0), uint16(3))
	f.Fuzz(func(t *testing.T, page []byte, width uint8, n, from, to uint16) {
		got, err := encoding.SelectPlain(nil, page, int(width), int(n), []encoding.Span{{From: int(from), To: int(to)}})
		if err == nil && !bytes.Contains(page, got) {
			t.Fatal("one span is not one piece")
		}
		for _, order := range []encoding.Order{encoding.Signed, encoding.Unsigned, encoding.Floating, encoding.BigDecimal, encoding.Bytewise} {
			b := encoding.NewBounds(order, int(width))
			if b.AddPlain(page, int(n)) != nil {
				continue
			}
			lower, upper, ok := b.Result()
			if !ok {
				continue
			}
			c := encoding.NewBounds(order, int(width))
			c.Merge(lower, upper)
			if l, u, ok := c.Result(); !ok || !bytes.Equal(l, lower) || !bytes.Equal(u, upper) {
				t.Fatalf("order %d: bounds %x and %x merge to %x and %x", order, lower, upper, l, u)
			}
		}
		_, _ = encoding.DecodeBooleans(nil, page, int(n))
	})
}
