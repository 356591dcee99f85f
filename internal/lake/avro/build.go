package avro

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Scalar is a type without parts.
func Scalar(k Kind) *Type { return logical(k, "") }

func logical(k Kind, name string) *Type {
	t := &Type{Kind: k, Logical: name}
	t.finish()
	return t
}

// Whole is an int or long with a logical type.
func Whole(k Kind, logicalType string) *Type { return logical(k, logicalType) }

// Instant is a timestamp of a logical type; utc says whether it is one on the time line or on a calendar without zone.
func Instant(logicalType string, utc bool) *Type {
	t := logical(Long, logicalType)
	t.utc = &utc
	return t
}

// NewFixed is a fixed of a name, with a logical type or "".
func NewFixed(name string, size int, logicalType string) *Type {
	t := &Type{Kind: Fixed, Name: name, Size: size, Logical: logicalType}
	t.finish()
	return t
}

// NewDecimal is a decimal in a fixed of a size in bytes.
func NewDecimal(size, precision, scale int) *Type {
	t := NewFixed(fmt.Sprintf("decimal_%d_%d", precision, scale), size, "decimal")
	t.precision, t.Scale = precision, scale
	return t
}

// NewOptional is the union of null and another type.
func NewOptional(t *Type) *Type { return &Type{Kind: Union, Branches: []*Type{Scalar(Null), t}} }

// NewList is an array; elementID is the field ID of its elements.
func NewList(items *Type, elementID int) *Type {
	return &Type{Kind: Array, Items: items, elementID: elementID}
}

// NewPairs is Iceberg's form of a map whose keys are no strings: an array of records.
func NewPairs(name string, key, value Field) *Type {
	return &Type{Kind: Array, Items: NewRecord(name, key, value), Logical: "map"}
}

// NewRecord is a record of a name.
func NewRecord(name string, fields ...Field) *Type {
	t := &Type{Kind: Record, Name: name, Fields: fields}
	t.finish()
	return t
}

// Schema spells a type as JSON. A named type is defined where it occurs first.
func (t *Type) Schema() ([]byte, error) {
	return json.Marshal(speller{}.spell(t))
}

// speller knows the names that were defined.
type speller map[string]bool

// object keeps the order of keys that people are used to.
type object struct {
	Type        any     `json:"type"`
	Name        string  `json:"name,omitempty"`
	LogicalType string  `json:"logicalType,omitempty"`
	Items       any     `json:"items,omitempty"`
	Fields      []field `json:"fields,omitzero"`
	Size        *int    `json:"size,omitempty"`
	Precision   *int    `json:"precision,omitempty"`
	Scale       *int    `json:"scale,omitempty"`
	UTC         *bool   `json:"adjust-to-utc,omitempty"`
	ElementID   int     `json:"element-id,omitempty"`
}

type field struct {
	Name    string           `json:"name"`
	Iceberg string           `json:"iceberg-field-name,omitempty"`
	Type    any              `json:"type"`
	Default *json.RawMessage `json:"default,omitempty"`
	ID      int              `json:"field-id"`
}

func (s speller) spell(t *Type) any {
	switch t.Kind { //nolint:exhaustive // the others are scalars
	case Union:
		branches := []any{}
		for _, b := range t.Branches {
			branches = append(branches, s.spell(b))
		}
		return branches
	case Array:
		return object{Type: "array", Items: s.spell(t.Items), LogicalType: t.Logical, ElementID: t.elementID}
	case Fixed, Record:
		if s[t.Name] {
			return t.Name
		}
		s[t.Name] = true
	}
	out := object{Type: t.Kind.String(), Name: t.Name, LogicalType: t.Logical, UTC: t.utc}
	switch {
	case t.Kind == Record:
		out.Fields = []field{}
		for _, f := range t.Fields {
			out.Fields = append(out.Fields, s.field(f))
		}
	case t.Kind == Fixed:
		out.Size = &t.Size
		if t.Logical == "decimal" {
			out.Precision, out.Scale = &t.precision, &t.Scale
		}
	case t.Logical == "" && t.utc == nil:
		return t.Kind.String()
	}
	return out
}

func (s speller) field(f Field) field {
	out := field{Name: Name(f.Name), Type: s.spell(f.Type), ID: f.ID}
	if out.Name != f.Name {
		out.Iceberg = f.Name
	}
	if _, nullFirst := f.Type.Optional(); nullFirst {
		out.Default = new(json.RawMessage("null"))
	}
	return out
}

// Name makes a name that Avro allows of a column's: what is neither letter, digit nor underscore becomes _x and its code, as in Java's library.
func Name(name string) string {
	out := []byte{}
	for i, r := range name {
		switch {
		case r == '_', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9' && i > 0:
			out = append(out, byte(r))
		case r >= '0' && r <= '9':
			out = append(out, '_', byte(r))
		default:
			out = fmt.Appendf(out, "_x%s", upper(int64(r)))
		}
	}
	return string(out)
}

func upper(code int64) string {
	hex := []byte(strconv.FormatInt(code, 16))
	for i, c := range hex {
		if c >= 'a' {
			hex[i] = c - 'a' + 'A'
		}
	}
	return string(hex)
}
