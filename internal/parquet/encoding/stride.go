package encoding

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/huff0"

	"firn/internal/parquet/frames"
)

// Numbers that fill their width badly repeat some bytes of each value from one value to the next: of prices in an INT64 column five of eight. A
// Zstandard block can say just that, without any search for copies: for each value so many literals, then the rest copied from one value before.
// All those sequences are alike, so they cost nothing; the literals are Huffman-coded. For numbers without another order this is both far faster
// than a search and smaller than what one finds. (RFC 8878, section 3.1.1.3: RLE mode for all three tables.)

const (
	minStride, maxStride = 8, 16
	// minMatch is the shortest copy of the format, maxLiterals the most literals in front of one whose code has no extra bits.
	minMatch, maxLiterals = 3, 15
	// minStrided is how many values a page has at least; maxStridedBytes keeps the window, which is the page, within what readers take.
	minStrided, maxStridedBytes = 256, 8 << 20
	// blockBytes is the most content of a block.
	blockBytes = 128 << 10
	// trialBytes are compared before a page is written without a search, trialPages is for how many pages the outcome holds.
	trialBytes, trialPages = 32 << 10, 32
)

// Trial is what was found out of one column's last pages; the zero value knows nothing yet.
type Trial struct {
	pages int
	way   way
}

// way is how copies are found: by a search, by the form of the values, as what each value repeats of the one before, or not at all.
type way uint8

const (
	search way = iota
	byStrides
	byRepeats
	byLiterals
)

// AppendFixed is Append for a page whose bytes from front on are PLAIN values: of a fixed width, or byte arrays, which may be of one length all the same.
func (c *Compressor) AppendFixed(dst, src []byte, front, width int, t *Trial) ([]byte, error) {
	if out, ok := c.AppendFormed(dst, src, front, width, t); ok {
		return out, nil
	}
	return c.Append(dst, src)
}

// AppendFormed is AppendFixed where the form of the values says enough, so that there need be no search; else ok is false, and dst as it was.
func (c *Compressor) AppendFormed(dst, src []byte, front, width int, t *Trial) (out []byte, ok bool) {
	if c.codec != Zstd {
		return dst, false
	}
	if width == ByteArray {
		width = sameLength(src[front:])
	}
	s, ok := newStrides(src, front, width)
	if !ok {
		return dst, false
	}
	if t.pages == 0 {
		t.way = c.try(src[front:min(len(src), front+trialBytes/width*width)], strides{width: width, first: s.first, count: s.count}, dst[len(dst):])
	}
	if t.pages++; t.pages == trialPages {
		t.pages = 0
	}
	switch t.way {
	case byStrides:
		return c.appendStrides(dst, src, s), true
	case byRepeats:
		if width == number { // Byte arrays of other pages may have had another length.
			return c.appendRepeats(dst, src, front)
		}
	case search, byLiterals:
	}
	return dst, false
}

// sameLength is the width, lengths included, of byte arrays which all have one: keys and codes have mostly. It is 0 for others, and for long ones.
func sameLength(values []byte) int {
	if len(values) < prefixBytes {
		return 0
	}
	length := binary.LittleEndian.Uint32(values)
	if length > maxStride-prefixBytes {
		return 0
	}
	width := prefixBytes + int(length)
	if len(values)%width != 0 {
		return 0
	}
	for ; len(values) > 0; values = values[width:] {
		if binary.LittleEndian.Uint32(values) != length {
			return 0
		}
	}
	return width
}

// try compresses values in every way and chooses the smallest; what needs no search may be a fiftieth larger.
func (c *Compressor) try(values []byte, s strides, room []byte) way {
	const slack = 50
	best := len(c.zstd.EncodeAll(values, room))
	best += best / slack
	chosen := search
	if n := len(c.appendStrides(room, values, s)); n <= best {
		best, chosen = n, byStrides
	}
	if s.width != number || c.level > highestCopied {
		return chosen
	}
	if out, ok := c.appendRepeats(room, values, 0); ok && len(out) <= best {
		chosen = byRepeats
	}
	return chosen
}

// appendRepeats appends a frame of numbers of eight bytes that repeat bytes of the number before; ok is false when there is none.
func (c *Compressor) appendRepeats(dst, src []byte, front int) (out []byte, ok bool) {
	a := &c.again
	a.moved = frames.Repeats(a.moved[:0], src, front)
	return a.writer.Append(dst, src, a.moved)
}

// strides says which bytes of the values of a page differ: count of them from first on; the values begin at front.
type strides struct{ front, width, first, count int }

// newStrides finds them; ok is false when the format cannot make use of them.
func newStrides(src []byte, front, width int) (s strides, ok bool) {
	if width < minStride || width > maxStride || len(src) > maxStridedBytes || front > blockBytes/2 || len(src)-front < minStrided*width {
		return s, false
	}
	const bitsOfByte, word = 8, 8
	var low, high uint64 // of the first and of the last eight bytes
	values := src[front:]
	low0, high0 := binary.LittleEndian.Uint64(values), binary.LittleEndian.Uint64(values[width-word:])
	for ; len(values) >= width; values = values[width:] {
		low |= binary.LittleEndian.Uint64(values) ^ low0
		high |= binary.LittleEndian.Uint64(values[width-word:]) ^ high0
	}
	first, end := width, 0
	if low != 0 {
		first, end = bits.TrailingZeros64(low)/bitsOfByte, (bits.Len64(low)+bitsOfByte-1)/bitsOfByte
	}
	if high != 0 {
		first = min(first, width-word+bits.TrailingZeros64(high)/bitsOfByte)
		end = max(end, width-word+(bits.Len64(high)+bitsOfByte-1)/bitsOfByte)
	}
	s = strides{front: front, width: width, first: first, count: end - first}
	return s, len(values) == 0 && s.count > 0 && s.count <= maxLiterals && width-s.count >= minMatch
}

// The types of blocks and of literals.
const (
	rawBlock, compressedBlock                 = 0, 2
	rawLiterals, rleLiterals, packedLiterals4 = 0, 1, 2
)

// appendStrides appends src as a Zstandard frame.
func (c *Compressor) appendStrides(dst, src []byte, s strides) []byte {
	dst = appendFrameHeader(dst, len(src))
	// What is before the first copy: levels, the first value, and what the second repeats of it.
	at := s.front + s.width + s.first
	dst = c.appendLiteralBlock(dst, src[:at])
	// The first copy says from where, and is a block of its own; those of the others say: from there again.
	dst = c.appendSequences(dst, src[at:], s, 1, uint32(s.width)+3)
	at += s.width
	for {
		n := min((len(src)-at)/s.width, blockBytes/s.width)
		if n == 0 {
			break
		}
		dst = c.appendSequences(dst, src[at:], s, n, 1)
		at += n * s.width
	}
	// The last value is not whole where the first bytes repeat; a frame ends with a block anyway.
	dst = appendBlockHeader(dst, rawBlock, len(src)-at, true)
	return append(dst, src[at:]...)
}

// appendFrameHeader begins a frame whose window is its content.
func appendFrameHeader(dst []byte, size int) []byte {
	const singleSegment, sizeOfFour = 1 << 5, 2 << 6
	dst = append(dst, 0x28, 0xb5, 0x2f, 0xfd, singleSegment|sizeOfFour)
	return binary.LittleEndian.AppendUint32(dst, uint32(size))
}

// lastBlock is the bit of a block's header that says so.
const lastBlock = 1

func appendBlockHeader(dst []byte, kind, size int, last bool) []byte {
	h := uint32(size)<<3 | uint32(kind)<<1
	if last {
		h |= lastBlock
	}
	return append(dst, byte(h), byte(h>>8), byte(h>>16))
}

// appendLiteralBlock appends a block without copies.
func (c *Compressor) appendLiteralBlock(dst, src []byte) []byte {
	start := len(dst)
	dst = appendBlockHeader(dst, compressedBlock, 0, false)
	dst = append(c.appendLiterals(dst, src), 0)
	if size := len(dst) - start - 3; size < len(src) {
		appendBlockHeader(dst[:start], compressedBlock, size, false)
		return dst
	}
	return append(appendBlockHeader(dst[:start], rawBlock, len(src), false), src...)
}

// appendSequences appends a block of n values: the bytes that differ as literals, the rest as copies. offset is the code of where they come from.
func (c *Compressor) appendSequences(dst, src []byte, s strides, n int, offset uint32) []byte {
	const word = 8
	c.literals = slices.Grow(c.literals[:0], n*s.count+2*word)
	room, at := c.literals[:n*s.count+2*word], 0
	for i := range n {
		v := src[i*s.width:]
		if s.count > word || len(v) < word {
			copy(room[at:], v[:s.count])
		} else {
			binary.LittleEndian.PutUint64(room[at:], binary.LittleEndian.Uint64(v))
		}
		at += s.count
	}
	start := len(dst)
	dst = appendBlockHeader(dst, compressedBlock, 0, false)
	dst = c.appendLiterals(dst, room[:at])
	if n < 1<<7 {
		dst = append(dst, byte(n))
	} else {
		dst = append(dst, byte(n>>8)|1<<7, byte(n))
	}
	const allRLE = 1<<6 | 1<<4 | 1<<2
	// The bits of the sequences are the offset's below its highest, which is where the mark of their end has to be.
	dst = append(dst, allRLE, byte(s.count), byte(bits.Len32(offset)-1), byte(s.width-s.count-minMatch), byte(offset))
	appendBlockHeader(dst[:start], compressedBlock, len(dst)-start-3, false)
	return dst
}

// appendLiterals appends the literals of a block.
func (c *Compressor) appendLiterals(dst, literals []byte) []byte {
	const longForm, minPacked = 3 << 2, 256
	c.huff.Reuse = huff0.ReusePolicyNone
	var packed []byte
	err := huff0.ErrIncompressible
	if len(literals) >= minPacked {
		packed, _, err = huff0.Compress4X(literals, &c.huff)
	}
	n := uint32(len(literals))
	switch {
	case err == nil:
		h := uint64(packedLiterals4|longForm) | uint64(n)<<4 | uint64(len(packed))<<22
		return append(append(dst, byte(h), byte(h>>8), byte(h>>16), byte(h>>24), byte(h>>32)), packed...)
	case errors.Is(err, huff0.ErrUseRLE):
		h := rleLiterals | longForm | n<<4
		return append(dst, byte(h), byte(h>>8), byte(h>>16), literals[0])
	default:
		h := rawLiterals | longForm | n<<4
		return append(append(dst, byte(h), byte(h>>8), byte(h>>16)), literals...)
	}
}

// Indices that are bit-packed mostly repeat nothing: a search finds copies by chance, or none, and takes most of the time that there is. A frame of
// literals alone, Huffman-coded, is then as small, or smaller.

// minLiterals is the shortest page that is worth a trial, indexPages is for how many pages the outcome holds: indices of ordered rows soon look otherwise.
const minLiterals, indexPages = 1 << 10, 8

// AppendIndices is Append for a page of dictionary indices: without a search where a trial says that one finds nothing.
func (c *Compressor) AppendIndices(dst, src []byte, t *Trial) ([]byte, error) {
	if c.codec != Zstd || c.level > highestCopied || len(src) < minLiterals || len(src) > maxStridedBytes {
		return c.Append(dst, src)
	}
	if t.pages == 0 {
		t.way = c.tryLiterals(src[:min(len(src), trialBytes)], dst[len(dst):])
	}
	if t.pages++; t.pages == indexPages {
		t.pages = 0
	}
	if t.way == byLiterals {
		return c.appendLiteralFrame(dst, src), nil
	}
	return c.Append(dst, src)
}

// tryLiterals compresses the front of a page in both ways; what needs no search may be a two hundredth larger.
func (c *Compressor) tryLiterals(front, room []byte) way {
	const slack = 200
	best := len(c.zstd.EncodeAll(front, room))
	if len(c.appendLiteralFrame(room, front)) <= best+best/slack {
		return byLiterals
	}
	return search
}

// appendLiteralFrame appends src, which is not empty, as a Zstandard frame without any copy.
func (c *Compressor) appendLiteralFrame(dst, src []byte) []byte {
	dst = appendFrameHeader(dst, len(src))
	for last := 0; len(src) > 0; {
		last = len(dst)
		n := min(len(src), blockBytes)
		dst = c.appendLiteralBlock(dst, src[:n])
		if src = src[n:]; len(src) == 0 {
			dst[last] |= lastBlock
		}
	}
	return dst
}
