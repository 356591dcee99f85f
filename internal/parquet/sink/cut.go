package sink

import (
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// writeBytes bounds the byte values of one call into arrow-go, which looks at page sizes only every 1,024 values: a thousand values of a
// megabyte would become one page.
const writeBytes = 1 << 20

// cutter cuts a batch at row borders, by rows and by bytes.
type cutter struct {
	batch        *column.Batch
	leaf         *layout.Leaf
	level, value int
}

// next returns at most rows rows, and fewer when their values pass writeBytes; 0 rows at the end.
func (c *cutter) next(rows int) (column.Batch, int) {
	level, value, taken := c.level, c.value, 0
	var size int
	for taken < rows && level < c.batch.Levels && size < writeBytes {
		for {
			if c.leaf.MaxDef == 0 || c.batch.Def[level] == c.leaf.MaxDef {
				if c.leaf.Kind == layout.Bytes {
					size += len(c.batch.Bytes[value])
				}
				value++
			}
			level++
			if c.leaf.MaxRep == 0 || level == c.batch.Levels || c.batch.Rep[level] == 0 {
				break
			}
		}
		taken++
	}
	part := column.Batch{Rows: taken, Levels: level - c.level, Values: c.batch.Slice(c.value, value)}
	if c.leaf.MaxDef > 0 {
		part.Def = c.batch.Def[c.level:level]
	}
	if c.leaf.MaxRep > 0 {
		part.Rep = c.batch.Rep[c.level:level]
	}
	c.level, c.value = level, value
	return part, taken
}
