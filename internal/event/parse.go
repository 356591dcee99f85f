package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds objects and arrays within each other: no known event has a tenth of it but schemas in a commit's request.
const maxDepth = 64

// object is a JSON object with exact names: encoding/json's structs take "TABLE" for "table", and the last of two equal names, so that two readers of
// one message could see two tables.
type object map[string]any

// parse reads strict JSON: valid UTF-8, one value, no name twice in an object, at most maxDepth deep. Values are object, []any, string, json.Number,
// bool and nil.
func parse(body []byte) (any, error) {
	if !utf8.Valid(body) {
		return nil, fmt.Errorf("parse event that is no UTF-8: %w", ErrMalformed)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	v, err := value(dec, 0)
	if errors.Is(err, ErrRefused) {
		return nil, err
	}
	if err == nil && !json.Valid(body) {
		err = errors.New("more than one value")
	}
	if err != nil {
		return nil, fmt.Errorf("parse event: %w: %w", ErrMalformed, err)
	}
	return v, nil
}

func value(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, noEOF(err)
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == maxDepth {
		return nil, fmt.Errorf("parse event deeper than %d levels: %w", maxDepth, ErrTooLarge)
	}
	var out any
	if delim == '{' {
		out, err = members(dec, depth)
	} else {
		out, err = elements(dec, depth)
	}
	if err != nil {
		return nil, err
	}
	_, err = dec.Token() // the closing bracket
	return out, noEOF(err)
}

func members(dec *json.Decoder, depth int) (object, error) {
	o := object{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, noEOF(err)
		}
		name, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("name a member %v", token)
		}
		if _, twice := o[name]; twice {
			return nil, fmt.Errorf("parse event with a name twice in one object: %w", ErrMalformed)
		}
		if o[name], err = value(dec, depth+1); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func elements(dec *json.Decoder, depth int) ([]any, error) {
	list := []any{}
	for dec.More() {
		v, err := value(dec, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// noEOF tells the end inside of a value from the end behind it.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// has reports whether the object has a member of that name.
func (o object) has(name string) bool {
	_, ok := o[name]
	return ok
}

// at walks into objects; nil where one is missing.
func (o object) at(path ...string) object {
	for _, name := range path {
		o, _ = o[name].(object)
	}
	return o
}

// text returns the first member of these names that is a text, else "": the same field has several names in the forms of one source.
func (o object) text(names ...string) string {
	for _, name := range names {
		if s, ok := o[name].(string); ok {
			return s
		}
	}
	return ""
}

// texts returns an array of texts; ok is false when it is anything else.
func texts(v any) (out []string, ok bool) {
	list, ok := v.([]any)
	for _, item := range list {
		s, isText := item.(string)
		ok = ok && isText
		out = append(out, s)
	}
	return out, ok
}

// integer reads a 64-bit ID as number or text, 0 when there is none: JSON libraries of some writers round large numbers, so they send text.
func (o object) integer(name string) (int64, error) {
	text := ""
	switch v := o[name].(type) {
	case nil:
		return 0, nil
	case string:
		text = v
	case json.Number:
		text = v.String()
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, ErrMalformed)
	}
	return n, nil
}

// inner returns a member that is an object, or a text that holds one.
func (o object) inner(name string) (object, error) {
	v := o[name]
	if text, ok := v.(string); ok {
		var err error
		if v, err = parse([]byte(text)); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	found, ok := v.(object)
	if !ok {
		return nil, fmt.Errorf("read %s, which is no object: %w", name, ErrMalformed)
	}
	return found, nil
}

// names lists a message's names for an error, never its values, and not many.
func (o object) names() string {
	names := make([]string, 0, len(o))
	for name := range o {
		names = append(names, fmt.Sprintf("%.40q", name))
	}
	slices.Sort(names)
	return fmt.Sprint(names[:min(len(names), 12)])
}
