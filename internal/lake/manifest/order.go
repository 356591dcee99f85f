package manifest

import (
	"bytes"
	"cmp"
	"math"
	"reflect"

	"github.com/apache/iceberg-go"
)

// CompareValues orders two values of one partition field: null first, then by value. NaN is the greatest number and false comes before true, as
// in Java.
func CompareValues(a, b any) int {
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
	if p, ok := DecimalOf(a); ok {
		if q, ok := DecimalOf(b); ok {
			return iceberg.DecimalLiteral{}.Comparator()(p, q)
		}
	}
	return bytes.Compare(BytesOf(a), BytesOf(b))
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
