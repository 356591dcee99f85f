package projection_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/projection"
)

// TestPromotedAndForeignTypes is case A39 and the types of imported files: each value is read as the table's type, at the limits of the old one.
func TestPromotedAndForeignTypes(t *testing.T) {
	t.Parallel()
	types := iceberg.PrimitiveTypes
	fixed := func(b ...byte) []parquet.FixedLenByteArray { return []parquet.FixedLenByteArray{b} }
	bytes := func(b ...byte) []parquet.ByteArray { return []parquet.ByteArray{b} }
	dec := func(p, s int32) schema.LogicalType { return schema.NewDecimalLogicalType(p, s) }
	for _, c := range []struct {
		name     string
		logical  schema.LogicalType
		physical parquet.Type
		width    int
		values   any
		read     iceberg.Type
		want     string
	}{
		{"int to long", nil, parquet.Types.Int32, -1, []int32{math.MinInt32, math.MaxInt32}, types.Int64, "-2147483648 2147483647"},
		{"unsigned int to long", schema.NewIntLogicalType(32, false), parquet.Types.Int32, -1, []int32{-1}, types.Int64, "4294967295"},
		{"short to int", schema.NewIntLogicalType(16, true), parquet.Types.Int32, -1, []int32{-7}, types.Int32, "-7"},
		{"float to double", nil, parquet.Types.Float, -1, []float32{math.MaxFloat32, 0.5}, types.Float64, "3.4028234663852886e+38 0.5"},
		{"decimal int to wider int", dec(9, 2), parquet.Types.Int32, -1, []int32{-999_999_999}, iceberg.DecimalTypeOf(18, 2), "-999999999"},
		{"decimal int to fixed", dec(9, 2), parquet.Types.Int32, -1, []int32{-1}, iceberg.DecimalTypeOf(20, 2), "ffffffffffffffffff"},
		{"decimal fixed to int", dec(9, 2), parquet.Types.FixedLenByteArray, 4, fixed(0xff, 0xff, 0xff, 0xfe), iceberg.DecimalTypeOf(9, 2), "-2"},
		{
			"decimal fixed to wider", dec(20, 2), parquet.Types.FixedLenByteArray, 9, fixed(0x80, 0, 0, 0, 0, 0, 0, 0, 1), iceberg.DecimalTypeOf(38, 2),
			"ffffffffffffff800000000000000001",
		},
		{"decimal bytes", dec(18, 2), parquet.Types.ByteArray, -1, bytes(0x01, 0x00), iceberg.DecimalTypeOf(18, 2), "256"},
		{"legacy wide fixed", dec(9, 2), parquet.Types.FixedLenByteArray, 16, fixed(append(make([]byte, 15), 5)...), iceberg.DecimalTypeOf(9, 2), "5"},
		{"date to timestamp", schema.DateLogicalType{}, parquet.Types.Int32, -1, []int32{-1}, types.Timestamp, "-86400000000"},
		{"date to timestamp_ns", schema.DateLogicalType{}, parquet.Types.Int32, -1, []int32{1}, types.TimestampNs, "86400000000000"},
		{"millis", schema.NewTimestampLogicalType(true, schema.TimeUnitMillis), parquet.Types.Int64, -1, []int64{-1}, types.TimestampTz, "-1000"},
		{"nanos, exact", schema.NewTimestampLogicalType(true, schema.TimeUnitNanos), parquet.Types.Int64, -1, []int64{-5_000}, types.TimestampTz, "-5"},
		{"time millis", schema.NewTimeLogicalType(false, schema.TimeUnitMillis), parquet.Types.Int32, -1, []int32{86_399_999}, types.Time, "86399999000"},
		{"INT96", nil, parquet.Types.Int96, -1, []parquet.Int96{int96(2_440_588, 1_001), int96(2_440_587, 86_399_999_999_999)}, types.TimestampTz, "1 -1"},
		{"INT96 to nanos", nil, parquet.Types.Int96, -1, []parquet.Int96{int96(2_440_587, 86_399_999_999_999)}, types.TimestampNs, "-1"},
		{"fixed as bytes", nil, parquet.Types.ByteArray, -1, bytes(1, 2), iceberg.FixedTypeOf(2), "0102"},
		{"uuid", nil, parquet.Types.FixedLenByteArray, 16, fixed(make([]byte, 16)...), types.UUID, "00000000000000000000000000000000"},
		{"enum to string", schema.EnumLogicalType{}, parquet.Types.ByteArray, -1, bytes('x'), types.String, "x"},
		{"geometry", schema.GeometryLogicalType{}, parquet.Types.ByteArray, -1, bytes('w', 'k', 'b'), iceberg.GeometryType{}, "wkb"},
	} {
		data := parquetFile(t, []schema.Node{leaf("a", req, 1, c.logical, c.physical, c.width)}, []chunk{{values: c.values}})
		tgt := target(t, iceberg.NestedField{ID: 1, Name: "a", Type: c.read, Required: true})
		f, p, err := open(t, data, tgt, projection.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, err := tryRead(f, p, 0); err != nil || got != " |  | "+c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func int96(day uint32, nanos uint64) parquet.Int96 {
	var v parquet.Int96
	binary.LittleEndian.PutUint64(v[:8], nanos)
	binary.LittleEndian.PutUint32(v[8:], day)
	return v
}

// TestLegacyLists covers the forms of lists that older writers made, without field IDs (A36): all are read through the name mapping.
func TestLegacyLists(t *testing.T) {
	t.Parallel()
	long := iceberg.PrimitiveTypes.Int64
	ids := func(i int) *int { return &i }
	names := iceberg.NameMapping{{FieldID: ids(1), Names: []string{"old", "l"}, Fields: []iceberg.MappedField{{FieldID: ids(2), Names: []string{"element"}}}}}
	listNode := func(inner schema.Node) schema.Node { return group("l", opt, -1, schema.NewListLogicalType(), inner) }
	value := leaf("v", opt, -1, nil, parquet.Types.Int64, -1)
	for name, c := range map[string]struct {
		node schema.Node
		def  []int16
		want string
	}{
		"three levels": {listNode(group("bag", rpt, -1, nil, value)), []int16{0, 1, 3, 2}, "0 1 3 2 | 0 0 0 1 | 5"},
		"two levels":   {listNode(leaf("array", rpt, -1, nil, parquet.Types.Int64, -1)), []int16{0, 1, 2, 2}, "0 1 3 3 | 0 0 0 1 | 5 6"},
	} {
		values := []int64{5, 6}[:1]
		if name == "two levels" {
			values = []int64{5, 6}
		}
		data := parquetFile(t, []schema.Node{c.node}, []chunk{{def: c.def, rep: []int16{0, 0, 0, 1}, values: values}})
		tgt := target(t, field(1, "l", &iceberg.ListType{ElementID: 2, Element: long}))
		tgt.Names = names
		f, p, err := open(t, data, tgt, projection.Options{})
		must(t, err)
		if got := read(t, f, p, 0); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// The repeated group is the element itself when it has several fields, or by its name.
	tuple := listNode(group("l_tuple", rpt, -1, nil, leaf("x", req, -1, nil, parquet.Types.Int64, -1)))
	data := parquetFile(t, []schema.Node{tuple}, []chunk{{def: []int16{2, 1}, rep: []int16{0, 0}, values: []int64{4}}})
	tgt := target(t, field(1, "l", &iceberg.ListType{ElementID: 2, Element: structOf(field(3, "x", long), field(4, "y", long))}))
	names[0].Fields[0].Fields = []iceberg.MappedField{{FieldID: ids(3), Names: []string{"x"}}}
	tgt.Names = names
	f, p, err := open(t, data, tgt, projection.Options{})
	must(t, err)
	if got := read(t, f, p, 0); got != "4 1 | 0 0 | 4" {
		t.Errorf("tuple: %q", got)
	}
	if got := read(t, f, p, 1); got != "3 1 | 0 0 | " {
		t.Errorf("field that the tuple lacks: %q", got)
	}
}

// TestSwappedColumnsWithoutIDs is case A36: columns are found by name, never by position.
func TestSwappedColumnsWithoutIDs(t *testing.T) {
	t.Parallel()
	one, two := 1, 2
	data := parquetFile(t, []schema.Node{leaf("b", req, -1, nil, parquet.Types.Int64, -1), leaf("a", req, -1, nil, parquet.Types.Int64, -1)},
		[]chunk{{values: []int64{20}}, {values: []int64{10}}})
	tgt := target(t, field(1, "a2", iceberg.PrimitiveTypes.Int64), field(2, "b", iceberg.PrimitiveTypes.Int64))
	tgt.Names = iceberg.NameMapping{{FieldID: &one, Names: []string{"a", "a2"}}, {FieldID: &two, Names: []string{"b"}}}
	f, p, err := open(t, data, tgt, projection.Options{})
	must(t, err)
	if a, b := read(t, f, p, 0), read(t, f, p, 1); a != "1 |  | 10" || b != "1 |  | 20" {
		t.Errorf("a2 %q, b %q", a, b)
	}
}
