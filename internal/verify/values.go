package verify

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// maxShown bounds the columns that are printed of a row.
const maxShown = 24

// shown are the leaves that name a row: those of the identifier fields, or the first ones.
func (r *reader) shown() []*layout.Leaf {
	var all, keys []*layout.Leaf
	for _, leaf := range r.target.Layout.Leaves {
		if lineage(leaf) || leaf.Part {
			continue
		}
		if r.identifiers[leaf.FieldID] {
			keys = append(keys, leaf)
		}
		all = append(all, leaf)
	}
	if len(keys) > 0 {
		return keys
	}
	return all[:min(maxShown, len(all))]
}

// object is a JSON object with its keys in the order of the columns.
type object struct {
	keys   []string
	values []any
}

func (o *object) add(key string, value any) {
	o.keys, o.values = append(o.keys, key), append(o.values, value)
}

func (o *object) encode() (json.RawMessage, error) {
	var buf bytes.Buffer
	buf.WriteByte('{')
	for i, key := range o.keys {
		if i > 0 {
			buf.WriteByte(',')
		}
		name, err := json.Marshal(key)
		if err != nil {
			return nil, fmt.Errorf("print column %s: %w", key, err)
		}
		value, err := json.Marshal(o.values[i])
		if err != nil {
			return nil, fmt.Errorf("print column %s: %w", key, err)
		}
		buf.Write(name)
		buf.WriteByte(':')
		buf.Write(value)
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// entries are the values that one row has in a column: one, or a list.
func entries(leaf *layout.Leaf, b *column.Batch) any {
	var list []any
	value := 0
	for level := range b.Levels {
		if leaf.MaxDef > 0 && b.Def[level] < leaf.MaxDef {
			list = append(list, nil)
			continue
		}
		list = append(list, text(leaf, &b.Values, value))
		value++
	}
	if leaf.MaxRep == 0 && len(list) == 1 {
		return list[0]
	}
	return list
}

// text spells a value for people: numbers and booleans as such, instants in ISO 8601, bytes in hexadecimal.
func text(leaf *layout.Leaf, v *column.Values, i int) any {
	switch leaf.Kind {
	case layout.Boolean:
		return v.Bool[i]
	case layout.Int32:
		return integer(leaf.Type, int64(v.Int32[i]))
	case layout.Int64:
		return integer(leaf.Type, v.Int64[i])
	case layout.Float:
		return number(float64(v.Float[i]), 32)
	case layout.Double:
		return number(v.Double[i], 64)
	case layout.Fixed:
		return raw(leaf.Type, v.Fixed[i])
	default:
		return raw(leaf.Type, v.Bytes[i])
	}
}

func number(f float64, bits int) any {
	s := strconv.FormatFloat(f, 'g', -1, bits)
	if f-f != 0 { // JSON has no NaN and no infinity
		return s
	}
	return json.Number(s)
}

func integer(t iceberg.Type, n int64) any {
	const day = 24 * time.Hour
	switch typ := t.(type) {
	case iceberg.DateType:
		return time.Unix(0, 0).UTC().AddDate(0, 0, int(n)).Format(time.DateOnly)
	case iceberg.TimeType:
		return time.Unix(0, 0).UTC().Add(time.Duration(n) * time.Microsecond % day).Format("15:04:05.999999")
	case iceberg.TimestampType:
		return time.UnixMicro(n).UTC().Format("2006-01-02T15:04:05.999999")
	case iceberg.TimestampTzType:
		return time.UnixMicro(n).UTC().Format("2006-01-02T15:04:05.999999Z")
	case iceberg.TimestampNsType:
		return time.Unix(0, n).UTC().Format("2006-01-02T15:04:05.999999999")
	case iceberg.TimestampTzNsType:
		return time.Unix(0, n).UTC().Format("2006-01-02T15:04:05.999999999Z")
	case iceberg.DecimalType:
		return decimal(big.NewInt(n), typ.Scale())
	}
	return n
}

func raw(t iceberg.Type, b []byte) any {
	switch typ := t.(type) {
	case iceberg.StringType:
		return string(b)
	case iceberg.DecimalType:
		n := new(big.Int).SetBytes(b)
		if len(b) > 0 && b[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		return decimal(n, typ.Scale())
	}
	return hex.EncodeToString(b)
}

// decimal spells an unscaled value.
func decimal(n *big.Int, scale int) string {
	s := new(big.Int).Abs(n).String()
	for len(s) <= scale {
		s = "0" + s
	}
	if scale > 0 {
		s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	}
	if n.Sign() < 0 {
		s = "-" + s
	}
	return s
}
