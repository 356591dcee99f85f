package jsonata

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/blues/jsonata-go/jparse"
)

// ErrUndefined says that an expression led nowhere. AWS reports it as States.QueryEvaluationError.
var ErrUndefined = errors.New("returned nothing (undefined)")

// maxRange bounds [a..b] in items, as the reference engine does.
const maxRange = 10_000_000

// Eval evaluates the expression. lookup gives the value of a variable by its name without $; a variable that it does not know
// is undefined. The result is made of the types that Decode gives, without json.Number. Values that lookup returns are not
// changed.
func (e *Expr) Eval(lookup func(name string) (any, bool)) (any, error) {
	v, err := evaluator{lookup: lookup}.eval(e.node, undefined{})
	if err != nil {
		return nil, fmt.Errorf("evaluate %q: %w", e.source, err)
	}
	if isUndefined(v) {
		return nil, fmt.Errorf("evaluate %q: %w", e.source, ErrUndefined)
	}
	if v, err = settle(v); err != nil {
		return nil, fmt.Errorf("evaluate %q: %w", e.source, err)
	}
	return v, nil
}

type evaluator struct {
	lookup func(name string) (any, bool)
}

// eval evaluates a node and unwraps a sequence of one, or of none, as the reference engine does after every node.
func (e evaluator) eval(node jparse.Node, input any) (any, error) {
	v, err := e.evalNode(node, input)
	if err != nil {
		return nil, err
	}
	if a, ok := v.(*Array); ok && a.sequence {
		switch {
		case len(a.Items) == 0:
			return undefined{}, nil
		case len(a.Items) == 1 && !a.keep:
			return a.Items[0], nil
		}
	}
	return v, nil
}

func (e evaluator) evalNode(node jparse.Node, input any) (any, error) {
	switch n := node.(type) {
	case *jparse.StringNode:
		return n.Value, nil
	case *jparse.NumberNode:
		return n.Value, nil
	case *jparse.BooleanNode:
		return n.Value, nil
	case *jparse.NullNode:
		return nil, nil
	case *jparse.NameNode:
		return field(input, n.Value), nil
	case *jparse.VariableNode:
		return e.variable(n, input), nil
	case *jparse.PathNode:
		return e.evalPath(n, input)
	case *jparse.PredicateNode:
		return e.evalPredicate(n, input)
	case *jparse.ArrayNode:
		return e.evalArray(n, input)
	case *jparse.ObjectNode:
		return e.evalObject(n, input)
	case *jparse.BlockNode:
		return e.eval(n.Exprs[0], input)
	case *jparse.FunctionCallNode:
		return e.evalCall(n, input)
	default:
		return e.evalOperator(node, input)
	}
}

func (e evaluator) evalOperator(node jparse.Node, input any) (any, error) {
	switch n := node.(type) {
	case *jparse.ConditionalNode:
		return e.evalConditional(n, input)
	case *jparse.NegationNode:
		v, err := e.number(n.RHS, input)
		if f, ok := v.(float64); ok {
			return -f, nil
		}
		return v, err
	case *jparse.NumericOperatorNode:
		return e.evalNumeric(n, input)
	case *jparse.ComparisonOperatorNode:
		return e.evalComparison(n, input)
	case *jparse.BooleanOperatorNode:
		return e.evalBoolean(n, input)
	case *jparse.StringConcatenationNode:
		return e.evalConcat(n, input)
	default:
		return nil, fmt.Errorf("node %T is outside the subset", node)
	}
}

func (e evaluator) variable(n *jparse.VariableNode, input any) any {
	if n.Name == "" {
		return input
	}
	if v, ok := e.lookup(n.Name); ok {
		return v
	}
	return undefined{}
}

func (e evaluator) evalConditional(n *jparse.ConditionalNode, input any) (any, error) {
	v, err := e.eval(n.If, input)
	if err != nil {
		return nil, err
	}
	if truthy(v) {
		return e.eval(n.Then, input)
	}
	if n.Else == nil {
		return undefined{}, nil
	}
	return e.eval(n.Else, input)
}

// number evaluates an operand of arithmetic: a float64 or undefined.
func (e evaluator) number(node jparse.Node, input any) (any, error) {
	v, err := e.eval(node, input)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case float64, undefined:
		return v, nil
	case json.Number:
		return nil, fmt.Errorf("compute with %s: %w", v, ErrUnsafeInteger)
	default:
		return nil, fmt.Errorf("%s must be a number, it is %s", node, typeOf(v))
	}
}

func (e evaluator) evalNumeric(n *jparse.NumericOperatorNode, input any) (any, error) {
	left, err := e.number(n.LHS, input)
	if err != nil {
		return nil, err
	}
	right, err := e.number(n.RHS, input)
	if err != nil {
		return nil, err
	}
	a, okA := left.(float64)
	b, okB := right.(float64)
	if !okA || !okB {
		return undefined{}, nil
	}
	var r float64
	switch n.Type {
	case jparse.NumericAdd:
		r = a + b
	case jparse.NumericSubtract:
		r = a - b
	case jparse.NumericMultiply:
		r = a * b
	case jparse.NumericDivide:
		r = a / b
	case jparse.NumericModulo:
		r = math.Mod(a, b)
	default:
		return nil, fmt.Errorf("operator %s is outside the subset", n.Type)
	}
	if math.IsInf(r, 0) || math.IsNaN(r) {
		return nil, fmt.Errorf("%s: number is out of range", n)
	}
	return r, nil
}

func (e evaluator) evalBoolean(n *jparse.BooleanOperatorNode, input any) (any, error) {
	left, err := e.eval(n.LHS, input)
	if err != nil {
		return nil, err
	}
	if l := truthy(left); l == (n.Type == jparse.BooleanOr) {
		return l, nil
	}
	right, err := e.eval(n.RHS, input)
	if err != nil {
		return nil, err
	}
	return truthy(right), nil
}

func (e evaluator) evalConcat(n *jparse.StringConcatenationNode, input any) (any, error) {
	var text strings.Builder
	for _, side := range []jparse.Node{n.LHS, n.RHS} {
		v, err := e.eval(side, input)
		if err != nil {
			return nil, err
		}
		if isUndefined(v) {
			continue
		}
		s, err := toString(v)
		if err != nil {
			return nil, err
		}
		text.WriteString(s)
	}
	return text.String(), nil
}

func (e evaluator) evalComparison(n *jparse.ComparisonOperatorNode, input any) (any, error) {
	left, err := e.eval(n.LHS, input)
	if err != nil {
		return nil, err
	}
	right, err := e.eval(n.RHS, input)
	if err != nil {
		return nil, err
	}
	for _, v := range []any{left, right} {
		if i, ok := v.(json.Number); ok {
			return nil, fmt.Errorf("compare %s: %w", i, ErrUnsafeInteger)
		}
	}
	switch n.Type {
	case jparse.ComparisonEqual, jparse.ComparisonNotEqual:
		if isUndefined(left) || isUndefined(right) {
			return false, nil // for both operators
		}
		return equal(left, right) == (n.Type == jparse.ComparisonEqual), nil
	case jparse.ComparisonIn:
		return contains(left, right), nil
	default:
		return order(n, left, right)
	}
}

// contains is the operator "in": scalars only, since the reference compares arrays and objects by identity.
func contains(item, list any) bool {
	if isUndefined(item) || isUndefined(list) {
		return false
	}
	a, ok := list.(*Array)
	if !ok {
		a = sequenceOf(list)
	}
	for _, v := range a.Items {
		switch v.(type) {
		case *Array, *Object:
		default:
			if equal(v, item) {
				return true
			}
		}
	}
	return false
}

func order(n *jparse.ComparisonOperatorNode, left, right any) (any, error) {
	for _, v := range []any{left, right} {
		switch v.(type) {
		case float64, string, undefined:
		default:
			return nil, fmt.Errorf("%s: %s cannot be ordered, only numbers and strings", n, typeOf(v))
		}
	}
	if isUndefined(left) || isUndefined(right) {
		return undefined{}, nil
	}
	var c int
	switch l := left.(type) {
	case float64:
		r, ok := right.(float64)
		if !ok {
			return nil, fmt.Errorf("%s: a number and a string cannot be ordered", n)
		}
		c = compareNumbers(l, r)
	case string:
		r, ok := right.(string)
		if !ok {
			return nil, fmt.Errorf("%s: a string and a number cannot be ordered", n)
		}
		c = compareUTF16(l, r)
	}
	switch n.Type {
	case jparse.ComparisonLess:
		return c < 0, nil
	case jparse.ComparisonLessEqual:
		return c <= 0, nil
	case jparse.ComparisonGreater:
		return c > 0, nil
	default:
		return c >= 0, nil
	}
}
