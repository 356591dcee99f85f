package jsonata

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/blues/jsonata-go/jparse"
)

// function is one entry of the table. kinds holds one letter an argument, as in the reference's signatures: x anything, a array
// (a scalar becomes an array of one), n number, s string, o object, b boolean. An undefined argument where x is not asked for
// makes the result undefined, unless the function sees undefined itself.
type function struct {
	minArgs, maxArgs int
	kinds            string
	seesUndefined    bool
	call             func(args []any) (any, error)
}

func (f function) arity() string {
	if f.minArgs == f.maxArgs {
		return fmt.Sprintf("%d arguments", f.minArgs)
	}
	return fmt.Sprintf("%d to %d arguments", f.minArgs, f.maxArgs)
}

// lookupFunction is the table of functions, by name without $.
func lookupFunction(name string) (function, bool) {
	for _, family := range []func(string) (function, bool){generalFunction, aggregateFunction, textFunction, stepFunction} {
		if f, ok := family(name); ok {
			return f, true
		}
	}
	return function{}, false
}

// generalFunction holds conversions, tests and functions on arrays and objects.
func generalFunction(name string) (function, bool) {
	switch name {
	case "exists":
		return function{1, 1, "x", true, func(a []any) (any, error) { return !isUndefined(a[0]), nil }}, true
	case "boolean":
		return function{1, 1, "x", false, func(a []any) (any, error) { return truthy(a[0]), nil }}, true
	case "not":
		return function{1, 1, "x", false, func(a []any) (any, error) { return !truthy(a[0]), nil }}, true
	case "string":
		return function{1, 1, "x", false, func(a []any) (any, error) { return textOf(a[0]) }}, true
	case "number":
		return function{1, 1, "x", false, toNumber}, true
	case "type":
		return function{1, 1, "x", false, func(a []any) (any, error) { return typeOf(a[0]), nil }}, true
	case "append":
		return function{2, 2, "xx", true, appendArrays}, true
	case "merge":
		return function{1, 1, "a", false, merge}, true
	case "keys":
		return function{1, 1, "x", false, keys}, true
	case "lookup":
		return function{2, 2, "xs", false, func(a []any) (any, error) { return field(a[0], a[1].(string)), nil }}, true
	case "reverse":
		return function{1, 1, "a", false, reverse}, true
	default:
		return function{}, false
	}
}

// aggregateFunction holds functions on numbers.
func aggregateFunction(name string) (function, bool) {
	one := func(f func(float64) float64) (function, bool) {
		return function{1, 1, "n", false, func(a []any) (any, error) { return f(a[0].(float64)), nil }}, true
	}
	switch name {
	case "count":
		return function{1, 1, "a", true, count}, true
	case "sum":
		return function{1, 1, "a", false, fold(func(a, b float64) float64 { return a + b }, true)}, true
	case "max":
		return function{1, 1, "a", false, fold(math.Max, false)}, true
	case "min":
		return function{1, 1, "a", false, fold(math.Min, false)}, true
	case "abs":
		return one(math.Abs)
	case "floor":
		return one(math.Floor)
	case "ceil":
		return one(math.Ceil)
	default:
		return function{}, false
	}
}

// evalCall checks the arguments against the table and calls.
func (e evaluator) evalCall(n *jparse.FunctionCallNode, input any) (any, error) {
	v, ok := n.Func.(*jparse.VariableNode)
	if !ok {
		return nil, errors.New("call of something without a name")
	}
	f, ok := lookupFunction(v.Name)
	if !ok {
		return nil, fmt.Errorf("function $%s is unknown", v.Name)
	}
	args := make([]any, len(n.Args))
	for i, node := range n.Args {
		arg, err := e.eval(node, input)
		if err != nil {
			return nil, err
		}
		if args[i], err = coerce(arg, f.kinds[i]); err != nil {
			return nil, fmt.Errorf("argument %d of $%s: %w", i+1, v.Name, err)
		}
	}
	if !f.seesUndefined {
		if slices.ContainsFunc(args, isUndefined) {
			return undefined{}, nil
		}
	}
	r, err := f.call(args)
	if err != nil {
		return nil, fmt.Errorf("$%s: %w", v.Name, err)
	}
	return r, nil
}

// coerce checks the kind of an argument. A scalar where an array is asked for becomes an array of one.
func coerce(v any, kind byte) (any, error) {
	if isUndefined(v) || kind == 'x' {
		return v, nil
	}
	want := map[byte]string{'a': "array", 'n': "number", 's': "string", 'o': "object", 'b': "boolean"}[kind]
	if typeOf(v) == want && !isUnsafe(v) {
		return v, nil
	}
	switch {
	case isUnsafe(v) && kind == 'n':
		return nil, fmt.Errorf("%v: %w", v, ErrUnsafeInteger)
	case kind == 'a':
		return NewArray(v), nil
	default:
		return nil, fmt.Errorf("want %s, got %s", want, typeOf(v))
	}
}

func count(args []any) (any, error) {
	a, ok := args[0].(*Array)
	if !ok {
		return 0.0, nil
	}
	return float64(len(a.Items)), nil
}

// fold reduces an array of numbers. The sum of none is 0, of the others undefined.
func fold(step func(a, b float64) float64, zero bool) func([]any) (any, error) {
	return func(args []any) (any, error) {
		a, ok := args[0].(*Array)
		if !ok || (len(a.Items) == 0 && !zero) {
			return undefined{}, nil
		}
		var total float64
		for i, item := range a.Items {
			v, err := coerce(item, 'n')
			if err != nil {
				return nil, fmt.Errorf("item %d: %w", i, err)
			}
			f, ok := v.(float64)
			switch {
			case !ok:
				return nil, fmt.Errorf("item %d is undefined", i)
			case i == 0:
				total = f
			default:
				total = step(total, f)
			}
		}
		if math.IsInf(total, 0) {
			return nil, errors.New("number is out of range")
		}
		return total, nil
	}
}

func appendArrays(args []any) (any, error) {
	if isUndefined(args[0]) {
		return args[1], nil
	}
	if isUndefined(args[1]) {
		return args[0], nil
	}
	out := &Array{}
	for _, arg := range args {
		if a, ok := arg.(*Array); ok {
			out.Items = append(out.Items, a.Items...)
			continue
		}
		out.Items = append(out.Items, arg)
	}
	return out, nil
}

func merge(args []any) (any, error) {
	out := NewObject(8)
	a, ok := args[0].(*Array)
	if !ok {
		return undefined{}, nil
	}
	for i, item := range a.Items {
		o, ok := item.(*Object)
		if !ok {
			return nil, fmt.Errorf("item %d must be an object, it is %s", i, typeOf(item))
		}
		for _, key := range o.keys {
			out.Set(key, o.values[key])
		}
	}
	return out, nil
}

func keys(args []any) (any, error) {
	out := sequenceOf()
	seen := map[string]bool{}
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case *Array:
			for _, item := range v.Items {
				collect(item)
			}
		case *Object:
			for _, key := range v.keys {
				if !seen[key] {
					seen[key] = true
					out.Items = append(out.Items, key)
				}
			}
		}
	}
	collect(args[0])
	if len(out.Items) == 0 {
		return undefined{}, nil
	}
	if len(out.Items) == 1 {
		return out.Items[0], nil
	}
	return out, nil
}

func reverse(args []any) (any, error) {
	a, ok := args[0].(*Array)
	if !ok {
		return undefined{}, nil
	}
	out := &Array{Items: make([]any, len(a.Items))}
	for i, item := range a.Items {
		out.Items[len(a.Items)-1-i] = item
	}
	return out, nil
}
