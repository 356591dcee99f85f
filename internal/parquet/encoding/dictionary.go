package encoding

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
)

// Dictionary merges the dictionary pages of several column chunks into one. Entries keep the order in which they came first, so a merge of the
// same pages gives the same bytes. Values are compared as bytes: floats keep each NaN and both zeros.
type Dictionary struct {
	Entries
	limit int // bytes
	seed  maphash.Seed
	key   uint64
	// table is open addressing with a power of two slots, at most half of them taken: the upper half of a hash above the index plus one, or 0.
	// The hash has a random seed, so nobody can craft pages whose entries all fall into one place; the order of entries does not depend on it.
	table []uint64
}

// NewDictionary returns an empty dictionary for values of the width in bytes (ByteArray for variable length) whose PLAIN form may take
// limitBytes, which also counts the length of each byte array.
func NewDictionary(width, limitBytes int) *Dictionary {
	d := &Dictionary{Entries: Entries{width: width}, limit: min(limitBytes, MaxPageBytes), seed: maphash.MakeSeed(), table: make([]uint64, 64)}
	if width == ByteArray {
		d.starts = []uint32{0}
	}
	d.key = maphash.Bytes(d.seed, nil)
	return d
}

// upper are the bits of a hash that the table keeps.
const upper = 0xffffffff_00000000

// Add merges a PLAIN dictionary page of numValues entries and returns, for each, its index in the merged dictionary. Beyond the limit it returns
// ErrDictionaryFull: what earlier calls returned stays valid, and some entries of the refused page may have been added.
func (d *Dictionary) Add(page []byte, numValues int) ([]uint32, error) {
	return d.AddTo(nil, page, numValues)
}

// AddTo is Add into the capacity of dst. The values need not differ from each other.
func (d *Dictionary) AddTo(dst []uint32, page []byte, numValues int) ([]uint32, error) {
	if d.width == ByteArray {
		return d.addByteArrays(dst, page, numValues)
	}
	if d.width < 0 || numValues < 0 || len(page)%d.width != 0 || len(page)/d.width != numValues {
		return nil, corrupt("dictionary of %d values of %d bytes in a page of %d", numValues, d.width, len(page))
	}
	remap := resize(dst, numValues)
	if d.known(page, numValues) {
		return count(remap), nil
	}
	d.expect(page, numValues)
	for i := 0; i < len(remap); i++ {
		if d.width == number {
			if i = d.find(remap, page, i); i == len(remap) {
				break
			}
		}
		v := page[i*d.width : (i+1)*d.width]
		index, ok := d.put(v, d.hash(v))
		if !ok {
			return nil, d.full()
		}
		remap[i] = index
	}
	return remap, nil
}

// number is the width of values that find compares as numbers.
const number = 8

// find is AddTo for numbers from the given one on, up to the first that is not known yet, which it returns.
func (d *Dictionary) find(remap []uint32, page []byte, from int) int {
	table, data := d.table, d.data
	mask := len(table) - 1
	for ; from < len(remap); from++ {
		x := binary.LittleEndian.Uint64(page[from*number:])
		hash := d.hashNumber(x)
		for slot := d.slot(hash); ; slot++ {
			have := table[slot&mask]
			if have == 0 {
				return from
			}
			i := uint32(have) - 1
			if (have^hash)&upper == 0 && binary.LittleEndian.Uint64(data[int(i)*number:]) == x {
				remap[from] = i
				break
			}
		}
	}
	return from
}

func (d *Dictionary) addByteArrays(dst []uint32, page []byte, numValues int) ([]uint32, error) {
	if numValues < 0 || numValues > len(page)/prefixBytes {
		return nil, corrupt("dictionary of %d byte arrays in a page of %d", numValues, len(page))
	}
	remap := resize(dst, numValues)
	if d.known(page, numValues) {
		return count(remap), nil
	}
	d.expect(page, numValues)
	at := 0
	for i := range remap {
		next := nextByteArray(page, at)
		if next < 0 {
			return nil, corrupt("entry %d of a dictionary exceeds its page of %d", i, len(page))
		}
		v := page[at:next]
		index, ok := d.put(v, maphash.Bytes(d.seed, v))
		if !ok {
			return nil, d.full()
		}
		remap[i] = index
		at = next
	}
	if at != len(page) {
		return nil, corrupt("%d bytes behind a dictionary of %d byte arrays", len(page)-at, numValues)
	}
	return remap, nil
}

// known says that the first n entries are those of page: files that one writer cut from ordered input often begin alike.
func (d *Dictionary) known(page []byte, n int) bool {
	return n > 0 && n <= d.n && (d.width != ByteArray || int(d.starts[n]) == len(page)) && bytes.HasPrefix(d.data, page)
}

// expect makes room for the first page, whose entries are new; those of later pages may be known.
func (d *Dictionary) expect(page []byte, n int) {
	if d.n == 0 && len(page) <= d.limit && n > 0 {
		d.reserve(n)
		d.data = slices.Grow(d.data, len(page))
		if d.width == ByteArray {
			d.starts = slices.Grow(d.starts, n)
		}
	}
}

// count fills v with 0, 1, 2 and so on.
func count(v []uint32) []uint32 {
	for i := range v {
		v[i] = uint32(i)
	}
	return v
}

func (d *Dictionary) full() error {
	return fmt.Errorf("add to a dictionary of %d entries, %d bytes: %w", d.Len(), len(d.data), ErrDictionaryFull)
}

// hash of a value of fixed width: one multiplication for the widths of numbers.
func (d *Dictionary) hash(v []byte) uint64 {
	switch len(v) {
	case 4:
		return d.hashNumber(uint64(binary.LittleEndian.Uint32(v)))
	case number:
		return d.hashNumber(binary.LittleEndian.Uint64(v))
	default:
		return maphash.Bytes(d.seed, v)
	}
}

func (d *Dictionary) hashNumber(x uint64) uint64 {
	const odd = 0x9e3779b97f4a7c15
	hi, lo := bits.Mul64(x^d.key, odd^d.key<<1)
	return hi ^ lo
}

// put returns the index of a value in PLAIN form and adds it if it is new; ok is false when that exceeds the limit.
func (d *Dictionary) put(v []byte, hash uint64) (index uint32, ok bool) {
	mask := len(d.table) - 1
	slot := d.slot(hash)
	for ; d.table[slot] != 0; slot = (slot + 1) & mask {
		if have := d.table[slot]; (have^hash)&upper == 0 {
			i := uint32(have) - 1
			if string(d.Entry(int(i))) == string(v) {
				return i, true
			}
		}
	}
	n := d.n
	if len(d.data)+len(v) > d.limit || n >= maxEntries {
		return 0, false
	}
	d.data = append(d.data, v...)
	d.n++
	if d.width == ByteArray {
		d.starts = append(d.starts, uint32(len(d.data)))
	}
	d.table[slot] = hash&upper | uint64(n+1)
	if 2*(n+1) > len(d.table) {
		d.reserve(n + 1)
	}
	return uint32(n), true
}

// slot is where the search for a hash begins: its highest bits, which the table keeps, so that it grows without hashing again.
func (d *Dictionary) slot(hash uint64) int {
	return int(hash >> (64 - bits.TrailingZeros(uint(len(d.table)))))
}

// reserve makes the table at most half full with n entries.
func (d *Dictionary) reserve(n int) {
	size := 1 << bits.Len(uint(2*n-1))
	if size <= len(d.table) {
		return
	}
	old := d.table
	d.table = make([]uint64, size)
	for _, have := range old {
		if have == 0 {
			continue
		}
		slot := d.slot(have)
		for d.table[slot] != 0 {
			slot = (slot + 1) & (size - 1)
		}
		d.table[slot] = have
	}
}
