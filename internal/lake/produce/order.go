package produce

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"reflect"

	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// compareValues orders two values of one partition field: null first, then by value. NaN is the greatest number and false comes before true, as
// in Java.
func compareValues(a, b any) int {
	if a == nil || b == nil {
		return compareFlags(a != nil, b != nil)
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case x.CanInt() && y.CanInt():
		return cmp.Compare(x.Int(), y.Int())
	case x.CanFloat() && y.CanFloat():
		return compareFloats(x.Float(), y.Float())
	case x.Kind() == reflect.String && y.Kind() == reflect.String:
		return cmp.Compare(x.String(), y.String())
	case x.Kind() == reflect.Bool && y.Kind() == reflect.Bool:
		return compareFlags(x.Bool(), y.Bool())
	}
	if p, ok := decimalOf(a); ok {
		if q, ok := decimalOf(b); ok {
			return iceberg.DecimalLiteral{}.Comparator()(p, q)
		}
	}
	return bytes.Compare(bytesOf(a), bytesOf(b))
}

func compareFlags(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func compareFloats(a, b float64) int {
	if math.IsNaN(a) || math.IsNaN(b) {
		return compareFlags(math.IsNaN(a), math.IsNaN(b))
	}
	return cmp.Compare(a, b)
}

func decimalOf(v any) (iceberg.Decimal, bool) {
	switch d := v.(type) {
	case iceberg.Decimal:
		return d, true
	case iceberg.DecimalLiteral:
		return iceberg.Decimal(d), true
	}
	return iceberg.Decimal{}, false
}

// bytesOf are the bytes of binary, fixed and UUID values.
func bytesOf(v any) []byte {
	switch b := v.(type) {
	case []byte:
		return b
	case uuid.UUID:
		return b[:]
	}
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Array && rv.Type().Elem().Kind() == reflect.Uint8 {
		out := make([]byte, rv.Len())
		reflect.Copy(reflect.ValueOf(out), rv)
		return out
	}
	return fmt.Append(nil, v)
}
