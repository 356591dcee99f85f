package where

import "unicode/utf8"

// project turns a condition on columns into one on the partition fields of a spec that every partition with matching rows satisfies (Iceberg:
// inclusive projection). What cannot be projected is always satisfied.
func project(n *node, fields []PartitionField) *node {
	switch n.op {
	case opAlways, opNever:
		return n
	case opAnd, opOr:
		args := make([]*node, len(n.args))
		for i, a := range n.args {
			args[i] = project(a, fields)
		}
		if n.op == opAnd {
			return and(args...)
		}
		return or(args...)
	}
	result := always()
	for _, f := range fields {
		if f.SourceID != n.column.FieldID {
			continue
		}
		t := parseTransform(f.Transform)
		var p *node
		switch {
		case n.column.of == nil:
			p = t.project(n)
		case t == n.column.transform: // no other transform says anything of what this one makes
			p = &node{op: n.op, values: n.values}
		}
		if p == nil {
			continue
		}
		p.field = f.FieldID
		result = and(result, p)
	}
	return result
}

// project projects one leaf through a transform; nil when there is no projection.
func (t transform) project(n *node) *node {
	switch {
	case t.name == "identity":
		return &node{op: n.op, values: n.values}
	case t.name == "void" || t.name == "unknown":
		return nil
	case n.op == opIsNull || n.op == opNotNull:
		return &node{op: n.op}
	case n.op == opStartsWith || n.op == opNotStartsWith:
		return t.projectPrefix(n)
	case n.op == opEqual || n.op == opIn:
		return t.projectValues(n)
	case n.op == opNotEqual || n.op == opNotIn || t.name == "bucket":
		return nil
	}
	return t.projectRange(n)
}

// projectValues projects = and IN.
func (t transform) projectValues(n *node) *node {
	var values []Value
	for _, v := range n.values {
		p, ok := t.apply(v, n.column.Type)
		if !ok {
			return nil
		}
		values = append(values, p)
		if t.ofTime() && p.whole < 0 {
			// Early writers rounded times before 1970 towards zero: their partitions are one too high.
			values = append(values, Whole(p.whole+1))
		}
	}
	return &node{op: opIn, values: values}
}

// projectRange projects an order-preserving transform; strict bounds move by one unit before they are transformed.
func (t transform) projectRange(n *node) *node {
	v, o := n.values[0], n.op
	switch o {
	case opLess:
		v, o = v.step(-1), opLessEqual
	case opGreater:
		v, o = v.step(+1), opGreaterEqual
	}
	p, ok := t.apply(v, n.column.Type)
	if !ok {
		return nil
	}
	if t.ofTime() && o == opLessEqual && p.whole < 0 {
		p.whole++
	}
	return &node{op: o, values: []Value{p}}
}

// projectPrefix projects a prefix through truncate.
func (t transform) projectPrefix(n *node) *node {
	if t.name != "truncate" {
		return nil
	}
	length := utf8.RuneCountInString(n.values[0].text)
	cut, ok := t.apply(n.values[0], n.column.Type)
	switch {
	case !ok:
		return nil
	case n.op == opStartsWith && length >= t.width:
		return &node{op: opEqual, values: []Value{cut}}
	case length < t.width:
		return &node{op: n.op, values: n.values}
	case length == t.width:
		return &node{op: opNotEqual, values: []Value{cut}}
	}
	return nil
}
