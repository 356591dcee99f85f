package manifest

import (
	"encoding"
	"fmt"
	"math"

	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// partSummary is what a list says of one partition field of a manifest: bounds, nulls, NaNs.
type partSummary struct {
	least, most any
	null, nan   bool
}

func (s *partSummary) add(v any) error {
	switch f := v.(type) {
	case nil:
		s.null = true
		return nil
	case float32:
		if math.IsNaN(float64(f)) {
			s.nan = true
			return nil
		}
	case float64:
		if math.IsNaN(f) {
			s.nan = true
			return nil
		}
	}
	if _, err := serialised(v); err != nil {
		return err
	}
	if s.least == nil || CompareValues(v, s.least) < 0 {
		s.least = v
	}
	if s.most == nil || CompareValues(v, s.most) > 0 {
		s.most = v
	}
	return nil
}

func (s *partSummary) summary() (iceberg.FieldSummary, error) {
	out := iceberg.FieldSummary{ContainsNull: s.null, ContainsNaN: &s.nan}
	if s.least == nil {
		return out, nil
	}
	lower, err := serialised(s.least)
	if err != nil {
		return out, err
	}
	upper, err := serialised(s.most)
	out.LowerBound, out.UpperBound = &lower, &upper
	return out, err
}

// serialised is the single-value serialisation of a partition value (specification, appendix D).
func serialised(v any) ([]byte, error) {
	var literal encoding.BinaryMarshaler
	switch v := v.(type) {
	case bool:
		literal = iceberg.BoolLiteral(v)
	case int32:
		literal = iceberg.Int32Literal(v)
	case int64:
		literal = iceberg.Int64Literal(v)
	case float32:
		literal = iceberg.Float32Literal(v)
	case float64:
		literal = iceberg.Float64Literal(v)
	case iceberg.Date:
		literal = iceberg.DateLiteral(v)
	case iceberg.Time:
		literal = iceberg.TimeLiteral(v)
	case iceberg.Timestamp:
		literal = iceberg.TimestampLiteral(v)
	case iceberg.TimestampNano:
		literal = iceberg.TimestampNsLiteral(v)
	case string:
		return []byte(v), nil
	case []byte:
		return append([]byte{}, v...), nil
	case uuid.UUID:
		return v[:], nil
	case iceberg.DecimalLiteral:
		literal = v
	default:
		return nil, fmt.Errorf("value %v of type %T cannot be a partition value", v, v)
	}
	return literal.MarshalBinary()
}
