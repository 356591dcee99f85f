package projection

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/parquet/schema"

	"firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/layout"
)

// Mapping says how one leaf is made from a file's columns, for engines that work on pages: the same plan that Projection follows row by row.
type Mapping struct {
	plan
	// MaxDef is the leaf's maximum definition level in what is written: that of the leaf, unless Narrow took levels away.
	MaxDef int16
}

// Map plans all leaves of a file from its schema alone. Of opts only the constants are used; row lineage is asked for in Lineage.
func Map(t *Target, sc *schema.Schema, opts Options) ([]Mapping, error) {
	plans, err := newPlans(t, sc, opts)
	if err != nil {
		return nil, err
	}
	out := make([]Mapping, len(plans))
	for i := range plans {
		m := Mapping{plan: plans[i], MaxDef: plans[i].leaf.MaxDef}
		if !m.own && !m.Null() && m.leaf.Kind != layout.Boolean {
			e, err := encoding.ParseEntries(m.constant.AppendPlain(nil), m.width(), 1)
			if err != nil {
				return nil, fmt.Errorf("column %s: %w", m.leaf.Path, err)
			}
			m.entry = &e
		}
		out[i] = m
	}
	return out, nil
}

// Column is the file's column to read: the leaf's own, or one that only gives the levels; -1 when the file has nothing of the leaf.
func (m *Mapping) Column() int { return m.column }

// Own says that the file holds the leaf itself.
func (m *Mapping) Own() bool { return m.own }

// Required says of each of the leaf's steps that the file has the node and that it is never null there.
func (m *Mapping) Required(step int) bool { return step < len(m.required) && m.required[step] }

// Null says that every entry of the leaf is null, or belongs to an empty list, since the file lacks the leaf and nothing stands in for it.
func (m *Mapping) Null() bool { return !m.own && m.tail != m.leaf.MaxDef }

// Same says that values keep their PLAIN form, so that bounds of the file hold; Raw that levels do so too: pages can be copied as they are.
func (m *Mapping) Same() bool { return m.own && m.convert.same }

// Raw is explained at Same.
func (m *Mapping) Raw() bool { return m.Same() && m.sameLevels() }

// sameLevels says that definition levels are written as they are.
func (m *Mapping) sameLevels() bool {
	if len(m.levels) != int(m.MaxDef)+1 {
		return false
	}
	for d, l := range m.levels {
		if int(l) != d {
			return false
		}
	}
	return true
}

// Narrow makes steps of the leaf that the table calls optional required in what is written: drop says which. No entry may be null there.
func (m *Mapping) Narrow(drop func(step int) bool) {
	lower := make([]int16, m.leaf.MaxDef+1) // By level of the leaf, what is taken off.
	for i, s := range m.leaf.Steps {
		if !s.Optional || !drop(i) {
			continue
		}
		m.MaxDef--
		for d := s.Def; d <= m.leaf.MaxDef; d++ {
			lower[d]++
		}
	}
	levels := make([]int16, len(m.levels))
	for d, l := range m.levels {
		if levels[d] = l; l != illegal {
			levels[d] -= lower[l]
		}
	}
	m.levels = levels
	m.narrowed = lower
}

// Lineage is what a file's entry says of its rows' lineage; the zero value says nothing.
type Lineage struct {
	// FirstRowID is the file's first row ID; nil without row lineage. Sequence is the file's data sequence number.
	FirstRowID *int64
	Sequence   int64
}

// Mapper applies mappings to vectors. It keeps buffers, so it serves one goroutine; what it fills is valid until its next call.
type Mapper struct {
	from, to   column.Values
	plain      []byte
	source     *encoding.Entries
	dictionary *encoding.Entries
	// sequence is the last sequence number that was asked for as a dictionary.
	sequence   int64
	sequenceOf *encoding.Entries
}

// Apply turns a vector of the file's column c into one of the leaf. first is the position in the file of the first row that begins in it.
func (a *Mapper) Apply(m *Mapping, c *chunk.Column, src, dst *chunk.Vector) error {
	dst.Reset()
	dst.Rows = src.Rows
	if err := m.mapLevels(src, dst); err != nil {
		return err
	}
	if !m.own {
		a.stand(m, dst)
		return nil
	}
	if dst.Values != src.Values {
		return fmt.Errorf("%d values of %d are left", dst.Values, src.Values) // The plan of an own column drops nothing.
	}
	dst.Plain, dst.Indices, dst.Dictionary = src.Plain, src.Indices, src.Dictionary
	if m.convert.same {
		return nil
	}
	if src.Dictionary == nil {
		plain, err := a.convert(m, c, src.Plain, src.Values)
		dst.Plain = plain
		return err
	}
	entries, err := a.Entries(m, c, src.Dictionary)
	dst.Dictionary = entries
	return err
}

// Entries converts a dictionary of the file's column c. It is valid until one of another column or chunk is converted.
func (a *Mapper) Entries(m *Mapping, c *chunk.Column, e *encoding.Entries) (*encoding.Entries, error) {
	if m.convert.same || a.source == e {
		if m.convert.same {
			return e, nil
		}
		return a.dictionary, nil
	}
	plain, err := a.convert(m, c, e.Bytes(), e.Len())
	if err != nil {
		return nil, err
	}
	made, err := encoding.ParseEntries(append([]byte{}, plain...), m.width(), e.Len())
	a.source, a.dictionary = e, &made
	return a.dictionary, err
}

func (a *Mapper) convert(m *Mapping, c *chunk.Column, plain []byte, n int) ([]byte, error) {
	if m.convert.plain != nil && c.Width > 0 && len(plain) == n*c.Width {
		a.plain = m.convert.plain(a.plain[:0], plain, c.Width)
		return a.plain, nil
	}
	if err := a.from.SetPlain(c.Type, c.Width, plain, n); err != nil {
		return nil, err
	}
	a.to.Reset()
	if err := m.convert.apply(&a.from, &a.to); err != nil {
		return nil, err
	}
	a.plain = a.to.AppendPlain(a.plain[:0])
	return a.plain, nil
}

// width is the length of the leaf's values.
func (m *Mapping) width() int {
	c := chunk.Column{Type: m.leaf.Kind.Type(), Width: m.leaf.Width}
	return c.ValueWidth()
}

// mapLevels fills the levels of dst and counts its entries and values.
func (m *Mapping) mapLevels(src, dst *chunk.Vector) error {
	if m.own && m.sameLevels() {
		dst.Rep, dst.Def = append(dst.Rep, src.Rep...), append(dst.Def, src.Def...)
		dst.Entries, dst.Values = src.Entries, src.Values
		return nil
	}
	for i := range src.Entries {
		rep, def := uint8(0), uint8(0)
		if len(src.Rep) > 0 {
			if rep = src.Rep[i]; int16(rep) > m.maxRep {
				continue
			}
		}
		if len(src.Def) > 0 {
			def = src.Def[i]
		}
		level := m.levels[def]
		if level == illegal {
			return fmt.Errorf("a null in a required column: %w", ErrUnmappable)
		}
		if m.leaf.MaxRep > 0 {
			dst.Rep = append(dst.Rep, rep)
		}
		if m.MaxDef > 0 {
			dst.Def = append(dst.Def, uint8(level))
		}
		dst.Entries++
		if level == m.MaxDef {
			dst.Values++
		}
	}
	return nil
}

// stand puts the constant in the place of each value that the file lacks.
func (a *Mapper) stand(m *Mapping, dst *chunk.Vector) {
	if dst.Values == 0 {
		return
	}
	if m.leaf.Kind == layout.Boolean {
		a.plain = a.plain[:0]
		for range dst.Values {
			a.plain = m.constant.AppendPlain(a.plain)
		}
		dst.Plain = a.plain
		return
	}
	if cap(dst.Indices) < dst.Values {
		dst.Indices = make([]uint32, dst.Values)
	}
	dst.Indices = dst.Indices[:dst.Values]
	clear(dst.Indices)
	dst.Dictionary = m.entry
}

// Constant is the value that stands for one that the file lacks, as a dictionary of one entry; nil when there is none, and of a boolean.
func (m *Mapping) Constant() *encoding.Entries { return m.entry }

// Generate makes rows of a leaf of which the file has nothing.
func (a *Mapper) Generate(m *Mapping, rows int, dst *chunk.Vector) {
	dst.Reset()
	dst.Rows, dst.Entries = rows, rows
	tail := m.tail
	if m.narrowed != nil {
		tail -= m.narrowed[tail]
	}
	for range rows {
		if m.leaf.MaxRep > 0 {
			dst.Rep = append(dst.Rep, 0)
		}
		if m.MaxDef > 0 {
			dst.Def = append(dst.Def, uint8(tail))
		}
	}
	if tail == m.MaxDef {
		dst.Values = rows
	}
	a.stand(m, dst)
}

// IsLineage says that the leaf is one of the two columns of row lineage, whose nulls have a meaning: see FillLineage.
func (m *Mapping) IsLineage() bool {
	return m.leaf.FieldID == layout.RowIDField || m.leaf.FieldID == layout.LastUpdatedField
}

// FillLineage replaces the nulls of a row lineage column: the row ID is the first one plus the position, the last update the data sequence number
// (specification, "Row Lineage"). first is the position in the file of the vector's first row.
func (a *Mapper) FillLineage(m *Mapping, l Lineage, first int64, v *chunk.Vector) error {
	if l.FirstRowID == nil || !m.IsLineage() || v.Values == v.Entries {
		return nil
	}
	if v.Values == 0 {
		return a.fillAll(m, l, *l.FirstRowID+first, v)
	}
	plain := v.Plain
	if v.Dictionary != nil {
		var err error
		if plain, err = v.Dictionary.Expand(nil, v.Indices); err != nil {
			return err
		}
	}
	if err := a.from.SetPlain(footer.Int64, 0, plain, v.Values); err != nil {
		return err
	}
	a.to.Reset()
	value := 0
	for i, d := range v.Def {
		switch {
		case int16(d) == m.MaxDef:
			a.to.Int64 = append(a.to.Int64, a.from.Int64[value])
			value++
		case m.leaf.FieldID == layout.RowIDField:
			a.to.Int64 = append(a.to.Int64, *l.FirstRowID+first+int64(i))
		default:
			a.to.Int64 = append(a.to.Int64, l.Sequence)
		}
		v.Def[i] = uint8(m.MaxDef)
	}
	a.plain = a.to.AppendPlain(a.plain[:0])
	v.Plain, v.Indices, v.Dictionary, v.Values = a.plain, v.Indices[:0], nil, v.Entries
	return nil
}

// fillAll is FillLineage of a vector without values.
func (a *Mapper) fillAll(m *Mapping, l Lineage, id int64, v *chunk.Vector) (err error) {
	for i := range v.Def {
		v.Def[i] = uint8(m.MaxDef)
	}
	v.Values = v.Entries
	if m.leaf.FieldID == layout.RowIDField {
		a.plain = a.plain[:0]
		for i := range v.Entries {
			a.plain = binary.LittleEndian.AppendUint64(a.plain, uint64(id+int64(i)))
		}
		v.Plain, v.Indices, v.Dictionary = a.plain, v.Indices[:0], nil
		return nil
	}
	v.Plain, v.Indices = nil, slices.Grow(v.Indices[:0], v.Entries)[:v.Entries]
	clear(v.Indices)
	v.Dictionary, err = a.Sequence(m, l)
	return err
}

// Sequence is the data sequence number as a dictionary of one entry, which FillLineage refers to where a vector has no value; nil for other columns.
func (a *Mapper) Sequence(m *Mapping, l Lineage) (*encoding.Entries, error) {
	if l.FirstRowID == nil || m.leaf.FieldID != layout.LastUpdatedField {
		return nil, nil
	}
	if a.sequenceOf == nil || a.sequence != l.Sequence {
		e, err := encoding.ParseEntries(binary.LittleEndian.AppendUint64(nil, uint64(l.Sequence)), 8, 1)
		if err != nil {
			return nil, err
		}
		a.sequence, a.sequenceOf = l.Sequence, &e
	}
	return a.sequenceOf, nil
}
