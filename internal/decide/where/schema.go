package where

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Schema is what a condition can refer to.
type Schema struct {
	Columns []Column
	// Specs are the partition fields of every spec of the table, by spec ID.
	Specs map[int][]PartitionField
}

// Column is a column, or a field inside structs; lists and maps hold nothing that a condition can name.
type Column struct {
	// Path is the names from the root down.
	Path    []string
	FieldID int
	// Required says that the field and every struct around it are required.
	Required bool
	Type     Type

	// of is the column itself where this one is what a partition transform makes of it.
	of        *Column
	transform transform
}

// Name joins the path with dots.
func (c Column) Name() string { return strings.Join(c.Path, ".") }

// PartitionField is a field of a partition spec.
type PartitionField struct {
	SourceID int
	FieldID  int
	// Transform is spelled as in metadata: "identity", "bucket[16]", "truncate[4]", "year", "month", "day", "hour", "void".
	Transform string
}

// TypeKind is the kind of a column's type.
type TypeKind string

// The kinds of types, spelled as in metadata without their parameters. Nested stands for struct, list, map, variant and whatever is newer.
const (
	TypeBoolean     TypeKind = "boolean"
	TypeInt         TypeKind = "int"
	TypeLong        TypeKind = "long"
	TypeFloat       TypeKind = "float"
	TypeDouble      TypeKind = "double"
	TypeDecimal     TypeKind = "decimal"
	TypeDate        TypeKind = "date"
	TypeTime        TypeKind = "time"
	TypeTimestamp   TypeKind = "timestamp"
	TypeTimestampNS TypeKind = "timestamp_ns"
	TypeString      TypeKind = "string"
	TypeUUID        TypeKind = "uuid"
	TypeFixed       TypeKind = "fixed"
	TypeBinary      TypeKind = "binary"
	TypeNested      TypeKind = "nested"
)

// Type is a column's type. Scale is a decimal's.
type Type struct {
	Kind  TypeKind
	Scale int
}

// ParseType reads a type as metadata spells it: "long", "decimal(9,2)", "fixed[16]", "timestamptz".
func ParseType(text string) Type {
	name, parameters, _ := strings.Cut(strings.TrimSpace(text), "(")
	if n, _, found := strings.Cut(name, "["); found {
		name = n
	}
	switch name {
	case "timestamptz":
		return Type{Kind: TypeTimestamp}
	case "timestamptz_ns":
		return Type{Kind: TypeTimestampNS}
	case "decimal":
		_, scale, _ := strings.Cut(strings.TrimSuffix(parameters, ")"), ",")
		if n, err := strconv.Atoi(strings.TrimSpace(scale)); err == nil {
			return Type{Kind: TypeDecimal, Scale: n}
		}
		return Type{Kind: TypeNested}
	}
	switch k := TypeKind(name); k {
	case TypeBoolean, TypeInt, TypeLong, TypeFloat, TypeDouble, TypeDate, TypeTime, TypeTimestamp, TypeTimestampNS, TypeString, TypeUUID,
		TypeFixed, TypeBinary:
		return Type{Kind: k}
	}
	return Type{Kind: TypeNested}
}

// jsonField is a struct field of a schema in metadata.
type jsonField struct {
	ID       int             `json:"id"`
	Name     string          `json:"name"`
	Required bool            `json:"required"`
	Type     json.RawMessage `json:"type"`
}

// jsonStruct is a struct type, a schema's root included.
type jsonStruct struct {
	Type   string      `json:"type"`
	Fields []jsonField `json:"fields"`
}

// SchemaFromJSON reads a schema and the partition specs as table metadata has them.
func SchemaFromJSON(schema json.RawMessage, specs []json.RawMessage) (Schema, error) {
	var root jsonStruct
	if err := json.Unmarshal(schema, &root); err != nil {
		return Schema{}, fmt.Errorf("read schema: %w", err)
	}
	s := Schema{Specs: map[int][]PartitionField{}}
	s.add(root.Fields, nil, true)
	for _, data := range specs {
		var spec struct {
			ID     int `json:"spec-id"`
			Fields []struct {
				SourceID  int    `json:"source-id"`
				FieldID   int    `json:"field-id"`
				Transform string `json:"transform"`
			} `json:"fields"`
		}
		if err := json.Unmarshal(data, &spec); err != nil {
			return Schema{}, fmt.Errorf("read partition spec: %w", err)
		}
		fields := []PartitionField{}
		for _, f := range spec.Fields {
			fields = append(fields, PartitionField{SourceID: f.SourceID, FieldID: f.FieldID, Transform: f.Transform})
		}
		s.Specs[spec.ID] = fields
	}
	return s, nil
}

func (s *Schema) add(fields []jsonField, path []string, required bool) {
	for _, f := range fields {
		c := Column{Path: append(slices.Clip(path), f.Name), FieldID: f.ID, Required: required && f.Required, Type: Type{Kind: TypeNested}}
		var name string
		var nested jsonStruct
		switch {
		case json.Unmarshal(f.Type, &name) == nil:
			c.Type = ParseType(name)
			s.Columns = append(s.Columns, c)
		case json.Unmarshal(f.Type, &nested) == nil && nested.Type == "struct":
			s.Columns = append(s.Columns, c)
			s.add(nested.Fields, c.Path, c.Required)
		default:
			s.Columns = append(s.Columns, c)
		}
	}
}
