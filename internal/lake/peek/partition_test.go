package peek_test

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"firn/internal/lake/peek"
)

func identity(id int, name string) iceberg.PartitionField {
	return iceberg.PartitionField{SourceIDs: []int{id - 999}, FieldID: id, Name: name, Transform: iceberg.IdentityTransform{}}
}

func TestPartitionKeySpellsEveryValue(t *testing.T) {
	spec := iceberg.NewPartitionSpecID(3, identity(1000, "a"))
	dec := func(unscaled int64, scale int) iceberg.Decimal {
		return iceberg.Decimal{Val: decimal128.FromI64(unscaled), Scale: scale}
	}
	tests := []struct {
		name  string
		value any
		want  string
	}{
		{"null", nil, "1000=null"},
		{"the text null", "null", `1000="null"`},
		{"empty text", "", `1000=""`},
		{"separators", `a,1001=5"\`, `1000="a,1001=5\"\\"`},
		{"invalid UTF-8", "\xff", `1000="\xff"`},
		{"true", true, "1000=true"},
		{"int", int32(-5), "1000=-5"},
		{"promoted int", int64(-5), "1000=-5"},
		{"date", iceberg.Date(19000), "1000=19000"},
		{"timestamp", iceberg.Timestamp(1), "1000=1"},
		{"nanoseconds", iceberg.TimestampNano(1), "1000=1"},
		{"zero", 0.0, "1000=f0"},
		{"negative zero", math.Copysign(0, -1), "1000=f8000000000000000"},
		{"float", float32(1.5), "1000=f3ff8000000000000"},
		{"promoted float", 1.5, "1000=f3ff8000000000000"},
		{"NaN", math.NaN(), "1000=NaN"},
		{"NaN of 32 bits", float32(math.NaN()), "1000=NaN"},
		{"decimal", dec(150, 2), "1000=d15e-1"},
		{"decimal of another scale", iceberg.DecimalLiteral(dec(1500, 3)), "1000=d15e-1"},
		{"negative decimal", dec(-7, 0), "1000=d-7e0"},
		{"zero decimal", dec(0, 2), "1000=d0e0"},
		{"uuid", uuid.UUID{0: 1, 15: 2}, "1000=x01000000000000000000000000000002"},
		{"binary", []byte{0, 255}, "1000=x00ff"},
		{"empty binary", []byte{}, "1000=x"},
		{"fixed", [2]byte{0, 255}, "1000=x00ff"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := peek.PartitionKey(spec, map[int]any{1000: tt.value})
			if err != nil || got != tt.want {
				t.Fatalf("key %q, error %v: want %q", got, err, tt.want)
			}
		})
	}
}

func TestPartitionKeyOfTuples(t *testing.T) {
	two := iceberg.NewPartitionSpecID(1, identity(1000, "a"), identity(1001, "b"))
	void := iceberg.NewPartitionSpecID(2, iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "a", Transform: iceberg.VoidTransform{}})
	tests := []struct {
		name  string
		spec  iceberg.PartitionSpec
		tuple map[int]any
		want  string
	}{
		{"two fields", two, map[int]any{1001: "x", 1000: int32(1)}, `1000=1,1001="x"`},
		{"a missing field is null", two, map[int]any{1001: "x"}, `1000=null,1001="x"`},
		{"unpartitioned", *iceberg.UnpartitionedSpec, nil, ""},
		{"void fields only", void, map[int]any{1000: nil}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := peek.PartitionKey(tt.spec, tt.tuple); err != nil || got != tt.want {
				t.Fatalf("key %q, error %v: want %q", got, err, tt.want)
			}
		})
	}
	if _, err := peek.PartitionKey(two, map[int]any{1002: 1}); err == nil {
		t.Error("a tuple with a field that the spec lacks has a key")
	}
	if _, err := peek.PartitionKey(two, map[int]any{1000: struct{}{}}); err == nil {
		t.Error("a struct is a partition value")
	}
}

func TestPartitionTitle(t *testing.T) {
	t.Parallel()
	field := func(id int, name string, transform iceberg.Transform) iceberg.PartitionField {
		return iceberg.PartitionField{SourceIDs: []int{1}, FieldID: id, Name: name, Transform: transform}
	}
	m := &peek.Metadata{Specs: []peek.Spec{
		{PartitionSpec: iceberg.NewPartitionSpecID(0, field(1000, "day", iceberg.DayTransform{}), field(1001, "region", iceberg.IdentityTransform{}))},
		{PartitionSpec: iceberg.NewPartitionSpecID(1, field(1002, "hour", iceberg.HourTransform{}))},
	}}
	for key, want := range map[string]string{
		"":                         "",
		"1000=20767":               "day=2026-11-10",
		"1000=null,1001=\"a,b=c\"": "day=null/region=a,b=c",
		"1000=-1,1001=\"line\\n\"": "day=1969-12-31/region=\"line\\n\"",
		"1002=25":                  "hour=1970-01-02-01",
		"1003=1":                   "1003=1",
		"shard 7":                  "shard 7",
	} {
		if got := m.PartitionTitle(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
