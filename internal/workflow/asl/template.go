package asl

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"firn/internal/workflow/jsonata"
)

// Lookup gives the value of a variable by its name without $.
type Lookup func(name string) (any, bool)

// Template is a JSON value in which strings of the form {% ... %} are expressions.
type Template struct {
	// exactly one of the first four says what the value is made of
	expr   *jsonata.Expr
	object []member
	array  []*Template
	value  any // a literal

	field string // path inside the state, for messages
	kind  templateKind
}

type templateKind int

const (
	literal templateKind = iota
	expression
	object
	array
)

type member struct {
	name  string
	value *Template
}

// Eval evaluates the template. An expression that leads nowhere is an error that names its field.
func (t *Template) Eval(lookup Lookup) (any, error) {
	switch t.kind {
	case expression:
		v, err := t.expr.Eval(lookup)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.field, err)
		}
		return v, nil
	case object:
		out := jsonata.NewObject(len(t.object))
		for _, m := range t.object {
			v, err := m.value.Eval(lookup)
			if err != nil {
				return nil, err
			}
			out.Set(m.name, v)
		}
		return out, nil
	case array:
		items := make([]any, len(t.array))
		for i, item := range t.array {
			v, err := item.Eval(lookup)
			if err != nil {
				return nil, err
			}
			items[i] = v
		}
		return jsonata.NewArray(items...), nil
	default:
		return t.value, nil
	}
}

// Names lists the member names of an object template, else nothing.
func (t *Template) Names() []string {
	if t == nil {
		return nil
	}
	names := make([]string, len(t.object))
	for i, m := range t.object {
		names[i] = m.name
	}
	return names
}

// Literal returns the text of a member that is a plain string.
func (t *Template) Literal(name string) (string, bool) {
	m := t.member(name)
	if m == nil || m.kind != literal {
		return "", false
	}
	s, ok := m.value.(string)
	return s, ok
}

func (t *Template) member(name string) *Template {
	for _, m := range t.object {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// expressions calls visit for every expression.
func (t *Template) expressions(visit func(field string, e *jsonata.Expr)) {
	if t == nil {
		return
	}
	if t.expr != nil {
		visit(t.field, t.expr)
	}
	for _, m := range t.object {
		m.value.expressions(visit)
	}
	for _, item := range t.array {
		item.expressions(visit)
	}
}

// template compiles a decoded JSON value.
func (r *reader) template(v any, field string) *Template {
	t := &Template{field: field}
	switch v := v.(type) {
	case string:
		if source, ok := r.expressionIn(v, field); ok {
			t.kind, t.expr = expression, r.compile(source, field)
			if t.expr == nil { // a fault is recorded; keep the template usable for the other checks
				t.kind = literal
			}
			return t
		}
		t.value = v
	case *jsonata.Object:
		t.kind = object
		for _, key := range v.Keys() {
			value, _ := v.Lookup(key)
			t.object = append(t.object, member{key, r.template(value, join(field, key))})
		}
	case *jsonata.Array:
		t.kind = array
		for i, item := range v.Items {
			t.array = append(t.array, r.template(item, fmt.Sprintf("%s[%d]", field, i)))
		}
	default:
		t.value = v
	}
	return t
}

// expressionIn returns the text between {% and %}. Half a pair, or space around it, is a fault: AWS would take the text literally.
func (r *reader) expressionIn(s, field string) (string, bool) {
	opens, closes := strings.HasPrefix(s, "{%"), strings.HasSuffix(s, "%}")
	switch trimmed := strings.TrimSpace(s); {
	case opens && closes && len(s) >= 4:
		return strings.TrimSpace(s[2 : len(s)-2]), true
	case strings.HasPrefix(trimmed, "{%") || strings.HasSuffix(trimmed, "%}"):
		r.fault(field, "expression must begin with {%% and end with %%}, without space around them: %q", s)
	}
	return "", false
}

func (r *reader) compile(source, field string) *jsonata.Expr {
	e, err := jsonata.Compile(source)
	if err == nil {
		return e
	}
	for _, fault := range unjoin(err) {
		r.fault(field, "%v", fault)
	}
	return nil
}

// unjoin splits an error of errors.Join.
func unjoin(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}

// Number is a number that is written, or the result of an expression.
type Number struct {
	literal float64
	expr    *jsonata.Expr
	field   string
	bounds  bounds
}

// bounds are the values that a number may have, both included; whole excludes fractions.
type bounds struct {
	min, max float64
	whole    bool
}

func (b bounds) check(f float64) error {
	switch {
	case b.whole && f != math.Trunc(f):
		return fmt.Errorf("%s is no integer", formatFloat(f))
	case f < b.min || f > b.max:
		return fmt.Errorf("%s is outside %s to %s", formatFloat(f), formatFloat(b.min), formatFloat(b.max))
	default:
		return nil
	}
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Eval returns the value, which lies inside the field's bounds.
func (n *Number) Eval(lookup Lookup) (float64, error) {
	if n.expr == nil {
		return n.literal, nil
	}
	v, err := n.expr.Eval(lookup)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", n.field, err)
	}
	f, ok := v.(float64)
	if !ok {
		return 0, fmt.Errorf("%s: want a number, the expression gave %T", n.field, v)
	}
	if err := n.bounds.check(f); err != nil {
		return 0, fmt.Errorf("%s: %w", n.field, err)
	}
	return f, nil
}

// Text is a string that is written, or the result of an expression.
type Text struct {
	literal string
	expr    *jsonata.Expr
	field   string
}

// Eval returns the text.
func (t *Text) Eval(lookup Lookup) (string, error) {
	if t.expr == nil {
		return t.literal, nil
	}
	v, err := t.expr.Eval(lookup)
	if err != nil {
		return "", fmt.Errorf("%s: %w", t.field, err)
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s: want a string, the expression gave %T", t.field, v)
	}
	return s, nil
}
