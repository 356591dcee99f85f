package keys

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/apache/iceberg-go"

	"firn/internal/maintenance"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// primitiveBytes is what each value that is no string gives to a curve.
const primitiveBytes = 8

// NewContribution makes the encoder of a column's part of a curve, as Iceberg's ZOrderByteUtils does: whole numbers with the sign bit flipped,
// floats as sign and magnitude, timestamps in seconds (as Spark casts them), strings and bytes cut or padded with zeros to the contribution; null
// is all zeros.
func NewContribution(id int, curve maintenance.Curve, varBytes int, l *layout.Layout) (*Field, error) {
	leaf, err := leafOf(id, l)
	if err != nil {
		return nil, err
	}
	f := &Field{Leaf: leaf, width: primitiveBytes}
	number := func(get func(v *column.Values, i int) uint64) {
		f.append = func(dst []byte, v *column.Values, i int) ([]byte, bool) {
			return binary.BigEndian.AppendUint64(dst, get(v, i)), true
		}
	}
	whole := func(get func(v *column.Values, i int) int64) {
		number(func(v *column.Values, i int) uint64 { return uint64(get(v, i)) ^ 1<<63 })
	}
	if _, decimal := leaf.Type.(iceberg.DecimalType); decimal {
		return nil, fmt.Errorf("order by column %s on a curve: type %s: %w", leaf.Path, leaf.Type, ErrUnsupported)
	}
	switch leaf.Kind {
	case layout.Boolean:
		number(func(v *column.Values, i int) uint64 {
			if v.Bool[i] {
				return 0x81 << 56
			}
			return 0
		})
	case layout.Int32:
		whole(func(v *column.Values, i int) int64 { return int64(v.Int32[i]) })
	case layout.Int64:
		unit := secondsUnit(leaf.Type)
		whole(func(v *column.Values, i int) int64 { return floorDiv(v.Int64[i], unit) })
	case layout.Float:
		number(func(v *column.Values, i int) uint64 { return float64Bits(float64(v.Float[i])) })
	case layout.Double:
		number(func(v *column.Values, i int) uint64 { return float64Bits(v.Double[i]) })
	default:
		f.text(curve, varBytes)
	}
	return f, nil
}

// text gives a fixed number of bytes of a string or of binary.
func (f *Field) text(curve maintenance.Curve, varBytes int) {
	f.width = varBytes
	if curve == maintenance.Hilbert {
		f.width = primitiveBytes // All axes of the curve have 64 bits.
	}
	width, isText := f.width, false
	if _, isText = f.Leaf.Type.(iceberg.StringType); isText || f.Leaf.Kind == layout.Bytes {
		f.append = func(dst []byte, v *column.Values, i int) ([]byte, bool) {
			return appendCut(dst, v.Bytes[i], width, isText), true
		}
		return
	}
	f.append = func(dst []byte, v *column.Values, i int) ([]byte, bool) {
		return appendCut(dst, v.Fixed[i], width, false), true
	}
}

// appendCut cuts text between characters, as Java's encoder does, and pads with zeros.
func appendCut(dst, v []byte, width int, text bool) []byte {
	n := min(len(v), width)
	if text && n < len(v) {
		for n > 0 && !utf8.RuneStart(v[n]) {
			n--
		}
	}
	dst = append(dst, v[:n]...)
	for range width - n {
		dst = append(dst, 0)
	}
	return dst
}

func secondsUnit(t iceberg.Type) int64 {
	switch t.(type) {
	case iceberg.TimestampType, iceberg.TimestampTzType:
		return 1_000_000
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return 1_000_000_000
	}
	return 1
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Curve joins the contributions of columns into keys.
type Curve struct {
	widths []int
	// size is the length of a key.
	size    int
	hilbert bool
	// spread[m][b] has the bits of b m apart, the highest at 8*m-1.
	spread [][256]uint64
	axes   []uint64
	full   []byte
}

// maxSpread is how many columns can be interleaved byte by byte in a machine word.
const maxSpread = 8

// NewCurve joins contributions of these widths. limit cuts keys of a z-order, 0 does not.
func NewCurve(curve maintenance.Curve, widths []int, limit int) *Curve {
	c := &Curve{widths: widths, hilbert: curve == maintenance.Hilbert, axes: make([]uint64, len(widths))}
	for _, w := range widths {
		c.size += w
	}
	c.full = make([]byte, 0, c.size+primitiveBytes)
	if limit > 0 && !c.hilbert {
		c.size = min(c.size, limit)
	}
	for m := range min(len(widths), maxSpread) + 1 {
		var t [256]uint64
		for b := range 256 {
			for bit := range 8 {
				if b>>bit&1 == 1 && m > 0 {
					t[b] |= 1 << (bit * m)
				}
			}
		}
		c.spread = append(c.spread, t)
	}
	return c
}

// Size is the length of each key in bytes.
func (c *Curve) Size() int { return c.size }

// Append adds the key of one row. parts are the columns' contributions, each of its column's width.
func (c *Curve) Append(dst []byte, parts [][]byte) []byte {
	if c.hilbert {
		parts = c.turn(parts)
	}
	c.full = c.full[:0]
	if len(parts) > maxSpread {
		c.full = interleaveBits(c.full, parts, c.size)
		return append(dst, c.full[:c.size]...)
	}
	for at := 0; len(c.full) < c.size; at++ {
		var word uint64
		m := 0
		for i := range parts {
			if at < c.widths[i] {
				m++
			}
		}
		left := m
		for i, p := range parts {
			if at < c.widths[i] {
				left--
				word |= c.spread[m][p[at]] << left
			}
		}
		for b := m - 1; b >= 0; b-- {
			c.full = append(c.full, byte(word>>(8*b)))
		}
	}
	return append(dst, c.full[:c.size]...)
}

// interleaveBits takes bit after bit of all parts in turn, from the highest; a part that has no bit left is passed over.
func interleaveBits(dst []byte, parts [][]byte, size int) []byte {
	var acc byte
	n := 0
	for bit := 0; len(dst) < size; bit++ {
		for _, p := range parts {
			if bit/8 >= len(p) {
				continue
			}
			acc = acc<<1 | p[bit/8]>>(7-bit%8)&1
			if n++; n == 8 {
				dst = append(dst, acc)
				acc, n = 0, 0
			}
		}
	}
	return dst
}

// turn replaces coordinates by the transposed Hilbert index of their point (J. Skilling, "Programming the Hilbert curve", 2004); interleaving its
// bits gives the position on the curve.
func (c *Curve) turn(parts [][]byte) [][]byte {
	x := c.axes
	for i, p := range parts {
		x[i] = binary.BigEndian.Uint64(p)
	}
	last := len(x) - 1
	for q := uint64(1) << 63; q > 1; q >>= 1 {
		p := q - 1
		for i := range x {
			if x[i]&q != 0 {
				x[0] ^= p
			} else {
				t := (x[0] ^ x[i]) & p
				x[0] ^= t
				x[i] ^= t
			}
		}
	}
	for i := 1; i <= last; i++ {
		x[i] ^= x[i-1]
	}
	var t uint64
	for q := uint64(1) << 63; q > 1; q >>= 1 {
		if x[last]&q != 0 {
			t ^= q - 1
		}
	}
	for i := range x {
		x[i] ^= t
		binary.BigEndian.PutUint64(parts[i], x[i])
	}
	return parts
}
