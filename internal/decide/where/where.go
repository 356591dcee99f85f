// Package where decides which data files may hold rows that match a condition, from nothing but what manifests say of a file: partition values,
// counts and bounds. It follows Iceberg's inclusive metrics evaluator and inclusive projection: a file is left out only when it provably holds no
// matching row. A file that is taken is rewritten whole, so the condition is never applied to rows.
package where

import (
	"time"

	"firn/internal/sparksql"
)

// Where is a condition bound to a table's schema and partition specs. It is immutable and safe for concurrent use.
type Where struct {
	text string
	root *node
	// projected is the condition as it can be asked of a partition, by spec ID.
	projected map[int]*node
}

// File is what a manifest entry says of a data file. Absent map entries mean "not recorded"; the maps are iceberg-go's DataFile accessors.
type File struct {
	SpecID      int
	RecordCount int64
	// Partition returns the value of a partition field by its field ID; false when it is not known. Nil means that nothing is known.
	Partition func(fieldID int) (Value, bool)
	// ValueCounts, NullCounts and NaNCounts are counts by column field ID; the bounds are single-value serialisations.
	ValueCounts, NullCounts, NaNCounts map[int]int64
	LowerBounds, UpperBounds           map[int][]byte
}

// Parse reads a condition in Spark's syntax and binds it to a schema. Unknown columns and conditions that no filter on files can express are
// errors that name position and column (*sparksql.SyntaxError). An empty text matches every file. now is what now(), current_timestamp() and
// current_date() stand for, in UTC and in microseconds as in Spark.
func Parse(text string, schema Schema, now time.Time) (*Where, error) {
	w := &Where{text: text, root: always(), projected: map[int]*node{}}
	if isBlank(text) {
		return w, nil
	}
	predicate, err := sparksql.ParsePredicate(text)
	if err != nil {
		return nil, err
	}
	b := &binder{text: text, schema: schema, now: now.UTC().Truncate(time.Microsecond)}
	if w.root, err = b.bind(predicate, false); err != nil {
		return nil, err
	}
	for id, fields := range schema.Specs {
		w.projected[id] = project(w.root, fields)
	}
	return w, nil
}

// String is the condition as it was given.
func (w *Where) String() string { return w.text }

// MayMatch reports whether the file may hold matching rows.
func (w *Where) MayMatch(f File) bool {
	if f.RecordCount == 0 && w.root.op != opAlways {
		return false
	}
	if p, ok := w.projected[f.SpecID]; ok && f.Partition != nil && !p.matchesPartition(f.Partition) {
		return false
	}
	return w.root.mayMatchMetrics(f)
}

func isBlank(text string) bool {
	for _, r := range text {
		if r != ' ' && r != '\t' && r != '\n' && r != '\r' {
			return false
		}
	}
	return true
}

// op is an operation of a bound condition. Negations are pushed down to the leaves while binding, so there is none.
type op int

const (
	opAlways op = iota
	opNever
	opAnd
	opOr
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opEqual
	opNotEqual
	opIn
	opNotIn
	opStartsWith
	opNotStartsWith
	opIsNull
	opNotNull
)

// node is a part of a bound condition. A leaf asks about one column, or after projection about one partition field.
type node struct {
	op     op
	args   []*node
	column *Column
	// field is the partition field's ID after projection.
	field  int
	values []Value
}

func always() *node { return &node{op: opAlways} }

func never() *node { return &node{op: opNever} }

func leaf(o op, c *Column, values ...Value) *node { return &node{op: o, column: c, values: values} }

// and and or drop constants, so that what is left needs no further care.
func and(args ...*node) *node { return combine(opAnd, opAlways, opNever, args) }

func or(args ...*node) *node { return combine(opOr, opNever, opAlways, args) }

func combine(o, neutral, decisive op, args []*node) *node {
	kept := make([]*node, 0, len(args))
	for _, a := range args {
		switch a.op {
		case neutral:
		case decisive:
			return &node{op: decisive}
		default:
			kept = append(kept, a)
		}
	}
	switch len(kept) {
	case 0:
		return &node{op: neutral}
	case 1:
		return kept[0]
	}
	return &node{op: o, args: kept}
}
