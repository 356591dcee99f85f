// Package transform computes partition values and other transforms of column values with iceberg-go's transforms.
package transform

import (
	"bytes"
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"firn/internal/compact/engine"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// Func computes a transformed value; a nil literal is null.
type Func func(iceberg.Literal) (iceberg.Literal, error)

// New takes iceberg-go's transforms. Void has no function; one that is not known is refused, since its value cannot be guessed.
func New(t iceberg.Transform) (Func, error) {
	switch t.(type) {
	case iceberg.VoidTransform:
		return nil, nil
	case iceberg.IdentityTransform, iceberg.BucketTransform, iceberg.TruncateTransform, iceberg.YearTransform, iceberg.MonthTransform,
		iceberg.DayTransform, iceberg.HourTransform:
	default:
		return nil, fmt.Errorf("transform %s is not known: %w", t, engine.ErrRefused)
	}
	return func(in iceberg.Literal) (iceberg.Literal, error) {
		if in == nil {
			return nil, nil
		}
		out := t.Apply(iceberg.Optional[iceberg.Literal]{Val: in, Valid: true})
		if !out.Valid {
			return nil, fmt.Errorf("transform %s of a %s gives nothing", t, in.Type())
		}
		return out.Val, nil
	}, nil
}

// Literal reads value i of a leaf; it may point into a page.
func Literal(leaf *layout.Leaf, v *column.Values, i int) iceberg.Literal {
	switch t := leaf.Type.(type) {
	case iceberg.BooleanType:
		return iceberg.NewLiteral(v.Bool[i])
	case iceberg.Int32Type:
		return iceberg.NewLiteral(v.Int32[i])
	case iceberg.Int64Type:
		return iceberg.NewLiteral(v.Int64[i])
	case iceberg.Float32Type:
		return iceberg.NewLiteral(v.Float[i])
	case iceberg.Float64Type:
		return iceberg.NewLiteral(v.Double[i])
	case iceberg.DateType:
		return iceberg.NewLiteral(iceberg.Date(v.Int32[i]))
	case iceberg.TimeType:
		return iceberg.NewLiteral(iceberg.Time(v.Int64[i]))
	case iceberg.TimestampType, iceberg.TimestampTzType:
		return iceberg.NewLiteral(iceberg.Timestamp(v.Int64[i]))
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return iceberg.NewLiteral(iceberg.TimestampNano(v.Int64[i]))
	case iceberg.StringType:
		return iceberg.NewLiteral(string(v.Bytes[i]))
	case iceberg.UUIDType:
		return iceberg.NewLiteral(uuid.UUID(v.Fixed[i]))
	case iceberg.FixedType:
		return iceberg.FixedLiteral(v.Fixed[i])
	case iceberg.DecimalType:
		return iceberg.NewLiteral(iceberg.Decimal{Val: unscaled(leaf, v, i), Scale: t.Scale()})
	default:
		return iceberg.NewLiteral([]byte(v.Bytes[i]))
	}
}

func unscaled(leaf *layout.Leaf, v *column.Values, i int) decimal128.Num {
	switch leaf.Kind {
	case layout.Int32:
		return decimal128.FromI64(int64(v.Int32[i]))
	case layout.Int64:
		return decimal128.FromI64(v.Int64[i])
	default:
		b := v.Fixed[i]
		n := new(big.Int).SetBytes(b)
		if b[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		return decimal128.FromBigInt(n)
	}
}

// Owned copies what may point into a page.
func Owned(v any) any {
	switch v := v.(type) {
	case []byte:
		return bytes.Clone(v)
	case string:
		return strings.Clone(v)
	}
	return v
}
