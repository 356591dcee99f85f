// Package avro reads and writes Avro object container files for the manifests of Iceberg tables: the header, blocks and the schema, and values
// one by one from a block's bytes. It maps nothing to Go types: whoever knows the schema steps through the bytes with a Cursor and skips what it
// does not want. That is what makes it fast; package manifest says what the fields mean.
//
// It is made for hostile files: no length in a file makes it allocate more than a fixed multiple of the bytes that are there, and every error
// names the block and what was wrong. Codecs are null, deflate, snappy and zstandard. Recursive schemas are refused.
package avro

import (
	"errors"
	"slices"
)

// ErrCorrupt says that bytes are no valid Avro container file of their schema.
var ErrCorrupt = errors.New("corrupt Avro file")

// ErrUnsupported says that a file is valid and of a kind that is not read: another codec, a recursive schema.
var ErrUnsupported = errors.New("unsupported Avro file")

// Kind is a type of Avro's.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Boolean
	Int
	Long
	Float
	Double
	Bytes
	String
	Fixed
	Enum
	Array
	Map
	Record
	Union
)

// String names the kind as schemas do.
func (k Kind) String() string {
	return [...]string{
		"null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum", "array", "map", "record", "union",
	}[k]
}

// NoID is the field ID of a field whose writer gave none.
const NoID = -1

// Type is one node of a schema. It is immutable once ParseSchema returned it.
type Type struct {
	Kind Kind
	// Name is a record's or fixed's.
	Name string
	// Logical is the logicalType, "" without one.
	Logical string
	// Size is the length of a fixed in bytes, Scale a decimal's scale.
	Size, Scale int
	// Items is what an array or the values of a map hold.
	Items *Type
	// Fields are a record's.
	Fields []Field
	// Branches are a union's.
	Branches []*Type

	// empty types have values of no bytes only; steps skips a record of scalars without recursion.
	empty bool
	steps []step
	// numbers is how many numbers a value is, if it is nothing else.
	numbers int
	// precision, elementID and utc are written only.
	precision, elementID int
	utc                  *bool
}

// Field is a field of a record.
type Field struct {
	Name string
	// ID is Iceberg's field-id, or NoID.
	ID   int
	Type *Type
}

// Optional returns the type of a union of null and one other, and whether t is such a union with null first: what Iceberg writes for optional
// fields.
func (t *Type) Optional() (value *Type, nullFirst bool) {
	if t.Kind != Union || len(t.Branches) != 2 {
		return nil, false
	}
	if t.Branches[0].Kind == Null {
		return t.Branches[1], true
	}
	return t.Branches[0], false
}

// step skips one scalar.
type step struct {
	kind stepKind
	size int
}

type stepKind uint8

const (
	varint stepKind = iota
	sized
	fixed
)

// finish works out what depends on the parts of a type.
func (t *Type) finish() {
	switch t.Kind { //nolint:exhaustive // the others have no parts
	case Null:
		t.empty = true
	case Fixed:
		t.empty = t.Size == 0
	case Int, Long:
		t.numbers = 1
	case Record:
		t.empty = true
		t.steps = make([]step, 0, len(t.Fields))
		for _, f := range t.Fields {
			t.empty = t.empty && f.Type.empty
			s, scalar := f.Type.scalar()
			if !scalar {
				t.steps = nil
			} else if t.steps != nil {
				t.steps = append(t.steps, s)
			}
		}
		if !slices.ContainsFunc(t.steps, func(s step) bool { return s.kind != varint }) {
			t.numbers = len(t.steps)
		}
	}
}

// scalar is the step that skips a value of a scalar type.
func (t *Type) scalar() (step, bool) {
	switch t.Kind { //nolint:exhaustive // the others are no scalars
	case Int, Long, Enum:
		return step{kind: varint}, true
	case Bytes, String:
		return step{kind: sized}, true
	case Null, Boolean, Float, Double, Fixed:
		return step{kind: fixed, size: t.width()}, true
	}
	return step{}, false
}

// width is the length of a value of a type whose values have one.
func (t *Type) width() int {
	switch t.Kind { //nolint:exhaustive // the others have no width
	case Boolean:
		return 1
	case Float:
		return 4
	case Double:
		return 8
	case Fixed:
		return t.Size
	}
	return 0
}
