// Package chunk reads and writes one column chunk of a Parquet file page by page, in physical form: repetition and definition levels beside
// PLAIN values or dictionary indices. It knows no file, no store and no table: bytes come from a caller and go to an io.Writer.
//
//   - Reader walks the pages of a chunk. A Page can be passed on as it lies in the file, or decoded into a Vector.
//   - Vector is a run of entries of a column. It is what filters, sorts and conversions work on.
//   - Writer makes one chunk of vectors and of pages that pass through, and ends it with what the file's footer says of it.
//
// Input is never trusted: damage is an error that wraps encoding.ErrCorrupt or footer.ErrMalformed; what the format allows and this package
// cannot read is encoding.ErrUnsupported or encoding.ErrTooLarge. Nothing panics, and no allocation exceeds what a page can honestly hold.
// Nothing here is safe for concurrent use: each worker owns its Reader, Writer and vectors, and uses them again for every chunk.
package chunk

import (
	"fmt"

	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// Column says what the entries of a chunk are.
type Column struct {
	// Path are the names from the root of the schema to the leaf, as the footer lists them. Reading does not need it.
	Path []string
	// Type is the physical type; Width the length in bytes of FIXED_LEN_BYTE_ARRAY, without meaning for the others.
	Type  footer.Type
	Width int
	// MaxDef and MaxRep are the leaf's maximum levels.
	MaxDef, MaxRep uint8
	// Order is how values compare in statistics; with encoding.Undefined none are written.
	Order encoding.Order
	// Text says that values are UTF-8: then long bounds are cut between characters.
	Text bool
}

// ValueWidth is the length in bytes of a value in a Vector: 1 for booleans, encoding.ByteArray where each value has a length of its own.
func (c *Column) ValueWidth() int {
	switch c.Type {
	case footer.Boolean:
		return 1
	case footer.Int32, footer.Float:
		return 4
	case footer.Int64, footer.Float64:
		return 8
	case footer.Int96:
		return 12
	case footer.Fixed:
		return c.Width
	default:
		return encoding.ByteArray
	}
}

// check refuses what no chunk can be.
func (c *Column) check() error {
	if c.Type < footer.Boolean || c.Type > footer.Fixed || (c.Type == footer.Fixed && (c.Width <= 0 || c.Width > encoding.MaxPageBytes)) {
		return fmt.Errorf("a column of %s(%d): %w", c.Type, c.Width, encoding.ErrUnsupported)
	}
	return nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, encoding.ErrCorrupt)...)
}
