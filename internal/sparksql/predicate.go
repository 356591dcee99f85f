package sparksql

import (
	"slices"
	"strconv"
	"strings"
)

// Op is the operation of a predicate.
type Op string

// The operations. Comparisons have a column and one value, In has a column and values, And, Or and Not have arguments.
const (
	OpAnd          Op = "and"
	OpOr           Op = "or"
	OpNot          Op = "not"
	OpEqual        Op = "="
	OpNullSafe     Op = "<=>"
	OpNotEqual     Op = "!="
	OpLess         Op = "<"
	OpLessEqual    Op = "<="
	OpGreater      Op = ">"
	OpGreaterEqual Op = ">="
	OpIn           Op = "in"
	OpStartsWith   Op = "starts with"
	OpIsNull       Op = "is null"
	// OpIsTrue is a column that stands alone.
	OpIsTrue Op = "is true"
	// OpConstant is a literal TRUE, FALSE or NULL: its one value.
	OpConstant Op = "constant"
)

// Predicate is a node of a condition.
type Predicate struct {
	Op     Op
	Args   []*Predicate
	Column Column
	Values []Value
	// Pos is the byte offset in the text.
	Pos int
}

// Column is a reference to a column or a field inside a struct.
type Column struct {
	// Parts is the path; Pos its byte offset.
	Parts []string
	Pos   int
	// Transform is the partition transform whose result is meant, spelled as in metadata ("bucket[16]", "day"); "" for the column itself.
	Transform string
}

// String joins the parts with dots, inside of the transform.
func (c Column) String() string {
	if c.Transform != "" {
		return c.Transform + "(" + strings.Join(c.Parts, ".") + ")"
	}
	return strings.Join(c.Parts, ".")
}

// maxDepth bounds the nesting of a condition: the parser and everything behind it recurse.
const maxDepth = 200

// ParsePredicate reads a condition as it stands in a where argument. What no file filter can express (a function or arithmetic over a column, a
// comparison of two columns, a pattern that is more than a prefix) is a *SyntaxError that names the column.
func ParsePredicate(text string) (*Predicate, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, tokens: tokens}
	x, err := p.or()
	if err != nil {
		return nil, err
	}
	p.accept(";")
	if t := p.peek(); t.kind != tokenEnd {
		return nil, p.errorf(t, "%s does not belong behind the condition", t.describe())
	}
	return p.condition(x)
}

// ErrorAt makes the error of a caller that finds a fault in a predicate of text, at a node's or column's Pos.
func ErrorAt(text string, pos int, format string, args ...any) error {
	return errorAt(text, pos, format, args...)
}

// operand is a parsed part of a condition: a predicate, a column or a value.
type operand struct {
	predicate *Predicate
	column    *Column
	value     *Value
	pos       int
}

// condition turns a lone column or value into a predicate.
func (p *parser) condition(x operand) (*Predicate, error) {
	switch {
	case x.predicate != nil:
		return x.predicate, nil
	case x.column != nil:
		return &Predicate{Op: OpIsTrue, Column: *x.column, Pos: x.pos}, nil
	case x.value.Kind == KindBoolean || x.value.Kind == KindNull:
		return &Predicate{Op: OpConstant, Values: []Value{*x.value}, Pos: x.pos}, nil
	}
	return nil, p.errorAtPos(x.pos, "%s is no condition", x.value.Kind)
}

func (p *parser) or() (operand, error) { return p.chain("or", OpOr, (*parser).and) }

func (p *parser) and() (operand, error) { return p.chain("and", OpAnd, (*parser).not) }

// chain reads part {word part}.
func (p *parser) chain(word string, op Op, part func(*parser) (operand, error)) (operand, error) {
	first, err := part(p)
	if err != nil || !p.peek().is(word) {
		return first, err
	}
	node := &Predicate{Op: op, Pos: first.pos}
	for x := first; ; {
		arg, err := p.condition(x)
		if err != nil {
			return operand{}, err
		}
		node.Args = append(node.Args, arg)
		if !p.accept(word) {
			return operand{predicate: node, pos: first.pos}, nil
		}
		if x, err = part(p); err != nil {
			return operand{}, err
		}
	}
}

func (p *parser) not() (operand, error) {
	if p.depth++; p.depth > maxDepth {
		return operand{}, p.errorf(p.peek(), "the condition nests deeper than %d levels", maxDepth)
	}
	defer func() { p.depth-- }()
	t := p.peek()
	if !p.accept("not") && !p.accept("!") {
		return p.comparison()
	}
	x, err := p.not()
	if err != nil {
		return operand{}, err
	}
	arg, err := p.condition(x)
	return operand{predicate: negate(arg), pos: t.pos}, err
}

func negate(arg *Predicate) *Predicate {
	if arg == nil {
		return nil
	}
	return &Predicate{Op: OpNot, Args: []*Predicate{arg}, Pos: arg.Pos}
}

func (p *parser) comparison() (operand, error) {
	left, err := p.primary()
	if err != nil {
		return operand{}, err
	}
	t := p.peek()
	if op, ok := comparisonOf(t); ok {
		p.next()
		right, err := p.primary()
		if err != nil {
			return operand{}, err
		}
		return p.compare(op, left, right)
	}
	negated := t.is("not") && slices.ContainsFunc([]string{"in", "between", "like", "rlike", "ilike"}, p.peekAt(1).is)
	if negated {
		p.next()
		t = p.peek()
	}
	var node *Predicate
	switch {
	case t.is("in"):
		node, err = p.in(left)
	case t.is("between"):
		node, err = p.between(left)
	case t.is("like"):
		node, err = p.like(left)
	case t.is("is"):
		node, err = p.isNull(left)
	case t.is("rlike") || t.is("ilike") || t.is("regexp"):
		return operand{}, p.untranslatable(left, strings.ToUpper(t.text))
	case t.kind == tokenSymbol && slices.Contains([]string{"+", "-", "*", "/", "%", "||", "::", "["}, t.text):
		return operand{}, p.untranslatable(left, "the operator "+t.text)
	default:
		return left, nil
	}
	if err != nil {
		return operand{}, err
	}
	if negated {
		node = negate(node)
	}
	return operand{predicate: node, pos: left.pos}, nil
}

func comparisonOf(t token) (Op, bool) {
	if t.kind != tokenSymbol {
		return "", false
	}
	switch t.text {
	case "=", "==":
		return OpEqual, true
	case "<=>", "<", "<=", ">", ">=":
		return Op(t.text), true
	case "!=", "<>":
		return OpNotEqual, true
	}
	return "", false
}

// compare puts the column to the left.
func (p *parser) compare(op Op, left, right operand) (operand, error) {
	flipped := map[Op]Op{OpLess: OpGreater, OpLessEqual: OpGreaterEqual, OpGreater: OpLess, OpGreaterEqual: OpLessEqual}
	if left.column == nil && right.column != nil {
		left.column, left.value, right.column, right.value = right.column, nil, nil, left.value
		if f, ok := flipped[op]; ok {
			op = f
		}
	}
	if left.value != nil && right.value != nil {
		if v, ok := constant(op, *left.value, *right.value); ok {
			return operand{value: &v, pos: left.pos}, nil
		}
	}
	if left.column == nil || right.value == nil {
		what := "a comparison of two columns"
		if left.predicate != nil || right.predicate != nil {
			what = "a comparison of conditions"
		} else if left.value != nil {
			what = "a comparison of two values"
		}
		return operand{}, p.untranslatable(left, what)
	}
	if t := p.peek(); t.kind == tokenSymbol && strings.Contains("+-*/%", t.text) {
		return operand{}, p.untranslatable(left, "the operator "+t.text)
	}
	return operand{predicate: &Predicate{Op: op, Column: *left.column, Values: []Value{*right.value}, Pos: left.pos}, pos: left.pos}, nil
}

// untranslatable says that a condition cannot be turned into a filter on files, and names the column.
func (p *parser) untranslatable(x operand, what string) error {
	column := ""
	if x.column != nil {
		column = " over column " + x.column.String()
	}
	return p.errorAtPos(x.pos, "%s%s cannot be translated into a filter on files", what, column)
}

func (p *parser) primary() (operand, error) {
	t := p.peek()
	switch {
	case t.is("("):
		p.next()
		x, err := p.or()
		if err != nil {
			return operand{}, err
		}
		return x, p.expect(")")
	case t.kind == tokenWord && p.peekAt(1).is("("):
		return p.function()
	case t.kind == tokenQuotedWord, t.kind == tokenWord && !p.startsLiteral(t):
		if slices.ContainsFunc([]string{"and", "or", "not", "in", "between", "like", "is", "rlike", "ilike"}, t.is) {
			return operand{}, p.errorf(t, "want a column or a value instead of %s", t.describe())
		}
		parts, err := p.identifier()
		if err != nil {
			return operand{}, err
		}
		if p.peek().is("(") {
			return p.systemFunction(t, parts)
		}
		return operand{column: &Column{Parts: parts, Pos: t.pos}, pos: t.pos}, nil
	case t.kind == tokenEnd || t.kind == tokenSymbol && !t.is("-") && !t.is("+"):
		return operand{}, p.errorf(t, "want a column or a value instead of %s", t.describe())
	}
	v, err := p.value()
	return operand{value: &v, pos: t.pos}, err
}

func (p *parser) startsLiteral(t token) bool {
	if slices.ContainsFunc([]string{"true", "false", "null", "current_timestamp", "current_date"}, t.is) {
		return true
	}
	_, typed := typeKind(t.text)
	return typed && p.peekAt(1).kind == tokenString
}

// function reads startswith(column, 'prefix') and functions of literals only; every other one cannot become a filter on files.
func (p *parser) function() (operand, error) {
	t := p.peek()
	start := p.at
	if t.is("startswith") {
		p.next()
		p.next()
		x, err := p.primary()
		if err != nil {
			return operand{}, err
		}
		if x.column != nil && p.accept(",") && p.peek().kind == tokenString {
			v := p.stringValue()
			node := &Predicate{Op: OpStartsWith, Column: *x.column, Values: []Value{v}, Pos: t.pos}
			return operand{predicate: node, pos: t.pos}, p.expect(")")
		}
	} else if v, err := p.value(); err == nil {
		return operand{value: &v, pos: t.pos}, nil
	}
	p.at = start + 1
	x := operand{pos: t.pos}
	for depth := 0; p.peek().kind != tokenEnd; p.next() {
		inner := p.peek()
		if inner.is("(") {
			depth++
		}
		if inner.is(")") {
			if depth--; depth == 0 {
				break
			}
		}
		if x.column == nil && (inner.kind == tokenQuotedWord || inner.kind == tokenWord && !p.peekAt(1).is("(")) {
			x.column = &Column{Parts: []string{inner.text}, Pos: inner.pos}
		}
	}
	return operand{}, p.untranslatable(x, "the function "+t.text)
}

// systemFunction reads a function of Iceberg's catalogs over a column: system.bucket(16, id), lake.system.days(ts). These are the partition transforms.
func (p *parser) systemFunction(t token, parts []string) (operand, error) {
	last := len(parts) - 1
	name := strings.ToLower(parts[last])
	transform, known := map[string]string{
		"bucket": "bucket", "truncate": "truncate", "years": "year", "months": "month", "days": "day", "hours": "hour",
	}[name]
	if !known || !strings.EqualFold(parts[last-1], "system") {
		return operand{}, p.untranslatable(operand{pos: t.pos}, "the function "+strings.Join(parts, "."))
	}
	p.next()
	if name == "bucket" || name == "truncate" {
		width := p.next()
		if n, err := strconv.Atoi(width.text); err != nil || n <= 0 {
			return operand{}, p.errorf(width, "want a whole number above 0 instead of %s", width.describe())
		}
		transform += "[" + width.text + "]"
		if err := p.expect(","); err != nil {
			return operand{}, err
		}
	}
	inner := p.peek()
	path, err := p.identifier()
	if err != nil {
		return operand{}, err
	}
	return operand{column: &Column{Parts: path, Pos: inner.pos, Transform: transform}, pos: t.pos}, p.expect(")")
}

func (p *parser) in(left operand) (*Predicate, error) {
	p.next()
	if left.column == nil {
		return nil, p.errorAtPos(left.pos, "want a column before IN")
	}
	if t := p.peekAt(1); t.is("select") {
		return nil, p.untranslatable(left, "a subquery")
	}
	values, err := p.list()
	if err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, p.errorAtPos(left.pos, "IN has no values")
	}
	return &Predicate{Op: OpIn, Column: *left.column, Values: values, Pos: left.pos}, nil
}

// between reads "low AND high" and makes two comparisons of it.
func (p *parser) between(left operand) (*Predicate, error) {
	p.next()
	low, err := p.primary()
	if err != nil {
		return nil, err
	}
	if err := p.expect("and"); err != nil {
		return nil, err
	}
	high, err := p.primary()
	if err != nil {
		return nil, err
	}
	if left.column == nil || low.value == nil || high.value == nil {
		return nil, p.untranslatable(left, "BETWEEN with other than a column and two values")
	}
	compare := func(op Op, v *Value) *Predicate {
		return &Predicate{Op: op, Column: *left.column, Values: []Value{*v}, Pos: left.pos}
	}
	args := []*Predicate{compare(OpGreaterEqual, low.value), compare(OpLessEqual, high.value)}
	return &Predicate{Op: OpAnd, Args: args, Pos: left.pos}, nil
}

// like turns a pattern without wildcards into an equality and prefix% into a prefix; no other pattern can be a filter on files.
func (p *parser) like(left operand) (*Predicate, error) {
	p.next()
	if p.peek().kind != tokenString || left.column == nil {
		return nil, p.untranslatable(left, "LIKE with other than a column and a string")
	}
	v := p.stringValue()
	prefix, rest := likePrefix(v.Text)
	node := &Predicate{Column: *left.column, Pos: left.pos}
	switch {
	case rest == "":
		node.Op = OpEqual
	case rest == "%" && prefix == "":
		return negate(&Predicate{Op: OpIsNull, Column: *left.column, Pos: left.pos}), nil
	case rest == "%":
		node.Op = OpStartsWith
	default:
		return nil, p.untranslatable(left, "the pattern '"+v.Text+"'")
	}
	v.Text = prefix
	node.Values = []Value{v}
	return node, nil
}

// likePrefix cuts a pattern at its first wildcard; a backslash escapes.
func likePrefix(pattern string) (prefix, rest string) {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteByte(pattern[i])
		case c == '%' || c == '_':
			return b.String(), pattern[i:]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// isNull reads IS [NOT] NULL, IS [NOT] TRUE and IS [NOT] FALSE.
func (p *parser) isNull(left operand) (*Predicate, error) {
	p.next()
	negated := p.accept("not")
	t := p.next()
	if left.column == nil {
		return nil, p.errorAtPos(left.pos, "want a column before IS")
	}
	node := &Predicate{Op: OpIsNull, Column: *left.column, Pos: left.pos}
	switch {
	case t.is("null"):
	case t.is("true") || t.is("false"):
		node.Op = OpNullSafe
		node.Values = []Value{{Kind: KindBoolean, Text: strings.ToLower(t.text), Pos: t.pos}}
	default:
		return nil, p.errorf(t, "want NULL, TRUE or FALSE instead of %s", t.describe())
	}
	if negated {
		node = negate(node)
	}
	return node, nil
}

// String prints the condition in one normal form, for messages and tests.
func (x *Predicate) String() string {
	quote := func(v Value) string {
		if v.Kind == KindString || v.Kind >= KindDate {
			return "'" + strings.ReplaceAll(v.String(), "'", "''") + "'"
		}
		if v.Kind == KindNull {
			return "null"
		}
		return v.Text
	}
	var values, args []string
	for _, v := range x.Values {
		values = append(values, quote(v))
	}
	for _, a := range x.Args {
		args = append(args, a.String())
	}
	switch x.Op {
	case OpAnd, OpOr:
		return "(" + strings.Join(args, " "+string(x.Op)+" ") + ")"
	case OpNot:
		return "not " + args[0]
	case OpIsNull, OpIsTrue:
		return x.Column.String() + " " + string(x.Op)
	case OpConstant:
		return values[0]
	case OpIn:
		return x.Column.String() + " in (" + strings.Join(values, ", ") + ")"
	default:
		return x.Column.String() + " " + string(x.Op) + " " + values[0]
	}
}
