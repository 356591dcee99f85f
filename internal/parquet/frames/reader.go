package frames

import (
	"encoding/binary"
	"math/bits"
)

// Reader lists the sequences of frames and keeps its memory between them. The zero value is ready.
type Reader struct {
	literals, offsets, matches             decoder
	literalsList, offsetsList, matchesList []code
	stream                                 []byte
	history                                history
	// pending are literals since the last sequence, size is what all sequences make, them included.
	pending, size uint64
}

// Append appends the sequences of a frame whose content is so long. ok is false when it is damaged, or made in a way that is not read here; what was
// appended is of no use then. Literals are not looked at.
func (r *Reader) Append(dst []Sequence, frame []byte, size int) (out []Sequence, ok bool) {
	if r.literalsList == nil {
		r.literalsList, r.offsetsList, r.matchesList = codesOfLiterals(), codesOfOffsets(), codesOfMatches()
	}
	r.literals.set, r.offsets.set, r.matches.set = false, false, false
	r.history, r.pending, r.size = newHistory(), 0, 0
	rest := skipHeader(frame)
	for {
		if len(rest) < blockHeader {
			return dst, false
		}
		h := uint32(rest[0]) | uint32(rest[1])<<8 | uint32(rest[2])<<16
		last, kind, n := h&1 != 0, h>>1&3, int(h>>3)
		rest = rest[blockHeader:]
		length := n
		if kind == runBlock {
			length = 1
		}
		if length > len(rest) || n > blockBytes {
			return dst, false
		}
		switch kind {
		case rawBlock, runBlock:
			r.pending += uint64(n)
			r.size += uint64(n)
		case packedBlock:
			if dst, ok = r.block(dst, rest[:n]); !ok {
				return dst, false
			}
		default:
			return dst, false
		}
		rest = rest[length:]
		if r.size > uint64(size) {
			return dst, false
		}
		if last { // A checksum may follow; pages have one of their own.
			return dst, r.size == uint64(size)
		}
	}
}

// skipHeader is what follows a frame's header; nil when that is none that is read here (3.1.1.1).
func skipHeader(frame []byte) []byte {
	const magic, descriptor = 4, 1
	if len(frame) < magic+descriptor || binary.LittleEndian.Uint32(frame) != 0xfd2fb528 {
		return nil
	}
	d := frame[magic]
	single, n := d>>5&1, magic+descriptor
	switch d >> 6 {
	case 0:
		n += int(single)
	default:
		n += 1 << (d >> 6)
	}
	if single == 0 {
		n++ // the window
	}
	if d&3 != 0 || n > len(frame) { // A dictionary of Zstandard's own.
		return nil
	}
	return frame[n:]
}

// skipLiterals is what follows the literals of a block, and how many they are (3.1.1.3.1).
func skipLiterals(src []byte) (rest []byte, count int, ok bool) {
	const word = 8
	var head [word]byte
	copy(head[:], src)
	h := binary.LittleEndian.Uint64(head[:])
	kind, form := h&3, h>>2&3
	var header, size int
	if kind == rawLiterals || kind == runLiterals {
		switch form {
		case 1:
			header, count = 2, int(h>>4&(1<<12-1))
		case 3:
			header, count = 3, int(h>>4&(1<<20-1))
		default:
			header, count = 1, int(h>>3&(1<<5-1))
		}
		if size = count; kind == runLiterals {
			size = 1
		}
	} else {
		width := [...]int{10, 10, 14, 18}[form]
		header = (4 + 2*width) / 8
		count, size = int(h>>4&(1<<width-1)), int(h>>(4+width)&(1<<width-1))
	}
	if header+size > len(src) {
		return nil, 0, false
	}
	return src[header+size:], count, true
}

// block appends the sequences of a block.
func (r *Reader) block(dst []Sequence, src []byte) (out []Sequence, ok bool) {
	src, literals, ok := skipLiterals(src)
	if !ok || len(src) == 0 {
		return dst, false
	}
	n, header := int(src[0]), 1
	switch {
	case n == 255 && len(src) > 2:
		n, header = 0x7f00+int(src[1])+int(src[2])<<8, 3
	case n >= 128 && len(src) > 1:
		n, header = (n-128)<<8+int(src[1]), 2
	case n >= 128:
		return dst, false
	}
	src = src[header:]
	if n == 0 {
		r.pending += uint64(literals)
		r.size += uint64(literals)
		return dst, len(src) == 0
	}
	if src, ok = r.tables(src); !ok || len(src) == 0 || src[len(src)-1] == 0 {
		return dst, false
	}
	return r.sequences(dst, src, n, literals)
}

// tables reads the three tables of a block.
func (r *Reader) tables(src []byte) (rest []byte, ok bool) {
	if len(src) == 0 {
		return nil, false
	}
	modes, rest := src[0], src[1:]
	for i, t := range []struct {
		*decoder
		codes      []code
		predefined func() distribution
		log        int
	}{
		{&r.literals, r.literalsList, predefinedLiterals, literalsLog},
		{&r.offsets, r.offsetsList, predefinedOffsets, offsetLog},
		{&r.matches, r.matchesList, predefinedMatches, matchLog},
	} {
		var d distribution
		switch modes >> (6 - 2*i) & 3 {
		case predefined:
			d = t.predefined()
		case single:
			if len(rest) == 0 || int(rest[0]) >= len(t.codes) {
				return nil, false
			}
			d = one(rest[0])
			rest = rest[1:]
		case described:
			n := 0
			if d, n = readDistribution(rest, maxCodes, t.log); n == 0 {
				return nil, false
			}
			rest = rest[n:]
		case repeated:
			if !t.set {
				return nil, false
			}
			continue
		}
		if !t.fill(&d, t.codes) {
			return nil, false
		}
	}
	return rest, true
}

// sequences reads n sequences of the bit stream, from its end. literals is how many the block has.
func (r *Reader) sequences(dst []Sequence, src []byte, n, literals int) (out []Sequence, ok bool) {
	const slack, byteBits = 8, 8
	r.stream = append(append(r.stream[:0], src...), make([]byte, slack)...)
	stream := r.stream
	at := byteBits*len(src) - bits.LeadingZeros8(src[len(src)-1]) - 1 // bits that are left
	lt, ot, mt := &r.literals, &r.offsets, &r.matches
	if at -= lt.log + ot.log + mt.log; at < 0 {
		return dst, false
	}
	v := binary.LittleEndian.Uint64(stream[at>>3:]) >> (at & 7)
	ms := v & (1<<mt.log - 1)
	v >>= mt.log
	os := v & (1<<ot.log - 1)
	ls := v >> ot.log & (1<<lt.log - 1)
	left := uint32(literals)
	for i := range n {
		l, o, m := lt.cells[ls&cellMask], ot.cells[os&cellMask], mt.cells[ms&cellMask]
		if at -= int(l.extra + o.extra + m.extra); at < 0 || o.extra > offsetBits {
			return dst, false
		}
		v := binary.LittleEndian.Uint64(stream[at>>3:]) >> (at & 7)
		s := Sequence{Literals: l.base + uint32(v&(1<<(l.extra&31)-1))}
		v >>= l.extra & 31
		s.Match = m.base + uint32(v&(1<<(m.extra&31)-1))
		v >>= m.extra & 31
		value := o.base + uint32(v&(1<<(o.extra&31)-1))
		if s.Literals > left {
			return dst, false
		}
		s.Offset = r.history.offset(value, s.Literals)
		left -= s.Literals
		r.size += uint64(s.Literals + s.Match)
		s.Literals += uint32(r.pending)
		r.pending = 0
		dst = append(dst, s)
		if i == n-1 {
			break
		}
		if at -= int(l.bits + o.bits + m.bits); at < 0 {
			return dst, false
		}
		v = binary.LittleEndian.Uint64(stream[at>>3:]) >> (at & 7)
		os = uint64(o.next) + v&(1<<(o.bits&31)-1)
		v >>= o.bits & 31
		ms = uint64(m.next) + v&(1<<(m.bits&31)-1)
		v >>= m.bits & 31
		ls = uint64(l.next) + v&(1<<(l.bits&31)-1)
	}
	r.pending += uint64(left)
	r.size += uint64(left)
	return dst, at == 0 && r.size <= 1<<31
}
