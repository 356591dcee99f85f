package pages

import (
	"bytes"
	"fmt"
	"slices"

	"firn/internal/compact/engine"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/sink"
)

// createdBy follows the form "application version semantic-version (build hash)", since readers take it apart.
const createdBy = "firn version 1.0.0 (build pages)"

// template is the footer of an output without row groups: the schema, metadata and column orders that the arrow engine would write.
type template struct {
	file footer.File
	root *node
	// paths are the leaves' paths in the schema, as ColumnMetaData wants them.
	paths [][]footer.Value
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
	t.root.leaves(nil, func(_ *node, path []footer.Value) { t.paths = append(t.paths, path) })
	if len(t.paths) != len(job.Target.Layout.Leaves) {
		return nil, fmt.Errorf("make a footer: %d of %d columns", len(t.paths), len(job.Target.Layout.Leaves))
	}
	return t, nil
}

// node is a schema element with its children. column is a leaf's position in its file.
type node struct {
	footer.Element
	children []*node
	column   int
}

func newTree(elements []footer.Element) (*node, error) {
	columns := 0
	var build func(depth int) (*node, error)
	build = func(depth int) (*node, error) {
		const deepest = 64
		if len(elements) == 0 || depth > deepest {
			return nil, fmt.Errorf("the schema is no tree: %w", footer.ErrMalformed)
		}
		n := &node{Element: elements[0]}
		elements = elements[1:]
		count := n.Children()
		if count == 0 {
			n.column = columns
			columns++
			return n, nil
		}
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

func (n *node) leaves(path []footer.Value, visit func(*node, []footer.Value)) {
	for _, c := range n.children {
		at := append(slices.Clip(path), footer.BinaryValue([]byte(c.Name())))
		if len(c.children) == 0 {
			visit(c, at)
		} else {
			c.leaves(at, visit)
		}
	}
}

// shape is how a file's columns lie under the table's: the file's column and maximum definition level of each leaf, and the repetition of every
// node, depth first. A column that the table calls optional may be required in files; then the output has it as they have it, provided that all
// agree.
type shape struct {
	columns     []int
	maxDef      []int16
	repetitions []int64
}

// match finds, for each leaf of want in order, the file's column that is the same: same field IDs, types and shape all the way down. The order of
// a struct's fields may differ, and names may. The error says what differs.
func (s *shape) match(want, have *node, def int16) error {
	if len(want.children) != len(have.children) {
		return decline("column %s has %d parts in a file, %d in the table", want.Name(), len(have.children), len(want.children))
	}
	for i, w := range want.children {
		h, err := counterpart(w, have, i)
		if err != nil {
			return err
		}
		if w.Repetition() != h.Repetition() && (w.Repetition() != optional || h.Repetition() != required) {
			return decline("column %s is not required in every file", w.Name())
		}
		s.repetitions = append(s.repetitions, h.Repetition())
		below := def
		if h.Repetition() != required {
			below++
		}
		if len(w.children) == 0 && len(h.children) == 0 {
			if a, b := describe(w), describe(h); a != b {
				return decline("column %s has type %s in a file, %s in the table", w.Name(), b, a)
			}
			s.columns, s.maxDef = append(s.columns, h.column), append(s.maxDef, below)
			continue
		}
		if err := s.match(w, h, below); err != nil {
			return err
		}
	}
	return nil
}

// The numbers of FieldRepetitionType.
const required, optional = 0, 1

// adopt gives the nodes below n, depth first, the repetitions of the inputs; it returns what is left of them.
func (n *node) adopt(repetitions []int64) []int64 {
	for _, c := range n.children {
		c.Put(3, footer.Int32Value(repetitions[0]))
		repetitions = c.adopt(repetitions[1:])
	}
	return repetitions
}

// counterpart finds the child of have with w's field ID; the repeated group of a list or map has none and is found by its place.
func counterpart(w, have *node, place int) (*node, error) {
	id, ok := w.FieldID()
	if !ok {
		h := have.children[place]
		if _, has := h.FieldID(); has || len(have.children) != 1 {
			return nil, decline("column %s has another shape in a file", w.Name())
		}
		return h, nil
	}
	var found *node
	for _, h := range have.children {
		if got, has := h.FieldID(); has && got == id {
			if found != nil {
				return nil, decline("field ID %d is twice in a file", id)
			}
			found = h
		}
	}
	if found == nil {
		return nil, decline("column %s is not in every file", w.Name())
	}
	return found, nil
}

// describe spells a leaf's type; the annotations that mean the same are spelt the same.
func describe(n *node) string {
	t, _ := n.Type()
	text := t.String()
	if t == footer.Fixed {
		text += fmt.Sprintf("(%d)", n.Width())
	}
	if a := annotation(n.Element); a != "" {
		text += " as " + a
	}
	return text
}

// The numbers of parquet.thrift's LogicalType and ConvertedType.
const (
	logicalString, logicalDecimal, logicalDate, logicalTime, logicalTimestamp, logicalInteger, logicalUUID = 1, 5, 6, 7, 8, 10, 14
	convertedText, convertedDecimal, convertedDate, convertedTime, convertedTimestamp                      = 0, 5, 6, 8, 10
	convertedInt32, convertedInt64                                                                         = 17, 18
)

// annotation spells a logical type, or the older converted type where there is none.
func annotation(e footer.Element) string {
	if l := e.Record(10); l != nil && len(l.Fields) == 1 {
		s := l.Fields[0].Value.Struct
		switch id := l.Fields[0].ID; id {
		case logicalString:
			return "string"
		case logicalDecimal:
			return fmt.Sprintf("decimal(%d,%d)", s.IntOr(2, 0), s.IntOr(1, 0))
		case logicalDate:
			return "date"
		case logicalTime, logicalTimestamp:
			utc, _ := s.Bool(1)
			if id == logicalTime {
				return "time" + unit(s.Record(2)) // Iceberg's time has no zone, whatever the writer said.
			}
			return fmt.Sprintf("timestamp%s utc %t", unit(s.Record(2)), utc)
		case logicalInteger:
			signed, _ := s.Bool(2)
			return integer(s.IntOr(1, 0), signed, e)
		case logicalUUID:
			return "uuid"
		default:
			return fmt.Sprintf("logical type %d", id)
		}
	}
	c, ok := e.Int(6)
	switch {
	case !ok:
		return ""
	case c == convertedText:
		return "string"
	case c == convertedDecimal:
		return fmt.Sprintf("decimal(%d,%d)", e.IntOr(8, 0), e.IntOr(7, 0))
	case c == convertedDate:
		return "date"
	case c == convertedTime:
		return "time2"
	case c == convertedTimestamp:
		return "timestamp2 utc true"
	case c == convertedInt32, c == convertedInt64:
		return integer(32<<(c-convertedInt32), true, e)
	}
	return fmt.Sprintf("converted type %d", c)
}

// integer drops the annotation that says no more than the physical type.
func integer(bits int64, signed bool, e footer.Element) string {
	t, _ := e.Type()
	if signed && (t == footer.Int32 && bits == 32 || t == footer.Int64 && bits == 64) {
		return ""
	}
	return fmt.Sprintf("integer(%d,%t)", bits, signed)
}

func unit(u *footer.Struct) string {
	if u == nil || len(u.Fields) != 1 {
		return "?"
	}
	return fmt.Sprint(u.Fields[0].ID)
}
