package icebergtest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// Content is what a set of rows holds, whatever their order: count, digest, and facts by leaf column.
type Content struct {
	Count int64
	// Digest is the sum over all rows, modulo 2^64, of the first 8 bytes of the SHA-256 of the row's Text, in 16 hex digits.
	Digest string
	// Columns are facts by leaf column: "a.b", "list.element", "map.key", "map.value".
	Columns map[string]ColumnFacts
	// Rows are the rows' texts, sorted; set for at most a thousand rows, to show what differs.
	Rows []string
}

// ColumnFacts are facts about the values of one leaf column. A null struct counts one null for each leaf in it; null and empty lists and maps
// add nothing.
type ColumnFacts struct {
	Values, Nulls, NaN int64
	// Min and Max are texts, "" when there is none. NaN is left out, -0.0 is below 0.0, texts compare by bytes.
	Min, Max string
}

// Digester adds up rows.
type Digester struct {
	fields []iceberg.NestedField
	sum    uint64
	count  int64
	leaves map[string]*leaf
	rows   []string
}

const keptRows = 1000

// NewDigester makes a digester of rows of a schema.
func NewDigester(schema *iceberg.Schema) *Digester {
	d := &Digester{fields: schema.Fields(), leaves: map[string]*leaf{}}
	for _, f := range d.fields {
		d.declare(f.Name, f.Type)
	}
	return d
}

// Add adds a row.
func (d *Digester) Add(row Row) {
	var b strings.Builder
	values := make([]any, len(d.fields))
	for i, f := range d.fields {
		values[i] = normal(f.Type, row[i])
	}
	writeFields(&b, d.fields, values)
	sum := sha256.Sum256([]byte(b.String()))
	d.sum += binary.BigEndian.Uint64(sum[:8])
	d.count++
	if len(d.rows) < keptRows {
		d.rows = append(d.rows, b.String())
	}
	for i, f := range d.fields {
		d.see(f.Name, f.Type, values[i])
	}
}

// Content returns what was added so far.
func (d *Digester) Content() Content {
	c := Content{Count: d.count, Digest: fmt.Sprintf("%016x", d.sum), Columns: map[string]ColumnFacts{}}
	for name, l := range d.leaves {
		c.Columns[name] = l.facts
	}
	if d.count <= keptRows {
		c.Rows = d.rows
	}
	return c
}

type leaf struct {
	typ      iceberg.Type
	facts    ColumnFacts
	min, max any
}

func (d *Digester) declare(name string, typ iceberg.Type) {
	switch t := typ.(type) {
	case *iceberg.StructType:
		for _, f := range t.FieldList {
			d.declare(name+"."+f.Name, f.Type)
		}
	case *iceberg.ListType:
		d.declare(name+".element", t.Element)
	case *iceberg.MapType:
		d.declare(name+".key", t.KeyType)
		d.declare(name+".value", t.ValueType)
	default:
		d.leaves[name] = &leaf{typ: typ}
	}
}

func (d *Digester) see(name string, typ iceberg.Type, value any) {
	switch t := typ.(type) {
	case *iceberg.StructType:
		for i, f := range t.FieldList {
			var v any
			if value != nil {
				v = value.([]any)[i]
			}
			d.see(name+"."+f.Name, f.Type, v)
		}
	case *iceberg.ListType:
		if value != nil {
			for _, v := range value.([]any) {
				d.see(name+".element", t.Element, v)
			}
		}
	case *iceberg.MapType:
		if value != nil {
			for _, p := range value.(Pairs) {
				d.see(name+".key", t.KeyType, p[0])
				d.see(name+".value", t.ValueType, p[1])
			}
		}
	default:
		d.leaves[name].see(value)
	}
}

func (l *leaf) see(value any) {
	l.facts.Values++
	if value == nil {
		l.facts.Nulls++
		return
	}
	if isNaN(value) {
		l.facts.NaN++
		return
	}
	if l.min == nil || compareValues(value, l.min) < 0 {
		l.min, l.facts.Min = value, Text(l.typ, value)
	}
	if l.max == nil || compareValues(value, l.max) > 0 {
		l.max, l.facts.Max = value, Text(l.typ, value)
	}
}

func isNaN(value any) bool {
	switch v := value.(type) {
	case float32:
		return v != v
	case float64:
		return v != v
	}
	return false
}

// compareValues orders values in normal form.
func compareValues(a, b any) int {
	switch x := a.(type) {
	case bool:
		return cmp.Compare(fmt.Sprint(x), fmt.Sprint(b))
	case int64:
		return cmp.Compare(x, b.(int64))
	case float32:
		return compareFloats(float64(x), float64(b.(float32)))
	case float64:
		return compareFloats(x, b.(float64))
	case string:
		return strings.Compare(x, b.(string))
	case []byte:
		return bytes.Compare(x, b.([]byte))
	case uuid.UUID:
		y := b.(uuid.UUID)
		return bytes.Compare(x[:], y[:])
	case iceberg.Decimal:
		return x.Val.Cmp(b.(iceberg.Decimal).Val)
	}
	panic(fmt.Sprintf("values of type %T have no order", a))
}

func compareFloats(a, b float64) int {
	if a == b {
		return cmp.Compare(fmt.Sprint(!math.Signbit(a)), fmt.Sprint(!math.Signbit(b)))
	}
	return cmp.Compare(a, b)
}

// Check compares the content with what another engine recorded and returns the differences.
func (c Content) Check(want RowCount, columns map[string]ExpectedColumn) []string {
	var faults []string
	if c.Count != want.Count || c.Digest != want.Digest {
		faults = append(faults, fmt.Sprintf("%d rows with digest %s: want %d with %s", c.Count, c.Digest, want.Count, want.Digest))
	}
	for name, w := range columns {
		got, ok := c.Columns[name]
		nan := int64(0)
		if w.NaN != nil {
			nan = *w.NaN
		}
		if !ok || got.Values != w.Values || got.Nulls != w.Nulls || got.NaN != nan || !sameJSON(got.Min, w.Min) || !sameJSON(got.Max, w.Max) {
			faults = append(faults, fmt.Sprintf("column %s has %+v: want %+v (min %s, max %s)", name, got, w, w.Min, w.Max))
		}
	}
	return faults
}

// sameJSON compares a canonical text with the JSON form in which it was recorded.
func sameJSON(text string, recorded json.RawMessage) bool {
	if text == "" {
		return recorded == nil || string(recorded) == "null"
	}
	var a, b any
	da, db := json.NewDecoder(strings.NewReader(text)), json.NewDecoder(bytes.NewReader(recorded))
	da.UseNumber()
	db.UseNumber()
	return da.Decode(&a) == nil && db.Decode(&b) == nil && a == b
}
