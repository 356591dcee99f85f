// Package projection reads a data file's columns as a schema of the table wants them: columns are found by field ID (or through the table's
// name mapping), missing ones are filled with the partition's value, the initial default or null, old types are promoted, and the levels of
// nested columns are rewritten. Rules: Iceberg specification, "Column Projection", "Schema Evolution", "Default values".
//
// What cannot be mapped exactly is refused with ErrUnmappable; no value is ever guessed.
package projection

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/source"
)

// ErrUnmappable says that a file's columns cannot be read as the schema wants them. The text around it says why.
var ErrUnmappable = errors.New("unmappable file")

// Target is what all files of a group are read as.
type Target struct {
	Layout *layout.Layout
	// Names is the table's name mapping, for files without field IDs; empty when the table has none.
	Names iceberg.NameMapping
	// Defaults are the initial defaults by field ID, as their JSON single values (see ParseDefaults).
	Defaults map[int]json.RawMessage
}

// Options describe one file to the projection.
type Options struct {
	// Constants are the values of identity partition fields by source column: used for columns that the file lacks. A nil value is null.
	Constants map[int]any
	// FirstRowID is the file's first row ID; without it, row lineage columns that the file lacks are null.
	FirstRowID *int64
	// Sequence is the file's data sequence number, for rows without _last_updated_sequence_number.
	Sequence int64
}

// Projection reads one file.
type Projection struct {
	file  *source.File
	opts  Options
	plans []plan
}

// New maps a file's columns.
func New(t *Target, f *source.File, opts Options) (*Projection, error) {
	plans, err := newPlans(t, f.Schema, opts)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Location, err)
	}
	return &Projection{file: f, opts: opts, plans: plans}, nil
}

// newPlans plans all leaves.
func newPlans(t *Target, sc *schema.Schema, opts Options) (plans []plan, err error) {
	root, tree := newTree(sc, t.Names)
	if err := duplicate(root); err != nil {
		return nil, err
	}
	switch {
	case !tree.hasIDs && !tree.mapped:
		return nil, fmt.Errorf("the file has no field IDs and the table no name mapping: %w", ErrUnmappable)
	case tree.hasIDs:
		if name := unidentified(root, nil); name != "" {
			return nil, fmt.Errorf("column %s has no field ID, others have one: %w", name, ErrUnmappable)
		}
	}
	for _, leaf := range t.Layout.Leaves {
		p, err := newPlan(t, sc, root, leaf, opts)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", leaf.Path, err)
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// Scan yields a leaf's rows, from first to last, in batches of whole rows in the target's form. A batch is only valid during the call of yield.
func (p *Projection) Scan(leaf int, rows column.Run, yield func(*column.Batch) error) error {
	pl := &p.plans[leaf]
	if pl.column < 0 {
		return p.generate(pl, rows, yield)
	}
	var out column.Batch
	for g, group := range p.file.Groups {
		part := column.Run{From: max(rows.From, group.First), To: min(rows.To, group.First+group.Rows)}
		if part.From >= part.To {
			continue
		}
		err := p.file.Scan(g, pl.column, part, func(b *column.Batch) error {
			if err := pl.apply(b, &out); err != nil {
				return fmt.Errorf("read column %s of %s: %w", pl.leaf.Path, p.file.Location, err)
			}
			p.lineage(pl, &out)
			return yield(&out)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Raw is the file's column of a leaf that needs nothing done: its levels and values are those of the leaf. ok is false where it does.
func (p *Projection) Raw(leaf int) (column int, ok bool) {
	pl := p.plans[leaf]
	if id := pl.leaf.FieldID; id == layout.RowIDField || id == layout.LastUpdatedField {
		return -1, false
	}
	m := Mapping{plan: pl, MaxDef: pl.leaf.MaxDef}
	return pl.column, pl.column >= 0 && m.Raw()
}

// generatedRows is the size of a batch of a column that the file lacks.
const generatedRows = 16 << 10

// generate makes the batches of a column whose file has nothing of it.
func (p *Projection) generate(pl *plan, rows column.Run, yield func(*column.Batch) error) error {
	var out column.Batch
	for from := rows.From; from < rows.To; from += generatedRows {
		n := int(min(generatedRows, rows.To-from))
		out.Reset()
		out.First, out.Rows, out.Levels = from, n, n
		for range n {
			if pl.leaf.MaxDef > 0 {
				out.Def = append(out.Def, pl.tail)
			}
			if pl.leaf.MaxRep > 0 {
				out.Rep = append(out.Rep, 0)
			}
		}
		if pl.tail == pl.leaf.MaxDef {
			repeat(&out.Values, pl.constant, n)
		}
		p.lineage(pl, &out)
		if err := yield(&out); err != nil {
			return err
		}
	}
	return nil
}

// lineage fills the nulls of the row lineage columns: the row ID is the first one plus the position, the last update the data sequence number
// (specification, "Row Lineage").
func (p *Projection) lineage(pl *plan, b *column.Batch) {
	id := pl.leaf.FieldID
	if p.opts.FirstRowID == nil || (id != layout.RowIDField && id != layout.LastUpdatedField) {
		return
	}
	filled := make([]int64, 0, b.Levels)
	value := 0
	for i, d := range b.Def {
		switch {
		case d == pl.leaf.MaxDef:
			filled = append(filled, b.Int64[value])
			value++
		case id == layout.RowIDField:
			filled = append(filled, *p.opts.FirstRowID+b.First+int64(i))
		default:
			filled = append(filled, p.opts.Sequence)
		}
	}
	for i := range b.Def {
		b.Def[i] = pl.leaf.MaxDef
	}
	b.Int64 = filled
}

// repeat appends a single value n times.
func repeat(dst *column.Values, one column.Values, n int) {
	for range n {
		dst.Append(one)
	}
}

// Has says that the file itself holds the leaf.
func (p *Projection) Has(leaf int) bool { return p.plans[leaf].own }
