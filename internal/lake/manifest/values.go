package manifest

import (
	"fmt"
	"math"
	"math/big"
	"reflect"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"firn/internal/lake/avro"
)

// read reads a value of the partition tuple as the type that the library uses for it. Times and timestamps are in microseconds, or nanoseconds
// where their type says so.
func (p part) read(c *avro.Cursor) any {
	t := c.Branch(p.t)
	switch t.Kind { //nolint:exhaustive // the others are no partition values
	case avro.Boolean:
		return c.Boolean()
	case avro.Int, avro.Long:
		return p.number(t, c.Long())
	case avro.Float:
		return c.Float()
	case avro.Double:
		return c.Double()
	case avro.String:
		return string(c.Bytes())
	case avro.Bytes:
		return scaled(t, c.Bytes())
	case avro.Fixed:
		b := c.Fixed(t.Size)
		if t.Logical == "uuid" && len(b) == len(uuid.UUID{}) {
			return uuid.UUID(b)
		}
		return scaled(t, b)
	}
	c.Skip(t)
	return nil
}

func (p part) number(t *avro.Type, v int64) any {
	if p.days {
		return iceberg.Date(v)
	}
	switch t.Logical {
	case "date":
		return iceberg.Date(v)
	case "time-millis":
		return iceberg.Time(v * 1000)
	case "time-micros":
		return iceberg.Time(v)
	case "timestamp-millis", "local-timestamp-millis":
		return iceberg.Timestamp(v * 1000)
	case "timestamp-micros", "local-timestamp-micros":
		return iceberg.Timestamp(v)
	case "timestamp-nanos", "local-timestamp-nanos":
		return iceberg.TimestampNano(v)
	}
	if t.Kind == avro.Int {
		return int32(v)
	}
	return v
}

// scaled reads a decimal; bytes that are none are copied.
func scaled(t *avro.Type, b []byte) any {
	if t.Logical != "decimal" {
		return append([]byte{}, b...)
	}
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	if n.BitLen() > 127 {
		return append([]byte{}, b...) // more than 38 digits: no decimal of Iceberg's
	}
	return iceberg.DecimalLiteral{Scale: t.Scale, Val: decimal128.FromBigInt(n)}
}

// appendValue encodes a partition value as a type of our own schema.
func appendValue(dst []byte, t *avro.Type, v any) ([]byte, error) {
	switch t.Kind { //nolint:exhaustive // the others are no partition values
	case avro.Boolean:
		if b, ok := v.(bool); ok {
			return append(dst, map[bool]byte{true: 1}[b]), nil
		}
	case avro.Int, avro.Long:
		if n, ok := integer(v); ok && (t.Kind == avro.Long || n == int64(int32(n))) {
			return avro.AppendLong(dst, n), nil
		}
	case avro.Float:
		if f, ok := v.(float32); ok {
			return appendBits(dst, uint64(math.Float32bits(f)), 4), nil
		}
	case avro.Double:
		switch f := v.(type) {
		case float32:
			return appendBits(dst, math.Float64bits(float64(f)), 8), nil
		case float64:
			return appendBits(dst, math.Float64bits(f), 8), nil
		}
	case avro.String:
		if s, ok := v.(string); ok {
			return avro.AppendBytes(dst, s), nil
		}
	case avro.Bytes:
		if b, ok := v.([]byte); ok {
			return avro.AppendBytes(dst, b), nil
		}
	case avro.Fixed:
		if b, ok := fixedOf(v, t); ok {
			return append(dst, b...), nil
		}
	}
	return nil, fmt.Errorf("value %v of type %T is no %s", v, v, t.Kind)
}

func appendBits(dst []byte, bits uint64, n int) []byte {
	for range n {
		dst, bits = append(dst, byte(bits)), bits>>8
	}
	return dst
}

func integer(v any) (int64, bool) {
	rv := reflect.ValueOf(v)
	if !rv.CanInt() {
		return 0, false
	}
	return rv.Int(), true
}

// fixedOf are the bytes of a value of fixed length: a decimal is padded with its sign.
func fixedOf(v any, t *avro.Type) ([]byte, bool) {
	if d, ok := DecimalOf(v); ok {
		if d.Scale != t.Scale {
			return nil, false
		}
		b, err := iceberg.DecimalLiteral(d).MarshalBinary()
		if err != nil || len(b) > t.Size {
			return nil, false
		}
		out := make([]byte, t.Size)
		if d.Val.Sign() < 0 {
			for i := range out {
				out[i] = 0xff
			}
		}
		copy(out[t.Size-len(b):], b)
		return out, true
	}
	b := BytesOf(v)
	return b, b != nil && len(b) == t.Size
}

// DecimalOf is the value of both of the library's types of decimals.
func DecimalOf(v any) (iceberg.Decimal, bool) {
	switch d := v.(type) {
	case iceberg.Decimal:
		return d, true
	case iceberg.DecimalLiteral:
		return iceberg.Decimal(d), true
	}
	return iceberg.Decimal{}, false
}

// BytesOf are the bytes of binary, fixed and UUID values; nil for others.
func BytesOf(v any) []byte {
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
	return nil
}
