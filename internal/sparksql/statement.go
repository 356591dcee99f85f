// Package sparksql reads the statements that people paste from Spark with Iceberg's extensions: CALL catalog.system.procedure(...), EXPLAIN CALL
// (a dry run), ALTER TABLE for properties, write order, identifier fields, branches and tags, and predicates of a where argument. It is a small
// parser of its own: it knows no other SQL, and a statement outside its grammar is refused with the position and, where there is one, the command
// that does it. It executes nothing.
package sparksql

import (
	"slices"
	"strings"
)

// Statement is one of *Call, *SetProperties, *UnsetProperties, *SetWriteOrder, *SetIdentifierFields, *SetRef, *DropRef.
type Statement interface {
	// Source is the statement's own text, without the closing semicolon.
	Source() string
}

type source struct{ text string }

func (s source) Source() string { return s.text }

// Call is CALL catalog.system.procedure(arguments).
type Call struct {
	source
	// Catalog is the name before ".system", "" when the call has none.
	Catalog   string
	Procedure string
	Arguments []Argument
	// DryRun is set by EXPLAIN CALL.
	DryRun bool
	// text and pos are for messages: the whole text, and where the procedure's name stands in it.
	text string
	pos  int
}

// Argument is one argument of a call; Name is "" when it is positional.
type Argument struct {
	Name  string
	Value Value
	Pos   int
}

// SetProperties is ALTER TABLE ... SET TBLPROPERTIES (...).
type SetProperties struct {
	source
	// Table is the table's name in parts: [catalog,] namespace..., table.
	Table      []string
	Properties []Property
}

// Property is one table property.
type Property struct {
	Key, Value string
}

// UnsetProperties is ALTER TABLE ... UNSET TBLPROPERTIES [IF EXISTS] (...).
type UnsetProperties struct {
	source
	Table    []string
	Keys     []string
	IfExists bool
}

// Parse reads statements that are separated by semicolons. Errors are *SyntaxError.
func Parse(text string) ([]Statement, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, tokens: tokens}
	var statements []Statement
	for {
		for p.accept(";") {
		}
		if p.peek().kind == tokenEnd {
			return statements, nil
		}
		s, err := p.statement()
		if err != nil {
			return nil, err
		}
		if t := p.peek(); !t.is(";") && t.kind != tokenEnd {
			return nil, p.errorf(t, "%s does not belong behind the statement", t.describe())
		}
		statements = append(statements, s)
	}
}

// parser walks over the tokens of one text.
type parser struct {
	text   string
	tokens []token
	at     int
	depth  int
}

func (p *parser) peek() token { return p.peekAt(0) }

func (p *parser) peekAt(n int) token { return p.tokens[min(p.at+n, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.peek()
	p.at = min(p.at+1, len(p.tokens)-1)
	return t
}

// accept takes the token if it is that keyword or symbol.
func (p *parser) accept(text string) bool {
	if !p.peek().is(text) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(text string) error {
	if t := p.peek(); !p.accept(text) {
		return p.errorf(t, "want %s instead of %s", strings.ToUpper(text), t.describe())
	}
	return nil
}

func (p *parser) expectAll(words ...string) error {
	for _, w := range words {
		if err := p.expect(w); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) errorf(t token, format string, args ...any) error {
	return errorAt(p.text, t.pos, format, args...)
}

func (p *parser) errorAtPos(pos int, format string, args ...any) error {
	return errorAt(p.text, pos, format, args...)
}

func (p *parser) hint(t token, hint, format string, args ...any) error {
	e := errorAt(p.text, t.pos, format, args...)
	e.Hint = hint
	return e
}

func (p *parser) sourceSince(start token) source {
	return source{strings.TrimSpace(p.text[start.pos:p.peek().pos])}
}

func (p *parser) statement() (Statement, error) {
	t := p.peek()
	switch {
	case t.is("call"):
		return p.call(t, false)
	case t.is("explain"):
		p.next()
		if !p.peek().is("call") {
			return nil, p.errorf(p.peek(), "EXPLAIN is for CALL only, not for %s", p.peek().describe())
		}
		return p.call(t, true)
	case t.is("alter"):
		return p.alter(t)
	}
	return nil, p.refuse(t)
}

func (p *parser) call(start token, dryRun bool) (Statement, error) {
	p.next()
	c := &Call{DryRun: dryRun, text: p.text, pos: p.peek().pos}
	name, err := p.identifier()
	if err != nil {
		return nil, err
	}
	n := len(name)
	switch {
	case n >= 2 && n <= 3 && strings.EqualFold(name[n-2], "system"):
		c.Procedure = strings.ToLower(name[n-1])
		if n == 3 {
			c.Catalog = name[0]
		}
	default:
		return nil, p.errorAtPos(c.pos, "%q is no procedure: want catalog.system.procedure", strings.Join(name, "."))
	}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	if !p.accept(")") {
		if c.Arguments, err = p.arguments(); err != nil {
			return nil, err
		}
	}
	c.source = p.sourceSince(start)
	return c, nil
}

func (p *parser) arguments() ([]Argument, error) {
	var args []Argument
	for {
		a := Argument{Pos: p.peek().pos}
		if t := p.peek(); (t.kind == tokenWord || t.kind == tokenQuotedWord) && p.peekAt(1).is("=>") {
			a.Name = strings.ToLower(t.text)
			p.next()
			p.next()
		}
		var err error
		if a.Value, err = p.value(); err != nil {
			return nil, err
		}
		args = append(args, a)
		if !p.accept(",") {
			return args, p.expect(")")
		}
	}
}

// identifier reads a dotted name; parts may be in back quotes.
func (p *parser) identifier() ([]string, error) {
	var parts []string
	for {
		t := p.next()
		if t.kind != tokenWord && t.kind != tokenQuotedWord {
			return nil, p.errorf(t, "want a name instead of %s", t.describe())
		}
		parts = append(parts, t.text)
		if !p.accept(".") {
			return parts, nil
		}
	}
}

func (p *parser) alter(start token) (Statement, error) {
	p.next()
	if err := p.expect("table"); err != nil {
		return nil, err
	}
	table, err := p.identifier()
	if err != nil {
		return nil, err
	}
	t := p.peek()
	switch {
	case t.is("create") || t.is("replace"):
		return p.alterSetRef(start, table)
	case p.accept("write"):
		return p.alterWrite(start, table)
	case p.accept("drop"):
		return p.alterDrop(start, table)
	case p.accept("set"):
		return p.alterSet(start, table)
	case p.accept("unset"):
		return p.alterUnset(start, table)
	case p.accept("execute"):
		return nil, p.refuseExecute(start, table)
	}
	return nil, p.hint(t, elsewhere,
		"ALTER TABLE ... %s is not understood here: want SET or UNSET TBLPROPERTIES, WRITE ..., IDENTIFIER FIELDS, BRANCH or TAG", strings.ToUpper(t.text))
}

// elsewhere is the hint for changes that are no maintenance.
const elsewhere = "other changes of a table belong to the engine that writes it"

// alterSet reads what follows SET.
func (p *parser) alterSet(start token, table []string) (Statement, error) {
	if p.accept("identifier") {
		return p.alterIdentifiers(start, table, false)
	}
	if err := p.expectAll("tblproperties", "("); err != nil {
		return nil, err
	}
	s := &SetProperties{Table: table}
	var err error
	if s.Properties, err = p.properties(); err != nil {
		return nil, err
	}
	s.source = p.sourceSince(start)
	return s, nil
}

// alterUnset reads what follows UNSET.
func (p *parser) alterUnset(start token, table []string) (Statement, error) {
	if err := p.expect("tblproperties"); err != nil {
		return nil, err
	}
	s := &UnsetProperties{Table: table}
	if p.accept("if") {
		s.IfExists = true
		if err := p.expect("exists"); err != nil {
			return nil, err
		}
	}
	var err error
	if s.Keys, err = p.propertyKeys(); err != nil {
		return nil, err
	}
	s.source = p.sourceSince(start)
	return s, nil
}

// properties reads key = value pairs up to ")"; the equal sign may be left out.
func (p *parser) properties() ([]Property, error) {
	var properties []Property
	for {
		key, err := p.propertyKey()
		if err != nil {
			return nil, err
		}
		p.accept("=")
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		if v.Kind > KindBoolean || v.Kind == KindNull {
			return nil, p.errorAtPos(v.Pos, "the value of property %q is %s: want a string, a number or a boolean", key, v.Kind)
		}
		if slices.ContainsFunc(properties, func(q Property) bool { return q.Key == key }) {
			return nil, p.errorAtPos(v.Pos, "property %q is given twice", key)
		}
		properties = append(properties, Property{key, v.Text})
		if !p.accept(",") {
			return properties, p.expect(")")
		}
	}
}

func (p *parser) propertyKeys() ([]string, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var keys []string
	for {
		key, err := p.propertyKey()
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
		if !p.accept(",") {
			return keys, p.expect(")")
		}
	}
}

// propertyKey reads 'a.b', or a.b without quotes; parts may have hyphens.
func (p *parser) propertyKey() (string, error) {
	if p.peek().kind == tokenString {
		return p.next().text, nil
	}
	first := p.peek()
	end := first.pos
	for {
		t := p.peek()
		if t.kind != tokenWord && t.kind != tokenQuotedWord && t.kind != tokenNumber && !t.is(".") && !t.is("-") || t.pos > end && end > first.pos {
			break
		}
		p.next()
		end = t.pos + len(t.text)
		if t.kind == tokenQuotedWord {
			end += 2
		}
	}
	if end == first.pos {
		return "", p.errorf(first, "want the key of a property instead of %s", first.describe())
	}
	return strings.ReplaceAll(p.text[first.pos:end], "`", ""), nil
}
