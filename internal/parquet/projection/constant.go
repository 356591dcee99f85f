package projection

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// ParseDefaults collects the initial defaults of a schema's JSON, by field ID, as raw JSON: a decoder into float64 would round longs.
func ParseDefaults(schemaJSON []byte) (map[int]json.RawMessage, error) {
	defaults := make(map[int]json.RawMessage)
	if err := collect(schemaJSON, defaults); err != nil {
		return nil, fmt.Errorf("read the schema's defaults: %w", err)
	}
	return defaults, nil
}

// collect walks a struct, list or map; primitives are strings and end the walk.
func collect(raw []byte, into map[int]json.RawMessage) error {
	var t struct {
		Fields []struct {
			ID      int             `json:"id"`
			Type    json.RawMessage `json:"type"`
			Initial json.RawMessage `json:"initial-default"`
		} `json:"fields"`
		Element json.RawMessage `json:"element"`
		Key     json.RawMessage `json:"key"`
		Value   json.RawMessage `json:"value"`
	}
	if len(raw) == 0 || raw[0] == '"' {
		return nil
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return err
	}
	for _, f := range t.Fields {
		if len(f.Initial) > 0 {
			into[f.ID] = f.Initial
		}
		if err := collect(f.Type, into); err != nil {
			return err
		}
	}
	for _, part := range []json.RawMessage{t.Element, t.Key, t.Value} {
		if err := collect(part, into); err != nil {
			return err
		}
	}
	return nil
}

// defaultValue reads a JSON single value (specification, appendix D).
func defaultValue(t iceberg.Type, raw json.RawMessage) (column.Values, error) {
	text := string(raw)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(raw, &text); err != nil {
			return column.Values{}, fmt.Errorf("read the default %s: %w", raw, err)
		}
	}
	v, err := parse(t, text)
	if err != nil {
		return column.Values{}, fmt.Errorf("read the default %s as %s: %w: %w", raw, t, err, ErrUnmappable)
	}
	return constantValue(t, v)
}

func parse(t iceberg.Type, text string) (any, error) {
	switch t := t.(type) {
	case iceberg.BooleanType:
		return strconv.ParseBool(text)
	case iceberg.Int32Type:
		n, err := strconv.ParseInt(text, 10, 32)
		return int32(n), err
	case iceberg.Int64Type:
		return strconv.ParseInt(text, 10, 64)
	case iceberg.Float32Type:
		f, err := strconv.ParseFloat(text, 32)
		return float32(f), err
	case iceberg.Float64Type:
		return strconv.ParseFloat(text, 64)
	case iceberg.StringType:
		return text, nil
	case iceberg.UUIDType:
		return uuid.Parse(text)
	case iceberg.BinaryType, iceberg.FixedType:
		return hex.DecodeString(text)
	case iceberg.DecimalType:
		return parseDecimal(text, t.Scale())
	default:
		return parseInstant(t, text)
	}
}

// parseDecimal reads plain notation with exactly scale digits after the point; the result is the unscaled number.
func parseDecimal(text string, scale int) (*big.Int, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) != scale {
		return nil, fmt.Errorf("%d digits after the point where %d are due", len(fraction), scale)
	}
	n, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return nil, fmt.Errorf("%q is no decimal", text)
	}
	return n, nil
}

func parseInstant(t iceberg.Type, text string) (any, error) {
	switch t.(type) {
	case iceberg.DateType:
		d, err := time.Parse("2006-01-02", text)
		return int32(floorDiv(d.Unix(), 86_400)), err
	case iceberg.TimeType:
		d, err := time.Parse("15:04:05.999999999", text)
		return int64(d.Hour())*3_600_000_000 + int64(d.Minute())*60_000_000 + int64(d.Second())*1_000_000 + int64(d.Nanosecond())/nanosPerMicro, err
	case iceberg.TimestampType:
		d, err := time.Parse("2006-01-02T15:04:05.999999999", text)
		return d.UnixMicro(), err
	case iceberg.TimestampTzType:
		d, err := time.Parse("2006-01-02T15:04:05.999999999Z07:00", text)
		return d.UnixMicro(), err
	case iceberg.TimestampNsType:
		d, err := time.Parse("2006-01-02T15:04:05.999999999", text)
		return d.UnixNano(), err
	case iceberg.TimestampTzNsType:
		d, err := time.Parse("2006-01-02T15:04:05.999999999Z07:00", text)
		return d.UnixNano(), err
	}
	return nil, fmt.Errorf("type %s has no default", t)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// constantValue puts one value, in the Go form of iceberg-go's literals or of parse, into the physical form of its type.
func constantValue(t iceberg.Type, v any) (column.Values, error) {
	kind, width, err := layout.Physical(t)
	if err != nil {
		return column.Values{}, fmt.Errorf("a constant of type %s: %w: %w", t, err, ErrUnmappable)
	}
	out, ok := physicalValue(kind, width, plain(v))
	if !ok {
		return column.Values{}, fmt.Errorf("the constant %v (%T) is no %s: %w", v, v, t, ErrUnmappable)
	}
	return out, nil
}

// plain strips the named types.
func plain(v any) any {
	switch v := v.(type) {
	case iceberg.Date:
		return int32(v)
	case iceberg.Time:
		return int64(v)
	case iceberg.Timestamp:
		return int64(v)
	case iceberg.TimestampNano:
		return int64(v)
	case uuid.UUID:
		return v[:]
	case iceberg.Decimal:
		return v.Val.BigInt()
	case iceberg.DecimalLiteral:
		return v.Val.BigInt()
	case string:
		return []byte(v)
	}
	return v
}

func physicalValue(kind layout.Kind, width int, v any) (out column.Values, ok bool) {
	switch v := v.(type) {
	case bool:
		out.Bool = []bool{v}
		return out, kind == layout.Boolean
	case int32:
		return integer(kind, width, big.NewInt(int64(v)))
	case int64:
		return integer(kind, width, big.NewInt(v))
	case *big.Int:
		return integer(kind, width, v)
	case float32:
		if kind == layout.Double {
			out.Double = []float64{float64(v)}
			return out, true
		}
		out.Float = []float32{v}
		return out, kind == layout.Float
	case float64:
		out.Double = []float64{v}
		return out, kind == layout.Double
	case []byte:
		if kind == layout.Fixed {
			out.Fixed = []parquet.FixedLenByteArray{v}
			return out, len(v) == width
		}
		out.Bytes = []parquet.ByteArray{v}
		return out, kind == layout.Bytes
	}
	return out, false
}

func integer(kind layout.Kind, width int, n *big.Int) (out column.Values, ok bool) {
	switch kind {
	case layout.Int32:
		out.Int32 = []int32{int32(n.Int64())}
		return out, n.IsInt64() && n.Int64() == int64(int32(n.Int64()))
	case layout.Int64:
		out.Int64 = []int64{n.Int64()}
		return out, n.IsInt64()
	case layout.Fixed:
		b := twosComplement(n, width)
		out.Fixed = []parquet.FixedLenByteArray{b}
		return out, b != nil
	}
	return out, false
}

// twosComplement spells n big-endian in exactly width bytes, or returns nil when it does not fit.
func twosComplement(n *big.Int, width int) []byte {
	if n.BitLen() > 8*width-1 && (n.Sign() >= 0 || new(big.Int).Not(n).BitLen() > 8*width-1) {
		return nil
	}
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*width)))
	}
	return n.FillBytes(make([]byte, width))
}

// Constants are the values of a file's identity partition fields by source column, as Options takes them.
func Constants(spec iceberg.PartitionSpec, f iceberg.DataFile) map[int]any {
	out := map[int]any{}
	values := f.Partition()
	for i := range spec.NumFields() {
		field := spec.Field(i)
		if _, identity := field.Transform.(iceberg.IdentityTransform); identity {
			if v, ok := values[field.FieldID]; ok {
				out[field.SourceID()] = v
			}
		}
	}
	return out
}
