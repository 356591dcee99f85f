package where

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"reflect"
	"strings"
)

// Value is one value of a column or partition field. The zero Value is null. Booleans are 0 and 1; dates, times and timestamps count in the
// type's unit since the epoch; decimals are unscaled; strings, uuids and binaries are bytes.
type Value struct {
	kind  valueKind
	whole int64
	float float64
	text  string
	big   *big.Int
}

type valueKind int

const (
	valueNull valueKind = iota
	valueWhole
	valueFloat
	valueText
	valueBig
)

// Null is the null value.
func Null() Value { return Value{} }

// Whole is a boolean (0, 1), an integer, or a count of days, micro- or nanoseconds.
func Whole(n int64) Value { return Value{kind: valueWhole, whole: n} }

// Float is a floating-point value.
func Float(f float64) Value { return Value{kind: valueFloat, float: f} }

// Text is a string's, a uuid's or a binary's bytes.
func Text(s string) Value { return Value{kind: valueText, text: s} }

// Decimal is a decimal by its unscaled value.
func Decimal(unscaled *big.Int) Value { return Value{kind: valueBig, big: unscaled} }

// IsNull reports whether the value is null.
func (v Value) IsNull() bool { return v.kind == valueNull }

// ValueOf turns a Go value, as iceberg-go's DataFile.Partition holds them, into a Value: nil, booleans, whole and floating numbers of any named
// type, strings, bytes, byte arrays, and decimals (a struct whose field Val has BigInt). Everything else is false: unknown.
func ValueOf(v any) (Value, bool) {
	if v == nil {
		return Null(), true
	}
	type bigger interface{ BigInt() *big.Int }
	if b, ok := v.(bigger); ok {
		return Decimal(b.BigInt()), true
	}
	r := reflect.ValueOf(v)
	switch {
	case r.Kind() == reflect.Bool:
		if r.Bool() {
			return Whole(1), true
		}
		return Whole(0), true
	case r.CanInt():
		return Whole(r.Int()), true
	case r.CanFloat():
		return Float(r.Float()), true
	case r.Kind() == reflect.String:
		return Text(r.String()), true
	case r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint8:
		return Text(string(r.Bytes())), true
	case r.Kind() == reflect.Array && r.Type().Elem().Kind() == reflect.Uint8:
		data := make([]byte, r.Len())
		reflect.Copy(reflect.ValueOf(data), r)
		return Text(string(data)), true
	case r.Kind() == reflect.Struct:
		if f := r.FieldByName("Val"); f.IsValid() && f.CanInterface() {
			if b, ok := reflect.TypeAssert[bigger](f); ok {
				return Decimal(b.BigInt()), true
			}
		}
	}
	return Value{}, false
}

// Compare orders two values of one column; false when they cannot be compared. NaN is above every number, -0.0 below 0.0, as in Java.
func Compare(a, b Value) (int, bool) { return compare(a, b) }

// Bound decodes a bound of the column in a manifest entry; ok is false for one that says nothing.
func (c Column) Bound(data []byte) (v Value, ok bool) {
	v, ok = decodeBound(c.Type, data)
	return v, ok && !v.isNaN()
}

// compare orders two values of one column; false when they cannot be compared. NaN is above every number, -0.0 below 0.0, as in Java.
func compare(a, b Value) (int, bool) {
	if a.kind != b.kind {
		return 0, false
	}
	switch a.kind {
	case valueWhole:
		return cmp.Compare(a.whole, b.whole), true
	case valueFloat:
		return compareFloats(a.float, b.float), true
	case valueText:
		return strings.Compare(a.text, b.text), true
	case valueBig:
		return a.big.Cmp(b.big), true
	default:
		return 0, false
	}
}

func compareFloats(a, b float64) int {
	switch nanA, nanB := math.IsNaN(a), math.IsNaN(b); {
	case nanA && nanB:
		return 0
	case nanA:
		return 1
	case nanB:
		return -1
	}
	return cmp.Compare(a, b) // -0.0 and 0.0 are equal: a file is never left out for the sign of a zero
}

func (v Value) isNaN() bool { return v.kind == valueFloat && math.IsNaN(v.float) }

const (
	microsPerDay = 86_400_000_000
	nanosPerDay  = 86_400_000_000_000
)

// decodeBound reads a single-value serialisation (Iceberg spec, appendix D). A bound that was written before a promotion has the old type's width.
// Data that fits no type is false: the bound is not used.
func decodeBound(t Type, data []byte) (Value, bool) {
	switch t.Kind {
	case TypeBoolean:
		if len(data) == 1 {
			return Whole(int64(min(data[0], 1))), true
		}
	case TypeInt, TypeLong, TypeDate, TypeTime:
		return decodeWhole(data, 1)
	case TypeTimestamp:
		return decodeWhole(data, microsPerDay)
	case TypeTimestampNS:
		return decodeWhole(data, nanosPerDay)
	case TypeFloat, TypeDouble:
		if len(data) == 4 {
			return Float(float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))), true
		}
		if len(data) == 8 {
			return Float(math.Float64frombits(binary.LittleEndian.Uint64(data))), true
		}
	case TypeDecimal:
		if len(data) > 0 && len(data) <= 17 {
			return Decimal(fromTwosComplement(data)), true
		}
	case TypeString, TypeFixed, TypeBinary:
		return Text(string(data)), true
	case TypeUUID:
		if len(data) == 16 {
			return Text(string(data)), true
		}
	}
	return Value{}, false
}

// decodeWhole reads 4 or 8 bytes, least significant first; a 4-byte value counts in units of narrow (a date that became a timestamp).
func decodeWhole(data []byte, narrow int64) (Value, bool) {
	switch len(data) {
	case 4:
		return Whole(int64(int32(binary.LittleEndian.Uint32(data))) * narrow), true // the bits are the number
	case 8:
		return Whole(int64(binary.LittleEndian.Uint64(data))), true // the bits are the number
	}
	return Value{}, false
}

// fromTwosComplement reads a big-endian two's complement number.
func fromTwosComplement(data []byte) *big.Int {
	n := new(big.Int).SetBytes(data)
	if data[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(data)))) // at most 17 bytes
	}
	return n
}

// toTwosComplement is the shortest big-endian two's complement form, as decimals are hashed.
func toTwosComplement(n *big.Int) []byte {
	if n.Sign() >= 0 {
		data := n.Bytes()
		if len(data) == 0 || data[0]&0x80 != 0 {
			data = append([]byte{0}, data...)
		}
		return data
	}
	size := len(new(big.Int).Not(n).Bytes())
	wrapped := new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size+8))) // small
	data := bytes.TrimLeft(wrapped.Bytes(), "\xff")
	if len(data) == 0 || data[0]&0x80 == 0 {
		data = append([]byte{0xff}, data...)
	}
	return data
}
