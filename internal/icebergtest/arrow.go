package icebergtest

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// fromArrow reads a value of an arrow array as its Iceberg type, in normal form.
func fromArrow(typ iceberg.Type, arr arrow.Array, i int) any {
	if arr.IsNull(i) {
		return nil
	}
	switch a := arr.(type) {
	case *array.Boolean:
		return a.Value(i)
	case *array.Int32:
		return normal(typ, int64(a.Value(i)))
	case *array.Int64:
		return normal(typ, a.Value(i))
	case *array.Float32:
		return normal(typ, a.Value(i))
	case *array.Float64:
		return a.Value(i)
	case *array.Date32:
		return int64(a.Value(i))
	case *array.Time64:
		return int64(a.Value(i))
	case *array.Timestamp:
		return int64(a.Value(i))
	case *array.Decimal128:
		return iceberg.Decimal{Val: a.Value(i), Scale: int(a.DataType().(*arrow.Decimal128Type).Scale)}
	case *array.String:
		return a.Value(i)
	case *array.LargeString:
		return a.Value(i)
	case *array.Binary:
		return bytes.Clone(a.Value(i))
	case *array.LargeBinary:
		return bytes.Clone(a.Value(i))
	case *array.FixedSizeBinary:
		if _, ok := typ.(iceberg.UUIDType); ok {
			return uuid.UUID(a.Value(i))
		}
		return bytes.Clone(a.Value(i))
	case *extensions.UUIDArray:
		return fromArrow(typ, a.Storage(), i)
	case *array.Dictionary:
		return fromArrow(typ, a.Dictionary(), a.GetValueIndex(i))
	}
	return nestedFromArrow(typ, arr, i)
}

func nestedFromArrow(typ iceberg.Type, arr arrow.Array, i int) any {
	switch t := typ.(type) {
	case *iceberg.StructType:
		s := arr.(*array.Struct)
		out := make([]any, len(t.FieldList))
		for f, field := range t.FieldList {
			out[f] = fromArrow(field.Type, s.Field(f), i)
		}
		return out
	case *iceberg.ListType:
		l := arr.(array.ListLike)
		from, to := l.ValueOffsets(i)
		out := make([]any, 0, to-from)
		for e := from; e < to; e++ {
			out = append(out, fromArrow(t.Element, l.ListValues(), int(e)))
		}
		return out
	case *iceberg.MapType:
		m := arr.(*array.Map)
		from, to := m.ValueOffsets(i)
		out := make(Pairs, 0, to-from)
		for e := from; e < to; e++ {
			out = append(out, [2]any{fromArrow(t.KeyType, m.Keys(), int(e)), fromArrow(t.ValueType, m.Items(), int(e))})
		}
		return out
	}
	panic(fmt.Sprintf("arrow array %T cannot be read as %s", arr, typ))
}

// appendArrow appends a value in normal form.
func appendArrow(b array.Builder, typ iceberg.Type, value any) {
	if value == nil {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(value.(bool))
	case *array.Int32Builder:
		b.Append(int32(value.(int64)))
	case *array.Int64Builder:
		b.Append(value.(int64))
	case *array.Float32Builder:
		b.Append(value.(float32))
	case *array.Float64Builder:
		b.Append(value.(float64))
	case *array.Date32Builder:
		b.Append(arrow.Date32(value.(int64)))
	case *array.Time64Builder:
		b.Append(arrow.Time64(value.(int64)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(value.(int64)))
	case *array.Decimal128Builder:
		b.Append(value.(iceberg.Decimal).Val)
	case *array.StringBuilder:
		b.Append(value.(string))
	case *array.LargeStringBuilder:
		b.Append(value.(string))
	case *array.BinaryBuilder:
		b.Append(value.([]byte))
	case *array.FixedSizeBinaryBuilder:
		if id, ok := value.(uuid.UUID); ok {
			b.Append(id[:])
			return
		}
		b.Append(value.([]byte))
	case *extensions.UUIDBuilder:
		b.Append(value.(uuid.UUID))
	default:
		appendNested(b, typ, value)
	}
}

func appendNested(b array.Builder, typ iceberg.Type, value any) {
	switch b := b.(type) {
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range typ.(*iceberg.StructType).FieldList {
			appendArrow(b.FieldBuilder(i), f.Type, value.([]any)[i])
		}
	case *array.ListBuilder:
		b.Append(true)
		for _, v := range value.([]any) {
			appendArrow(b.ValueBuilder(), typ.(*iceberg.ListType).Element, v)
		}
	case *array.MapBuilder:
		b.Append(true)
		m := typ.(*iceberg.MapType)
		for _, p := range value.(Pairs) {
			appendArrow(b.KeyBuilder(), m.KeyType, p[0])
			appendArrow(b.ItemBuilder(), m.ValueType, p[1])
		}
	default:
		panic(fmt.Sprintf("no arrow builder for %s: %T", typ, b))
	}
}
