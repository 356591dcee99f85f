package sorted

import (
	"firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
)

// toVector turns a batch into the physical form; plain is memory for its values, which is returned for the next call.
func toVector(v *chunk.Vector, plain []byte, c *chunk.Column, b *column.Batch) []byte {
	v.Rows, v.Entries, v.Values = b.Rows, b.Levels, b.Len()
	v.Rep, v.Def, v.Dictionary = v.Rep[:0], v.Def[:0], nil
	if c.MaxDef > 0 {
		for _, d := range b.Def {
			v.Def = append(v.Def, uint8(d))
		}
	}
	if c.MaxRep > 0 {
		for _, r := range b.Rep {
			v.Rep = append(v.Rep, uint8(r))
		}
	}
	v.Plain = b.AppendPlain(plain[:0])
	return v.Plain
}

// toBatch turns a vector with PLAIN values into a batch, whose byte values point into it.
func toBatch(b *column.Batch, c *chunk.Column, v *chunk.Vector) error {
	b.Reset()
	b.Rows, b.Levels = v.Rows, v.Entries
	for _, d := range v.Def {
		b.Def = append(b.Def, int16(d))
	}
	for _, r := range v.Rep {
		b.Rep = append(b.Rep, int16(r))
	}
	return b.SetPlain(c.Type, c.Width, v.Plain, v.Values)
}
