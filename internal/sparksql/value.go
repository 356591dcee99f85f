package sparksql

import (
	"encoding/hex"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// Kind is the type of a literal.
type Kind int

// The kinds of literals.
const (
	KindNull Kind = iota
	KindString
	KindInteger
	// KindNumber is a decimal or floating-point number.
	KindNumber
	KindBoolean
	KindDate
	KindTimestamp
	KindBinary
	// KindNow is the current time, or midnight of the current day in UTC, less an interval; Text is "now" or "today", and "-" and an age such as
	// "168h" behind it.
	KindNow
	KindMap
	KindArray
)

// String names the kind in messages.
func (k Kind) String() string {
	return [...]string{
		"NULL", "a string", "a whole number", "a number", "a boolean", "a date", "a timestamp", "binary", "a time", "a map", "an array",
	}[k]
}

// Value is a literal of a statement.
type Value struct {
	Kind Kind
	// Text is a string's content, a number without suffix, "true" or "false", the text of a date or timestamp, the bytes of binary.
	Text string
	// Entries are a map's, in their order; Items an array's.
	Entries []Entry
	Items   []Value
	// Pos is the byte offset in the statement's text.
	Pos int
}

// Entry is one entry of a map literal.
type Entry struct {
	Key, Value Value
}

// Map returns a map literal as text keys and values; the last of equal keys wins.
func (v Value) Map() map[string]string {
	m := make(map[string]string, len(v.Entries))
	for _, e := range v.Entries {
		m[e.Key.Text] = e.Value.String()
	}
	return m
}

// String is the value as an argument in text: content for scalars, a JSON object for a map, a JSON array for an array.
func (v Value) String() string {
	switch v.Kind {
	case KindMap:
		return jsonText(v.Map())
	case KindArray:
		items := make([]string, len(v.Items))
		for i, item := range v.Items {
			items[i] = item.String()
		}
		return jsonText(items)
	default:
		return v.Text
	}
}

func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error() // maps and slices of strings always have a JSON form
	}
	return string(data)
}

// value reads a literal, map(...) or array(...).
func (p *parser) value() (Value, error) {
	t := p.peek()
	switch {
	case t.kind == tokenString:
		return p.stringValue(), nil
	case t.kind == tokenNumber || t.is("-") || t.is("+"):
		return p.number()
	case t.is("true") || t.is("false"):
		p.next()
		return Value{Kind: KindBoolean, Text: strings.ToLower(t.text), Pos: t.pos}, nil
	case t.is("null"):
		p.next()
		return Value{Kind: KindNull, Pos: t.pos}, nil
	case t.is("map") && p.peekAt(1).is("("):
		return p.mapValue()
	case (t.is("array") && p.peekAt(1).is("(")):
		return p.arrayValue()
	case t.is("now") || t.is("current_timestamp") || t.is("current_date") || t.is("date_sub") && p.peekAt(1).is("("):
		return p.nowValue()
	case t.is("cast") && p.peekAt(1).is("("):
		return p.castValue()
	case t.kind == tokenWord:
		return p.typedValue()
	}
	return Value{}, p.errorf(t, "%s is no literal", t.describe())
}

// stringValue joins neighbouring strings, as Spark does.
func (p *parser) stringValue() Value {
	v := Value{Kind: KindString, Pos: p.peek().pos}
	for p.peek().kind == tokenString {
		v.Text += p.next().text
	}
	return v
}

// number reads a signed number; a suffix gives its type and is dropped.
func (p *parser) number() (Value, error) {
	first := p.peek()
	sign := ""
	for p.peek().is("-") || p.peek().is("+") {
		if p.next().is("-") {
			sign = map[string]string{"": "-", "-": ""}[sign]
		}
	}
	t := p.next()
	if t.kind != tokenNumber {
		return Value{}, p.errorf(t, "%s is no number", t.describe())
	}
	text := strings.ToUpper(t.text)
	kind := KindInteger
	if strings.ContainsAny(text, ".E") {
		kind = KindNumber
	}
	for _, suffix := range [...]string{"BD", "L", "S", "Y", "D", "F"} {
		cut, found := strings.CutSuffix(text, suffix)
		if !found {
			continue
		}
		whole := suffix == "L" || suffix == "S" || suffix == "Y"
		if whole && kind != KindInteger {
			return Value{}, p.errorf(t, "%q is no whole number", t.text)
		}
		if text = cut; !whole {
			kind = KindNumber
		}
		break
	}
	if _, ok := new(big.Rat).SetString(text); !ok || len(text) > 400 || strings.ContainsAny(text, "_/XPOB") || bigExponent(text) {
		return Value{}, p.errorf(t, "%q is no number", t.text)
	}
	return Value{Kind: kind, Text: sign + text, Pos: first.pos}, nil
}

// bigExponent bounds the exponent, so that nobody can ask for a number of a billion digits.
func bigExponent(text string) bool {
	_, exponent, found := strings.Cut(text, "E")
	if !found {
		return false
	}
	n, err := strconv.Atoi(exponent)
	return err != nil || n > 400 || n < -400
}

func (p *parser) mapValue() (Value, error) {
	v := Value{Kind: KindMap, Pos: p.next().pos}
	items, err := p.list()
	if err != nil {
		return Value{}, err
	}
	if len(items)%2 != 0 {
		return Value{}, p.errorAtPos(v.Pos, "map(...) has %d parts: want pairs of key and value", len(items))
	}
	for i := 0; i < len(items); i += 2 {
		v.Entries = append(v.Entries, Entry{items[i], items[i+1]})
	}
	return v, nil
}

func (p *parser) arrayValue() (Value, error) {
	v := Value{Kind: KindArray, Pos: p.next().pos}
	var err error
	v.Items, err = p.list()
	return v, err
}

// list reads "(" scalar, ... ")".
func (p *parser) list() ([]Value, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var items []Value
	if p.accept(")") {
		return items, nil
	}
	for {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		if v.Kind == KindMap || v.Kind == KindArray {
			return nil, p.errorAtPos(v.Pos, "maps and arrays do not nest here")
		}
		items = append(items, v)
		if !p.accept(",") {
			return items, p.expect(")")
		}
	}
}

// typeKinds maps type names before a string (TIMESTAMP '...') and in a cast.
func typeKind(name string) (Kind, bool) {
	kind, ok := map[string]Kind{
		"TIMESTAMP": KindTimestamp, "TIMESTAMP_NTZ": KindTimestamp, "TIMESTAMP_LTZ": KindTimestamp, "TO_TIMESTAMP": KindTimestamp,
		"DATE": KindDate, "TO_DATE": KindDate, "X": KindBinary,
	}[strings.ToUpper(name)]
	return kind, ok
}

// typedValue reads TIMESTAMP '...', DATE'...', X'..', and timestamp('...'), to_timestamp('...'), date('...'), to_date('...').
func (p *parser) typedValue() (Value, error) {
	t := p.peek()
	kind, ok := typeKind(t.text)
	call := p.peekAt(1).is("(") && p.peekAt(2).kind == tokenString && kind != KindBinary
	if !ok || !call && (p.peekAt(1).kind != tokenString || strings.HasPrefix(strings.ToUpper(t.text), "TO_")) {
		return Value{}, p.errorf(t, "%s is no literal", t.describe())
	}
	p.next()
	if call {
		p.next()
	}
	v := p.stringValue()
	if call {
		if err := p.expect(")"); err != nil {
			return Value{}, err
		}
	}
	return p.typed(v, kind, t)
}

// castValue reads CAST(literal AS type) for dates, timestamps and strings.
func (p *parser) castValue() (Value, error) {
	first := p.next()
	p.next()
	v, err := p.value()
	if err != nil {
		return Value{}, err
	}
	if err := p.expect("as"); err != nil {
		return Value{}, err
	}
	t := p.next()
	if err := p.expect(")"); err != nil {
		return Value{}, err
	}
	v.Pos = first.pos
	if kind, ok := typeKind(t.text); ok && kind != KindBinary {
		return p.typed(v, kind, t)
	}
	switch strings.ToUpper(t.text) {
	case "STRING":
		return Value{Kind: KindString, Text: v.Text, Pos: v.Pos}, nil
	case "INT", "INTEGER", "BIGINT", "LONG", "SMALLINT", "TINYINT":
		if _, ok := new(big.Int).SetString(v.Text, 10); ok {
			return Value{Kind: KindInteger, Text: v.Text, Pos: v.Pos}, nil
		}
	}
	return Value{}, p.errorf(t, "a cast of %s to %s is not supported", v.Kind, t.text)
}

func (p *parser) typed(v Value, kind Kind, at token) (Value, error) {
	var err error
	switch kind {
	case KindTimestamp:
		_, err = ParseTimestamp(v.Text)
	case KindDate:
		_, err = ParseDate(v.Text)
	default:
		var data []byte
		if len(v.Text)%2 == 1 {
			v.Text = "0" + v.Text
		}
		data, err = hex.DecodeString(v.Text)
		v.Text = string(data)
	}
	if err != nil {
		return Value{}, p.errorf(at, "%s", err)
	}
	v.Kind, v.Pos = kind, at.pos
	return v, nil
}
