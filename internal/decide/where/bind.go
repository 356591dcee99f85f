package where

import (
	"slices"
	"strings"
	"time"

	"firn/internal/maintenance"
	"firn/internal/sparksql"
)

// binder binds a parsed condition to a schema.
type binder struct {
	text   string
	schema Schema
	now    time.Time
}

func (b *binder) errorf(pos int, format string, args ...any) error {
	return sparksql.ErrorAt(b.text, pos, format, args...)
}

// bind pushes negations down to the leaves. SQL's logic has three values: a comparison with null is neither true nor false, so a negated
// comparison does not match null either.
func (b *binder) bind(p *sparksql.Predicate, negated bool) (*node, error) {
	switch p.Op {
	case sparksql.OpNot:
		return b.bind(p.Args[0], !negated)
	case sparksql.OpAnd, sparksql.OpOr:
		args := make([]*node, len(p.Args))
		for i, a := range p.Args {
			var err error
			if args[i], err = b.bind(a, negated); err != nil {
				return nil, err
			}
		}
		if (p.Op == sparksql.OpAnd) != negated {
			return and(args...), nil
		}
		return or(args...), nil
	case sparksql.OpConstant:
		if v := p.Values[0]; v.Kind == sparksql.KindNull || (v.Text == "true") == negated {
			return never(), nil
		}
		return always(), nil
	}
	c, err := b.column(p.Column)
	if err == nil && p.Column.Transform != "" {
		c, err = b.transformed(c, p.Column)
	}
	if err != nil {
		return nil, err
	}
	return b.leaf(p, c, negated)
}

func (b *binder) leaf(p *sparksql.Predicate, c *Column, negated bool) (*node, error) {
	if p.Op == sparksql.OpIsNull {
		return nullTest(c, negated), nil
	}
	if c.Type.Kind == TypeNested {
		return nil, b.errorf(p.Column.Pos, "column %s is nested: only IS NULL can be asked of it", c.Name())
	}
	switch p.Op {
	case sparksql.OpIsTrue:
		if c.Type.Kind != TypeBoolean {
			return nil, b.errorf(p.Column.Pos, "column %s of type %s is no condition", c.Name(), c.Type.Kind)
		}
		return b.compare(opEqual, c, sparksql.Value{Kind: sparksql.KindBoolean, Text: "true", Pos: p.Pos}, negated)
	case sparksql.OpIn:
		return b.in(p, c, negated)
	case sparksql.OpStartsWith:
		if c.Type.Kind != TypeString {
			return nil, b.errorf(p.Column.Pos, "column %s of type %s has no prefix", c.Name(), c.Type.Kind)
		}
		if negated {
			return and(nullTest(c, true), leaf(opNotStartsWith, c, Text(p.Values[0].Text))), nil
		}
		return leaf(opStartsWith, c, Text(p.Values[0].Text)), nil
	case sparksql.OpNullSafe:
		return b.nullSafe(p, c, negated)
	}
	ops := map[sparksql.Op]op{
		sparksql.OpEqual: opEqual, sparksql.OpNotEqual: opNotEqual, sparksql.OpLess: opLess, sparksql.OpLessEqual: opLessEqual,
		sparksql.OpGreater: opGreater, sparksql.OpGreaterEqual: opGreaterEqual,
	}
	return b.compare(ops[p.Op], c, p.Values[0], negated)
}

// nullTest is IS NULL, or with negated IS NOT NULL.
func nullTest(c *Column, negated bool) *node {
	switch {
	case negated && c.Required:
		return always()
	case negated:
		return leaf(opNotNull, c)
	case c.Required:
		return never()
	}
	return leaf(opIsNull, c)
}

func negation(o op) op {
	return map[op]op{
		opEqual: opNotEqual, opNotEqual: opEqual, opLess: opGreaterEqual, opGreaterEqual: opLess, opLessEqual: opGreater, opGreater: opLessEqual,
	}[o]
}

func (b *binder) compare(o op, c *Column, v sparksql.Value, negated bool) (*node, error) {
	if negated {
		o = negation(o)
	}
	if v.Kind == sparksql.KindNull {
		return never(), nil
	}
	lit, err := b.literal(c, v)
	if err != nil {
		return nil, err
	}
	return lit.compare(o, c), nil
}

// nullSafe is <=>: null equals null and nothing else.
func (b *binder) nullSafe(p *sparksql.Predicate, c *Column, negated bool) (*node, error) {
	v := p.Values[0]
	if v.Kind == sparksql.KindNull {
		return nullTest(c, negated), nil
	}
	equal, err := b.compare(opEqual, c, v, negated)
	if err != nil || !negated {
		return equal, err
	}
	return or(nullTest(c, false), equal), nil
}

// in drops values that the column cannot have. NOT IN with a null among the values matches nothing.
func (b *binder) in(p *sparksql.Predicate, c *Column, negated bool) (*node, error) {
	var values []Value
	for _, v := range p.Values {
		if v.Kind == sparksql.KindNull {
			if negated {
				return never(), nil
			}
			continue
		}
		lit, err := b.literal(c, v)
		if err != nil {
			return nil, err
		}
		if lit.exact && lit.beyond == 0 {
			values = append(values, lit.value)
		}
	}
	switch {
	case len(values) == 0 && negated:
		return nullTest(c, true), nil
	case len(values) == 0:
		return never(), nil
	case negated:
		return and(nullTest(c, true), leaf(opNotIn, c, values...)), nil
	}
	return leaf(opIn, c, values...), nil
}

// transformed is what a partition transform makes of a column: days are dates, buckets and the other times are whole numbers, what was truncated keeps
// its type.
func (b *binder) transformed(c *Column, ref sparksql.Column) (*Column, error) {
	t := parseTransform(ref.Transform)
	out := Column{Path: []string{ref.String()}, FieldID: c.FieldID, Required: c.Required, Type: Type{Kind: TypeInt}, of: c, transform: t}
	taken := []TypeKind{TypeInt, TypeLong, TypeDecimal, TypeString, TypeBinary}
	switch t.name {
	case "truncate":
		out.Type = c.Type
	case "bucket":
		taken = append(taken, TypeDate, TypeTime, TypeTimestamp, TypeTimestampNS, TypeUUID, TypeFixed)
	case "hour":
		taken = []TypeKind{TypeTimestamp, TypeTimestampNS}
	case "day":
		out.Type.Kind = TypeDate
		fallthrough
	default:
		taken = []TypeKind{TypeDate, TypeTimestamp, TypeTimestampNS}
	}
	if !slices.Contains(taken, c.Type.Kind) {
		return nil, b.errorf(ref.Pos, "the transform %s does not take column %s of type %s", ref.Transform, c.Name(), c.Type.Kind)
	}
	return &out, nil
}

// column resolves a reference: exactly, else without regard to case, as Spark does by default.
func (b *binder) column(ref sparksql.Column) (*Column, error) {
	var found []*Column
	var names []string
	for i := range b.schema.Columns {
		c := &b.schema.Columns[i]
		names = append(names, c.Name())
		if slices.Equal(c.Path, ref.Parts) {
			return c, nil
		}
		if slices.EqualFunc(c.Path, ref.Parts, strings.EqualFold) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, b.errorf(ref.Pos, "the table has no column %s%s", ref, maintenance.Suggestion(ref.String(), names))
	}
	return nil, b.errorf(ref.Pos, "column %s is ambiguous: %s or %s", ref, found[0].Name(), found[1].Name())
}
