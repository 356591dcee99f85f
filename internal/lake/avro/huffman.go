package avro

import "math/bits"

const (
	// Limits of RFC 1951: symbols of a literal or length, of a distance, of a code length; bits of a code.
	maxLit, maxDist, maxPre, maxBits = 286, 30, 19, 15
	fixedLit, fixedDist              = 288, 32
	// A symbol is looked up by so many bits; longer codes are continued in a subtable, whose place the entry tells. The tables have room for as many
	// subtables as a complete code can need: each of them holds two symbols at least.
	litBits, distBits, preBits = 11, 9, 7
	litTable                   = 1<<litBits + fixedLit/2<<(maxBits-litBits)
	distTable                  = 1<<distBits + fixedDist/2<<(maxBits-distBits)

	// An entry of a table, 0 for none:
	//
	//	bits 0-5    length of the code and its extra bits
	//	bits 8-11   length of the code
	//	bits 12-15  what the symbol is
	//	bits 16-31  the literal, the base of the length or distance, or where the subtable begins
	literal  = 1 << 12
	match    = 1 << 13
	finish   = 1 << 14
	subtable = 1 << 15

	// preOrder is the order in which a block gives the lengths of the codes of code lengths.
	preOrder = "\x10\x11\x12\x00\x08\x07\x09\x06\x0a\x05\x0b\x04\x0c\x03\x0d\x02\x0e\x01\x0f"
	// endOfBlock is the symbol that ends a block.
	endOfBlock = 256
)

// fillTable makes a table for codes of the given lengths. It is false when they are no code: a code is complete, or has one symbol of one bit, or none.
func fillTable(table []uint32, primary int, lengths []uint8, entry func(symbol int) uint32) bool {
	var counts, next [maxBits + 1]int
	for _, n := range lengths {
		counts[n]++
	}
	used := len(lengths) - counts[0]
	counts[0] = 0
	left, code := 1, 0
	for n := 1; n <= maxBits; n++ {
		code = (code + counts[n-1]) << 1
		next[n] = code
		if left = left<<1 - counts[n]; left < 0 {
			return false
		}
	}
	if left > 0 && used > 0 && (used != 1 || counts[1] != 1) {
		return false
	}
	clear(table[:1<<primary])
	free := 1 << primary
	for symbol, length := range lengths {
		if length == 0 {
			continue
		}
		n := int(length)
		at := int(bits.Reverse16(uint16(next[n])) >> (16 - n))
		next[n]++
		e := entry(symbol) + uint32(n)<<8 + uint32(n)
		if n <= primary {
			for ; at < 1<<primary; at += 1 << n {
				table[at] = e
			}
			continue
		}
		head := &table[at&(1<<primary-1)]
		if *head == 0 {
			*head = uint32(free)<<16 | subtable
			free += 1 << (maxBits - primary)
		}
		sub := table[*head>>16:][:1<<(maxBits-primary)]
		for at >>= primary; at < len(sub); at += 1 << (n - primary) {
			sub[at] = e
		}
	}
	return true
}

// litEntry is the entry of a literal, a length or the end of the block, without its code's length. Lengths are in groups of four to each number of
// extra bits, but for the shortest and the longest.
func litEntry(symbol int) uint32 {
	i := symbol - endOfBlock - 1
	switch {
	case i < -1:
		return uint32(symbol)<<16 | literal
	case i == -1:
		return finish
	case i < 8:
		return uint32(3+i)<<16 | match
	case i < 28:
		extra := i/4 - 1
		return uint32(3+(4+i%4)<<extra)<<16 | match | uint32(extra)
	case i == 28:
		return 258<<16 | match
	}
	return 0 // symbols that only the fixed code has, and that mean nothing
}

// distEntry is the entry of a distance: two to each number of extra bits.
func distEntry(symbol int) uint32 {
	switch {
	case symbol < 4:
		return uint32(1+symbol)<<16 | match
	case symbol < maxDist:
		extra := symbol/2 - 1
		return uint32(1+(2+symbol%2)<<extra)<<16 | match | uint32(extra)
	}
	return 0
}

func preEntry(symbol int) uint32 { return uint32(symbol)<<16 | literal }

// fixed makes the tables of the code that RFC 1951 fixes.
func (d *inflater) fixed() {
	var lengths [fixedLit]uint8
	for i := range lengths {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		default:
			lengths[i] = 8
		}
	}
	fillTable(d.lit[:], litBits, lengths[:], litEntry)
	for i := range fixedDist {
		lengths[i] = 5
	}
	fillTable(d.dist[:], distBits, lengths[:fixedDist], distEntry)
}

// dynamic reads a block's own codes.
func (d *inflater) dynamic() error {
	if !d.refill() {
		return d.corrupt("it ends early")
	}
	lits, dists, pres := int(d.take(5))+257, int(d.take(5))+1, int(d.take(4))+4
	if lits > maxLit || dists > maxDist {
		return d.corrupt("too many symbols")
	}
	var lengths [maxPre]uint8
	for i := range pres {
		if !d.refill() {
			return d.corrupt("it ends early")
		}
		lengths[preOrder[i]] = uint8(d.take(3))
	}
	if !fillTable(d.pre[:], preBits, lengths[:], preEntry) {
		return d.corrupt("the code of code lengths is none")
	}
	if err := d.readLengths(lits + dists); err != nil {
		return err
	}
	if !fillTable(d.lit[:], litBits, d.lengths[:lits], litEntry) || !fillTable(d.dist[:], distBits, d.lengths[lits:lits+dists], distEntry) {
		return d.corrupt("a code is none")
	}
	return nil
}

// readLengths reads the lengths of all codes of a block.
func (d *inflater) readLengths(n int) error {
	for i := 0; i < n; {
		if !d.refill() {
			return d.corrupt("it ends early")
		}
		e := d.pre[d.bits&(1<<preBits-1)]
		if e == 0 {
			return d.corrupt("unknown code length")
		}
		d.take(uint(e & 63))
		var value uint8
		times := 1
		switch symbol := e >> 16; symbol {
		case 16:
			if i == 0 {
				return d.corrupt("the first code length is a repetition")
			}
			value, times = d.lengths[i-1], 3+int(d.take(2))
		case 17:
			times = 3 + int(d.take(3))
		case 18:
			times = 11 + int(d.take(7))
		default:
			value = uint8(symbol)
		}
		if times > n-i {
			return d.corrupt("too many code lengths")
		}
		for ; times > 0; times-- {
			d.lengths[i] = value
			i++
		}
	}
	return nil
}
