package encoding

import (
	"encoding/binary"
	"slices"
)

// MaxBitWidth is the widest value of the RLE/bit-packing hybrid here: dictionary indices are 32 bits.
const MaxBitWidth = 32

const (
	// group is the number of values that are bit-packed together: they fill as many bytes as a value has bits.
	group = 8
	// scratchValues is the piece in which bit-packed runs are worked on: 2 KiB of indices stay in the first-level cache.
	scratchValues = 512
	// packSlack is how far the packing loops write behind their output, and the unpacking loops read behind their input.
	packSlack = 8
)

// run is a piece of a hybrid stream: count values that are all value, or, when packed is not nil, bit-packed.
type run struct {
	count  int
	value  uint32
	packed []byte
}

// runs walks a hybrid stream of a known number of values. The stream has to end with them.
type runs struct {
	src   []byte
	width int
	left  int
}

func newRuns(src []byte, width, n int) (runs, error) {
	switch {
	case width < 0 || width > MaxBitWidth:
		return runs{}, corrupt("bit width %d", width)
	case n < 0:
		return runs{}, corrupt("%d values", n)
	case n > MaxPageValues:
		return runs{}, ErrTooLarge
	}
	return runs{src: src, width: width, left: n}, nil
}

// next returns the next run; its count is 0 at the end. A bit-packed run is cut to the values that are left, since DuckDB pads its last one to 256
// values; the padding of its last group may be missing, as some writers end the page there.
func (r *runs) next() (run, error) {
	if r.left == 0 {
		if len(r.src) != 0 {
			return run{}, corrupt("%d bytes behind the last run", len(r.src))
		}
		return run{}, nil
	}
	var header uint64
	if len(r.src) > 0 && r.src[0] < 0x80 { // As most are, short as runs are.
		header, r.src = uint64(r.src[0]), r.src[1:]
	} else {
		var n int
		if header, n = binary.Uvarint(r.src); n <= 0 || header > 1<<32-1 {
			return run{}, corrupt("run header, %d values missing", r.left)
		}
		r.src = r.src[n:]
	}
	if header&1 == 0 {
		return r.repeated(int(header >> 1))
	}
	return r.bitPacked(int(header >> 1))
}

func (r *runs) repeated(count int) (run, error) {
	size := (r.width + 7) / 8
	if count == 0 || count > r.left || size > len(r.src) {
		return run{}, corrupt("run of %d values of %d bytes, %d values and %d bytes left", count, size, r.left, len(r.src))
	}
	var value uint64
	for i, b := range r.src[:size] {
		value |= uint64(b) << (8 * i)
	}
	if value>>r.width != 0 {
		return run{}, corrupt("value %d of a run exceeds %d bits", value, r.width)
	}
	r.src, r.left = r.src[size:], r.left-count
	return run{count: count, value: uint32(value)}, nil
}

func (r *runs) bitPacked(groups int) (run, error) {
	count, size := groups*group, groups*r.width
	if count == 0 {
		return run{}, corrupt("bit-packed run of no values, %d left", r.left)
	}
	if count > r.left {
		last := count < r.left+group
		count = r.left
		if need := (count*r.width + 7) / 8; last && size > len(r.src) && need <= len(r.src) {
			size = len(r.src)
		}
	}
	if size > len(r.src) {
		return run{}, corrupt("bit-packed run of %d bytes, %d left", size, len(r.src))
	}
	used := min(size, (count+group-1)/group*r.width)
	packed := r.src[:used:used]
	r.src, r.left = r.src[size:], r.left-count
	if r.width == 0 {
		return run{count: count}, nil
	}
	return run{count: count, packed: packed}, nil
}

// unpack decodes the len(dst) first values of packed, which holds at least the bytes that they touch.
func unpack(dst []uint32, packed []byte, width int) {
	whole := 0
	if need := max(width, packSlack); len(packed) >= need {
		whole = min(len(dst)/group, (len(packed)-need)/width+1)
	}
	unpackGroups(dst[:whole*group], packed, width)
	dst, packed = dst[whole*group:], packed[whole*width:]
	var (
		values [group]uint32
		bytes  [MaxBitWidth + packSlack]byte
	)
	for len(dst) > 0 {
		clear(bytes[:])
		n := copy(bytes[:max(width, packSlack)], packed)
		unpackGroups(values[:], bytes[:], width)
		dst, packed = dst[copy(dst, values[:]):], packed[min(n, width):]
	}
}

// fill sets all of dst to v.
func fill[T any](dst []T, v T) {
	if len(dst) == 0 {
		return
	}
	dst[0] = v
	for n := 1; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// repeats is how many values at the start of v are equal.
func repeats(v []uint32) int {
	for i, x := range v {
		if x != v[0] {
			return i
		}
	}
	return len(v)
}

// appendRun appends a run of count values.
func appendRun(dst []byte, count int, value uint32, width int) []byte {
	dst = binary.AppendUvarint(dst, uint64(count)<<1)
	for ; width > 0; width -= 8 {
		dst = append(dst, byte(value))
		value >>= 8
	}
	return dst
}

// maxGroups is the most groups behind a header of one byte.
const maxGroups = 63

// appendPacked appends values as bit-packed runs; only the last may have fewer than whole groups.
func appendPacked(dst []byte, values []uint32, width int) []byte {
	for len(values) > 0 {
		piece := values[:min(len(values), maxGroups*group)]
		groups := (len(piece) + group - 1) / group
		dst = pack(append(dst, byte(groups<<1|1)), piece, width)
		values = values[len(piece):]
	}
	return dst
}

// pack appends bit-packed values, the last group padded with zeros.
func pack(dst []byte, values []uint32, width int) []byte {
	var (
		start  = len(dst)
		groups = (len(values) + group - 1) / group
		whole  = len(values) / group
	)
	dst = slices.Grow(dst, groups*width+packSlack)
	room := dst[start : start+groups*width+packSlack]
	packGroups(room, values[:whole*group], width)
	if whole < groups {
		var last [group]uint32
		copy(last[:], values[whole*group:])
		packGroups(room[whole*width:], last[:], width)
	}
	return dst[:start+groups*width]
}
