package layout

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"
)

// form is how a primitive type is stored.
type form struct {
	physical parquet.Type
	logical  schema.LogicalType
	kind     Kind
	width    int
}

// physical is the table "Parquet" of the Iceberg specification's appendix A.
func physical(t iceberg.Type) (form, error) {
	switch t := t.(type) {
	case iceberg.BooleanType:
		return form{physical: parquet.Types.Boolean, kind: Boolean}, nil
	case iceberg.Int32Type:
		return form{physical: parquet.Types.Int32, kind: Int32}, nil
	case iceberg.Int64Type:
		return form{physical: parquet.Types.Int64, kind: Int64}, nil
	case iceberg.Float32Type:
		return form{physical: parquet.Types.Float, kind: Float}, nil
	case iceberg.Float64Type:
		return form{physical: parquet.Types.Double, kind: Double}, nil
	case iceberg.DateType:
		return form{physical: parquet.Types.Int32, logical: schema.DateLogicalType{}, kind: Int32}, nil
	case iceberg.StringType:
		return form{physical: parquet.Types.ByteArray, logical: schema.StringLogicalType{}, kind: Bytes}, nil
	case iceberg.BinaryType:
		return form{physical: parquet.Types.ByteArray, kind: Bytes}, nil
	case iceberg.FixedType:
		return form{physical: parquet.Types.FixedLenByteArray, kind: Fixed, width: t.Len()}, nil
	case iceberg.UUIDType:
		return form{physical: parquet.Types.FixedLenByteArray, logical: schema.UUIDLogicalType{}, kind: Fixed, width: 16}, nil
	case iceberg.DecimalType:
		return decimal(t), nil
	case iceberg.GeometryType:
		return form{physical: parquet.Types.ByteArray, logical: schema.GeometryLogicalType{Crs: t.CRS()}, kind: Bytes}, nil
	default:
		return instant(t)
	}
}

// instant covers the types with a clock in them.
func instant(t iceberg.Type) (form, error) {
	f := form{physical: parquet.Types.Int64, kind: Int64}
	switch t.(type) {
	case iceberg.TimeType:
		f.logical = schema.NewTimeLogicalType(false, schema.TimeUnitMicros)
	case iceberg.TimestampType:
		f.logical = schema.NewTimestampLogicalType(false, schema.TimeUnitMicros)
	case iceberg.TimestampTzType:
		f.logical = schema.NewTimestampLogicalType(true, schema.TimeUnitMicros)
	case iceberg.TimestampNsType:
		f.logical = schema.NewTimestampLogicalType(false, schema.TimeUnitNanos)
	case iceberg.TimestampTzNsType:
		f.logical = schema.NewTimestampLogicalType(true, schema.TimeUnitNanos)
	default:
		return form{}, fmt.Errorf("type %s: %w", t, ErrUnsupported)
	}
	return f, nil
}

// decimal: up to 9 digits INT32, up to 18 INT64, else the fewest bytes that hold the precision.
func decimal(t iceberg.DecimalType) form {
	logical := schema.NewDecimalLogicalType(int32(t.Precision()), int32(t.Scale()))
	switch p := t.Precision(); {
	case p <= 9:
		return form{physical: parquet.Types.Int32, logical: logical, kind: Int32}
	case p <= 18:
		return form{physical: parquet.Types.Int64, logical: logical, kind: Int64}
	default:
		return form{physical: parquet.Types.FixedLenByteArray, logical: logical, kind: Fixed, width: decimalWidth(p)}
	}
}

// decimalWidth is the number of bytes that two's complement needs for 10^precision - 1: 38 digits take 16.
func decimalWidth(precision int) int {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	return (limit.Sub(limit, big.NewInt(1)).BitLen() + 1 + 7) / 8
}

// parquetNames spells field names as Java does in files (letters, digits and '_' only; others as _x and the code in hexadecimal), so that
// Avro-minded readers can open them. Where two fields of a struct would share a spelling the names stay raw: readers go by field ID.
func parquetNames(fields []iceberg.NestedField) []string {
	names := make([]string, len(fields))
	seen := make(map[string]bool, len(fields))
	for i, f := range fields {
		names[i] = compatible(f.Name)
		if seen[names[i]] {
			for j := range fields {
				names[j] = fields[j].Name
			}
			return names
		}
		seen[names[i]] = true
	}
	return names
}

func compatible(name string) string {
	var out strings.Builder
	for i, r := range name {
		letter := r == '_' || unicode.IsLetter(r)
		switch {
		case letter || (i > 0 && unicode.IsDigit(r)):
			out.WriteRune(r)
		case unicode.IsDigit(r):
			out.WriteString("_" + string(r))
		default:
			out.WriteString("_x" + strings.ToUpper(strconv.FormatInt(int64(r), 16)))
		}
	}
	return out.String()
}

// Physical returns the physical form of a primitive type, as Leaf has it.
func Physical(t iceberg.Type) (kind Kind, width int, err error) {
	f, err := physical(t)
	return f.kind, f.width, err
}
