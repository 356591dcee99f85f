package projection_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
)

var (
	opt = parquet.Repetitions.Optional
	req = parquet.Repetitions.Required
	rpt = parquet.Repetitions.Repeated
)

func field(id int, name string, t iceberg.Type) iceberg.NestedField {
	return iceberg.NestedField{ID: id, Name: name, Type: t}
}

func structOf(fields ...iceberg.NestedField) *iceberg.StructType {
	return &iceberg.StructType{FieldList: fields}
}

// nestedFile has s struct<a int, l list<struct<x long>>> and an id, with nulls at each level.
func nestedFile(t *testing.T) []byte {
	t.Helper()
	fields := []schema.Node{
		leaf("id", req, 1, nil, parquet.Types.Int64, -1),
		group("s", opt, 2, nil,
			leaf("a", opt, 3, nil, parquet.Types.Int32, -1),
			group("l", opt, 4, schema.NewListLogicalType(),
				group("list", rpt, -1, nil, group("element", opt, 5, nil, leaf("x", opt, 6, nil, parquet.Types.Int64, -1))))),
	}
	// Rows: s null; s(a=1, l null); s(a null, l empty); s(a=2, l [null, {x null}, {x 7}]).
	return parquetFile(t, fields, []chunk{
		{values: []int64{10, 11, 12, 13}},
		{def: []int16{0, 2, 1, 2}, values: []int32{1, 2}},
		{def: []int16{0, 1, 2, 3, 4, 5}, rep: []int16{0, 0, 0, 0, 1, 1}, values: []int64{7}},
	})
}

// TestEvolutionOfNestedColumns: what the schema has and the file lacks is null at the deepest level that the file knows (A37), what the file has
// and the schema dropped goes, and required columns that became optional gain a level.
func TestEvolutionOfNestedColumns(t *testing.T) {
	t.Parallel()
	long := iceberg.PrimitiveTypes.Int64
	element := structOf(field(6, "renamed", long), field(20, "y", iceberg.PrimitiveTypes.String))
	tgt := target(
		t,
		field(30, "added", structOf(field(31, "b", long), field(32, "m", &iceberg.MapType{
			KeyID: 33, KeyType: iceberg.PrimitiveTypes.String, ValueID: 34, ValueType: iceberg.DecimalTypeOf(9, 2),
		}))),
		field(2, "s", structOf(
			field(4, "l", &iceberg.ListType{ElementID: 5, Element: element}),
			field(3, "a", long), // Promoted from int, and moved.
			field(21, "n", long),
		)),
		field(1, "id", long), // Required in the file.
	)
	f, p, err := open(t, nestedFile(t), tgt, projection.Options{})
	must(t, err)
	for i, want := range []string{
		"0 0 0 0 |  | ",                 // added.b
		"0 0 0 0 | 0 0 0 0 | ",          // added.m.key
		"0 0 0 0 | 0 0 0 0 | ",          // added.m.value
		"0 1 2 3 4 5 | 0 0 0 0 1 1 | 7", // s.l.element.renamed
		"0 1 2 3 4 4 | 0 0 0 0 1 1 | ",  // s.l.element.y: null inside of present elements
		"0 2 1 2 |  | 1 2",              // s.a
		"0 1 1 1 |  | ",                 // s.n: null in a present struct
		"1 1 1 1 |  | 10 11 12 13",      // id
	} {
		if got := read(t, f, p, i); got != want {
			t.Errorf("%s: %q, want %q", tgt.Layout.Leaves[i].Path, got, want)
		}
	}
}

// TestDefaults is case A38: columns that a file lacks hold their initial default, nested ones too, and only where their parents are present.
func TestDefaults(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"type":"struct","schema-id":1,"fields":[
		{"id":1,"name":"id","required":true,"type":"long"},
		{"id":40,"name":"c","required":true,"type":"long","initial-default":9007199254740993},
		{"id":41,"name":"t","required":false,"type":"string","initial-default":"x"},
		{"id":42,"name":"ts","required":false,"type":"timestamptz","initial-default":"1969-12-31T23:59:59.999999+00:00"},
		{"id":43,"name":"dec","required":false,"type":"decimal(20,2)","initial-default":"-12.34"},
		{"id":44,"name":"st","required":false,"type":{"type":"struct","fields":[
			{"id":45,"name":"p","required":false,"type":"int","initial-default":5},
			{"id":46,"name":"q","required":false,"type":"int"}]},"initial-default":{}},
		{"id":2,"name":"s","required":false,"type":{"type":"struct","fields":[
			{"id":47,"name":"d","required":true,"type":"boolean","initial-default":true}]}}]}`)
	var sc iceberg.Schema
	must(t, json.Unmarshal(raw, &sc))
	l, err := layout.New(&sc, false)
	must(t, err)
	defaults, err := projection.ParseDefaults(raw)
	must(t, err)
	f, p, err := open(t, nestedFile(t), &projection.Target{Layout: l, Defaults: defaults}, projection.Options{})
	must(t, err)
	for i, want := range []string{
		" |  | 10 11 12 13",
		" |  | 9007199254740993 9007199254740993 9007199254740993 9007199254740993",
		"1 1 1 1 |  | x x x x",
		"1 1 1 1 |  | -1 -1 -1 -1",
		"1 1 1 1 |  | fffffffffffffffb2e fffffffffffffffb2e fffffffffffffffb2e fffffffffffffffb2e",
		"2 2 2 2 |  | 5 5 5 5",
		"1 1 1 1 |  | ",
		"0 1 1 1 |  | true true true",
	} {
		if got := read(t, f, p, i); got != want {
			t.Errorf("%s: %q, want %q", l.Leaves[i].Path, got, want)
		}
	}
}

// TestIdentityPartitionValues: a column that is not in the file takes the value of its identity partition field, before any default.
func TestIdentityPartitionValues(t *testing.T) {
	t.Parallel()
	tgt := target(t, field(1, "id", iceberg.PrimitiveTypes.Int64), field(50, "day", iceberg.PrimitiveTypes.Date), field(51, "g", iceberg.PrimitiveTypes.String),
		field(52, "n", iceberg.PrimitiveTypes.Int64))
	tgt.Defaults = map[int]json.RawMessage{51: json.RawMessage(`"default"`)}
	f, p, err := open(t, nestedFile(t), tgt, projection.Options{Constants: map[int]any{
		1: int64(99), 50: iceberg.Date(-1), 51: nil, 52: int32(7),
	}})
	must(t, err)
	for i, want := range []string{"1 1 1 1 |  | 10 11 12 13", "1 1 1 1 |  | -1 -1 -1 -1", "0 0 0 0 |  | ", "1 1 1 1 |  | 7 7 7 7"} {
		if got := read(t, f, p, i); got != want {
			t.Errorf("%s: %q, want %q", tgt.Layout.Leaves[i].Path, got, want)
		}
	}
}

// TestRefusedFiles: what cannot be mapped exactly is refused, with the reason.
func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	long := iceberg.PrimitiveTypes.Int64
	one := func(n schema.Node, c chunk) []byte { return parquetFile(t, []schema.Node{n}, []chunk{c}) }
	ints := one(leaf("a", opt, 1, nil, parquet.Types.Int32, -1), chunk{def: []int16{1, 0}, values: []int32{1}})
	for _, c := range []struct {
		reason string
		data   []byte
		target *projection.Target
	}{
		{"no field IDs", one(leaf("a", opt, -1, nil, parquet.Types.Int64, -1), chunk{def: []int16{0}, values: []int64{}}), target(t, field(1, "a", long))},
		{"cannot be read as string", ints, target(t, field(1, "a", iceberg.PrimitiveTypes.String))},
		{"a null in a required column", ints, target(t, iceberg.NestedField{ID: 1, Name: "a", Type: long, Required: true})},
		{"lacks the required column", ints, target(t, iceberg.NestedField{ID: 2, Name: "b", Type: long, Required: true})},
		{"is no struct", ints, target(t, field(1, "a", structOf(field(2, "b", long))))},
		{"is no list", ints, target(t, field(1, "a", &iceberg.ListType{ElementID: 2, Element: long}))},
		{"has no field ID", parquetFile(t, []schema.Node{
			leaf("a", req, 1, nil, parquet.Types.Int64, -1), leaf("b", req, -1, nil, parquet.Types.Int64, -1),
		}, []chunk{{values: []int64{1}}, {values: []int64{1}}}), target(t, field(1, "a", long))},
		{"same field ID", parquetFile(t, []schema.Node{
			leaf("a", req, 1, nil, parquet.Types.Int64, -1), leaf("b", req, 1, nil, parquet.Types.Int64, -1),
		}, []chunk{{values: []int64{1}}, {values: []int64{1}}}), target(t, field(1, "a", long))},
		{"below the column's resolution", one(leaf("a", req, 1, schema.NewTimestampLogicalType(true, schema.TimeUnitNanos), parquet.Types.Int64, -1),
			chunk{values: []int64{1_000, 1_001}}), target(t, field(1, "a", iceberg.PrimitiveTypes.TimestampTz))},
		{
			"cannot be read as decimal", one(leaf("a", req, 1, schema.NewDecimalLogicalType(9, 3), parquet.Types.Int32, -1), chunk{values: []int32{1}}),
			target(t, field(1, "a", iceberg.DecimalTypeOf(9, 2))),
		},
		{
			"does not fit", one(leaf("a", req, 1, schema.NewDecimalLogicalType(18, 2), parquet.Types.Int64, -1), chunk{values: []int64{1 << 40}}),
			target(t, field(1, "a", iceberg.DecimalTypeOf(9, 2))),
		},
		{
			"is shredded", parquetFile(t, []schema.Node{group("v", opt, 1, schema.VariantLogicalType{},
				schema.NewByteArrayNode("metadata", req, -1), schema.NewByteArrayNode("value", opt, -1), schema.NewInt64Node("typed_value", opt, -1))},
				[]chunk{{def: []int16{0}, values: []parquet.ByteArray{}}, {def: []int16{0}, values: []parquet.ByteArray{}}, {def: []int16{0}, values: []int64{}}}),
			target(t, field(1, "v", iceberg.VariantType{})),
		},
	} {
		f, p, err := open(t, c.data, c.target, projection.Options{})
		if err == nil {
			_, err = tryRead(f, p, 0)
		}
		if !errors.Is(err, projection.ErrUnmappable) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}
