package chunk

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"

	"firn/internal/parquet/encoding"
)

// mix spreads the bits of a number.
func mix(x uint64) uint64 {
	hi, lo := bits.Mul64(x^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}

// HashValue is the hash of a value without a length, as sums are made of: the same whether the value lies in a page or in a dictionary.
func HashValue(value []byte) uint64 {
	switch len(value) {
	case 4:
		return mix(uint64(binary.LittleEndian.Uint32(value)))
	case 8:
		return mix(binary.LittleEndian.Uint64(value))
	default:
		return xxh3.Hash(value)
	}
}

// HashEntries are the hashes of a dictionary's entries.
func HashEntries(dst []uint64, e *encoding.Entries) []uint64 {
	dst = slices.Grow(dst[:0], e.Len())
	const number = 8
	if data := e.Bytes(); e.Len() > 0 && len(data) == number*e.Len() && len(e.Value(0)) == number {
		for ; len(data) >= number; data = data[number:] {
			dst = append(dst, mix(binary.LittleEndian.Uint64(data)))
		}
		return dst
	}
	for i := range e.Len() {
		dst = append(dst, HashValue(e.Value(i)))
	}
	return dst
}

// SumPlain adds up the hashes of n PLAIN values, which have to fill data; booleans are one byte each. It does not depend on their order.
func SumPlain(data []byte, width, n int) (sum uint64, err error) {
	switch {
	case width == 4 && len(data) == 4*n:
		for ; len(data) >= 4; data = data[4:] {
			sum += mix(uint64(binary.LittleEndian.Uint32(data)))
		}
		return sum, nil
	case width == 8 && len(data) == 8*n:
		for ; len(data) >= 8; data = data[8:] {
			sum += mix(binary.LittleEndian.Uint64(data))
		}
		return sum, nil
	case width == 1 && len(data) == n:
		var counts [2]uint64
		for _, b := range data {
			counts[b&1]++
		}
		return counts[0]*HashValue([]byte{0}) + counts[1]*HashValue([]byte{1}), nil
	case width != encoding.ByteArray:
		if len(data) != width*n {
			return 0, corrupt("%d values of %d bytes in %d", n, width, len(data))
		}
		for ; len(data) > 0; data = data[width:] {
			sum += xxh3.Hash(data[:width])
		}
		return sum, nil
	}
	for range n {
		var value []byte
		if value, data, err = encoding.NextByteArray(data); err != nil {
			return 0, err
		}
		sum += HashValue(value)
	}
	if len(data) != 0 {
		return 0, corrupt("%d bytes behind %d byte arrays", len(data), n)
	}
	return sum, nil
}

// sumIndices adds up the hashes of the entries that indices name.
func sumIndices(indices []uint32, hashes []uint64) (sum uint64, err error) {
	for _, i := range indices {
		if int(i) >= len(hashes) {
			return 0, corrupt("index %d in a dictionary of %d", i, len(hashes))
		}
		sum += hashes[i]
	}
	return sum, nil
}

// Sum adds up hashes of all entries of the vector: of its values and of its levels. hashes are those of its dictionary. Vectors with the same
// entries in another order, cut differently or with another dictionary, have the same sum.
func (v *Vector) Sum(c *Column, hashes []uint64) (sum uint64, err error) {
	if v.Dictionary != nil {
		sum, err = sumIndices(v.Indices, hashes)
	} else {
		sum, err = SumPlain(v.Plain, c.ValueWidth(), v.Values)
	}
	return sum + sumLevels(v.Rep, v.Def), err
}

// sumLevels adds up hashes of pairs of levels, which are counted first: there are few different ones.
func sumLevels(rep, def []uint8) (sum uint64) {
	if len(rep) == 0 { // Without definition levels there are no repetition levels either.
		for d, left := 0, len(def); left > 0; d++ {
			n := bytes.Count(def, []byte{uint8(d)})
			sum += uint64(n) * mix(uint64(d))
			left -= n
		}
		return sum
	}
	const low = 16 // Levels below are counted.
	var counts [low * low]uint64
	for i, r := range rep {
		if d := def[i]; r < low && d < low {
			counts[low*r+d]++
		} else {
			sum += mix(uint64(r)<<8 | uint64(d))
		}
	}
	for i, n := range counts {
		sum += n * mix(uint64(i/low)<<8|uint64(i%low))
	}
	return sum
}
