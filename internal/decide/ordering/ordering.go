// Package ordering turns the arguments strategy and sort_order of rewrite_data_files into the ordering of a group's rows, with Spark's syntax,
// defaults and refusals (Iceberg: SparkSortFileRewriteRunner, SparkZOrderFileRewriteRunner, SortOrderUtil). It is pure.
package ordering

import (
	"encoding/json"
	"fmt"
	"strings"

	"firn/internal/decide"
	"firn/internal/decide/where"
	"firn/internal/maintenance"
	"firn/internal/sparksql"
)

// Table is what an ordering may refer to.
type Table struct {
	// Columns are the columns of the current schema.
	Columns []where.Column
	// SortOrders are the table's sort orders as in metadata; SortOrderID the current one.
	SortOrders  []json.RawMessage
	SortOrderID int
	// Identity are the source columns of the current spec's identity fields: constant within a partition.
	Identity map[int]bool
}

// NewTable describes a table from its schema, the identity fields of one of its specs, and its sort orders, all as in metadata.
func NewTable(schema where.Schema, specID int, orders []json.RawMessage, orderID int) Table {
	t := Table{Columns: schema.Columns, SortOrders: orders, SortOrderID: orderID, Identity: map[int]bool{}}
	for _, f := range schema.Specs[specID] {
		if f.Transform == "identity" {
			t.Identity[f.SourceID] = true
		}
	}
	return t
}

// Resolve returns the ordering of a rewrite, nil when its rows keep the order of the inputs. text is the argument sort_order; without one the
// table's own order counts, for binpack too, where the caller cuts groups into parts that are ordered each by itself. A text that is wrong is a decide.ErrOption.
//
// A bin-pack of a table whose order cannot be followed (an unknown transform) keeps the order of the inputs, and sets no sort order on its outputs.
func Resolve(opts decide.DataFilesOptions, text string, t Table) (*maintenance.Ordering, error) {
	own, fault := t.own()
	var o *maintenance.Ordering
	var err error
	switch {
	case opts.Strategy == decide.BinPack:
		if fault != nil || own == nil {
			return nil, nil
		}
		return own, nil
	case strings.TrimSpace(text) == "":
		if fault != nil {
			return nil, fmt.Errorf("follow sort order %d of the table: %w", t.SortOrderID, fault)
		}
		return own, nil
	default:
		o, err = t.parse(text)
	}
	if err != nil {
		return nil, err
	}
	if o.Curve != maintenance.NoCurve {
		o.VarLengthContributionBytes, o.MaxOutputSizeBytes = opts.VarLengthContributionBytes, opts.MaxOutputSizeBytes
		return o, nil
	}
	o.SortOrderID = t.same(o.Fields)
	return o, nil
}

func faultf(format string, args ...any) error {
	return fmt.Errorf("read argument sort_order: %s: %w", fmt.Sprintf(format, args...), decide.ErrOption)
}

// parse reads the argument.
func (t Table) parse(text string) (*maintenance.Ordering, error) {
	terms, err := sparksql.ParseSortOrder(text)
	if err != nil {
		return nil, faultf("%v", err)
	}
	if len(terms) == 1 && curve(terms[0].Function) != maintenance.NoCurve {
		return t.curve(terms[0])
	}
	o := &maintenance.Ordering{}
	for _, term := range terms {
		f, err := t.field(term)
		if err != nil {
			return nil, err
		}
		o.Fields = append(o.Fields, f)
	}
	return o, nil
}

func curve(function string) maintenance.Curve {
	if c := maintenance.Curve(function); c == maintenance.ZOrder || c == maintenance.Hilbert {
		return c
	}
	return maintenance.NoCurve
}

// curve resolves the columns of a z-order. Identity partition columns are left out, since they are constant within a partition, as in Spark.
func (t Table) curve(term sparksql.SortTerm) (*maintenance.Ordering, error) {
	o := &maintenance.Ordering{Curve: curve(term.Function)}
	if len(term.Columns) == 0 || term.Width >= 0 || term.Directed {
		return nil, faultf("%s takes columns and nothing else, and has no direction", term.Function)
	}
	for _, ref := range term.Columns {
		c, err := t.column(ref)
		if err != nil {
			return nil, err
		}
		if t.Identity[c.FieldID] {
			continue
		}
		if c.Type.Kind == where.TypeDecimal {
			return nil, faultf("column %s of type decimal cannot be used in %s", c.Name(), term.Function)
		}
		o.Fields = append(o.Fields, maintenance.OrderingField{SourceID: c.FieldID, Transform: "identity"})
	}
	if len(o.Fields) == 0 {
		return nil, faultf("all columns of %s are identity partition columns and cannot be used", term.Function)
	}
	return o, nil
}

// field resolves a column or a transform of one.
func (t Table) field(term sparksql.SortTerm) (maintenance.OrderingField, error) {
	f := maintenance.OrderingField{Transform: "identity", Descending: term.Descending, NullsLast: term.NullsLast}
	if len(term.Columns) != 1 {
		return f, faultf("%s takes one column, not %d", term.Function, len(term.Columns))
	}
	c, err := t.column(term.Columns[0])
	if err != nil {
		return f, err
	}
	f.SourceID = c.FieldID
	name, sized := transformOf(term.Function)
	switch {
	case name == "":
		return f, faultf("the transform %s is not supported%s", term.Function, maintenance.Suggestion(term.Function, transforms()))
	case sized && term.Width <= 0:
		return f, faultf("%s needs a number above 0", term.Function)
	case !sized && term.Width >= 0:
		return f, faultf("%s takes no number", term.Function)
	}
	if !applies(name, c.Type.Kind) {
		return f, faultf("%s does not apply to column %s of type %s", name, c.Name(), c.Type.Kind)
	}
	f.Transform = name
	if sized {
		f.Transform = fmt.Sprintf("%s[%d]", name, term.Width)
	}
	return f, nil
}

// column finds a column by its path: as it is spelled, else without regard to case if that is unambiguous.
func (t Table) column(ref sparksql.Column) (where.Column, error) {
	name := ref.String()
	var found []where.Column
	for _, c := range t.Columns {
		if c.Name() == name {
			found = []where.Column{c}
			break
		}
		if strings.EqualFold(c.Name(), name) {
			found = append(found, c)
		}
	}
	switch {
	case len(found) == 0:
		var names []string
		for _, c := range t.Columns {
			names = append(names, c.Name())
		}
		return where.Column{}, faultf("cannot find field %s in the table's schema%s", name, maintenance.Suggestion(name, names))
	case len(found) > 1:
		return where.Column{}, faultf("%s may be %s or %s", name, found[0].Name(), found[1].Name())
	case found[0].Type.Kind == where.TypeNested:
		return where.Column{}, faultf("rows cannot be ordered by column %s: it is no primitive", name)
	}
	return found[0], nil
}
