package pages

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	pqmeta "github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"firn/internal/compact/engine"
	physical "firn/internal/parquet/chunk"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/sink"
)

// createdBy follows the form "application version semantic-version (build hash)", since readers take it apart.
const createdBy = "firn version 1.0.0 (build pages)"

// template is the footer of an output without row groups: the schema, metadata and column orders that the arrow engine would write.
type template struct {
	file footer.File
	root *node
	// paths are the leaves' paths in the schema, as ColumnMetaData wants them; nodes are the nodes on them, one for each step of the leaf.
	paths [][]footer.Value
	nodes [][]*node
}

func newTemplate(job engine.Job) (*template, error) {
	opts := job.Writer
	opts.Bloom = nil
	var buf bytes.Buffer
	w, err := sink.Create(&buf, job.Target.Layout, opts)
	if err == nil {
		_, err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("make a footer: %w", err)
	}
	n, err := footer.Length(buf.Bytes(), int64(buf.Len()))
	if err != nil {
		return nil, fmt.Errorf("make a footer: %w", err)
	}
	end := buf.Len() - footer.TrailerBytes
	f, err := footer.DecodeFile(buf.Bytes()[end-int(n) : end])
	if err != nil {
		return nil, fmt.Errorf("make a footer: %w", err)
	}
	f.Put(footer.FileCreatedBy, footer.BinaryValue([]byte(createdBy)))
	t := &template{file: f}
	if t.root, err = newTree(f.Schema()); err != nil {
		return nil, fmt.Errorf("make a footer: %w", err)
	}
	t.walk(t.root, nil, nil)
	if len(t.paths) != len(job.Target.Layout.Leaves) {
		return nil, fmt.Errorf("make a footer: %d of %d columns", len(t.paths), len(job.Target.Layout.Leaves))
	}
	for i, leaf := range job.Target.Layout.Leaves {
		if len(leaf.Steps) != len(t.nodes[i]) {
			return nil, fmt.Errorf("make a footer: column %s has %d nodes, want %d", leaf.Path, len(t.nodes[i]), len(leaf.Steps))
		}
	}
	return t, nil
}

// node is a schema element with its children.
type node struct {
	footer.Element
	children []*node
}

func newTree(elements []footer.Element) (*node, error) {
	var build func(depth int) (*node, error)
	build = func(depth int) (*node, error) {
		const deepest = 64
		if len(elements) == 0 || depth > deepest {
			return nil, fmt.Errorf("the schema is no tree: %w", footer.ErrMalformed)
		}
		n := &node{Element: elements[0]}
		elements = elements[1:]
		count := n.Children()
		for range count {
			c, err := build(depth + 1)
			if err != nil {
				return nil, err
			}
			n.children = append(n.children, c)
		}
		return n, nil
	}
	root, err := build(0)
	if err == nil && len(elements) != 0 {
		err = fmt.Errorf("the schema is no tree: %w", footer.ErrMalformed)
	}
	return root, err
}

// walk lists the leaves below n.
func (t *template) walk(n *node, path []footer.Value, above []*node) {
	for _, c := range n.children {
		at := append(slices.Clip(path), footer.BinaryValue([]byte(c.Name())))
		nodes := append(slices.Clip(above), c)
		if len(c.children) == 0 {
			t.paths, t.nodes = append(t.paths, at), append(t.nodes, nodes)
		} else {
			t.walk(c, at, nodes)
		}
	}
}

// shape is how the files of one schema lie under the table's.
type shape struct {
	maps []projection.Mapping
	// columns are, by leaf, the file's columns that are read.
	columns []physical.Column
}

// shapes are those of a group; most groups have one.
type shapes struct {
	mutex sync.Mutex
	known map[string]*shape
	list  []*shape
}

// of finds or makes the shape of a file.
func (s *shapes) of(job *engine.Job, in *input, f footer.File) (*shape, error) {
	list := f.Find(footer.FileSchema)
	if list == nil {
		return nil, fmt.Errorf("no schema: %w", footer.ErrMalformed)
	}
	// Constants stand in for columns that the file lacks, so they are part of its shape.
	only := &footer.Struct{}
	only.Put(footer.FileVersion, footer.Int32Value(1))
	only.Put(footer.FileSchema, *list)
	only.Put(footer.FileRows, footer.Int64Value(0))
	only.Put(footer.FileRowGroups, footer.ListValue(footer.Record, nil))
	raw := footer.Append(nil, only)
	key := fmt.Sprintf("%s %v", raw, in.Constants)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if made, ok := s.known[key]; ok {
		return made, nil
	}
	made, err := newShape(job, in, raw)
	if err != nil {
		return nil, err
	}
	if s.known == nil {
		s.known = map[string]*shape{}
	}
	s.known[key] = made
	s.list = append(s.list, made)
	return made, nil
}

// newShape plans the columns; raw is a footer without row groups.
func newShape(job *engine.Job, in *input, raw []byte) (*shape, error) {
	sc, err := parseSchema(raw)
	if err != nil {
		return nil, err
	}
	s := &shape{}
	if s.maps, err = projection.Map(job.Target, sc, projection.Options{Constants: in.Constants}); err != nil {
		return nil, err
	}
	for i := range s.maps {
		at := s.maps[i].Column()
		c := physical.Column{}
		if at >= 0 {
			col := sc.Column(at)
			if max(col.MaxDefinitionLevel(), col.MaxRepetitionLevel()) > encoding.MaxLevel {
				return nil, fmt.Errorf("column %s is nested too deeply", col.Path())
			}
			c = physical.Column{
				Type: footer.Type(col.PhysicalType()), Width: max(col.TypeLength(), 0),
				MaxDef: uint8(col.MaxDefinitionLevel()), MaxRep: uint8(col.MaxRepetitionLevel()),
			}
		}
		s.columns = append(s.columns, c)
	}
	return s, nil
}

// parseSchema reads a schema with arrow-go, whose form projections are planned on. arrow-go panics on some damage.
func parseSchema(raw []byte) (sc *schema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("read the schema: %v: %w", r, footer.ErrMalformed)
		}
	}()
	meta, err := pqmeta.NewFileMetaData(raw, nil)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	return meta.Schema, nil
}

// narrow makes nodes that the table calls optional required in the outputs if they are so in all files, as Spark writes them.
func (s *shapes) narrow(t *template, l *layout.Layout) {
	for i, leaf := range l.Leaves {
		drop := func(step int) bool {
			for _, have := range s.list {
				if !have.maps[i].Required(step) {
					return false
				}
			}
			return true
		}
		for step := range leaf.Steps {
			if leaf.Steps[step].Optional && drop(step) {
				t.nodes[i][step].Put(3, footer.Int32Value(required))
			}
		}
		for _, have := range s.list {
			have.maps[i].Narrow(drop)
		}
	}
}

// required is a FieldRepetitionType.
const required = 0
