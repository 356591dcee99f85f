package encoding

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// MaxLevel is the highest definition or repetition level that is decoded; a schema that nests deeper is not taken.
const MaxLevel = 255

// LevelWidth is the bit width of levels from 0 to maxLevel.
func LevelWidth(maxLevel int) int { return bits.Len(uint(max(maxLevel, 0))) }

// prefixBytes is the length of the little-endian byte count in front of the levels of a version 1 page.
const prefixBytes = 4

// SplitPrefixed takes levels with a four-byte length from the front of a version 1 page (or of RLE booleans): the stream and what follows it.
func SplitPrefixed(page []byte) (stream, rest []byte, err error) {
	if len(page) < prefixBytes {
		return nil, nil, corrupt("page of %d bytes without the length of its levels", len(page))
	}
	n := binary.LittleEndian.Uint32(page)
	page = page[prefixBytes:]
	if uint64(n) > uint64(len(page)) {
		return nil, nil, corrupt("levels of %d bytes in %d", n, len(page))
	}
	return page[:n:n], page[n:], nil
}

// AppendPrefixed appends a stream behind its four-byte length.
func AppendPrefixed(dst, stream []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(stream))), stream...)
}

// CountLevels is how many of the n levels of a hybrid stream are level: the values of a page are its levels at the maximum definition level, its
// rows those at repetition level 0.
func CountLevels(src []byte, bitWidth, n int, level uint8) (int, error) {
	r, err := newLevels(src, bitWidth, n)
	if err != nil {
		return 0, err
	}
	count := 0
	if level>>bitWidth != 0 {
		bitWidth = 0 // No level of so few bits is that high: only look at the stream.
	}
	e := newEqual(bitWidth, level)
	for {
		run, err := r.next()
		switch {
		case err != nil:
			return 0, err
		case run.count == 0:
			return count, nil
		case run.packed != nil:
			count += e.count(run.packed, run.count)
		case run.value == uint32(level):
			count += run.count
		}
	}
}

// equal counts bit-packed values that are equal to one, a word at a time.
type equal struct {
	width int
	// step is how many bytes of a word are looked at, in which values lie whole; pattern has the value in each of their places, lowest the lowest bit
	// of each.
	step            int
	pattern, lowest uint64
}

func newEqual(width int, value uint8) equal {
	e := equal{width: width}
	if width == 0 {
		return e
	}
	e.step = 8 / width * width
	for at := 0; at < 8*e.step; at += width {
		e.lowest |= 1 << at
	}
	e.pattern = e.lowest * uint64(value)
	return e
}

// in counts the equal values of a word.
func (e *equal) in(word uint64) int {
	same := ^(word ^ e.pattern)
	all := same
	for i := 1; i < e.width; i++ {
		all &= same >> i
	}
	return bits.OnesCount64(all & e.lowest)
}

// count counts among the first n of packed.
func (e *equal) count(packed []byte, n int) (count int) {
	switch e.width {
	case 0:
		return 0
	case 1:
		if count = countOnes(packed, n); e.pattern == 0 {
			count = n - count
		}
		return count
	}
	each := 8 * e.step / e.width
	for ; n >= each && len(packed) >= 8; n -= each {
		count += e.in(binary.LittleEndian.Uint64(packed))
		packed = packed[e.step:]
	}
	for n > 0 {
		var word [8]byte
		here := min(n, each)
		copy(word[:], packed[:min(len(packed), e.step)])
		value := binary.LittleEndian.Uint64(word[:])
		if here < each { // What lies behind the last value is not equal.
			behind := ^uint64(0) << (here * e.width)
			value = value&^behind | ^e.pattern&behind
		}
		count += e.in(value)
		n, packed = n-here, packed[min(len(packed), e.step):]
	}
	return count
}

// DecodeLevels decodes the n levels of a hybrid stream into dst. It fails for a level above maxLevel, whose width the stream has.
func DecodeLevels(dst []uint8, src []byte, maxLevel uint8, n int) ([]uint8, error) {
	width := LevelWidth(int(maxLevel))
	r, err := newLevels(src, width, n)
	if err != nil {
		return nil, err
	}
	dst = resize(dst, n)
	var scratch [scratchValues]uint32
	for at := 0; ; {
		run, err := r.next()
		switch {
		case err != nil:
			return nil, err
		case run.count == 0:
			return dst, nil
		case run.value > uint32(maxLevel):
			return nil, corrupt("level %d above %d", run.value, maxLevel)
		case run.packed == nil:
			fill(dst[at:at+run.count], uint8(run.value))
			at += run.count
			continue
		case width == 1:
			spreadBits(dst[at:at+run.count], run.packed)
			at += run.count
			continue
		}
		for left, packed := run.count, run.packed; left > 0; {
			values := scratch[:min(left, scratchValues)]
			unpack(values, packed, width)
			out := dst[at : at+len(values)]
			for i, v := range values {
				if v > uint32(maxLevel) {
					return nil, corrupt("level %d above %d", v, maxLevel)
				}
				out[i] = uint8(v)
			}
			at += len(values)
			left, packed = left-len(values), packed[min(len(packed), scratchValues/group*width):]
		}
	}
}

// EncodeLevels appends the hybrid stream of levels from 0 to maxLevel to dst, without a length: AppendPrefixed adds it for version 1 pages.
func EncodeLevels(dst []byte, levels []uint8, maxLevel uint8) ([]byte, error) {
	if all := highestLevel(levels); all > maxLevel {
		return dst, corrupt("level %d above %d", all, maxLevel)
	}
	width := LevelWidth(int(maxLevel))
	if width == 0 {
		return dst, nil
	}
	var scratch [maxGroups * group]uint32
	start := 0
	for at := 0; at < len(levels); {
		n := repeatedLevels(levels[at:])
		if n < group && at-start < len(scratch) {
			at = min(at+group, len(levels))
			continue
		}
		dst = appendPacked(dst, widen(scratch[:], levels[start:at]), width)
		if n >= group {
			dst = appendRun(dst, n, uint32(levels[at]), width)
			at += n
		}
		start = at
	}
	return appendPacked(dst, widen(scratch[:], levels[start:]), width), nil
}

// highestLevel is the highest of the levels. Most pages have one level, of values that all are there, which is counted many at a time.
func highestLevel(levels []uint8) (all uint8) {
	if len(levels) > 0 && bytes.Count(levels, levels[:1]) == len(levels) {
		return levels[0]
	}
	for _, v := range levels {
		all = max(all, v)
	}
	return all
}

// newLevels starts a stream of levels. Levels of width 0 have none: all are 0.
func newLevels(src []byte, bitWidth, n int) (runs, error) {
	switch {
	case bitWidth > LevelWidth(MaxLevel):
		return runs{}, ErrUnsupported
	case bitWidth == 0 && len(src) > 0:
		return runs{}, corrupt("%d bytes of levels where there is one level", len(src))
	case bitWidth == 0 && n > 0:
		src = appendRun(nil, n, 0, 0)
	}
	return newRuns(src, bitWidth, n)
}

// spreadBits sets dst to the bits of packed, from the lowest on, as 0 and 1. A byte times a row of ones lies in each byte of a word; there the
// diagonal keeps one bit each, and adding 127 moves it to the top.
func spreadBits(dst []uint8, packed []byte) {
	const (
		ones     = 0x0101010101010101
		diagonal = 0x8040201008040201
		rest     = 0x7f7f7f7f7f7f7f7f
	)
	for len(dst) >= 8 && len(packed) > 0 {
		x := (uint64(packed[0])*ones&diagonal + rest) >> 7 & ones
		binary.LittleEndian.PutUint64(dst, x)
		dst, packed = dst[8:], packed[1:]
	}
	for i := range dst {
		dst[i] = packed[0] >> i & 1
	}
}

// countOnes counts the bits that are set among the first n of packed.
func countOnes(packed []byte, n int) int {
	ones := 0
	for ; n >= 64 && len(packed) >= 8; n -= 64 {
		ones += bits.OnesCount64(binary.LittleEndian.Uint64(packed))
		packed = packed[8:]
	}
	for ; n >= 8; n -= 8 {
		ones += bits.OnesCount8(packed[0])
		packed = packed[1:]
	}
	if n > 0 {
		ones += bits.OnesCount8(packed[0] & (1<<n - 1))
	}
	return ones
}

func repeatedLevels(v []uint8) (n int) {
	if len(v) == 0 {
		return 0
	}
	const word, ones, bitsOfByte = 8, 0x0101010101010101, 8
	for all := uint64(v[0]) * ones; len(v)-n >= word; n += word {
		if x := binary.LittleEndian.Uint64(v[n:]) ^ all; x != 0 {
			return n + bits.TrailingZeros64(x)/bitsOfByte
		}
	}
	for n < len(v) && v[n] == v[0] {
		n++
	}
	return n
}

func widen(dst []uint32, src []uint8) []uint32 {
	for i, v := range src {
		dst[i] = uint32(v)
	}
	return dst[:len(src)]
}
