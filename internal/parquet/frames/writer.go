package frames

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/huff0"
)

// Writer makes frames of sequences and keeps its memory between them. The zero value is ready.
type Writer struct {
	literalsCode, matchCode          []uint8
	literalsCodes, matchCodes        [maxCodes]code
	cut                              []Sequence
	coded                            []coded
	blocks                           []block
	literals                         []byte
	huff                             huff0.Scratch
	last                             history
	counts                           [3][maxCodes]uint32
	literalsTab, offsetTab, matchTab encoder
	literalsOf, offsetsOf, matchesOf distribution
}

// coded is a sequence in codes. offset is the value that is written for it.
type coded struct {
	offset                uint32
	literals, match, from uint8
}

// block is a range of the cut sequences, and of the content.
type block struct{ first, end, from, to int }

// Append appends a frame of the content; what follows the last sequence are literals. ok is false, and dst as it was, when a block would not
// become smaller or the sequences are not those of the content.
func (w *Writer) Append(dst, content []byte, sequences []Sequence) (out []byte, ok bool) {
	if w.literalsCode == nil {
		literals, matches := codesOfLiterals(), codesOfMatches()
		copy(w.literalsCodes[:], literals)
		copy(w.matchCodes[:], matches)
		w.literalsCode, w.matchCode = directory(literals), directory(matches)
	}
	if len(content) > MaxContent || !w.plan(sequences, len(content)) || len(w.cut) == 0 {
		return dst, false
	}
	w.makeTables()
	start := len(dst)
	const segment, sizeOfFour = 1 << 5, 2 << 6
	dst = append(dst, 0x28, 0xb5, 0x2f, 0xfd, segment|sizeOfFour)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(content)))
	w.huff.Reuse = huff0.ReusePolicyNone
	described := false
	for i, b := range w.blocks {
		at := len(dst)
		dst = append(dst, 0, 0, 0)
		dst = w.appendBlock(dst, content[b.from:b.to], b, !described)
		described = described || b.end > b.first
		size := len(dst) - at - blockHeader
		if size >= b.to-b.from && (b.end > b.first || b.from == b.to) {
			return dst[:start], false
		}
		kind := packedBlock
		if size >= b.to-b.from {
			kind, size = rawBlock, b.to-b.from
			dst = append(dst[:at+blockHeader], content[b.from:b.to]...)
			w.huff.Reuse = huff0.ReusePolicyNone // The table that was described went with the body.
		}
		h := uint32(size)<<3 | uint32(kind)<<1
		if i == len(w.blocks)-1 {
			h |= 1
		}
		dst[at], dst[at+1], dst[at+2] = byte(h), byte(h>>8), byte(h>>16)
	}
	return dst, true
}

// blockHeader is the length of one.
const blockHeader = 3

// plan cuts what is too long, puts as many sequences into a block as fit, and finds their codes.
func (w *Writer) plan(sequences []Sequence, size int) bool {
	w.cut, w.coded, w.blocks = w.cut[:0], w.coded[:0], w.blocks[:0]
	w.last, w.counts = newHistory(), [3][maxCodes]uint32{}
	b := block{}
	at := 0
	end := func() {
		if b.to = at; b.to > b.from {
			b.end = len(w.cut)
			w.blocks = append(w.blocks, b)
		}
		b = block{first: len(w.cut), from: at}
	}
	literals := func(n int) int {
		for ; n > maxRun; n -= maxRun { // Blocks of nothing else.
			end()
			at += maxRun
			end()
		}
		return n
	}
	for _, s := range sequences {
		if uint64(at)+uint64(s.Literals)+uint64(s.Match) > uint64(size) || s.Match < minMatch || s.Offset == 0 || int(s.Offset) > at+int(s.Literals) {
			return false
		}
		if s.Literals > maxRun {
			s.Literals = uint32(literals(int(s.Literals)))
		}
		for ; s.Match > maxRun; s.Match -= maxRun - minMatch { // Leaves enough for another one.
			if at+int(s.Literals)+maxRun-b.from > blockBytes {
				end()
			}
			w.add(Sequence{Literals: s.Literals, Match: maxRun - minMatch, Offset: s.Offset})
			at += int(s.Literals) + maxRun - minMatch
			s.Literals = 0
		}
		if at+int(s.Literals+s.Match)-b.from > blockBytes {
			end()
		}
		w.add(s)
		at += int(s.Literals + s.Match)
	}
	rest := literals(size - at)
	if at+rest-b.from > blockBytes {
		end()
	}
	at += rest
	end()
	return true
}

// add adds a sequence in codes, and counts them.
func (w *Writer) add(s Sequence) {
	v := w.last.value(s.Offset, s.Literals)
	c := coded{offset: v, literals: w.literalsCode[s.Literals], match: w.matchCode[s.Match], from: uint8(bits.Len32(v) - 1)}
	w.counts[0][c.literals%maxCodes]++
	w.counts[1][c.from%maxCodes]++
	w.counts[2][c.match%maxCodes]++
	w.coded = append(w.coded, c)
	w.cut = append(w.cut, s)
}

// makeTables makes the tables of all blocks.
func (w *Writer) makeTables() {
	w.literalsOf = distribute(&w.counts[0], literalsLog)
	w.offsetsOf = distribute(&w.counts[1], offsetLog)
	w.matchesOf = distribute(&w.counts[2], matchLog)
	w.literalsTab.set(&w.literalsOf)
	w.offsetTab.set(&w.offsetsOf)
	w.matchTab.set(&w.matchesOf)
}

// directory tells the code of each length up to the longest that is written.
func directory(codes []code) []uint8 {
	out := make([]uint8, maxRun+1)
	for i, c := range codes {
		for n := c.base; n < c.base+1<<c.extra && n <= maxRun; n++ {
			out[n] = uint8(i)
		}
	}
	return out
}

// appendBlock appends the body of a block. The first one with sequences describes the tables, the others repeat them.
func (w *Writer) appendBlock(dst, content []byte, b block, describe bool) []byte {
	dst = w.appendLiterals(dst, w.gather(content, w.cut[b.first:b.end]))
	n := b.end - b.first
	const two, three = 1 << 7, 0x7f00
	switch {
	case n < two:
		dst = append(dst, byte(n))
	case n < three:
		dst = append(dst, byte(n>>8)+two, byte(n))
	default:
		dst = append(dst, 255, byte(n-three), byte((n-three)>>8))
	}
	if n == 0 {
		return dst
	}
	dst = w.appendTables(dst, describe)
	return w.appendBits(dst, w.cut[b.first:b.end], w.coded[b.first:b.end])
}

// gather collects the literals of sequences, and those behind the last.
func (w *Writer) gather(content []byte, sequences []Sequence) []byte {
	const words = 16
	w.literals = slices.Grow(w.literals[:0], len(content)+words)
	room := w.literals[:len(content)+words]
	from, to := 0, 0
	for _, s := range sequences {
		n := int(s.Literals)
		if n <= words && from+words <= len(content) {
			*(*[words]byte)(room[to:]) = *(*[words]byte)(content[from:])
		} else {
			copy(room[to:], content[from:from+n])
		}
		to += n
		from += n + int(s.Match)
	}
	to += copy(room[to:], content[from:])
	return room[:to]
}

// appendLiterals appends the literals of a block (3.1.1.3.1).
func (w *Writer) appendLiterals(dst, literals []byte) []byte {
	const longForm, minPacked = 3 << 2, 256
	var packed []byte
	var again bool
	err := huff0.ErrIncompressible
	if len(literals) >= minPacked {
		packed, again, err = huff0.Compress4X(literals, &w.huff)
	}
	n := uint32(len(literals))
	switch {
	case err == nil:
		w.huff.Reuse = huff0.ReusePolicyAllow
		kind := uint64(packedLiterals)
		if again {
			kind = againLiterals
		}
		h := kind | longForm | uint64(n)<<4 | uint64(len(packed))<<22
		return append(append(dst, byte(h), byte(h>>8), byte(h>>16), byte(h>>24), byte(h>>32)), packed...)
	case errors.Is(err, huff0.ErrUseRLE):
		h := runLiterals | longForm | n<<4
		return append(dst, byte(h), byte(h>>8), byte(h>>16), literals[0])
	default:
		h := rawLiterals | longForm | n<<4
		return append(append(dst, byte(h), byte(h>>8), byte(h>>16)), literals...)
	}
}

// appendTables appends the modes of the three tables and what they need.
func (w *Writer) appendTables(dst []byte, describe bool) []byte {
	at := len(dst)
	dst = append(dst, 0)
	for i, d := range []*distribution{&w.literalsOf, &w.offsetsOf, &w.matchesOf} {
		mode := byte(repeated)
		switch {
		case !describe:
		case d.log == 0:
			mode = single
			dst = append(dst, byte(d.length-1))
		default:
			mode = described
			dst = d.append(dst)
		}
		dst[at] |= mode << (6 - 2*i)
	}
	return dst
}

// appendBits appends the bit stream of sequences, which is read from its end (3.1.1.3.2.1.2).
func (w *Writer) appendBits(dst []byte, sequences []Sequence, codes []coded) []byte {
	const most = 11 // bytes of a sequence
	at := len(dst)
	dst = slices.Grow(dst, most*len(sequences)+2*most)
	room := dst[:cap(dst)]
	var acc uint64
	var n uint
	lt, ot, mt := &w.literalsTab, &w.offsetTab, &w.matchTab
	last := len(codes) - 1
	sequences = sequences[:len(codes)]
	ls, os, ms := lt.first(codes[last].literals), ot.first(codes[last].from), mt.first(codes[last].match)
	for i := last; i >= 0; i-- {
		c, s := codes[i], sequences[i]
		if i < last {
			t := ot.change[c.from%maxCodes]
			k := (os + t.bits) >> 16
			acc |= uint64(os&(1<<(k&31)-1)) << (n & 63)
			n += uint(k)
			os = uint32(ot.next[(int32(os>>(k&31))+t.from)&cellMask])
			t = mt.change[c.match%maxCodes]
			k = (ms + t.bits) >> 16
			acc |= uint64(ms&(1<<(k&31)-1)) << (n & 63)
			n += uint(k)
			ms = uint32(mt.next[(int32(ms>>(k&31))+t.from)&cellMask])
			t = lt.change[c.literals%maxCodes]
			k = (ls + t.bits) >> 16
			acc |= uint64(ls&(1<<(k&31)-1)) << (n & 63)
			n += uint(k)
			ls = uint32(lt.next[(int32(ls>>(k&31))+t.from)&cellMask])
			binary.LittleEndian.PutUint64(room[at:], acc)
			at += int(n / 8)
			acc >>= n & 56
			n &= 7
		}
		l, m := w.literalsCodes[c.literals%maxCodes], w.matchCodes[c.match%maxCodes]
		acc |= uint64(s.Literals-l.base) << (n & 63)
		n += uint(l.extra)
		acc |= uint64(s.Match-m.base) << (n & 63)
		n += uint(m.extra)
		acc |= uint64(c.offset&(1<<(c.from&31)-1)) << (n & 63)
		n += uint(c.from)
		binary.LittleEndian.PutUint64(room[at:], acc)
		at += int(n / 8)
		acc >>= n & 56
		n &= 7
	}
	for _, v := range []struct{ state, log uint32 }{{ms, uint32(mt.log)}, {os, uint32(ot.log)}, {ls, uint32(lt.log)}} {
		acc |= uint64(v.state&(1<<v.log-1)) << n
		n += uint(v.log)
	}
	acc |= 1 << n // The mark of the end.
	n++
	binary.LittleEndian.PutUint64(room[at:], acc)
	return dst[:at+int(n+7)/8]
}
