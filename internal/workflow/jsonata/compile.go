package jsonata

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blues/jsonata-go/jparse"
)

// maxSource bounds an expression's text in bytes, so that the recursive parser cannot exhaust the stack.
const maxSource = 16 << 10

// Expr is a compiled expression. It may be evaluated by many goroutines at once.
type Expr struct {
	source string
	node   jparse.Node
	refs   []Reference
}

// Reference is a use of a variable: its name without $, and the fields named directly after it ($states.input.id gives
// "states" and ["input" "id"]).
type Reference struct {
	Variable string
	Fields   []string
}

// String returns the reference as it is written.
func (r Reference) String() string {
	return "$" + strings.Join(append([]string{r.Variable}, r.Fields...), ".")
}

// Compile parses an expression and refuses whatever lies outside the subset. All faults are reported at once.
func Compile(source string) (*Expr, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("expression has %d bytes, at most %d are allowed", len(source), maxSource)
	}
	node, err := parse(source)
	if err != nil {
		return nil, err
	}
	c := checker{}
	c.check(node, false, 0)
	if err := errors.Join(c.faults...); err != nil {
		return nil, err
	}
	return &Expr{source: source, node: node, refs: c.refs}, nil
}

// parse calls the library's parser, which panics on some malformed texts.
func parse(source string) (node jparse.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			node, err = nil, fmt.Errorf("parse expression %q: %v", source, r)
		}
	}()
	node, err = jparse.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("parse expression %q: %w", source, err)
	}
	return node, nil
}

// String returns the expression's text.
func (e *Expr) String() string { return e.source }

// References lists the variables that the expression uses, in order of appearance.
func (e *Expr) References() []Reference { return slices.Clone(e.refs) }

// checker walks a tree once and collects faults and references.
type checker struct {
	faults []error
	refs   []Reference
}

func (c *checker) refuse(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

// check refuses node types outside the subset. scoped says whether a context (a step before, or an item of a predicate) exists.
func (c *checker) check(node jparse.Node, scoped bool, depth int) {
	if depth++; depth > maxDepth {
		c.refuse("expression is nested deeper than %d", maxDepth)
		return
	}
	switch n := node.(type) {
	case *jparse.StringNode, *jparse.NumberNode, *jparse.BooleanNode, *jparse.NullNode:
	case *jparse.VariableNode:
		c.checkVariable(n, nil, scoped)
	case *jparse.PathNode:
		c.checkPath(n, scoped, depth)
	case *jparse.PredicateNode:
		c.check(n.Expr, scoped, depth)
		c.checkAll(n.Filters, true, depth)
	case *jparse.ArrayNode:
		c.checkItems(n.Items, scoped, depth)
	case *jparse.ObjectNode:
		for _, pair := range n.Pairs {
			c.checkAll(pair[:], scoped, depth)
		}
	case *jparse.BlockNode:
		if len(n.Exprs) != 1 {
			c.refuse("block %s must hold one expression", n)
		}
		c.checkAll(n.Exprs, scoped, depth)
	case *jparse.NegationNode:
		c.check(n.RHS, scoped, depth)
	case *jparse.FunctionCallNode:
		c.checkCall(n, scoped, depth)
	default:
		c.checkOperator(node, scoped, depth)
	}
}

func (c *checker) checkOperator(node jparse.Node, scoped bool, depth int) {
	switch n := node.(type) {
	case *jparse.ConditionalNode:
		c.checkAll([]jparse.Node{n.If, n.Then}, scoped, depth)
		if n.Else != nil {
			c.check(n.Else, scoped, depth)
		}
	case *jparse.NumericOperatorNode:
		c.checkAll([]jparse.Node{n.LHS, n.RHS}, scoped, depth)
	case *jparse.ComparisonOperatorNode:
		c.checkAll([]jparse.Node{n.LHS, n.RHS}, scoped, depth)
	case *jparse.BooleanOperatorNode:
		c.checkAll([]jparse.Node{n.LHS, n.RHS}, scoped, depth)
	case *jparse.StringConcatenationNode:
		c.checkAll([]jparse.Node{n.LHS, n.RHS}, scoped, depth)
	default:
		c.refuse("%s is outside the subset (%s)", node, strings.TrimPrefix(fmt.Sprintf("%T", node), "*jparse."))
	}
}

func (c *checker) checkAll(nodes []jparse.Node, scoped bool, depth int) {
	for _, n := range nodes {
		c.check(n, scoped, depth)
	}
}

func (c *checker) checkItems(items []jparse.Node, scoped bool, depth int) {
	for _, item := range items {
		if r, ok := item.(*jparse.RangeNode); ok {
			c.checkAll([]jparse.Node{r.LHS, r.RHS}, scoped, depth)
			continue
		}
		c.check(item, scoped, depth)
	}
}

func (c *checker) checkVariable(n *jparse.VariableNode, fields []string, scoped bool) {
	switch {
	case n.Name == "$":
		c.refuse("$$ has no meaning in a state machine: begin with $states or a variable")
	case n.Name == "" && !scoped:
		c.refuse("$ has no context here: begin with $states or a variable")
	case n.Name != "":
		if _, ok := lookupFunction(n.Name); ok {
			c.refuse("function $%s used as a value is outside the subset", n.Name)
			return
		}
		c.refs = append(c.refs, Reference{Variable: n.Name, Fields: fields})
	}
}

func (c *checker) checkPath(p *jparse.PathNode, scoped bool, depth int) {
	if p.KeepArrays && len(p.Steps) == 1 && !endsWithName(p.Steps[0]) {
		c.refuse("%s: [] must follow a field name", p)
	}
	for i, step := range p.Steps {
		switch s := step.(type) {
		case *jparse.NameNode:
			if i == 0 && !scoped {
				c.refuse("field %s has no context here: begin with $states or a variable", s.Value)
			}
		case *jparse.VariableNode:
			c.checkVariable(s, following(p.Steps[i+1:]), scoped || i > 0)
		case *jparse.PredicateNode:
			c.checkPredicateStep(p, i, scoped, depth)
		case *jparse.StringNode, *jparse.NumberNode, *jparse.BooleanNode, *jparse.NullNode:
			c.refuse("literal %s used as a step of a path", s)
		default:
			c.check(step, scoped || i > 0, depth)
		}
	}
}

func (c *checker) checkPredicateStep(p *jparse.PathNode, i int, scoped bool, depth int) {
	n, ok := p.Steps[i].(*jparse.PredicateNode)
	if !ok {
		return
	}
	head := &jparse.PathNode{Steps: []jparse.Node{n.Expr}}
	c.checkPath(head, scoped || i > 0, depth)
	c.checkAll(n.Filters, true, depth)
}

func endsWithName(step jparse.Node) bool {
	switch s := step.(type) {
	case *jparse.NameNode:
		return true
	case *jparse.PredicateNode:
		return endsWithName(s.Expr)
	default:
		return false
	}
}

// following returns the plain field names at the start of the steps, a name with a predicate included.
func following(steps []jparse.Node) []string {
	var names []string
	for _, step := range steps {
		predicate, filtered := step.(*jparse.PredicateNode)
		if filtered {
			step = predicate.Expr
		}
		name, ok := step.(*jparse.NameNode)
		if !ok {
			break
		}
		names = append(names, name.Value)
		if filtered {
			break
		}
	}
	return names
}

func (c *checker) checkCall(n *jparse.FunctionCallNode, scoped bool, depth int) {
	c.checkAll(n.Args, scoped, depth)
	v, ok := n.Func.(*jparse.VariableNode)
	if !ok {
		c.refuse("call of %s: only functions with a name are in the subset", n.Func)
		return
	}
	f, ok := lookupFunction(v.Name)
	if !ok {
		c.refuse("function $%s %s", v.Name, whyNot(v.Name))
		return
	}
	if len(n.Args) < f.minArgs || len(n.Args) > f.maxArgs {
		c.refuse("function $%s takes %s, got %d", v.Name, f.arity(), len(n.Args))
	}
}

// whyNot explains the absence of a function.
func whyNot(name string) string {
	switch name {
	case "random", "uuid", "now", "millis", "shuffle":
		return "is refused: its answer differs from run to run; derive identity from the input"
	case "eval":
		return "is refused, as in Step Functions"
	default:
		return "is unknown or outside the subset"
	}
}
