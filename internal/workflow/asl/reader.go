package asl

import (
	"fmt"
	"slices"
	"strings"

	"firn/internal/workflow/jsonata"
)

// faults collects what is wrong with a definition.
type faults struct {
	list []Fault
}

// reader reads the fields of one JSON object of a definition and remembers which ones it knew.
type reader struct {
	faults *faults
	state  string // path of the state
	path   string // path of the object inside the state
	object *jsonata.Object
	known  []string
}

func (r *reader) fault(field, format string, args ...any) {
	r.faults.list = append(r.faults.list, Fault{State: r.state, Field: field, Problem: fmt.Sprintf(format, args...)})
}

// take returns a field and marks it as known.
func (r *reader) take(name string) (any, bool) {
	r.known = append(r.known, name)
	return r.object.Lookup(name)
}

// finish reports the fields that nobody took.
func (r *reader) finish(what string) {
	for _, key := range r.object.Keys() {
		if slices.Contains(r.known, key) {
			continue
		}
		r.fault(join(r.path, key), "%s", unknownField(key, what))
	}
}

// unknownField says why a field is refused.
func unknownField(key, what string) string {
	switch key {
	case "InputPath", "OutputPath", "ResultPath", "Parameters", "ResultSelector", "ItemsPath", "SecondsPath", "TimestampPath",
		"TimeoutSecondsPath", "ErrorPath", "CausePath", "MaxConcurrencyPath", "ToleratedFailureCountPath",
		"ToleratedFailurePercentagePath", "MaxItemsPath", "Variable", "Result":
		return fmt.Sprintf("field of JSONPath in a JSONata %s", what)
	case "HeartbeatSeconds", "Credentials", "Iterator", "Branches":
		return fmt.Sprintf("field is not supported in a %s", what)
	default:
		return fmt.Sprintf("unknown field in a %s", what)
	}
}

// child returns a reader of an object inside this one.
func (r *reader) child(v any, field string) (*reader, bool) {
	o, ok := v.(*jsonata.Object)
	if !ok {
		r.fault(field, "must be an object")
		return nil, false
	}
	return &reader{faults: r.faults, state: r.state, path: field, object: o}, true
}

func (r *reader) at(name string) string { return join(r.path, name) }

// text reads a plain string; required reports its absence.
func (r *reader) text(name string, required bool) string {
	v, ok := r.take(name)
	if !ok {
		if required {
			r.fault(r.at(name), "is missing")
		}
		return ""
	}
	s, ok := v.(string)
	if !ok || (required && s == "") {
		r.fault(r.at(name), "must be a string")
		return ""
	}
	if _, isExpr := r.expressionIn(s, r.at(name)); isExpr {
		r.fault(r.at(name), "must be a plain string, expressions are not evaluated here")
	}
	return s
}

// oneOf reads a plain string out of a list; the first value is the default.
func (r *reader) oneOf(name string, values ...string) string {
	if _, ok := r.object.Lookup(name); !ok {
		r.known = append(r.known, name)
		return values[0]
	}
	s := r.text(name, true)
	if s != "" && !slices.Contains(values, s) {
		r.fault(r.at(name), "%q is none of %s", s, strings.Join(values, ", "))
	}
	return s
}

func (r *reader) boolean(name string) bool {
	v, ok := r.take(name)
	if !ok {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		r.fault(r.at(name), "must be true or false")
	}
	return b
}

// number reads a number or an expression that gives one; nil when it is not written.
func (r *reader) number(name string, b bounds) *Number {
	v, ok := r.take(name)
	if !ok {
		return nil
	}
	n := &Number{field: r.at(name), bounds: b}
	if s, ok := v.(string); ok {
		source, isExpr := r.expressionIn(s, n.field)
		if !isExpr {
			r.fault(n.field, "must be a number or an expression")
			return n
		}
		n.expr = r.compile(source, n.field)
		return n
	}
	n.literal = r.checkNumber(v, n.field, b)
	return n
}

func (r *reader) checkNumber(v any, field string, b bounds) float64 {
	f, ok := v.(float64)
	if !ok {
		r.fault(field, "must be a number")
		return b.min
	}
	if err := b.check(f); err != nil {
		r.fault(field, "%v", err)
		return b.min
	}
	return f
}

// plainNumber reads a number that may not be an expression.
func (r *reader) plainNumber(name string, fallback float64, b bounds) float64 {
	v, ok := r.take(name)
	if !ok {
		return fallback
	}
	return r.checkNumber(v, r.at(name), b)
}

// textOrExpression reads a string or an expression; nil when it is not written.
func (r *reader) textOrExpression(name string) *Text {
	v, ok := r.take(name)
	if !ok {
		return nil
	}
	t := &Text{field: r.at(name)}
	s, ok := v.(string)
	if !ok {
		r.fault(t.field, "must be a string")
		return t
	}
	if source, isExpr := r.expressionIn(s, t.field); isExpr {
		t.expr = r.compile(source, t.field)
		return t
	}
	t.literal = s
	return t
}

// anyTemplate reads a template of any shape; nil when it is not written.
func (r *reader) anyTemplate(name string) *Template {
	v, ok := r.take(name)
	if !ok {
		return nil
	}
	return r.template(v, r.at(name))
}

// arguments reads Arguments: an object template with the given members only; required ones must be there.
func (r *reader) arguments(required, optional []string) *Template {
	const name = "Arguments"
	v, ok := r.take(name)
	if !ok {
		r.fault(r.at(name), "is missing")
		return &Template{kind: object}
	}
	o, ok := v.(*jsonata.Object)
	if !ok {
		r.fault(r.at(name), "must be an object, so that its fields can be checked")
		return &Template{kind: object}
	}
	for _, want := range required {
		if _, ok := o.Lookup(want); !ok {
			r.fault(join(r.at(name), want), "is missing")
		}
	}
	for _, key := range o.Keys() {
		if !slices.Contains(required, key) && !slices.Contains(optional, key) {
			r.fault(join(r.at(name), key), "unknown argument, known are %s", strings.Join(append(slices.Clone(required), optional...), ", "))
		}
	}
	return r.template(v, r.at(name))
}

// list reads an array of objects.
func (r *reader) list(name string, each func(*reader)) {
	v, ok := r.take(name)
	if !ok {
		return
	}
	a, ok := v.(*jsonata.Array)
	if !ok || len(a.Items) == 0 {
		r.fault(r.at(name), "must be a list of at least one object")
		return
	}
	for i, item := range a.Items {
		if c, ok := r.child(item, fmt.Sprintf("%s[%d]", r.at(name), i)); ok {
			each(c)
		}
	}
}
