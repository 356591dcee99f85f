// Package column holds a run of one Parquet column in memory: definition and repetition levels beside the values that are present. A batch
// always holds whole rows. It is the currency between reading, projecting and writing; it knows no file and no table.
package column

import "github.com/apache/arrow-go/v18/parquet"

// Values are the present values of a batch, in one slice by physical type; the others stay empty.
type Values struct {
	Bool   []bool
	Int32  []int32
	Int64  []int64
	Int96  []parquet.Int96
	Float  []float32
	Double []float64
	Bytes  []parquet.ByteArray
	Fixed  []parquet.FixedLenByteArray
}

// Len is the number of present values.
func (v *Values) Len() int {
	return len(v.Bool) + len(v.Int32) + len(v.Int64) + len(v.Int96) + len(v.Float) + len(v.Double) + len(v.Bytes) + len(v.Fixed)
}

// Slice returns the values from a to b, sharing memory.
func (v *Values) Slice(a, b int) Values {
	return Values{
		Bool: cut(v.Bool, a, b), Int32: cut(v.Int32, a, b), Int64: cut(v.Int64, a, b), Int96: cut(v.Int96, a, b),
		Float: cut(v.Float, a, b), Double: cut(v.Double, a, b), Bytes: cut(v.Bytes, a, b), Fixed: cut(v.Fixed, a, b),
	}
}

// Append adds the values of w.
func (v *Values) Append(w Values) {
	v.Bool = append(v.Bool, w.Bool...)
	v.Int32 = append(v.Int32, w.Int32...)
	v.Int64 = append(v.Int64, w.Int64...)
	v.Int96 = append(v.Int96, w.Int96...)
	v.Float = append(v.Float, w.Float...)
	v.Double = append(v.Double, w.Double...)
	v.Bytes = append(v.Bytes, w.Bytes...)
	v.Fixed = append(v.Fixed, w.Fixed...)
}

// Reset empties the slices and keeps their memory.
func (v *Values) Reset() {
	*v = v.Slice(0, 0)
}

func cut[T any](s []T, a, b int) []T {
	if len(s) == 0 {
		return s[:0]
	}
	return s[a:b]
}

// Batch is a run of whole rows of one column.
type Batch struct {
	// First is the position of the first row in its file; Rows is the number of rows.
	First int64
	Rows  int
	// Levels is the number of level entries: values, nulls and empty lists.
	Levels int
	// Def and Rep are the levels; empty where the column's maximum is 0.
	Def, Rep []int16
	Values
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.First, b.Rows, b.Levels = 0, 0, 0
	b.Def, b.Rep = b.Def[:0], b.Rep[:0]
	b.Values.Reset()
}

// Run is a range of rows, by position in a file: From <= row < To.
type Run struct{ From, To int64 }

// Keep appends to dst the rows of b that lie in runs (ascending, not overlapping). maxDef is the column's maximum definition level.
func (b *Batch) Keep(dst *Batch, runs []Run, maxDef int16) {
	pos := cursor{batch: b, maxDef: maxDef, row: b.First}
	for _, r := range runs {
		pos.advance(r.From)
		l, v := pos.level, pos.value
		pos.advance(r.To)
		if dst.Levels == 0 {
			dst.First = r.From
		}
		dst.Rows += int(r.To - r.From)
		dst.Levels += pos.level - l
		if len(b.Def) > 0 {
			dst.Def = append(dst.Def, b.Def[l:pos.level]...)
		}
		if len(b.Rep) > 0 {
			dst.Rep = append(dst.Rep, b.Rep[l:pos.level]...)
		}
		dst.Append(b.Slice(v, pos.value))
	}
}

// cursor walks a batch row by row.
type cursor struct {
	batch        *Batch
	maxDef       int16
	row          int64
	level, value int
}

// advance moves to the start of row, which must not lie behind.
func (c *cursor) advance(row int64) {
	if len(c.batch.Rep) == 0 {
		n := int(row - c.row)
		c.value += c.present(c.level, c.level+n)
		c.level += n
		c.row = row
		return
	}
	for c.row < row && c.level < c.batch.Levels {
		end := c.level + 1
		for end < c.batch.Levels && c.batch.Rep[end] != 0 {
			end++
		}
		c.value += c.present(c.level, end)
		c.level = end
		c.row++
	}
}

// present counts the values among the levels from a to b.
func (c *cursor) present(a, b int) int {
	if len(c.batch.Def) == 0 {
		return b - a
	}
	n := 0
	for _, d := range c.batch.Def[a:b] {
		if d == c.maxDef {
			n++
		}
	}
	return n
}
