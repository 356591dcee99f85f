package keys_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/iceberg-go"
	"pgregory.net/rapid"

	"firn/internal/compact/sorted/keys"
	"firn/internal/maintenance"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

var types = iceberg.PrimitiveTypes

// failer is what testing.T and rapid.T share.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func lay(tb failer, fields ...iceberg.NestedField) *layout.Layout {
	tb.Helper()
	l, err := layout.New(iceberg.NewSchema(0, fields...), false)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func optional(id int, t iceberg.Type) iceberg.NestedField {
	return iceberg.NestedField{ID: id, Name: fmt.Sprintf("c%d", id), Type: t}
}

// value is a test value of some type: nil or what compare understands.
type value any

// batchOf makes a batch of one optional column.
func batchOf(values []value) *column.Batch {
	b := &column.Batch{Rows: len(values), Levels: len(values)}
	for _, v := range values {
		if v == nil {
			b.Def = append(b.Def, 0)
			continue
		}
		b.Def = append(b.Def, 1)
		switch v := v.(type) {
		case bool:
			b.Bool = append(b.Bool, v)
		case int32:
			b.Int32 = append(b.Int32, v)
		case int64:
			b.Int64 = append(b.Int64, v)
		case float32:
			b.Float = append(b.Float, v)
		case float64:
			b.Double = append(b.Double, v)
		case string:
			b.Bytes = append(b.Bytes, parquet.ByteArray(v))
		case [4]byte:
			b.Fixed = append(b.Fixed, v[:])
		}
	}
	return b
}

// compare is the order of the specification, written down independently of the encoding.
func compare(a, b value) int {
	switch a := a.(type) {
	case bool:
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	case int32:
		return cmp.Compare(a, b.(int32))
	case int64:
		return cmp.Compare(a, b.(int64))
	case float32:
		return compareFloat(float64(a), float64(b.(float32)))
	case float64:
		return compareFloat(a, b.(float64))
	case string:
		return strings.Compare(a, b.(string))
	case [4]byte:
		other := b.([4]byte)
		return bytes.Compare(a[:], other[:])
	}
	return 0
}

// compareFloat: -0 before +0, NaN last.
func compareFloat(a, b float64) int {
	rank := func(f float64) int {
		switch {
		case f != f:
			return 2
		case f == 0 && !math.Signbit(f):
			return 1
		}
		return 0
	}
	if a == b || a != a || b != b {
		return cmp.Compare(rank(a), rank(b))
	}
	return cmp.Compare(a, b)
}

func generators() map[string]struct {
	t   iceberg.Type
	gen *rapid.Generator[value]
} {
	as := func(g any) *rapid.Generator[value] { return g.(*rapid.Generator[value]) }
	return map[string]struct {
		t   iceberg.Type
		gen *rapid.Generator[value]
	}{
		"boolean": {types.Bool, as(rapid.Map(rapid.Bool(), func(v bool) value { return v }))},
		"int":     {types.Int32, as(rapid.Map(rapid.Int32(), func(v int32) value { return v }))},
		"long":    {types.Int64, as(rapid.Map(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3)), func(v int64) value { return v }))},
		"float": {types.Float32, as(rapid.Map(rapid.OneOf(rapid.Float32(), rapid.SampledFrom([]float32{
			0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
		})), func(v float32) value { return v }))},
		"double": {types.Float64, as(rapid.Map(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{
			0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1),
		})), func(v float64) value { return v }))},
		"string": {types.String, as(rapid.Map(rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 'a', 'b', 0xff, '世'}), 0, 6, -1), func(v string) value { return v }))},
		"fixed": {iceberg.FixedTypeOf(4), as(rapid.Map(rapid.Uint32(), func(v uint32) value {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], v)
			return b
		}))},
	}
}

// TestKeysOrderLikeValues compares the order of keys with the order of rows: any types, directions and null orders, two fields at once.
func TestKeysOrderLikeValues(t *testing.T) {
	t.Parallel()
	all := generators()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		var columns [2][]value
		var order maintenance.Ordering
		var fields []iceberg.NestedField
		rows := rapid.IntRange(2, 12).Draw(t, "rows")
		for i := range columns {
			g := all[rapid.SampledFrom(names).Draw(t, "type")]
			fields = append(fields, optional(i+1, g.t))
			order.Fields = append(order.Fields, maintenance.OrderingField{
				SourceID: i + 1, Transform: "identity", Descending: rapid.Bool().Draw(t, "desc"), NullsLast: rapid.Bool().Draw(t, "nulls last"),
			})
			pool := rapid.SliceOfN(g.gen, 1, 4).Draw(t, "pool")
			for range rows {
				v := rapid.SampledFrom(pool).Draw(t, "value")
				if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
					v = nil
				}
				columns[i] = append(columns[i], v)
			}
		}
		l := lay(t, fields...)
		e, err := keys.New(&order, order.Fields[:1], l)
		if err != nil {
			t.Fatal(err)
		}
		parts := make([]keys.Keys, len(e.Fields))
		for i, f := range e.Fields {
			if err := f.Append(&parts[i], batchOf(columns[f.Leaf.Index])); err != nil {
				t.Fatal(err)
			}
		}
		all, err := e.Combine(&keys.Keys{}, parts)
		if err != nil || all.Rows() != rows {
			t.Fatalf("%d keys, %v: want %d", all.Rows(), err, rows)
		}
		for a := range rows {
			for b := range rows {
				want := 0
				for i := range columns {
					if want = compareField(order.Fields[i], columns[i][a], columns[i][b]); want != 0 {
						break
					}
				}
				if got := bytes.Compare(all.At(a), all.At(b)); got != want {
					t.Fatalf("rows %d, %d: keys %x, %x compare %d, values %v, %v and %v, %v %d", a, b, all.At(a), all.At(b), got,
						columns[0][a], columns[1][a], columns[0][b], columns[1][b], want)
				}
			}
			if lead := e.Lead(all.At(a)); !bytes.Equal(lead, parts[0].At(a)) {
				t.Fatalf("row %d: the leading field is %x of %x, want %x", a, lead, all.At(a), parts[0].At(a))
			}
		}
	})
}

func compareField(f maintenance.OrderingField, a, b value) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil || b == nil:
		if (a == nil) != f.NullsLast {
			return -1
		}
		return 1
	case f.Descending:
		return compare(b, a)
	}
	return compare(a, b)
}

// TestDecimalsAndTransforms: decimals of each width order by value; transformed values order by what the transform makes of them.
func TestDecimalsAndTransforms(t *testing.T) {
	t.Parallel()
	wide := func(n int64) parquet.FixedLenByteArray {
		b := make([]byte, 16)
		if n < 0 {
			for i := range b {
				b[i] = 0xff
			}
		}
		binary.BigEndian.PutUint64(b[8:], uint64(n))
		return b
	}
	numbers := []int64{-1 << 40, -300, -1, 0, 1, 255, 256, 1 << 40}
	for _, c := range []struct {
		t         iceberg.Type
		transform string
		values    column.Values
		equal     []int // Indexes that equal the one before them.
	}{
		{t: iceberg.DecimalTypeOf(18, 2), transform: "identity", values: column.Values{Int64: numbers}},
		{t: iceberg.DecimalTypeOf(9, 0), transform: "identity", values: column.Values{Int32: []int32{-300, -1, 0, 1, 256}}},
		{t: iceberg.DecimalTypeOf(38, 3), transform: "identity", values: column.Values{Fixed: []parquet.FixedLenByteArray{wide(-1 << 40), wide(-1), wide(0), wide(300)}}},
		{t: iceberg.DecimalTypeOf(18, 2), transform: "truncate[100]", values: column.Values{Int64: []int64{-101, -100, -1, 0, 99, 100}}, equal: []int{2, 4}},
		{t: types.Timestamp, transform: "day", values: column.Values{Int64: []int64{-1, 0, 86399999999, 86400000000}}, equal: []int{2}},
		{t: types.Date, transform: "month", values: column.Values{Int32: []int32{-1, 0, 30, 31}}, equal: []int{2}},
		{t: types.TimestampTz, transform: "hour", values: column.Values{Int64: []int64{0, 3599999999, 3600000000}}, equal: []int{1}},
		{t: types.String, transform: "truncate[2]", values: column.Values{Bytes: []parquet.ByteArray{[]byte("a"), []byte("ab"), []byte("abz"), []byte("b")}}, equal: []int{2}},
	} {
		l := lay(t, iceberg.NestedField{ID: 1, Name: "a", Type: c.t, Required: true})
		f, err := keys.NewField(maintenance.OrderingField{SourceID: 1, Transform: c.transform}, l)
		if err != nil {
			t.Fatal(err)
		}
		var k keys.Keys
		n := c.values.Len()
		if err := f.Append(&k, &column.Batch{Rows: n, Levels: n, Values: c.values}); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < n; i++ {
			want := -1
			if slices.Contains(c.equal, i) {
				want = 0
			}
			if got := bytes.Compare(k.At(i-1), k.At(i)); got != want {
				t.Errorf("%s of %s: values %d and %d compare %d: want %d", c.transform, c.t, i-1, i, got, want)
			}
		}
	}
	l := lay(t, iceberg.NestedField{ID: 1, Name: "l", Type: &iceberg.ListType{ElementID: 2, Element: types.Int64}})
	for _, f := range []maintenance.OrderingField{{SourceID: 2, Transform: "identity"}, {SourceID: 9, Transform: "identity"}} {
		if _, err := keys.NewField(f, l); err == nil {
			t.Errorf("column %d is no error", f.SourceID)
		}
	}
}

// curveKeys makes the keys of a curve over required long columns.
func curveKeys(tb testing.TB, curve maintenance.Curve, columns ...[]int64) *keys.Keys {
	tb.Helper()
	var fields []iceberg.NestedField
	o := maintenance.Ordering{Curve: curve}
	for i := range columns {
		fields = append(fields, iceberg.NestedField{ID: i + 1, Name: fmt.Sprintf("c%d", i), Type: types.Int64, Required: true})
		o.Fields = append(o.Fields, maintenance.OrderingField{SourceID: i + 1})
	}
	e, err := keys.New(&o, nil, lay(tb, fields...))
	if err != nil {
		tb.Fatal(err)
	}
	parts := make([]keys.Keys, len(columns))
	for i, f := range e.Fields {
		if err := f.Append(&parts[i], &column.Batch{Rows: len(columns[i]), Levels: len(columns[i]), Values: column.Values{Int64: columns[i]}}); err != nil {
			tb.Fatal(err)
		}
	}
	out, err := e.Combine(&keys.Keys{}, parts)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// TestInterleaving compares z-values with bits taken one by one, for columns of any number and width.
func TestInterleaving(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var parts [][]byte
		var widths []int
		for range rapid.IntRange(1, 10).Draw(t, "columns") {
			p := rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "part")
			parts, widths = append(parts, p), append(widths, len(p))
		}
		var want []byte
		n := 0
		for bit := range 72 {
			for _, p := range parts {
				if bit/8 < len(p) {
					if n%8 == 0 {
						want = append(want, 0)
					}
					want[n/8] |= p[bit/8] >> (7 - bit%8) & 1 << (7 - n%8)
					n++
				}
			}
		}
		limit := rapid.IntRange(0, 20).Draw(t, "limit")
		if limit > 0 {
			want = want[:min(limit, len(want))]
		}
		c := keys.NewCurve(maintenance.ZOrder, widths, limit)
		if got := c.Append(nil, parts); !bytes.Equal(got, want) || c.Size() != len(want) {
			t.Fatalf("%x gives %x, want %x", parts, got, want)
		}
	})
}

// TestHilbertSteps: along the curve each step of a full square or cube changes one coordinate by one; that is what a z-order lacks.
func TestHilbertSteps(t *testing.T) {
	t.Parallel()
	for _, dims := range []int{2, 3} {
		side := 8
		points := 1
		for range dims {
			points *= side
		}
		columns := make([][]int64, dims)
		for p := range points {
			rest := p
			for d := range columns {
				columns[d] = append(columns[d], int64(rest%side))
				rest /= side
			}
		}
		k := curveKeys(t, maintenance.Hilbert, columns...)
		order := slices.Collect(func(yield func(int) bool) {
			for i := range points {
				if !yield(i) {
					return
				}
			}
		})
		slices.SortFunc(order, func(a, b int) int { return bytes.Compare(k.At(a), k.At(b)) })
		for i := 1; i < points; i++ {
			distance := int64(0)
			for d := range columns {
				step := columns[d][order[i]] - columns[d][order[i-1]]
				distance += max(step, -step)
			}
			if distance != 1 {
				t.Fatalf("%d dimensions: step %d has length %d", dims, i, distance)
			}
		}
	}
}

// TestContributions: what values of each type give to a curve.
func TestContributions(t *testing.T) {
	t.Parallel()
	negative := math.Float64bits(-2.5)
	for _, c := range []struct {
		name string
		t    iceberg.Type
		v    column.Values
		want string
	}{
		{"int", types.Int32, column.Values{Int32: []int32{-1}}, "\x7f\xff\xff\xff\xff\xff\xff\xff"},
		{"long", types.Int64, column.Values{Int64: []int64{1}}, "\x80\x00\x00\x00\x00\x00\x00\x01"},
		{"double", types.Float64, column.Values{Double: []float64{-2.5}}, string(binary.BigEndian.AppendUint64(nil, ^negative))},
		{"true", types.Bool, column.Values{Bool: []bool{true}}, "\x81\x00\x00\x00\x00\x00\x00\x00"},
		{"timestamp in seconds", types.Timestamp, column.Values{Int64: []int64{-1}}, "\x7f\xff\xff\xff\xff\xff\xff\xff"},
		{"date", types.Date, column.Values{Int32: []int32{2}}, "\x80\x00\x00\x00\x00\x00\x00\x02"},
		{"short text", types.String, column.Values{Bytes: []parquet.ByteArray{[]byte("ab")}}, "ab\x00\x00"},
		{"long text", types.String, column.Values{Bytes: []parquet.ByteArray{[]byte("abcdef")}}, "abcd"},
		{"text cut between characters", types.String, column.Values{Bytes: []parquet.ByteArray{[]byte("ab世")}}, "ab\x00\x00"},
		{"binary", types.Binary, column.Values{Bytes: []parquet.ByteArray{{0xe4, 0xb8, 0x96, 0xe4, 0xb8}}}, "\xe4\xb8\x96\xe4"},
		{"null", types.Binary, column.Values{}, "\x00\x00\x00\x00"},
	} {
		f, err := keys.NewContribution(1, maintenance.ZOrder, 4, lay(t, optional(1, c.t)))
		if err != nil {
			t.Fatal(err)
		}
		def := int16(min(c.v.Len(), 1))
		var k keys.Keys
		if err := f.Append(&k, &column.Batch{Rows: 1, Levels: 1, Def: []int16{def}, Values: c.v}); err != nil {
			t.Fatal(err)
		}
		if got := string(k.At(0)); got != c.want {
			t.Errorf("%s: %x, want %x", c.name, got, c.want)
		}
	}
	if _, err := keys.NewContribution(1, maintenance.ZOrder, 4, lay(t, optional(1, iceberg.DecimalTypeOf(9, 2)))); err == nil {
		t.Error("a decimal is no error")
	}
	if n := len(curveKeys(t, maintenance.ZOrder, []int64{1}, []int64{2}).At(0)); n != 16 {
		t.Errorf("two longs give %d bytes: want 16", n)
	}
}
