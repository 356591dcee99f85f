package frames

import (
	"encoding/binary"
	"math/bits"
)

// Repeats appends the sequences of numbers of eight bytes that share bytes with the number before them: of ordered keys most do. The numbers begin at
// front, behind bytes that are literals.
func Repeats(dst []Sequence, content []byte, front int) []Sequence {
	const width, bitsOfByte = 8, 8
	if len(content)-front < 2*width {
		return dst
	}
	literals, match := uint32(front+width), uint32(0)
	last := binary.LittleEndian.Uint64(content[front:])
	add := func(same uint32) { // Bytes that are the same as those one number before.
		switch {
		case match+same >= minMatch:
			match += same
		default:
			literals += match + same
			match = 0
		}
	}
	for rest := content[front+width:]; len(rest) >= width; rest = rest[width:] {
		v := binary.LittleEndian.Uint64(rest)
		differ := v ^ last
		last = v
		if differ == 0 {
			match += width
			continue
		}
		low, high := uint32(bits.TrailingZeros64(differ)/bitsOfByte), uint32(bits.LeadingZeros64(differ)/bitsOfByte)
		add(low)
		if match > 0 {
			dst = append(dst, Sequence{Literals: literals, Match: match, Offset: width})
			literals, match = 0, 0
		}
		literals += width - low - high
		if match = high; high < minMatch { // Too short alone; the bytes of the next number may make it longer, but seldom do.
			literals, match = literals+high, 0
		}
	}
	if match > 0 {
		dst = append(dst, Sequence{Literals: literals, Match: match, Offset: width})
	}
	return dst
}
