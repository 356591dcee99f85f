package where

import (
	"slices"
	"strings"
)

// matchesPartition asks a projected condition of a partition; unknown values match.
func (n *node) matchesPartition(partition func(int) (Value, bool)) bool {
	switch n.op {
	case opAlways:
		return true
	case opNever:
		return false
	case opAnd:
		return !slices.ContainsFunc(n.args, func(a *node) bool { return !a.matchesPartition(partition) })
	case opOr:
		return slices.ContainsFunc(n.args, func(a *node) bool { return a.matchesPartition(partition) })
	}
	v, known := partition(n.field)
	return !known || n.matchesValue(v)
}

// matchesValue asks a leaf of one value.
func (n *node) matchesValue(v Value) bool {
	switch n.op {
	case opIsNull:
		return v.IsNull()
	case opNotNull:
		return !v.IsNull()
	}
	negative := n.op == opNotEqual || n.op == opNotIn || n.op == opNotStartsWith
	if v.IsNull() {
		return negative
	}
	switch n.op {
	case opStartsWith, opNotStartsWith:
		return strings.HasPrefix(v.text, n.values[0].text) != negative
	case opIn, opNotIn:
		return slices.ContainsFunc(n.values, func(x Value) bool { c, ok := compare(v, x); return !ok || c == 0 }) != negative
	}
	c, ok := compare(v, n.values[0])
	if !ok {
		return true
	}
	switch n.op {
	case opLess:
		return c < 0
	case opLessEqual:
		return c <= 0
	case opGreater:
		return c > 0
	case opGreaterEqual:
		return c >= 0
	case opEqual:
		return c == 0
	default:
		return c != 0
	}
}

// mayMatchMetrics asks a condition of a file's counts and bounds.
func (n *node) mayMatchMetrics(f File) bool {
	switch n.op {
	case opAlways, opNotEqual, opNotIn:
		// Bounds need not be values of the file, so they never show that only one value occurs.
		return true
	case opNever:
		return false
	case opAnd:
		return !slices.ContainsFunc(n.args, func(a *node) bool { return !a.mayMatchMetrics(f) })
	case opOr:
		return slices.ContainsFunc(n.args, func(a *node) bool { return a.mayMatchMetrics(f) })
	case opIsNull:
		nulls, ok := f.NullCounts[n.column.FieldID]
		return !ok || nulls != 0
	case opNotNull:
		return !f.only(f.NullCounts, n.column.FieldID)
	}
	if n.op != opNotStartsWith && (f.only(f.NullCounts, n.column.FieldID) || f.only(f.NaNCounts, n.column.FieldID)) {
		return false
	}
	lower, hasLower := f.bound(f.LowerBounds, n.column)
	upper, hasUpper := f.bound(f.UpperBounds, n.column)
	switch n.op {
	case opStartsWith:
		return (!hasLower || cutTo(lower, n.values[0]) <= n.values[0].text) && (!hasUpper || cutTo(upper, n.values[0]) >= n.values[0].text)
	case opNotStartsWith:
		nulls, counted := f.NullCounts[n.column.FieldID]
		prefix := n.values[0].text
		return !counted || nulls > 0 || !hasLower || !hasUpper || !strings.HasPrefix(lower.text, prefix) || !strings.HasPrefix(upper.text, prefix)
	}
	return slices.ContainsFunc(n.values, func(v Value) bool {
		above := hasLower && n.outside(v, lower, -1)
		return !above && (!hasUpper || !n.outside(v, upper, +1))
	})
}

// outside reports whether no value on the file's side of a bound (side -1: at or over the lower one, +1: at or under the upper one) compares with
// v as the leaf asks.
func (n *node) outside(v, bound Value, side int) bool {
	c, ok := compare(v, bound)
	if !ok {
		return false
	}
	switch {
	case side < 0 && n.op == opLess:
		return c <= 0 // values are at least the bound, which is not below v
	case side < 0 && (n.op == opLessEqual || n.op == opEqual || n.op == opIn):
		return c < 0
	case side > 0 && n.op == opGreater:
		return c >= 0
	case side > 0 && (n.op == opGreaterEqual || n.op == opEqual || n.op == opIn):
		return c > 0
	}
	return false
}

// only reports whether all values of a column are of the counted kind.
func (f File) only(counts map[int]int64, id int) bool {
	n, counted := counts[id]
	values, ok := f.ValueCounts[id]
	return counted && ok && n == values
}

// bound decodes a bound; a NaN bound comes from a writer that ordered NaN like a number and says nothing.
func (f File) bound(bounds map[int][]byte, c *Column) (Value, bool) {
	data, ok := bounds[c.FieldID]
	switch {
	case !ok, c.of != nil && c.transform.name == "bucket":
		return Value{}, false
	case c.of != nil: // keeps the order: what it makes of a bound is a bound
		v, ok := decodeBound(c.of.Type, data)
		if ok {
			v, ok = c.transform.apply(v, c.of.Type)
		}
		return v, ok
	}
	v, ok := decodeBound(c.Type, data)
	return v, ok && !v.isNaN()
}

// cutTo shortens a bound to the length of a prefix.
func cutTo(bound, prefix Value) string { return bound.text[:min(len(bound.text), len(prefix.text))] }
