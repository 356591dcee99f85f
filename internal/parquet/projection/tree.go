package projection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"
)

// nodeKind is what a node of a file's schema stands for.
type nodeKind int8

const (
	primitive nodeKind = iota
	group
	list
	mapping
	variant
	opaque // a group that is none of the above, such as a repeated field outside of a list
)

// node is a node of a file's schema with the meaning that Iceberg gives it: legacy lists are seen as lists.
type node struct {
	name string
	// id is the field ID, from the file or from the name mapping; noID without one.
	id   int
	kind nodeKind
	// def and rep are the levels at which the node is present; entryDef those of an entry of a list or map.
	def, rep, entryDef int16
	// children are the fields of a group, the element of a list, key and value of a map, the parts of a variant.
	children []*node
	// column is the first column below the node; columns counts them.
	column, columns int
}

const noID = -1

// tree builds the nodes of one file.
type tree struct {
	next   int
	hasIDs bool
	mapped bool
}

// newTree reads a file's schema. Field IDs come from the file if it has any, else from the mapping.
func newTree(sc *schema.Schema, names iceberg.NameMapping) (*node, *tree) {
	t := &tree{}
	for i := range sc.NumColumns() {
		for n := sc.Column(i).SchemaNode(); n != nil && n.Parent() != nil; n = n.Parent() {
			t.hasIDs = t.hasIDs || n.FieldID() > 0
		}
	}
	t.mapped = !t.hasIDs && len(names) > 0
	root := &node{id: noID, kind: group}
	t.fields(root, sc.Root(), names)
	return root, t
}

// fields fills a group's children.
func (t *tree) fields(n *node, g *schema.GroupNode, names []iceberg.MappedField) {
	n.column = t.next
	for i := range g.NumFields() {
		f := g.Field(i)
		n.children = append(n.children, t.node(f, n.def, n.rep, lookup(names, f.Name())))
	}
	n.columns = t.next - n.column
}

// lookup finds a name among mapped fields; a missing one maps nothing.
func lookup(names []iceberg.MappedField, name string) iceberg.MappedField {
	for _, m := range names {
		if slices.Contains(m.Names, name) {
			return m
		}
	}
	return iceberg.MappedField{}
}

func (t *tree) id(n schema.Node, m iceberg.MappedField) int {
	switch {
	case t.hasIDs && n.FieldID() > 0:
		return int(n.FieldID())
	case t.mapped && m.FieldID != nil:
		return *m.FieldID
	}
	return noID
}

// node reads a node below a parent with the given levels.
func (t *tree) node(n schema.Node, def, rep int16, m iceberg.MappedField) *node {
	out := &node{name: n.Name(), id: t.id(n, m), def: def, rep: rep, column: t.next}
	switch n.RepetitionType() {
	case parquet.Repetitions.Optional:
		out.def++
	case parquet.Repetitions.Repeated:
		out.def++
		out.rep++
		out.kind = opaque
		t.skip(n)
		out.columns = t.next - out.column
		return out
	}
	g, isGroup := n.(*schema.GroupNode)
	if !isGroup {
		out.columns = 1
		t.next++
		return out
	}
	switch {
	case isList(g):
		t.list(out, g, m)
	case isMap(g):
		t.mapping(out, g, m)
	default:
		out.kind = group
		if _, ok := g.LogicalType().(schema.VariantLogicalType); ok {
			out.kind = variant
		}
		t.fields(out, g, m.Fields)
	}
	out.columns = t.next - out.column
	return out
}

// skip counts the columns of a node that is not understood.
func (t *tree) skip(n schema.Node) {
	g, ok := n.(*schema.GroupNode)
	if !ok {
		t.next++
		return
	}
	for i := range g.NumFields() {
		t.skip(g.Field(i))
	}
}

func isList(g *schema.GroupNode) bool {
	_, logical := g.LogicalType().(schema.ListLogicalType)
	if !logical && g.ConvertedType() != schema.ConvertedTypes.List {
		return false
	}
	return g.NumFields() == 1 && g.Field(0).RepetitionType() == parquet.Repetitions.Repeated
}

func isMap(g *schema.GroupNode) bool {
	_, logical := g.LogicalType().(schema.MapLogicalType)
	converted := g.ConvertedType()
	if !logical && converted != schema.ConvertedTypes.Map && converted != schema.ConvertedTypes.MapKeyValue {
		return false
	}
	if g.NumFields() != 1 || g.Field(0).RepetitionType() != parquet.Repetitions.Repeated {
		return false
	}
	entry, ok := g.Field(0).(*schema.GroupNode)
	return ok && entry.NumFields() == 2
}

// list reads a list by the Parquet specification's backward-compatibility rules: the repeated node is the element itself when it is a
// primitive, has several fields, or is named "array" or "<list>_tuple".
func (t *tree) list(out *node, g *schema.GroupNode, m iceberg.MappedField) {
	out.kind = list
	out.entryDef = out.def + 1
	repeated := g.Field(0)
	names := lookup(m.Fields, "element")
	inner, isGroup := repeated.(*schema.GroupNode)
	var element *node
	switch {
	case !isGroup:
		element = &node{id: t.id(repeated, names), def: out.entryDef, rep: out.rep + 1, column: t.next, columns: 1}
		t.next++
	case inner.NumFields() != 1 || inner.Name() == "array" || inner.Name() == g.Name()+"_tuple" ||
		inner.Field(0).RepetitionType() == parquet.Repetitions.Repeated:
		element = &node{id: t.id(repeated, names), kind: group, def: out.entryDef, rep: out.rep + 1, column: t.next}
		t.fields(element, inner, names.Fields)
	default:
		element = t.node(inner.Field(0), out.entryDef, out.rep+1, names)
	}
	element.name = "element"
	out.children = []*node{element}
}

func (t *tree) mapping(out *node, g *schema.GroupNode, m iceberg.MappedField) {
	out.kind = mapping
	out.entryDef = out.def + 1
	entry := g.Field(0).(*schema.GroupNode)
	for i, name := range []string{"key", "value"} {
		child := t.node(entry.Field(i), out.entryDef, out.rep+1, lookup(m.Fields, name))
		child.name = name
		out.children = append(out.children, child)
	}
}

// unidentified finds a field without ID below n, in a file that has IDs. The parts of a variant have none.
func unidentified(n *node, path []string) string {
	if n.kind == variant {
		return ""
	}
	for _, c := range n.children {
		at := append(path, c.name)
		if c.id == noID {
			return strings.Join(at, ".")
		}
		if name := unidentified(c, at); name != "" {
			return name
		}
	}
	return ""
}

// ChildByID finds a child.
func (n *node) childByID(id int) *node {
	for _, c := range n.children {
		if c.id == id {
			return c
		}
	}
	return nil
}

// duplicate finds two siblings of one field ID.
func duplicate(n *node) error {
	seen := make(map[int]string, len(n.children))
	for _, c := range n.children {
		if other, ok := seen[c.id]; ok && c.id != noID {
			return fmt.Errorf("columns %s and %s have the same field ID %d: %w", other, c.name, c.id, ErrUnmappable)
		}
		seen[c.id] = c.name
		if err := duplicate(c); err != nil {
			return err
		}
	}
	return nil
}
