package peek

import (
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// PartitionKey spells a partition tuple as text: equal tuples of one spec have equal keys, different tuples different ones. Within a spec the
// fields stand in the spec's order as "id=value", joined by commas; "" when the spec is unpartitioned (no fields, or void ones only).
//
// A value's text does not depend on the type's width, since promotion of the source column changes it: 5 for any integer, date or time, and a
// float in the text of the double that equals it. All NaNs are one value; -0.0 is not 0.0 (Java compares partitions so). A field missing from
// the tuple is null.
func PartitionKey(spec iceberg.PartitionSpec, partition map[int]any) (string, error) {
	if spec.IsUnpartitioned() {
		return "", nil
	}
	key := make([]byte, 0, 32)
	known := 0
	for i := range spec.NumFields() {
		field := spec.Field(i)
		if i > 0 {
			key = append(key, ',')
		}
		key = strconv.AppendInt(key, int64(field.FieldID), 10)
		key = append(key, '=')
		value, ok := partition[field.FieldID]
		if ok {
			known++
		}
		var err error
		if key, err = appendPartitionValue(key, value); err != nil {
			return "", fmt.Errorf("partition field %d of spec %d: %w", field.FieldID, spec.ID(), err)
		}
	}
	if known < len(partition) {
		return "", fmt.Errorf("partition tuple %v holds fields that spec %d lacks: %w", partition, spec.ID(), ErrTableFault)
	}
	return string(key), nil
}

func appendPartitionValue(key []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(key, "null"...), nil
	case bool:
		return strconv.AppendBool(key, v), nil
	case string:
		return strconv.AppendQuote(key, v), nil
	case float32:
		return appendFloat(key, float64(v)), nil
	case float64:
		return appendFloat(key, v), nil
	case []byte:
		return appendHex(key, v), nil
	case uuid.UUID:
		return appendHex(key, v[:]), nil
	case iceberg.Decimal:
		return appendDecimal(key, v), nil
	case iceberg.DecimalLiteral:
		return appendDecimal(key, iceberg.Decimal(v)), nil
	}
	// Named integers (date, time, timestamps) and byte arrays (fixed) remain.
	switch rv := reflect.ValueOf(value); rv.Kind() { //nolint:exhaustive // every other kind is no partition value
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(key, rv.Int(), 10), nil
	case reflect.Array:
		if rv.Type().Elem().Kind() == reflect.Uint8 {
			b := make([]byte, rv.Len())
			reflect.Copy(reflect.ValueOf(b), rv)
			return appendHex(key, b), nil
		}
	}
	return nil, fmt.Errorf("value %v of type %T cannot be a partition value", value, value)
}

func appendFloat(key []byte, v float64) []byte {
	if math.IsNaN(v) {
		return append(key, "NaN"...)
	}
	return append(append(key, 'f'), strconv.FormatUint(math.Float64bits(v), 16)...)
}

func appendHex(key, v []byte) []byte {
	return append(append(key, 'x'), hex.EncodeToString(v)...)
}

// appendDecimal writes unscaled value and scale without trailing zeroes, so that the scale with which a value was made does not matter.
func appendDecimal(key []byte, v iceberg.Decimal) []byte {
	digits, scale := v.Val.BigInt().String(), v.Scale
	if digits == "0" {
		scale = 0
	}
	for scale > 0 && strings.HasSuffix(digits, "0") {
		digits, scale = digits[:len(digits)-1], scale-1
	}
	key = append(append(append(key, 'd'), digits...), 'e')
	return strconv.AppendInt(key, int64(-scale), 10)
}

// PartitionTitle spells a key of PartitionKey for people, as paths do: "event_day=2026-11-01/region=eu". What is no such key, or is of a spec that the
// metadata lacks, comes back as it is.
func (m *Metadata) PartitionTitle(key string) string {
	var parts []string
	for rest := key; rest != ""; {
		id, value, found := strings.Cut(rest, "=")
		number, err := strconv.Atoi(id)
		if !found || err != nil {
			return key
		}
		if quoted, err := strconv.QuotedPrefix(value); err == nil {
			value, rest = quoted, strings.TrimPrefix(value[len(quoted):], ",")
		} else {
			value, rest, _ = strings.Cut(value, ",")
		}
		field, found := m.partitionField(number)
		if !found {
			return key
		}
		parts = append(parts, field.Name+"="+valueTitle(field.Transform, value))
	}
	return strings.Join(parts, "/")
}

// partitionField looks through all specs: IDs of partition fields are unique within a table.
func (m *Metadata) partitionField(id int) (iceberg.PartitionField, bool) {
	for i := range m.Specs {
		for _, field := range m.Specs[i].Fields() {
			if field.FieldID == id {
				return field, true
			}
		}
	}
	return iceberg.PartitionField{}, false
}

// valueTitle spells a value: times by their calendar, everything else as the key has it.
func valueTitle(transform iceberg.Transform, text string) string {
	switch transform.(type) {
	case iceberg.YearTransform, iceberg.MonthTransform, iceberg.DayTransform, iceberg.HourTransform:
		if n, err := strconv.ParseInt(text, 10, 32); err == nil {
			return transform.ToHumanStrType(iceberg.PrimitiveTypes.Int32, int32(n))
		}
	}
	if unquoted, err := strconv.Unquote(text); err == nil && len(unquoted)+len(`""`) == len(text) {
		return unquoted // nothing in it needs an escape
	}
	return text
}
