package jsonata

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/blues/jsonata-go/jparse"
)

// field is the value of a name step. Over an array it is the flattened sequence of the items' fields.
func field(input any, name string) any {
	switch v := input.(type) {
	case *Object:
		if m, ok := v.Lookup(name); ok {
			return m
		}
	case *Array:
		out := sequenceOf()
		for _, item := range v.Items {
			switch m := field(item, name).(type) {
			case undefined:
			case *Array:
				out.Items = append(out.Items, m.Items...)
			default:
				out.Items = append(out.Items, m)
			}
		}
		return out
	}
	return undefined{}
}

// evalPath evaluates the steps one after the other, each over all results of the one before.
func (e evaluator) evalPath(n *jparse.PathNode, input any) (any, error) {
	current, ok := input.(*Array)
	if !ok || startsWithVariable(n.Steps[0]) {
		current = sequenceOf(input)
	}
	last := len(n.Steps) - 1
	for i, step := range n.Steps {
		next, err := e.evalStep(step, current, i, last)
		if err != nil {
			return nil, err
		}
		if current = next; len(current.Items) == 0 {
			return current, nil // an empty array in the data stays one, an empty sequence becomes undefined
		}
	}
	if n.KeepArrays {
		if current.cons && !current.sequence {
			current = sequenceOf(current)
		}
		return &Array{Items: current.Items, sequence: current.sequence, cons: current.cons, keep: true}, nil
	}
	return current, nil
}

func startsWithVariable(step jparse.Node) bool {
	if p, ok := step.(*jparse.PredicateNode); ok {
		step = p.Expr
	}
	_, ok := step.(*jparse.VariableNode)
	return ok
}

func (e evaluator) evalStep(step jparse.Node, input *Array, i, last int) (*Array, error) {
	constructor, isArray := step.(*jparse.ArrayNode)
	if isArray && i == 0 { // not iterated over the context
		v, err := e.evalArray(constructor, input)
		if err != nil {
			return nil, err
		}
		v.cons = true
		return v, nil
	}
	var results []any
	for _, item := range input.Items {
		v, err := e.evalStepItem(step, item)
		if err != nil {
			return nil, err
		}
		if a, ok := v.(*Array); ok && isArray && i == last {
			a.cons = true
		}
		if !isUndefined(v) {
			results = append(results, v)
		}
	}
	if i == last && len(results) == 1 {
		if a, ok := results[0].(*Array); ok && !a.sequence {
			return a, nil
		}
	}
	return flatten(results), nil
}

// evalStepItem evaluates a step for one item; a predicate keeps its sequence, so that the path flattens it.
func (e evaluator) evalStepItem(step jparse.Node, item any) (any, error) {
	if p, ok := step.(*jparse.PredicateNode); ok {
		return e.evalPredicate(p, item)
	}
	return e.eval(step, item)
}

// flatten joins the results of a step into one sequence.
func flatten(results []any) *Array {
	out := sequenceOf()
	for _, v := range results {
		if a, ok := v.(*Array); ok && !a.cons {
			out.Items = append(out.Items, a.Items...)
			continue
		}
		out.Items = append(out.Items, v)
	}
	return out
}

func (e evaluator) evalPredicate(n *jparse.PredicateNode, input any) (any, error) {
	v, err := e.eval(n.Expr, input)
	if err != nil {
		return nil, err
	}
	for _, filter := range n.Filters {
		if isUndefined(v) {
			return v, nil
		}
		list, ok := v.(*Array)
		if !ok {
			list = sequenceOf(v)
		}
		if v, err = e.filter(filter, list); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// filter keeps the items at an index, at the indexes of an array, or those for which the predicate holds.
func (e evaluator) filter(predicate jparse.Node, list *Array) (*Array, error) {
	out := sequenceOf()
	if n, ok := predicate.(*jparse.NumberNode); ok {
		i := index(n.Value, len(list.Items))
		if i < 0 || i >= len(list.Items) {
			return out, nil
		}
		if a, ok := list.Items[i].(*Array); ok {
			return a, nil
		}
		out.Items = append(out.Items, list.Items[i])
		return out, nil
	}
	for i, item := range list.Items {
		v, err := e.eval(predicate, item)
		if err != nil {
			return nil, err
		}
		indexes, ok := asIndexes(v)
		if !ok {
			if truthy(v) {
				out.Items = append(out.Items, item)
			}
			continue
		}
		for _, f := range indexes {
			if index(f, len(list.Items)) == i {
				out.Items = append(out.Items, item)
			}
		}
	}
	return out, nil
}

// index turns a JSONata index into a Go one: rounded down, negative from the end.
func index(f float64, n int) int {
	f = math.Floor(f)
	if f < 0 {
		f += float64(n)
	}
	if f < 0 || f >= float64(n) {
		return -1
	}
	return int(f)
}

// asIndexes returns the numbers of a number or of an array of numbers. An empty array selects nothing.
func asIndexes(v any) ([]float64, bool) {
	if f, ok := v.(float64); ok {
		return []float64{f}, true
	}
	a, ok := v.(*Array)
	if !ok {
		return nil, false
	}
	out := make([]float64, 0, len(a.Items))
	for _, item := range a.Items {
		f, ok := item.(float64)
		if !ok {
			return nil, false
		}
		out = append(out, f)
	}
	return out, true
}

// evalArray builds an array: undefined items vanish, arrays other than written ones are spliced in.
func (e evaluator) evalArray(n *jparse.ArrayNode, input any) (*Array, error) {
	out := &Array{Items: make([]any, 0, len(n.Items))}
	for _, node := range n.Items {
		if r, ok := node.(*jparse.RangeNode); ok {
			items, err := e.evalRange(r, input)
			if err != nil {
				return nil, err
			}
			out.Items = append(out.Items, items...)
			continue
		}
		v, err := e.eval(node, input)
		if err != nil {
			return nil, err
		}
		_, written := node.(*jparse.ArrayNode)
		switch a, ok := v.(*Array); {
		case isUndefined(v):
		case ok && !written:
			out.Items = append(out.Items, a.Items...)
		default:
			out.Items = append(out.Items, v)
		}
	}
	return out, nil
}

func (e evaluator) evalRange(n *jparse.RangeNode, input any) ([]any, error) {
	var bounds [2]float64
	for i, node := range []jparse.Node{n.LHS, n.RHS} {
		v, err := e.eval(node, input)
		if err != nil {
			return nil, err
		}
		if isUndefined(v) {
			return nil, nil
		}
		f, ok := v.(float64)
		if !ok || f != math.Trunc(f) {
			return nil, fmt.Errorf("range %s: bounds must be integers", n)
		}
		bounds[i] = f
	}
	if bounds[0] > bounds[1] {
		return nil, nil
	}
	if bounds[1]-bounds[0] >= maxRange {
		return nil, fmt.Errorf("range %s has more than %d items", n, maxRange)
	}
	items := make([]any, 0, int(bounds[1]-bounds[0])+1)
	for f := bounds[0]; f <= bounds[1]; f++ {
		items = append(items, f)
	}
	return items, nil
}

// evalObject builds an object. Over an array the reference groups the items by key; with literal keys that is one group that
// holds all items.
func (e evaluator) evalObject(n *jparse.ObjectNode, input any) (any, error) {
	list, ok := input.(*Array)
	if !ok || len(list.Items) == 0 {
		list = sequenceOf(input)
		if ok {
			list = sequenceOf(undefined{})
		}
	}
	groups, err := e.group(n, list)
	if err != nil {
		return nil, err
	}
	out := NewObject(len(groups))
	for _, g := range groups {
		var context any = &Array{Items: g.items}
		if len(g.items) == 1 {
			context = g.items[0]
		}
		v, err := e.eval(n.Pairs[g.pair][1], context)
		if err != nil {
			return nil, err
		}
		if !isUndefined(v) {
			out.Set(g.key, v)
		}
	}
	return out, nil
}

type group struct {
	key   string
	pair  int
	items []any
}

func (e evaluator) group(n *jparse.ObjectNode, list *Array) ([]*group, error) {
	var groups []*group
	byKey := make(map[string]*group, len(n.Pairs))
	for _, item := range list.Items {
		for i, pair := range n.Pairs {
			k, err := e.eval(pair[0], item)
			if err != nil {
				return nil, err
			}
			if isUndefined(k) {
				continue
			}
			key, ok := k.(string)
			if !ok {
				return nil, fmt.Errorf("key %s of an object must be a string, it is %s", pair[0], typeOf(k))
			}
			g := byKey[key]
			switch {
			case g == nil:
				g = &group{key: key, pair: i}
				byKey[key] = g
				groups = append(groups, g)
			case g.pair != i:
				return nil, fmt.Errorf("key %q of an object is given twice", key)
			}
			if a, ok := item.(*Array); ok && len(g.items) > 0 {
				g.items = append(g.items, a.Items...)
				continue
			}
			g.items = append(g.items, item)
		}
	}
	return groups, nil
}

// equal is deep equality; numbers that are not exact never get here as operands, inside structures they compare by text.
func equal(a, b any) bool {
	switch a := a.(type) {
	case *Array:
		b, ok := b.(*Array)
		if !ok || len(a.Items) != len(b.Items) {
			return false
		}
		for i := range a.Items {
			if !equal(a.Items[i], b.Items[i]) {
				return false
			}
		}
		return true
	case *Object:
		b, ok := b.(*Object)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for _, key := range a.keys {
			v, ok := b.Lookup(key)
			if !ok || !equal(a.values[key], v) {
				return false
			}
		}
		return true
	case json.Number:
		n, ok := b.(json.Number)
		return ok && n == a
	default:
		return a == b
	}
}
