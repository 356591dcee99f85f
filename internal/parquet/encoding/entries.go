package encoding

import (
	"encoding/binary"
	"fmt"
	"math"
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

// Fit is how many of the first idx expand to at most limit bytes, so that Expand can be asked for pages of a size; it counts at least one.
func (e *Entries) Fit(idx []uint32, limit int) (n, sizeBytes int, err error) {
	for i, v := range idx {
		if int(v) >= e.n {
			return 0, 0, corrupt("index %d in a dictionary of %d", v, e.n)
		}
		size := e.width
		if size == ByteArray {
			size = int(e.starts[v+1] - e.starts[v])
		}
		if i > 0 && sizeBytes+size > limit {
			return i, sizeBytes, nil
		}
		sizeBytes += size
	}
	return len(idx), sizeBytes, nil
}

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
	if cap(dst)-start < size {
		dst = append(make([]byte, 0, start+size), dst...)
	}
	dst = dst[:start+size]
	e.expand(dst[start:], idx)
	return dst, nil
}

// expand fills dst, which has just the room, with checked indices.
func (e *Entries) expand(dst []byte, idx []uint32) {
	switch e.width {
	case 4:
		for i, v := range idx {
			binary.LittleEndian.PutUint32(dst[4*i:], binary.LittleEndian.Uint32(e.data[4*int(v):]))
		}
	case 8:
		for i, v := range idx {
			binary.LittleEndian.PutUint64(dst[8*i:], binary.LittleEndian.Uint64(e.data[8*int(v):]))
		}
	case ByteArray:
		for _, v := range idx {
			dst = dst[copy(dst, e.data[e.starts[v]:e.starts[v+1]]):]
		}
	default:
		for _, v := range idx {
			at := int(v) * e.width
			dst = dst[copy(dst, e.data[at:at+e.width]):]
		}
	}
}

// maxEntries keeps an index and its successor within 32 bits.
const maxEntries = math.MaxUint32 - 1
