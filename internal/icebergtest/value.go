package icebergtest

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// Row is one row: a value a column, in the order of the schema. Values are Go's bool, integers, float32 and float64, string, []byte, uuid.UUID,
// time.Time (dates and timestamps), iceberg.Decimal, []any for lists and structs, and Pairs for maps; nil is null. Any integer type will do for
// int, long, date (days), time and timestamps (in their unit); decimals and UUIDs may be given as text.
type Row []any

// Pairs are the entries of a map.
type Pairs [][2]any

// Text spells a value of an Iceberg type in the canonical form of the row digest:
//
//	null                          null
//	struct and row                {"name":value,...} in schema order
//	list, map                     [v,...], [[k,v],...] sorted by the bytes of the key's text
//	boolean, int, long            true, digits
//	float, double                 "0x" and the hex digits of the IEEE-754 bits, in quotes; one NaN; -0.0 keeps its sign
//	decimal(p,s)                  "12.50" with exactly s digits after the point
//	date, time, timestamps        days, microseconds, micro- or nanoseconds
//	string                        quoted; only '"', '\' and U+0000 to U+001F are escaped
//	uuid, fixed, binary           quoted lower-case hex
func Text(typ iceberg.Type, value any) string {
	var b strings.Builder
	writeText(&b, typ, normal(typ, value))
	return b.String()
}

func writeText(b *strings.Builder, typ iceberg.Type, value any) {
	if value == nil {
		b.WriteString("null")
		return
	}
	switch v := value.(type) {
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float32:
		bits := math.Float32bits(v)
		if v != v {
			bits = 0x7fc00000
		}
		fmt.Fprintf(b, `"0x%08x"`, bits)
	case float64:
		bits := math.Float64bits(v)
		if v != v {
			bits = 0x7ff8000000000000
		}
		fmt.Fprintf(b, `"0x%016x"`, bits)
	case string:
		writeString(b, v)
	case []byte:
		b.WriteString(`"` + hex.EncodeToString(v) + `"`)
	case uuid.UUID:
		b.WriteString(`"` + v.String() + `"`)
	case iceberg.Decimal:
		b.WriteString(`"` + decimalText(v) + `"`)
	default:
		writeNested(b, typ, value)
	}
}

func writeNested(b *strings.Builder, typ iceberg.Type, value any) {
	switch t := typ.(type) {
	case *iceberg.StructType:
		writeFields(b, t.FieldList, value.([]any))
	case *iceberg.ListType:
		b.WriteByte('[')
		for i, v := range value.([]any) {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, t.Element, v)
		}
		b.WriteByte(']')
	case *iceberg.MapType:
		var entries [][2]string
		for _, p := range value.(Pairs) {
			entries = append(entries, [2]string{Text(t.KeyType, p[0]), Text(t.ValueType, p[1])})
		}
		sort.Slice(entries, func(i, j int) bool { return entries[i][0] < entries[j][0] })
		b.WriteByte('[')
		for i, e := range entries {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("[" + e[0] + "," + e[1] + "]")
		}
		b.WriteByte(']')
	default:
		panic(fmt.Sprintf("value %v of type %T has no text as %s", value, value, typ))
	}
}

func writeFields(b *strings.Builder, fields []iceberg.NestedField, values []any) {
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		writeString(b, f.Name)
		b.WriteByte(':')
		writeText(b, f.Type, values[i])
	}
	b.WriteByte('}')
}

func writeString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}

func decimalText(d iceberg.Decimal) string {
	digits := new(big.Int).Abs(d.Val.BigInt()).String()
	if d.Scale > 0 {
		if missing := d.Scale + 1 - len(digits); missing > 0 {
			digits = strings.Repeat("0", missing) + digits
		}
		digits = digits[:len(digits)-d.Scale] + "." + digits[len(digits)-d.Scale:]
	}
	if d.Val.Sign() < 0 {
		return "-" + digits
	}
	return digits
}

// normal brings a value to the one form that it has for its type: integers to int64, texts of decimals and UUIDs to values.
func normal(typ iceberg.Type, value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case time.Time:
		return timeValue(typ, v)
	case iceberg.DecimalLiteral:
		return iceberg.Decimal(v)
	case uuid.UUID, iceberg.Decimal:
		return v
	case string:
		return textValue(typ, v)
	case Row:
		return normalStruct(typ, v)
	case []any:
		if list, ok := typ.(*iceberg.ListType); ok {
			out := make([]any, len(v))
			for i, e := range v {
				out[i] = normal(list.Element, e)
			}
			return out
		}
		return normalStruct(typ, v)
	case Pairs:
		m := typ.(*iceberg.MapType)
		out := make(Pairs, len(v))
		for i, p := range v {
			out[i] = [2]any{normal(m.KeyType, p[0]), normal(m.ValueType, p[1])}
		}
		return out
	}
	rv := reflect.ValueOf(value)
	switch {
	case rv.CanInt():
		return numberValue(typ, rv.Int())
	case rv.CanFloat():
		if typ == iceberg.PrimitiveTypes.Float32 {
			return float32(rv.Float())
		}
		return rv.Float()
	}
	return value
}

func normalStruct(typ iceberg.Type, values []any) any {
	fields := typ.(*iceberg.StructType).FieldList
	if len(values) != len(fields) {
		panic(fmt.Sprintf("struct %v has %d values, want %d", values, len(values), len(fields)))
	}
	out := make([]any, len(values))
	for i, f := range fields {
		out[i] = normal(f.Type, values[i])
	}
	return out
}

func numberValue(typ iceberg.Type, n int64) any {
	switch t := typ.(type) {
	case iceberg.Float32Type:
		return float32(n)
	case iceberg.Float64Type:
		return float64(n)
	case iceberg.DecimalType:
		v := new(big.Int).Mul(big.NewInt(n), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Scale())), nil))
		return iceberg.Decimal{Val: decimal128.FromBigInt(v), Scale: t.Scale()}
	}
	return n
}

func textValue(typ iceberg.Type, s string) any {
	switch t := typ.(type) {
	case iceberg.DecimalType:
		v, err := decimal128.FromString(s, int32(t.Precision()), int32(t.Scale()))
		if err != nil {
			panic(fmt.Sprintf("decimal %q: %v", s, err))
		}
		return iceberg.Decimal{Val: v, Scale: t.Scale()}
	case iceberg.UUIDType:
		return uuid.MustParse(s)
	case iceberg.BinaryType, iceberg.FixedType:
		return []byte(s)
	}
	return s
}

func timeValue(typ iceberg.Type, at time.Time) any {
	switch typ.(type) {
	case iceberg.DateType:
		return int64(math.Floor(float64(at.Unix()) / (24 * 60 * 60)))
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return at.UnixNano()
	}
	return at.UnixMicro()
}

func transform(schema *iceberg.Schema, row Row, field iceberg.PartitionField) (any, error) {
	for i, f := range schema.Fields() {
		if f.ID != field.SourceID() {
			continue
		}
		value := normal(f.Type, row[i])
		if value == nil {
			return nil, nil
		}
		lit, err := literal(f.Type, value)
		if err != nil {
			return nil, err
		}
		out := field.Transform.Apply(iceberg.Optional[iceberg.Literal]{Val: lit, Valid: true})
		if !out.Valid {
			return nil, nil
		}
		return out.Val.Any(), nil
	}
	if _, void := field.Transform.(iceberg.VoidTransform); void {
		return nil, nil
	}
	return nil, fmt.Errorf("rows lack column %d, the source of partition field %s", field.SourceID(), field.Name)
}

func literal(typ iceberg.Type, value any) (iceberg.Literal, error) {
	switch v := value.(type) {
	case bool:
		return iceberg.NewLiteral(v), nil
	case float32:
		return iceberg.NewLiteral(v), nil
	case float64:
		return iceberg.NewLiteral(v), nil
	case string:
		return iceberg.NewLiteral(v), nil
	case []byte:
		return iceberg.NewLiteral(v), nil
	case uuid.UUID:
		return iceberg.NewLiteral(v), nil
	case iceberg.Decimal:
		return iceberg.NewLiteral(v), nil
	case int64:
		switch typ.(type) {
		case iceberg.Int32Type:
			return iceberg.NewLiteral(int32(v)), nil
		case iceberg.DateType:
			return iceberg.NewLiteral(iceberg.Date(v)), nil
		case iceberg.TimeType:
			return iceberg.NewLiteral(iceberg.Time(v)), nil
		case iceberg.TimestampType, iceberg.TimestampTzType:
			return iceberg.NewLiteral(iceberg.Timestamp(v)), nil
		case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
			return iceberg.NewLiteral(iceberg.TimestampNano(v)), nil
		}
		return iceberg.NewLiteral(v), nil
	}
	return nil, fmt.Errorf("value %v of type %T cannot be partitioned by", value, value)
}
