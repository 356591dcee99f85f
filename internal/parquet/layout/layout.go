// Package layout says how an Iceberg schema lies in a Parquet file: one leaf a primitive column, the steps from the root to it with their
// definition and repetition levels, and the Parquet schema to write, as the Iceberg specification's appendix A asks. It reads no file.
package layout

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/footer"
)

// ErrUnsupported says that a type of the schema cannot be carried exactly.
var ErrUnsupported = errors.New("unsupported type")

// Reserved columns of row lineage (Iceberg specification, "Reserved Field IDs").
const (
	// RowIDField is the field ID of _row_id.
	RowIDField = 2147483540
	// LastUpdatedField is the field ID of _last_updated_sequence_number.
	LastUpdatedField = 2147483539
)

// RowIDColumn and LastUpdatedColumn are the row lineage columns as Java's MetadataColumns declares them: optional longs.
func lineageFields() []iceberg.NestedField {
	return []iceberg.NestedField{
		{ID: RowIDField, Name: "_row_id", Type: iceberg.PrimitiveTypes.Int64, Doc: "Implicit row ID that is automatically assigned"},
		{
			ID: LastUpdatedField, Name: "_last_updated_sequence_number", Type: iceberg.PrimitiveTypes.Int64,
			Doc: "Sequence number when the row was last updated",
		},
	}
}

// Kind is the physical form of a leaf's values.
type Kind int8

// The physical forms that are written. INT96 is read, never written.
const (
	Boolean Kind = iota
	Int32
	Int64
	Float
	Double
	Bytes
	Fixed
)

// Type is the kind in the numbers of the Parquet format.
func (k Kind) Type() footer.Type {
	return [...]footer.Type{footer.Boolean, footer.Int32, footer.Int64, footer.Float, footer.Float64, footer.ByteArray, footer.Fixed}[k]
}

// StepKind says what a step of a leaf's path is.
type StepKind int8

// The kinds of steps.
const (
	// Field is a field of a struct or of the root.
	Field StepKind = iota
	// Entry is the repeated group of a list or map: its levels are those of one entry.
	Entry
	// Element, Key and Value are the parts of an entry.
	Element
	Key
	Value
	// Part is a fixed part of a variant (metadata, value), which has no field ID.
	Part
)

// Step is one node of the path from the root to a leaf.
type Step struct {
	Kind StepKind
	// Field is the Iceberg field; for an Entry that of the list or map.
	Field iceberg.NestedField
	// Optional says that the node itself may be null.
	Optional bool
	// Def is the lowest definition level at which the node is present; Rep its repetition level.
	Def, Rep int16
}

// Leaf is one column of a Parquet file.
type Leaf struct {
	// Index is the column's position in the file.
	Index int
	// FieldID is the Iceberg field of the primitive; the variant's own for the parts of a variant.
	FieldID int
	// Path is the dotted name, for messages.
	Path string
	// Type is the Iceberg type; binary for the parts of a variant.
	Type iceberg.Type
	// Kind and Width are the physical form; Width is the length of Fixed values in bytes.
	Kind  Kind
	Width int
	// MaxDef and MaxRep are the leaf's maximum levels.
	MaxDef, MaxRep int16
	// Steps lead from the root to the leaf; the last one is the leaf itself.
	Steps []Step
	// Part says that the leaf is a part of a variant: its values have no bounds of their own.
	Part bool
	// ColumnPath is the dotted path in the Parquet schema.
	ColumnPath string
}

// Layout is a schema laid out.
type Layout struct {
	// Schema is the Iceberg schema, without row lineage columns.
	Schema *iceberg.Schema
	// Lineage says that the two row lineage columns come last.
	Lineage bool
	Leaves  []*Leaf
	// Root is the Parquet schema to write.
	Root *schema.GroupNode
}

// New lays a schema out; lineage appends the row lineage columns. Types that cannot be carried exactly are ErrUnsupported. Columns of type
// unknown hold only nulls and are not stored.
func New(sc *iceberg.Schema, lineage bool) (*Layout, error) {
	fields := sc.Fields()
	if lineage {
		for _, f := range lineageFields() {
			if _, taken := sc.FindFieldByName(f.Name); taken {
				return nil, fmt.Errorf("lay out row lineage: the schema has a column %s of its own: %w", f.Name, ErrUnsupported)
			}
			fields = append(fields, f)
		}
	}
	b := &builder{}
	nodes, err := b.structFields(fields, scope{})
	if err != nil {
		return nil, err
	}
	if len(b.leaves) == 0 {
		return nil, fmt.Errorf("lay out schema %d: no column is stored: %w", sc.ID, ErrUnsupported)
	}
	root, err := schema.NewGroupNode("table", 0, nodes, -1)
	if err != nil {
		return nil, fmt.Errorf("build the Parquet schema: %w", err)
	}
	l := &Layout{Schema: sc, Lineage: lineage, Leaves: b.leaves, Root: root}
	written := schema.NewSchema(root)
	for i, leaf := range l.Leaves {
		c := written.Column(i)
		leaf.Index, leaf.ColumnPath = i, c.Path()
		if c.MaxDefinitionLevel() != leaf.MaxDef || c.MaxRepetitionLevel() != leaf.MaxRep {
			return nil, fmt.Errorf("lay out column %s: levels %d/%d, Parquet says %d/%d", leaf.Path, leaf.MaxDef, leaf.MaxRep,
				c.MaxDefinitionLevel(), c.MaxRepetitionLevel())
		}
	}
	return l, nil
}

// Leaf returns the leaf of a field ID, or nil. Parts of a variant are not found.
func (l *Layout) Leaf(fieldID int) *Leaf {
	for _, leaf := range l.Leaves {
		if leaf.FieldID == fieldID && !leaf.Part {
			return leaf
		}
	}
	return nil
}

// Repeated says that the leaf lies below a list or map.
func (l *Leaf) Repeated() bool { return l.MaxRep > 0 }
