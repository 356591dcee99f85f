package encoding

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// ByteArray is the width of values of variable length: PLAIN puts a four-byte length before each.
const ByteArray = 0

// Entries are the values of one PLAIN page, reachable by index: the read side of a dictionary. They share the page's memory.
type Entries struct {
	width  int
	n      int
	data   []byte
	starts []uint32 // of byte arrays: where each begins, its length included; one more than there are entries
}

// ParseEntries takes a PLAIN page of n values apart, which has to hold them exactly. The width is the bytes of a value (4, 8, 12, or the length of
// FIXED_LEN_BYTE_ARRAY) or ByteArray. Booleans have no dictionaries.
func ParseEntries(page []byte, width, n int) (Entries, error) {
	e := Entries{width: width, n: n, data: page}
	switch {
	case width < 0 || n < 0:
		return Entries{}, corrupt("%d values of %d bytes", n, width)
	case len(page) > MaxPageBytes:
		return Entries{}, fmt.Errorf("read %d bytes of values: %w", len(page), ErrTooLarge)
	case width > 0:
		if len(page)%width != 0 || len(page)/width != n {
			return Entries{}, corrupt("%d values of %d bytes in a page of %d", n, width, len(page))
		}
		return e, nil
	case n > len(page)/prefixBytes:
		return Entries{}, corrupt("%d byte arrays in a page of %d", n, len(page))
	}
	e.starts = make([]uint32, 1, n+1)
	at := 0
	for i := range n {
		next := nextByteArray(page, at)
		if next < 0 {
			return Entries{}, corrupt("byte array %d exceeds its page of %d", i, len(page))
		}
		at = next
		e.starts = append(e.starts, uint32(at))
	}
	if at != len(page) {
		return Entries{}, corrupt("%d bytes behind %d byte arrays", len(page)-at, n)
	}
	return e, nil
}

// nextByteArray is where the byte array at position at ends, or -1 when that is behind the page.
func nextByteArray(page []byte, at int) int {
	if len(page)-at < prefixBytes {
		return -1
	}
	n := binary.LittleEndian.Uint32(page[at:])
	at += prefixBytes
	if uint64(n) > uint64(len(page)-at) {
		return -1
	}
	return at + int(n)
}

// Len is the number of entries.
func (e *Entries) Len() int { return e.n }

// Bytes are the entries as one PLAIN page, which a dictionary page holds. The next Add of a Dictionary invalidates them.
func (e *Entries) Bytes() []byte { return e.data }

// SizeBytes is the length of the PLAIN page: what parquet-mr compares with the dictionary page size.
func (e *Entries) SizeBytes() int { return len(e.data) }

// Entry is entry i in PLAIN form, so with its length when it is a byte array.
func (e *Entries) Entry(i int) []byte {
	if e.width > 0 {
		return e.data[i*e.width : (i+1)*e.width : (i+1)*e.width]
	}
	return e.data[e.starts[i]:e.starts[i+1]:e.starts[i+1]]
}

// Value is entry i without a length.
func (e *Entries) Value(i int) []byte {
	if e.width > 0 {
		return e.Entry(i)
	}
	return e.Entry(i)[prefixBytes:]
}

// Fit is how many of the first idx expand to at most limit bytes, so that Expand can be asked for pages of a size; it counts at least one. It
// fails for an index without an entry.
func (e *Entries) Fit(idx []uint32, limit int) (n, sizeBytes int, err error) {
	var highest uint32
	for _, v := range idx {
		highest = max(highest, v)
	}
	switch {
	case len(idx) == 0:
		return 0, 0, nil
	case int(highest) >= e.n:
		return 0, 0, corrupt("index %d in a dictionary of %d", highest, e.n)
	case e.width != ByteArray:
		n = min(len(idx), max(1, limit/e.width))
		return n, n * e.width, nil
	}
	for i, v := range idx {
		size := int(e.starts[v+1] - e.starts[v])
		if i > 0 && sizeBytes+size > limit {
			return i, sizeBytes, nil
		}
		sizeBytes += size
	}
	return len(idx), sizeBytes, nil
}

// word is what expand copies at once: short byte arrays are copied as two words, whatever their length.
const word = 8

// Expand appends the PLAIN form of the entries that idx names to dst. It fails for an index without an entry, and with ErrTooLarge when it would
// append more than MaxPageBytes: a few bytes of indices can name a long entry a million times, so callers cut with Fit.
func (e *Entries) Expand(dst []byte, idx []uint32) ([]byte, error) {
	n, size, err := e.Fit(idx, MaxPageBytes)
	if err != nil {
		return dst, err
	}
	if n < len(idx) {
		return dst, fmt.Errorf("expand %d indices: %w", len(idx), ErrTooLarge)
	}
	start := len(dst)
	dst = slices.Grow(dst, size+2*word)
	room := dst[start : start+size+2*word]
	switch e.width {
	case 4:
		expand4(room, e.data, idx)
	case 8:
		expand8(room, e.data, idx)
	case ByteArray:
		e.expandByteArrays(room, idx)
	default:
		e.expandFixed(room, idx)
	}
	return dst[:start+size], nil
}

func expand4(dst, data []byte, idx []uint32) {
	for _, v := range idx {
		binary.LittleEndian.PutUint32(dst, binary.LittleEndian.Uint32(data[4*int(v):]))
		dst = dst[4:]
	}
}

func expand8(dst, data []byte, idx []uint32) {
	for _, v := range idx {
		binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(data[8*int(v):]))
		dst = dst[8:]
	}
}

// expandFixed and expandByteArrays write up to two words behind their output.
func (e *Entries) expandFixed(dst []byte, idx []uint32) {
	for _, v := range idx {
		at := int(v) * e.width
		if e.width > 2*word || at+2*word > len(e.data) {
			copy(dst, e.data[at:at+e.width])
		} else {
			copyWords(dst, e.data[at:])
		}
		dst = dst[e.width:]
	}
}

func (e *Entries) expandByteArrays(dst []byte, idx []uint32) {
	for _, v := range idx {
		at, end := int(e.starts[v]), int(e.starts[v+1])
		if end-at > 2*word || at+2*word > len(e.data) {
			copy(dst, e.data[at:end])
		} else {
			copyWords(dst, e.data[at:])
		}
		dst = dst[end-at:]
	}
}

func copyWords(dst, src []byte) {
	dst, src = dst[:2*word], src[:2*word]
	a, b := binary.LittleEndian.Uint64(src), binary.LittleEndian.Uint64(src[word:])
	binary.LittleEndian.PutUint64(dst, a)
	binary.LittleEndian.PutUint64(dst[word:], b)
}

// maxEntries keeps an index and its successor within 32 bits.
const maxEntries = math.MaxUint32 - 1
