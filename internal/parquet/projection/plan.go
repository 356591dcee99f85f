package projection

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/layout"
)

// plan says how one leaf is made from a file.
type plan struct {
	leaf *layout.Leaf
	// column is the file's column to read: the leaf's own, or, when the file lacks the leaf, one below its nearest ancestor that gives the shape;
	// -1 when the file has no ancestor but the root.
	column int
	// levels maps the column's definition levels to the leaf's; illegal marks a null where the schema allows none.
	levels []int16
	// maxRep drops entries of lists below the ancestor.
	maxRep int16
	// own says that column is the leaf's own, so that its values are converted; else present entries get the constant.
	own     bool
	convert conversion
	// tail is the definition level of an entry whose ancestor is present; constant is the value if that is the leaf's maximum.
	tail     int16
	constant column.Values
	// required says of each step that the file has the node, and that it is never null there.
	required []bool
	// narrowed is what Narrow took off each level; entry is the constant as a dictionary. Only mappings have them.
	narrowed []int16
	entry    *encoding.Entries
}

const illegal = -1

// match is how far a leaf's path was found in a file.
type match struct {
	node  *node // the last node found
	steps int   // how many steps that covers
	defs  []int16
}

func (m match) required() []bool {
	out := make([]bool, m.steps)
	last := int16(0)
	for i, def := range m.defs {
		out[i], last = def == last, def
	}
	return out
}

// follow walks the leaf's path.
func follow(root *node, leaf *layout.Leaf) (match, error) {
	m := match{node: root}
	for _, s := range leaf.Steps {
		next, def, err := step(m.node, s)
		if err != nil || next == nil {
			return m, err
		}
		m.node, m.steps = next, m.steps+1
		m.defs = append(m.defs, def)
	}
	return m, nil
}

// step takes one step from a node; nil when the file lacks it.
func step(n *node, s layout.Step) (*node, int16, error) {
	switch s.Kind {
	case layout.Entry:
		want := list
		if _, ok := s.Field.Type.(*iceberg.MapType); ok {
			want = mapping
		}
		if n.kind != want {
			return nil, 0, fmt.Errorf("the file's %s is no %s: %w", n.name, s.Field.Type.Type(), ErrUnmappable)
		}
		return n, n.entryDef, nil
	case layout.Part:
		return part(n, s.Field.Name)
	case layout.Element, layout.Key, layout.Value:
		i := 0
		if s.Kind == layout.Value {
			i = 1
		}
		if c := n.children[i]; c.id != s.Field.ID {
			return nil, 0, fmt.Errorf("the %s of the file's %s has field ID %d, not %d: %w", c.name, n.name, c.id, s.Field.ID, ErrUnmappable)
		}
		return n.children[i], n.children[i].def, nil
	default:
		if n.kind != group {
			return nil, 0, fmt.Errorf("the file's %s is no struct: %w", n.name, ErrUnmappable)
		}
		c := n.childByID(s.Field.ID)
		if c == nil {
			return nil, 0, nil
		}
		return c, c.def, nil
	}
}

// part finds metadata or value of a variant. A shredded variant is refused: its value is spread over more columns.
func part(n *node, name string) (*node, int16, error) {
	if n.kind != variant && n.kind != group {
		return nil, 0, fmt.Errorf("the file's %s is no variant: %w", n.name, ErrUnmappable)
	}
	var found *node
	for _, c := range n.children {
		switch c.name {
		case name:
			found = c
		case "metadata", "value":
		default:
			return nil, 0, fmt.Errorf("the variant %s is shredded: %w", n.name, ErrUnmappable)
		}
	}
	if found == nil || found.kind != primitive {
		return nil, 0, fmt.Errorf("the variant %s has no %s: %w", n.name, name, ErrUnmappable)
	}
	return found, found.def, nil
}

func newPlan(t *Target, sc *schema.Schema, root *node, leaf *layout.Leaf, opts Options) (plan, error) {
	m, err := follow(root, leaf)
	if err != nil {
		return plan{}, err
	}
	p := plan{leaf: leaf, column: -1, required: m.required()}
	if m.steps == len(leaf.Steps) {
		if m.node.kind != primitive {
			return plan{}, fmt.Errorf("the file's %s is no %s: %w", m.node.name, leaf.Type, ErrUnmappable)
		}
		p.own, p.column, p.maxRep, p.tail = true, m.node.column, leaf.MaxRep, leaf.MaxDef
		if p.convert, err = newConversion(sc.Column(p.column), leaf); err != nil {
			return plan{}, err
		}
	} else {
		if err := p.missing(t, m, opts); err != nil {
			return plan{}, err
		}
		if m.steps > 0 {
			p.column = m.node.column
		}
	}
	if p.column >= 0 {
		p.levels = p.levelMap(m, sc.Column(p.column).MaxDefinitionLevel())
	}
	return p, nil
}

// missing decides what stands for the part of the path that the file lacks: walking down, a node without default is null where it may be, a
// struct with a default is present, and a primitive has its constant or default.
func (p *plan) missing(t *Target, m match, opts Options) error {
	if m.steps > 0 {
		p.tail, p.maxRep = p.leaf.Steps[m.steps-1].Def, p.leaf.Steps[m.steps-1].Rep
	}
	for _, s := range p.leaf.Steps[m.steps:] {
		value, known, err := standIn(t, s, opts)
		if err != nil {
			return err
		}
		if !known {
			if !s.Optional {
				return fmt.Errorf("the file lacks the required column %s, which has no default: %w", s.Field.Name, ErrUnmappable)
			}
			return nil
		}
		p.tail, p.constant = s.Def, value
	}
	return nil
}

// standIn finds the value of a missing node. known is false when it is null.
func standIn(t *Target, s layout.Step, opts Options) (value column.Values, known bool, err error) {
	if s.Kind != layout.Field {
		return value, false, errors.New("a list or map has no default")
	}
	if v, ok := opts.Constants[s.Field.ID]; ok {
		if v == nil {
			return value, false, nil
		}
		value, err = constantValue(s.Field.Type, v)
		return value, err == nil, err
	}
	raw, ok := t.Defaults[s.Field.ID]
	if !ok || string(raw) == "null" {
		return value, false, nil
	}
	switch s.Field.Type.(type) {
	case *iceberg.StructType:
		return value, true, nil
	case *iceberg.ListType, *iceberg.MapType, iceberg.VariantType:
		return value, false, fmt.Errorf("a default of type %s: %w", s.Field.Type.Type(), ErrUnmappable)
	}
	value, err = defaultValue(s.Field.Type, raw)
	return value, err == nil, err
}

// levelMap computes, for each definition level of the column that is read, the leaf's level.
func (p *plan) levelMap(m match, maxDef int16) []int16 {
	levels := make([]int16, maxDef+1)
	for d := range levels {
		k := 0
		for k < m.steps && m.defs[k] <= int16(d) {
			k++
		}
		level := int16(0)
		if k > 0 {
			level = p.leaf.Steps[k-1].Def
		}
		switch {
		case k == m.steps:
			level = p.tail
		case p.leaf.Steps[k].Def == level:
			level = illegal // The next node is absent in the file and required in the schema.
		}
		levels[d] = level
	}
	return levels
}

// apply turns a batch of the file's column into one of the leaf.
func (p *plan) apply(b, out *column.Batch) error {
	out.Def, out.Rep = out.Def[:0], out.Rep[:0]
	out.First, out.Rows = b.First, b.Rows
	if len(p.levels) == 1 && p.leaf.MaxRep == 0 && len(b.Rep) == 0 {
		p.flat(b.Levels, out)
	} else if err := p.nested(b, out); err != nil {
		return err
	}
	if !p.own {
		out.Values.Reset()
		present := 0
		if p.tail == p.leaf.MaxDef {
			present = out.Levels
			if p.leaf.MaxDef > 0 {
				present = count(out.Def, p.leaf.MaxDef)
			}
		}
		repeat(&out.Values, p.constant, present)
		return nil
	}
	return p.convert.apply(&b.Values, &out.Values)
}

// flat covers a column without levels.
func (p *plan) flat(n int, out *column.Batch) {
	out.Levels = n
	if p.leaf.MaxDef > 0 {
		for range n {
			out.Def = append(out.Def, p.levels[0])
		}
	}
}

func (p *plan) nested(b, out *column.Batch) error {
	out.Levels = 0
	for i := range b.Levels {
		if len(b.Rep) > 0 && b.Rep[i] > p.maxRep {
			continue
		}
		level := p.levels[0]
		if len(b.Def) > 0 {
			level = p.levels[b.Def[i]]
		}
		if level == illegal {
			return fmt.Errorf("a null in a required column: %w", ErrUnmappable)
		}
		if p.leaf.MaxDef > 0 {
			out.Def = append(out.Def, level)
		}
		if p.leaf.MaxRep > 0 {
			rep := int16(0)
			if len(b.Rep) > 0 {
				rep = b.Rep[i]
			}
			out.Rep = append(out.Rep, rep)
		}
		out.Levels++
	}
	return nil
}

func count(levels []int16, want int16) int {
	n := 0
	for _, l := range levels {
		if l == want {
			n++
		}
	}
	return n
}
