// Package footer reads and writes the Thrift structures of a Parquet file (footer, page headers, page indexes) as lossless trees: a field that
// is absent stays absent, a field that nobody knows survives, and what was only read is written again byte for byte. Typed views lie over the
// trees. Rules: the Thrift compact protocol, and parquet.thrift of the Parquet format.
//
// Input is never trusted: depth and counts are bounded by the input's length, and damage is ErrMalformed, never a panic.
package footer

import (
	"errors"
	"math"
)

// ErrMalformed says that bytes are no Thrift structure, or not the one that is wanted.
var ErrMalformed = errors.New("malformed Parquet metadata")

// Kind is a type of the Thrift compact protocol. True and False are the two values of a boolean field.
type Kind uint8

// The kinds, numbered as on the wire.
const (
	True   Kind = 1
	False  Kind = 2
	Byte   Kind = 3
	I16    Kind = 4
	I32    Kind = 5
	I64    Kind = 6
	Double Kind = 7
	Binary Kind = 8
	List   Kind = 9
	Set    Kind = 10
	Map    Kind = 11
	Record Kind = 12
)

// Value is one value of a tree.
type Value struct {
	Kind Kind
	// Int holds whole numbers, the bits of a double, and the byte of a boolean inside a list.
	Int int64
	// Bytes holds binary values; it may share memory with what was read.
	Bytes []byte
	// Struct holds a record.
	Struct *Struct
	// Items holds a list or set; of a map keys and values in turn.
	Items *Items
}

// Items are the elements of a collection.
type Items struct {
	// Element is their kind as written; Key is the kind of a map's keys.
	Element, Key Kind
	Values       []Value
}

// Struct is a record: fields in the order of the bytes.
type Struct struct{ Fields []Field }

// Field is a field that is present.
type Field struct {
	ID    int16
	Value Value
}

// Find returns a field's value, nil when it is absent. A nil Struct has no field.
func (s *Struct) Find(id int16) *Value {
	if s == nil {
		return nil
	}
	for i := range s.Fields {
		if s.Fields[i].ID == id {
			return &s.Fields[i].Value
		}
	}
	return nil
}

// Int returns a whole number; ok is false when the field is absent or of another kind.
func (s *Struct) Int(id int16) (n int64, ok bool) {
	v := s.Find(id)
	if v == nil || v.Kind < Byte || v.Kind > I64 {
		return 0, false
	}
	return v.Int, true
}

// IntOr returns a whole number, or otherwise when there is none.
func (s *Struct) IntOr(id int16, otherwise int64) int64 {
	if n, ok := s.Int(id); ok {
		return n
	}
	return otherwise
}

// Bool returns a boolean; ok is false when the field is absent or of another kind.
func (s *Struct) Bool(id int16) (b, ok bool) {
	v := s.Find(id)
	if v == nil || (v.Kind != True && v.Kind != False) {
		return false, false
	}
	return v.Kind == True, true
}

// Binary returns bytes; ok is false when the field is absent or of another kind.
func (s *Struct) Binary(id int16) (b []byte, ok bool) {
	v := s.Find(id)
	if v == nil || v.Kind != Binary {
		return nil, false
	}
	return v.Bytes, true
}

// Record returns a nested record, nil when it is absent or of another kind.
func (s *Struct) Record(id int16) *Struct {
	v := s.Find(id)
	if v == nil || v.Kind != Record {
		return nil
	}
	return v.Struct
}

// List returns a list's elements; nil when it is absent or of another kind.
func (s *Struct) List(id int16) []Value {
	v := s.Find(id)
	if v == nil || v.Kind != List {
		return nil
	}
	return v.Items.Values
}

// Put sets a field; a new one goes where its ID belongs.
func (s *Struct) Put(id int16, v Value) {
	for i := range s.Fields {
		switch {
		case s.Fields[i].ID == id:
			s.Fields[i].Value = v
			return
		case s.Fields[i].ID > id:
			s.Fields = append(s.Fields, Field{})
			copy(s.Fields[i+1:], s.Fields[i:])
			s.Fields[i] = Field{ID: id, Value: v}
			return
		}
	}
	s.Fields = append(s.Fields, Field{ID: id, Value: v})
}

// Drop removes a field.
func (s *Struct) Drop(id int16) {
	for i := range s.Fields {
		if s.Fields[i].ID == id {
			s.Fields = append(s.Fields[:i], s.Fields[i+1:]...)
			return
		}
	}
}

// Int32Value makes an i32; what does not fit becomes the nearest number that does.
func Int32Value(n int64) Value {
	return Value{Kind: I32, Int: int64(int32(min(max(n, math.MinInt32), math.MaxInt32)))}
}

// Int16Value makes an i16.
func Int16Value(n int16) Value { return Value{Kind: I16, Int: int64(n)} }

// Int64Value makes an i64.
func Int64Value(n int64) Value { return Value{Kind: I64, Int: n} }

// BoolValue makes a boolean field.
func BoolValue(b bool) Value {
	if b {
		return Value{Kind: True}
	}
	return Value{Kind: False}
}

// BinaryValue makes a binary or string.
func BinaryValue(b []byte) Value { return Value{Kind: Binary, Bytes: b} }

// RecordValue makes a record.
func RecordValue(s *Struct) Value { return Value{Kind: Record, Struct: s} }

// ListValue makes a list of elements of one kind. The elements of a list of booleans (kind True) hold 1 or 2 in Int.
func ListValue(element Kind, values []Value) Value {
	return Value{Kind: List, Items: &Items{Element: element, Values: values}}
}
