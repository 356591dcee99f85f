package metrics_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/iceberg-go"
	"pgregory.net/rapid"

	"firn/internal/compact/metrics"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

func gauge(tb testing.TB, t iceberg.Type, v column.Values, props map[string]string) metrics.Result {
	tb.Helper()
	l, err := layout.New(iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "a", Type: t, Required: true}), false)
	if err != nil {
		tb.Fatal(err)
	}
	modes, err := metrics.Modes(props, l, nil)
	if err != nil {
		tb.Fatal(err)
	}
	f := metrics.New(l, modes)
	f.Add(0, &column.Batch{Rows: v.Len(), Levels: v.Len(), Values: v})
	return f.Result()
}

func texts(values ...string) column.Values {
	var v column.Values
	for _, s := range values {
		v.Bytes = append(v.Bytes, parquet.ByteArray(s))
	}
	return v
}

// TestBounds covers the single-value serialisation and truncation: cases A56 (signed decimals in the fewest bytes), A57 (NaN, signed zero),
// A58 (no upper bound that could be represented), A59 and A60 (widths).
func TestBounds(t *testing.T) {
	t.Parallel()
	types := iceberg.PrimitiveTypes
	nan, negative := math.NaN(), math.Copysign(0, -1)
	fixed := func(texts ...string) (v column.Values) {
		for _, s := range texts {
			b, _ := hex.DecodeString(s)
			v.Fixed = append(v.Fixed, b)
		}
		return v
	}
	top := strings.Repeat("\U0010FFFF", 20)
	for _, c := range []struct {
		name         string
		typ          iceberg.Type
		values       column.Values
		lower, upper string
	}{
		{"boolean", types.Bool, column.Values{Bool: []bool{true, true}}, "01", "01"},
		{"int", types.Int32, column.Values{Int32: []int32{5, -2}}, "feffffff", "05000000"},
		{"date", types.Date, column.Values{Int32: []int32{-1}}, "ffffffff", "ffffffff"},
		{"long", types.Int64, column.Values{Int64: []int64{math.MinInt64, math.MaxInt64}}, "0000000000000080", "ffffffffffffff7f"},
		{"timestamp_ns", types.TimestampNs, column.Values{Int64: []int64{1}}, "0100000000000000", "0100000000000000"},
		{"decimal int", iceberg.DecimalTypeOf(9, 2), column.Values{Int32: []int32{-129, 127, 128}}, "ff7f", "0080"},
		{"decimal long", iceberg.DecimalTypeOf(18, 4), column.Values{Int64: []int64{0, -1}}, "ff", "00"},
		{"decimal fixed", iceberg.DecimalTypeOf(20, 0), fixed("800000000000000000", "000000000000000001", "7fffffffffffffffff"), "800000000000000000", "7fffffffffffffffff"},
		{"decimal fixed small", iceberg.DecimalTypeOf(20, 0), fixed("ffffffffffffffff80"), "80", "80"},
		{"uuid", types.UUID, fixed("f0000000000000000000000000000000", "00112233445566778899aabbccddeeff"), "00112233445566778899aabbccddeeff", "f0000000000000000000000000000000"},
		{"NaN left out", types.Float64, column.Values{Double: []float64{nan, 2, nan, -1}}, "000000000000f0bf", "0000000000000040"},
		{"only NaN", types.Float32, column.Values{Float: []float32{float32(nan)}}, "", ""},
		{"signed zero", types.Float64, column.Values{Double: []float64{0, negative}}, "0000000000000080", "0000000000000000"},
		{"short string", types.String, texts("b", "a"), "61", "62"},
		{"empty string", types.String, texts(""), "00", "00"},
		{"sixteen characters stay", types.String, texts(strings.Repeat("a", 16)), strings.Repeat("61", 16), strings.Repeat("61", 16)},
		{"long string", types.String, texts(strings.Repeat("a", 17)), strings.Repeat("61", 16), strings.Repeat("61", 15) + "62"},
		{"top code points", types.String, texts(top), hex.EncodeToString([]byte(top[:64])), ""},
		{"raised past the top", types.String, texts("a" + top), hex.EncodeToString([]byte("a" + top[:60])), "62"},
		{"surrogates skipped", types.String, texts(strings.Repeat("a", 15) + "\uD7FFz"), strings.Repeat("61", 15) + "ed9fbf", strings.Repeat("61", 15) + "ee8080"},
		{"long binary", types.Binary, texts(strings.Repeat("\xff", 17)), strings.Repeat("ff", 16), ""},
		{"binary with room", types.Binary, texts("\x01" + strings.Repeat("\xff", 17)), "01" + strings.Repeat("ff", 15), "02"},
	} {
		r := gauge(t, c.typ, c.values, nil)
		lower, upper := hex.EncodeToString(r.Lower[1]), hex.EncodeToString(r.Upper[1])
		if c.name == "empty string" { // An empty bound is a bound: present, of no bytes.
			if _, ok := r.Lower[1]; !ok || lower != "" {
				t.Errorf("%s: lower %q, present %t", c.name, lower, ok)
			}
			continue
		}
		if lower != c.lower || upper != c.upper {
			t.Errorf("%s: bounds %s and %s, want %s and %s", c.name, lower, upper, c.lower, c.upper)
		}
		if _, present := r.Upper[1]; present != (c.upper != "") {
			t.Errorf("%s: upper bound present: %t", c.name, present)
		}
	}
	if r := gauge(t, types.Float64, column.Values{Double: []float64{nan, 1}}, nil); r.NaNs[1] != 1 || r.Values[1] != 2 || r.Nulls[1] != 0 {
		t.Errorf("counts of NaN: %+v", r)
	}
}

// TestBoundsHold is the property behind truncation: lower <= every value <= upper, compared by bytes, and bounds stay UTF-8.
func TestBoundsHold(t *testing.T) {
	t.Parallel()
	tb := t
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune{'a', 0xD7FF, 0x10FFFF}), 14, 20, -1)), 1, 5).Draw(t, "values")
		for _, typ := range []iceberg.Type{iceberg.PrimitiveTypes.String, iceberg.PrimitiveTypes.Binary} {
			r := gauge(tb, typ, texts(values...), nil)
			for _, v := range values {
				if bytes.Compare(r.Lower[1], []byte(v)) > 0 {
					t.Fatalf("lower %x above %x", r.Lower[1], v)
				}
				if upper, ok := r.Upper[1]; ok && bytes.Compare(upper, []byte(v)) < 0 {
					t.Fatalf("upper %x below %x", upper, v)
				}
			}
		}
	})
}

// TestModes covers the metrics properties.
func TestModes(t *testing.T) {
	t.Parallel()
	long := iceberg.PrimitiveTypes.Int64
	l, err := layout.New(iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "a", Type: long},
		iceberg.NestedField{ID: 2, Name: "s", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{{ID: 3, Name: "b", Type: long}}}},
		iceberg.NestedField{ID: 4, Name: "l", Type: &iceberg.ListType{ElementID: 5, Element: long}},
	), false)
	if err != nil {
		t.Fatal(err)
	}
	cut, none, counts, full := metrics.Mode{Counts: true, Bounds: true, Truncate: 16}, metrics.Mode{}, metrics.Mode{Counts: true}, metrics.Mode{Counts: true, Bounds: true}
	for _, c := range []struct {
		props  map[string]string
		sorted int
		want   []metrics.Mode
	}{
		{nil, 0, []metrics.Mode{cut, cut, none}},
		{map[string]string{"write.metadata.metrics.default": "counts"}, 3, []metrics.Mode{counts, cut, none}},
		{map[string]string{"write.metadata.metrics.default": "none", "write.metadata.metrics.column.s.b": "full"}, 0, []metrics.Mode{none, full, none}},
		{map[string]string{"write.metadata.metrics.max-inferred-column-defaults": "1"}, 0, []metrics.Mode{cut, none, none}},
		{map[string]string{"write.metadata.metrics.column.a": "Truncate(3)"}, 0, []metrics.Mode{{Counts: true, Bounds: true, Truncate: 3}, cut, none}},
	} {
		got, err := metrics.Modes(c.props, l, map[int]bool{c.sorted: true})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %v, want %v", c.props, got, err, c.want)
		}
	}
	for _, bad := range []string{"some", "truncate(0)", "truncate(x)", ""} {
		if _, err := metrics.Modes(map[string]string{"write.metadata.metrics.default": bad}, l, nil); err == nil {
			t.Errorf("mode %q was taken", bad)
		}
	}
}
