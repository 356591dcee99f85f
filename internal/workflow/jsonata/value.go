package jsonata

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// maxDepth bounds nesting of data and of expressions; AWS bounds both by size only.
const maxDepth = 512

// ErrUnsafeInteger says that an expression used or returned an integer that a double cannot hold exactly.
var ErrUnsafeInteger = errors.New("integer is beyond 2^53-1 and would be rounded: send it as a string")

// Object is a JSON object that keeps the order of its members, as the reference engine does.
type Object struct {
	keys   []string
	values map[string]any
}

// NewObject returns an empty object with room for n members.
func NewObject(n int) *Object {
	return &Object{keys: make([]string, 0, n), values: make(map[string]any, n)}
}

// Set adds a member or replaces its value; a replaced member keeps its place.
func (o *Object) Set(key string, value any) *Object {
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
	return o
}

// Lookup returns the value of a member.
func (o *Object) Lookup(key string) (any, bool) {
	v, ok := o.values[key]
	return v, ok
}

// Keys returns the member names in order. The caller must not change them.
func (o *Object) Keys() []string { return o.keys }

// Array is a JSON array. Results of paths are sequences: the reference engine unwraps a sequence of one.
type Array struct {
	Items []any

	sequence bool // made by a path or a predicate
	keep     bool // [] was written: do not unwrap
	cons     bool // written as [...] at a path's end: do not flatten
}

// NewArray returns an array of the items.
func NewArray(items ...any) *Array { return &Array{Items: items} }

func sequenceOf(items ...any) *Array { return &Array{Items: items, sequence: true} }

// undefined is the value of a path that leads nowhere. It never leaves the package.
type undefined struct{}

func isUndefined(v any) bool {
	_, ok := v.(undefined)
	return ok
}

// Decode reads one JSON text. The result is made of nil, bool, string, float64, *Array and *Object; an integer that a float64
// cannot hold exactly stays a json.Number. A key given twice is an error.
func Decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

func decodeValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("JSON is nested deeper than %d", maxDepth)
	}
	token, err := d.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return decodeArray(d, depth)
		}
		return decodeObject(d, depth)
	case json.Number:
		return number(t)
	default:
		return t, nil
	}
}

func decodeArray(d *json.Decoder, depth int) (any, error) {
	a := &Array{}
	for d.More() {
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		a.Items = append(a.Items, v)
	}
	_, err := d.Token()
	return a, err
}

func decodeObject(d *json.Decoder, depth int) (any, error) {
	o := NewObject(4)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("read JSON: %w", err)
		}
		key, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("object key %v is no string", token)
		}
		if _, twice := o.values[key]; twice {
			return nil, fmt.Errorf("key %q is given twice", key)
		}
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		o.Set(key, v)
	}
	_, err := d.Token()
	return o, err
}

// number turns a literal into a float64, or keeps it where a float64 is not exact.
func number(n json.Number) (any, error) {
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("read number %s: %w", n, err)
	}
	if i, err := n.Int64(); err == nil && (i > 1<<53-1 || i < -(1<<53-1)) {
		return n, nil
	} else if err != nil && f == math.Trunc(f) && math.Abs(f) > 1<<53-1 && isInteger(n) {
		return n, nil
	}
	return f, nil
}

// isInteger says whether the literal is written without fraction and exponent.
func isInteger(n json.Number) bool {
	return !bytes.ContainsAny([]byte(n), ".eE")
}

// Encode writes a value as compact JSON in the way of JavaScript: whole numbers without fraction, no escaping of <, > and &,
// members in their order. Integers that Decode kept are written as they were read.
func Encode(v any) ([]byte, error) { return appendValue(nil, v, false) }

func appendValue(b []byte, v any, rounded bool) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendString(b, v), nil
	case float64:
		return appendNumber(b, v, rounded)
	case json.Number:
		return append(b, v...), nil
	case *Array:
		return appendArray(b, v, rounded)
	case *Object:
		return appendObject(b, v, rounded)
	default:
		return nil, fmt.Errorf("encode a %T as JSON: not a JSON value", v)
	}
}

func appendArray(b []byte, a *Array, rounded bool) ([]byte, error) {
	var err error
	b = append(b, '[')
	for i, item := range a.Items {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, item, rounded); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, o *Object, rounded bool) ([]byte, error) {
	var err error
	b = append(b, '{')
	for i, key := range o.keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		if b, err = appendValue(b, o.values[key], rounded); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendNumber formats as JavaScript does. Inside $string and & the reference engine first rounds to 15 digits.
func appendNumber(b []byte, f float64, rounded bool) ([]byte, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, errors.New("number is out of range")
	}
	if rounded && f != math.Trunc(f) {
		short, err := strconv.ParseFloat(strconv.FormatFloat(f, 'e', 14, 64), 64)
		if err != nil {
			return nil, fmt.Errorf("round %v: %w", f, err)
		}
		f = short
	}
	if f == 0 {
		return append(b, '0'), nil // also for -0, as JSON.stringify
	}
	text, err := json.Marshal(f) // ECMAScript's number format
	return append(b, text...), err
}

func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	short := map[byte]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}
	b = append(b, '"')
	for i := range len(s) {
		c := s[i]
		switch e, ok := short[c]; {
		case ok:
			b = append(b, '\\', e)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// settle removes the marks of evaluation from a result and refuses what cannot leave an expression.
func settle(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		return nil, fmt.Errorf("return %s: %w", v, ErrUnsafeInteger)
	case *Array:
		items := slices.Clone(v.Items)
		for i, item := range items {
			var err error
			if items[i], err = settle(item); err != nil {
				return nil, err
			}
		}
		return &Array{Items: items}, nil
	case *Object:
		o := NewObject(len(v.keys))
		for _, key := range v.keys {
			member, err := settle(v.values[key])
			if err != nil {
				return nil, err
			}
			o.Set(key, member)
		}
		return o, nil
	default:
		return v, nil
	}
}
