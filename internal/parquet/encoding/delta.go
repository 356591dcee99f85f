package encoding

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// deltas reads DELTA_BINARY_PACKED: a header with the first value, then blocks of a least delta and miniblocks, each with a bit width of its own,
// of what the deltas have above it. Sums wrap, as writers' differences did.
type deltas struct {
	src     []byte
	left    int // values to come
	perMini int // values of a miniblock
	minis   int // miniblocks of a block
	widths  []byte
	value   uint64
	least   uint64
	packed  []byte
	inMini  int // values that are still packed
	width   int
	ready   []uint32 // values of the miniblock that are unpacked, of at most 32 bits
	scratch [32]uint32
}

// newDeltas reads the header, which has to declare n values.
func newDeltas(src []byte, n int) (deltas, error) {
	if n < 0 {
		return deltas{}, corrupt("%d values", n)
	}
	if n > MaxPageValues {
		return deltas{}, ErrTooLarge
	}
	d := deltas{src: src, left: n}
	block, ok1 := d.uvarint()
	minis, ok2 := d.uvarint()
	total, ok3 := d.uvarint()
	first, ok4 := d.zigzag()
	switch {
	case !ok1 || !ok2 || !ok3 || !ok4:
		return deltas{}, corrupt("header of deltas")
	case total != uint64(n):
		return deltas{}, corrupt("%d deltas, %d values", total, n)
	case block == 0 || block > MaxPageValues || minis == 0 || block%minis != 0 || (block/minis)%group != 0:
		return deltas{}, corrupt("blocks of %d values in %d parts", block, minis)
	}
	d.perMini, d.minis, d.value = int(block/minis), int(minis), first
	return d, nil
}

func (d *deltas) uvarint() (uint64, bool) {
	v, n := binary.Uvarint(d.src)
	if n <= 0 {
		return 0, false
	}
	d.src = d.src[n:]
	return v, true
}

func (d *deltas) zigzag() (uint64, bool) {
	v, n := binary.Varint(d.src)
	if n <= 0 {
		return 0, false
	}
	d.src = d.src[n:]
	return uint64(v), true
}

// read fills out with the next values and returns how many: fewer than its length only at the end. The first value is that of the header.
func (d *deltas) read(out []uint64) (int, error) {
	for i := range out {
		if d.left == 0 {
			return i, nil
		}
		out[i] = d.value
		d.left--
		if d.left == 0 {
			return i + 1, nil
		}
		if len(d.ready) > 0 {
			d.value += d.least + uint64(d.ready[0])
			d.ready = d.ready[1:]
			continue
		}
		delta, err := d.next()
		if err != nil {
			return 0, err
		}
		d.value += d.least + delta
	}
	return len(out), nil
}

// next is the next packed value when none is ready.
func (d *deltas) next() (uint64, error) {
	if d.inMini == 0 {
		if err := d.miniblock(); err != nil {
			return 0, err
		}
	}
	switch {
	case d.width > MaxBitWidth:
		return d.wide(), nil
	case d.width == 0:
		n := min(d.inMini, d.left, len(d.scratch))
		clear(d.scratch[:n])
		d.ready = d.scratch[:n]
		d.inMini -= n
	default:
		n := min(d.inMini, len(d.scratch))
		unpack(d.scratch[:n], d.packed, d.width)
		d.ready = d.scratch[:n]
		d.packed = d.packed[min(len(d.packed), n/group*d.width):]
		d.inMini -= n
	}
	first := d.ready[0]
	d.ready = d.ready[1:]
	return uint64(first), nil
}

// miniblock begins the next one, and a block when it is the first.
func (d *deltas) miniblock() error {
	if len(d.widths) == 0 {
		least, ok := d.zigzag()
		if !ok || len(d.src) < d.minis {
			return corrupt("block of deltas, %d values missing", d.left)
		}
		d.least, d.widths, d.src = least, d.src[:d.minis], d.src[d.minis:]
	}
	d.width, d.widths = int(d.widths[0]), d.widths[1:]
	size := d.perMini / group * d.width
	if d.left < d.perMini && size > len(d.src) && (d.left*d.width+7)/8 <= len(d.src) {
		size = len(d.src) // the padding of the last miniblock is missing
	}
	if d.width > 64 || size > len(d.src) {
		return corrupt("deltas of %d bits in %d bytes, %d values missing", d.width, len(d.src), d.left)
	}
	d.packed, d.src, d.inMini = d.src[:size], d.src[size:], d.perMini
	return nil
}

// wide is the next packed value of more than 32 bits.
func (d *deltas) wide() uint64 {
	bit := (d.perMini - d.inMini) * d.width
	d.inMini--
	var bytes [16]byte
	copy(bytes[:], d.packed[min(bit/8, len(d.packed)):])
	shift := bit % 8
	v := binary.LittleEndian.Uint64(bytes[:])>>shift | uint64(bytes[8])<<(64-shift)
	return v & (1<<d.width - 1)
}

// DecodeDelta appends the PLAIN form of n DELTA_BINARY_PACKED integers of width 4 or 8 to dst. They have to fill src.
func DecodeDelta(dst, src []byte, width, n int) ([]byte, error) {
	if width != 4 && width != 8 {
		return dst, corrupt("deltas of %d bytes", width)
	}
	d, err := newDeltas(src, n)
	if err != nil {
		return dst, err
	}
	out := slices.Grow(dst, n*width)
	var scratch [scratchValues]uint64
	for d.left > 0 {
		k, err := d.read(scratch[:])
		if err != nil {
			return dst, err
		}
		for _, v := range scratch[:k] {
			if width == 4 {
				out = binary.LittleEndian.AppendUint32(out, uint32(v))
			} else {
				out = binary.LittleEndian.AppendUint64(out, v)
			}
		}
	}
	if len(d.src) != 0 {
		return dst, corrupt("%d bytes behind %d deltas", len(d.src), n)
	}
	return out, nil
}

// lengths reads n lengths from the front of src and returns their sum and what follows.
func lengths(src []byte, n int) (out []uint32, sum int, rest []byte, err error) {
	d, err := newDeltas(src, n)
	if err != nil {
		return nil, 0, nil, err
	}
	out = make([]uint32, 0, n)
	var scratch [scratchValues]uint64
	for d.left > 0 {
		k, err := d.read(scratch[:])
		if err != nil {
			return nil, 0, nil, err
		}
		for _, v := range scratch[:k] {
			v = uint64(int64(int32(v)))
			if v > MaxPageBytes {
				return nil, 0, nil, corrupt("length %d", int64(v))
			}
			out = append(out, uint32(v))
			sum += int(v)
		}
	}
	return out, sum, d.src, nil
}

// DecodeDeltaLength appends the PLAIN form of n DELTA_LENGTH_BYTE_ARRAY values to dst: their lengths as deltas, then all their bytes.
func DecodeDeltaLength(dst, src []byte, n int) ([]byte, error) {
	sizes, sum, data, err := lengths(src, n)
	switch {
	case err != nil:
		return dst, err
	case sum != len(data):
		return dst, corrupt("%d byte arrays of %d bytes in %d", n, sum, len(data))
	}
	out := slices.Grow(dst, sum+prefixBytes*n)
	for _, size := range sizes {
		out = AppendByteArray(out, data[:size])
		data = data[size:]
	}
	return out, nil
}

// DecodeDeltaByteArray appends the PLAIN form of n DELTA_BYTE_ARRAY values to dst: each takes the first bytes of the one before and adds its own.
// The width is that of fixed values, or ByteArray.
func DecodeDeltaByteArray(dst, src []byte, width, n int) ([]byte, error) {
	prefixes, shared, rest, err := lengths(src, n)
	if err != nil {
		return dst, err
	}
	sizes, sum, data, err := lengths(rest, n)
	switch {
	case err != nil:
		return dst, err
	case sum != len(data):
		return dst, corrupt("%d byte arrays of %d bytes in %d", n, sum, len(data))
	case shared+sum+prefixBytes*n > MaxPageBytes:
		return dst, fmt.Errorf("decode %d bytes of byte arrays: %w", shared+sum, ErrTooLarge)
	}
	out := slices.Grow(dst, shared+sum+prefixBytes*n)
	last := len(out) // where the value before begins
	end := last
	for i, size := range sizes {
		prefix := int(prefixes[i])
		if prefix > end-last || (width != ByteArray && prefix+int(size) != width) {
			return dst, corrupt("value %d of %d bytes, %d of them from one of %d", i, prefix+int(size), prefix, end-last)
		}
		if width == ByteArray {
			out = binary.LittleEndian.AppendUint32(out, uint32(prefix)+size)
		}
		start := len(out)
		out = append(out, out[last:last+prefix]...)
		out = append(out, data[:size]...)
		data = data[size:]
		last, end = start, len(out)
	}
	return out, nil
}

// DecodeStreamSplit appends the PLAIN form of n BYTE_STREAM_SPLIT values of the width to dst: all first bytes, then all second ones, and so on.
func DecodeStreamSplit(dst, src []byte, width, n int) ([]byte, error) {
	if width <= 0 || n < 0 || len(src)%width != 0 || len(src)/width != n {
		return dst, corrupt("%d values of %d split bytes in %d", n, width, len(src))
	}
	start := len(dst)
	dst = slices.Grow(dst, len(src))[:start+len(src)]
	out := dst[start:]
	switch width {
	case 4:
		join4(out, src, n)
	case 8:
		join8(out, src, n)
	default:
		for k := range width {
			for i, b := range src[k*n : (k+1)*n] {
				out[i*width+k] = b
			}
		}
	}
	return dst, nil
}

func join4(dst, src []byte, n int) {
	a, b, c, d := src[:n], src[n:][:n], src[2*n:][:n], src[3*n:][:n]
	for i := range a {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(a[i])|uint32(b[i])<<8|uint32(c[i])<<16|uint32(d[i])<<24)
	}
}

func join8(dst, src []byte, n int) {
	a, b, c, d := src[:n], src[n:][:n], src[2*n:][:n], src[3*n:][:n]
	e, f, g, h := src[4*n:][:n], src[5*n:][:n], src[6*n:][:n], src[7*n:][:n]
	for i := range a {
		low := uint64(a[i]) | uint64(b[i])<<8 | uint64(c[i])<<16 | uint64(d[i])<<24
		high := uint64(e[i]) | uint64(f[i])<<8 | uint64(g[i])<<16 | uint64(h[i])<<24
		binary.LittleEndian.PutUint64(dst[8*i:], low|high<<32)
	}
}
