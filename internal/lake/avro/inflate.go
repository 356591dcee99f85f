package avro

import (
	"encoding/binary"
	"fmt"
)

const (
	// padBytes must be readable behind the packed bytes: the inflater loads eight bytes at a time and looks for the end only now and then.
	// A block's sync marker is as long.
	padBytes = 16
	// slackBytes is the room that one turn of the inflater needs in its output: three literals, the longest match, and a last store of eight bytes.
	slackBytes = 3 + 258 + 8
)

// inflater unpacks deflate (RFC 1951) from memory into memory. Whole blocks are at hand, so that there is no window to keep and no state between
// two bytes: that halves the time of a reader of streams, and reading manifests is mostly inflating. It is not safe for concurrent use.
type inflater struct {
	// in are the packed bytes and at least padBytes more; end is where they end.
	in  []byte
	end int
	// at is the next byte to load, bits are those loaded and not used yet, count is how many of them are meant.
	at    int
	bits  uint64
	count uint
	// out is the room for the output, n the bytes written, start those that were there before.
	out      []byte
	n, start int

	lit     [litTable]uint32
	dist    [distTable]uint32
	pre     [1 << preBits]uint32
	lengths [maxLit + maxDist]uint8
}

func (d *inflater) copies() bool { return true }

func (d *inflater) close(p *Pool) {
	d.in, d.out = nil, nil
	if p != nil {
		p.inflaters.Put(d)
	}
}

func (d *inflater) unpack(dst, packed []byte) ([]byte, error) {
	if cap(packed) < len(packed)+padBytes {
		packed = append(make([]byte, 0, len(packed)+padBytes), packed...)
	}
	d.in, d.end, d.at, d.bits, d.count = packed[:len(packed)+padBytes], len(packed), 0, 0, 0
	d.out, d.n, d.start = dst[:cap(dst)], len(dst), len(dst)
	for last := false; !last; {
		if !d.refill() {
			return nil, d.corrupt("it ends early")
		}
		last = d.take(1) == 1
		if err := d.part(d.take(2)); err != nil {
			return nil, err
		}
	}
	if d.at*8-int(d.count) > d.end*8 {
		return nil, d.corrupt("it ends early")
	}
	if d.n-d.start > limit(d.end) {
		return nil, d.tooLong()
	}
	return d.out[:d.n], nil
}

// part unpacks one block of deflate's.
func (d *inflater) part(kind uint64) error {
	switch kind {
	case 0:
		return d.stored()
	case 1:
		d.fixed()
	case 2:
		if err := d.dynamic(); err != nil {
			return err
		}
	default:
		return d.corrupt("unknown kind of block")
	}
	return d.coded()
}

func (d *inflater) corrupt(why string) error {
	return fmt.Errorf("unpack byte %d of %d: %s: %w", min(d.at, d.end), d.end, why, ErrCorrupt)
}

func (d *inflater) tooLong() error {
	return fmt.Errorf("%d bytes unpack to more than %d: %w", d.end, limit(d.end), ErrCorrupt)
}

// refill loads bits until there are 56. It is false when more was used than is there.
func (d *inflater) refill() bool {
	if d.at > d.end+padBytes-8 {
		return false
	}
	// Bits above count are loaded again next time, in the same places.
	d.bits |= binary.LittleEndian.Uint64(d.in[d.at:]) << (d.count & 63)
	d.at += int((63 - d.count) >> 3)
	d.count |= 56
	return true
}

// take uses n of the loaded bits.
func (d *inflater) take(n uint) uint64 {
	v := d.bits & (1<<n - 1)
	d.bits >>= n
	d.count -= n
	return v
}

// stored copies a block that is not packed.
func (d *inflater) stored() error {
	at := d.at - int(d.count>>3)
	if at+4 > d.end {
		return d.corrupt("it ends early")
	}
	n, inverse := binary.LittleEndian.Uint16(d.in[at:]), binary.LittleEndian.Uint16(d.in[at+2:])
	at += 4
	if n != ^inverse {
		return d.corrupt("the length of a stored block is wrong")
	}
	if int(n) > d.end-at {
		return d.corrupt("it ends early")
	}
	for len(d.out)-d.n < int(n) {
		if !d.grow() {
			return d.tooLong()
		}
	}
	d.n += copy(d.out[d.n:], d.in[at:at+int(n)])
	d.at, d.bits, d.count = at+int(n), 0, 0
	return nil
}

// grow makes room for more output, and is false when there is too much already.
func (d *inflater) grow() bool {
	most := d.start + limit(d.end) + slackBytes
	if len(d.out) >= most {
		return false
	}
	out := make([]byte, min(2*len(d.out)+chunkBytes/4, most))
	copy(out, d.out[:d.n])
	d.out = out
	return true
}

// coded unpacks the symbols of a block. What a turn of the loop uses is in registers.
func (d *inflater) coded() error {
	in, at, bits, count := d.in, d.at, d.bits, d.count
	out, n := d.out, d.n
	for {
		if len(out)-n < slackBytes {
			d.n = n
			if !d.grow() {
				return d.tooLong()
			}
			out = d.out
		}
		if at > d.end+padBytes-8 {
			return d.corrupt("it ends early")
		}
		bits, at, count = bits|binary.LittleEndian.Uint64(in[at:])<<(count&63), at+int((63-count)>>3), count|56
		// Three literals leave 23 bits: enough for the symbol of a length and its extra bits, which are 20 at most.
		e := d.lit[bits&(1<<litBits-1)]
		for range 3 {
			if e&literal == 0 {
				break
			}
			bits >>= e & 63
			count -= uint(e & 63)
			out[n] = byte(e >> 16)
			n++
			e = d.lit[bits&(1<<litBits-1)]
		}
		if e&literal != 0 {
			continue
		}
		if e&subtable != 0 {
			e = d.lit[uint64(e>>16)+bits>>litBits&(1<<(maxBits-litBits)-1)]
		}
		length := int(e>>16) + int(bits&(1<<(e&63)-1)>>(e>>8&15))
		bits >>= e & 63
		count -= uint(e & 63)
		if e&match == 0 {
			if e&literal != 0 {
				out[n] = byte(e >> 16)
				n++
				continue
			}
			d.at, d.bits, d.count, d.n = at, bits, count, n
			if e&finish == 0 {
				return d.corrupt("unknown symbol")
			}
			return nil
		}
		if at > d.end+padBytes-8 {
			return d.corrupt("it ends early")
		}
		bits, at, count = bits|binary.LittleEndian.Uint64(in[at:])<<(count&63), at+int((63-count)>>3), count|56
		e = d.dist[bits&(1<<distBits-1)]
		if e&subtable != 0 {
			e = d.dist[uint64(e>>16)+bits>>distBits&(1<<(maxBits-distBits)-1)]
		}
		distance := int(e>>16) + int(bits&(1<<(e&63)-1)>>(e>>8&15))
		bits >>= e & 63
		count -= uint(e & 63)
		if e&match == 0 || distance > n-d.start {
			return d.corrupt("unknown distance")
		}
		repeat(out, n, distance, length)
		n += length
	}
}

// repeat copies length bytes from distance before n to n. It may write up to seven bytes more.
func repeat(out []byte, n, distance, length int) {
	from, end := n-distance, n+length
	switch {
	case distance >= length && length > 32:
		copy(out[n:end], out[from:])
	case distance >= 8:
		for ; n < end; n, from = n+8, from+8 {
			binary.LittleEndian.PutUint64(out[n:], binary.LittleEndian.Uint64(out[from:]))
		}
	default:
		for ; n < end; n, from = n+1, from+1 {
			out[n] = out[from]
		}
	}
}
