package layout

import (
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"
)

// builder collects leaves while it makes Parquet nodes.
type builder struct{ leaves []*Leaf }

// scope is what the parent of a node hands down.
type scope struct {
	steps    []Step
	path     string
	def, rep int16
}

// in returns the scope inside a node of the given step.
func (s scope) in(step Step, name string) scope {
	steps := make([]Step, 0, len(s.steps)+1)
	steps = append(append(steps, s.steps...), step)
	path := name
	if s.path != "" {
		path = s.path + "." + name
	}
	return scope{steps: steps, path: path, def: step.Def, rep: step.Rep}
}

// child makes the step of a node below s.
func (s scope) child(kind StepKind, f iceberg.NestedField) Step {
	step := Step{Kind: kind, Field: f, Optional: !f.Required, Def: s.def, Rep: s.rep}
	if step.Optional {
		step.Def++
	}
	return step
}

func (b *builder) structFields(fields []iceberg.NestedField, in scope) (schema.FieldList, error) {
	names := parquetNames(fields)
	var nodes schema.FieldList
	for i, f := range fields {
		if _, unknown := f.Type.(iceberg.UnknownType); unknown {
			continue
		}
		step := in.child(Field, f)
		n, err := b.node(names[i], f, in.in(step, f.Name))
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// node makes the Parquet node of a field whose scope is open already.
func (b *builder) node(name string, f iceberg.NestedField, at scope) (schema.Node, error) {
	switch t := f.Type.(type) {
	case *iceberg.StructType:
		fields, err := b.structFields(t.FieldList, at)
		if err != nil {
			return nil, err
		}
		if len(fields) == 0 {
			return nil, fmt.Errorf("lay out column %s: a struct without stored fields: %w", at.path, ErrUnsupported)
		}
		return schema.NewGroupNode(name, repetition(f), fields, int32(f.ID))
	case *iceberg.ListType:
		return b.list(name, f, t, at)
	case *iceberg.MapType:
		return b.mapping(name, f, t, at)
	case iceberg.VariantType:
		return b.variant(name, f, at)
	default:
		return b.primitive(name, f, at)
	}
}

// entry opens the repeated group of a list or map.
func entry(f iceberg.NestedField, at scope) scope {
	step := Step{Kind: Entry, Field: f, Def: at.def + 1, Rep: at.rep + 1}
	next := at.in(step, "")
	next.path = at.path
	return next
}

func (b *builder) list(name string, f iceberg.NestedField, t *iceberg.ListType, at scope) (schema.Node, error) {
	element := t.ElementField()
	open := entry(f, at)
	if _, unknown := element.Type.(iceberg.UnknownType); unknown {
		return nil, fmt.Errorf("lay out column %s: a list of unknown: %w", at.path, ErrUnsupported)
	}
	n, err := b.node("element", element, open.in(open.child(Element, element), "element"))
	if err != nil {
		return nil, err
	}
	group, err := schema.NewGroupNode("list", parquet.Repetitions.Repeated, schema.FieldList{n}, -1)
	if err != nil {
		return nil, err
	}
	return schema.NewGroupNodeLogical(name, repetition(f), schema.FieldList{group}, schema.NewListLogicalType(), int32(f.ID))
}

func (b *builder) mapping(name string, f iceberg.NestedField, t *iceberg.MapType, at scope) (schema.Node, error) {
	key, value := t.KeyField(), t.ValueField()
	open := entry(f, at)
	for _, part := range []iceberg.NestedField{key, value} {
		if _, unknown := part.Type.(iceberg.UnknownType); unknown {
			return nil, fmt.Errorf("lay out column %s: a map of unknown: %w", at.path, ErrUnsupported)
		}
	}
	k, err := b.node("key", key, open.in(open.child(Key, key), "key"))
	if err != nil {
		return nil, err
	}
	v, err := b.node("value", value, open.in(open.child(Value, value), "value"))
	if err != nil {
		return nil, err
	}
	group, err := schema.NewGroupNode("key_value", parquet.Repetitions.Repeated, schema.FieldList{k, v}, -1)
	if err != nil {
		return nil, err
	}
	return schema.NewGroupNodeLogical(name, repetition(f), schema.FieldList{group}, schema.MapLogicalType{}, int32(f.ID))
}

// variant lays out an unshredded variant: a group of metadata and value, both required, without field IDs.
func (b *builder) variant(name string, f iceberg.NestedField, at scope) (schema.Node, error) {
	var nodes schema.FieldList
	for _, part := range []string{"metadata", "value"} {
		pf := iceberg.NestedField{ID: f.ID, Name: part, Type: iceberg.PrimitiveTypes.Binary, Required: true}
		in := at.in(at.child(Part, pf), part)
		leaf := b.add(pf, in, Bytes, 0)
		leaf.Part = true
		nodes = append(nodes, schema.NewByteArrayNode(part, parquet.Repetitions.Required, -1))
	}
	return schema.NewGroupNodeLogical(name, repetition(f), nodes, schema.VariantLogicalType{}, int32(f.ID))
}

func (b *builder) primitive(name string, f iceberg.NestedField, at scope) (schema.Node, error) {
	p, err := physical(f.Type)
	if err != nil {
		return nil, fmt.Errorf("lay out column %s: %w", at.path, err)
	}
	b.add(f, at, p.kind, p.width)
	width := p.width
	if p.kind != Fixed {
		width = -1
	}
	return schema.NewPrimitiveNodeLogical(name, repetition(f), p.logical, p.physical, width, int32(f.ID))
}

func (b *builder) add(f iceberg.NestedField, at scope, kind Kind, width int) *Leaf {
	leaf := &Leaf{
		FieldID: f.ID, Path: at.path, Type: f.Type, Kind: kind, Width: width,
		MaxDef: at.def, MaxRep: at.rep, Steps: at.steps,
	}
	b.leaves = append(b.leaves, leaf)
	return leaf
}

func repetition(f iceberg.NestedField) parquet.Repetition {
	if f.Required {
		return parquet.Repetitions.Required
	}
	return parquet.Repetitions.Optional
}
