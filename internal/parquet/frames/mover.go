package frames

import (
	"bytes"
	"encoding/binary"
	"math"
	"sort"
)

// Piece says that bytes From to To of a source lie at At in the content that is made.
type Piece struct{ From, To, At int }

// Mover finds the copies of a content in those of the source that it is made of. The zero value is ready.
type Mover struct {
	pieces []Piece
	// near is for each cell of the source the first piece that ends behind its start.
	near    []int32
	content []byte
	dst     []Sequence
	gone    []gone
	// end is where the last sequence ends.
	end int
}

const (
	cellBits = 6
	// minPart is the shortest rest of a copy that is worth a sequence.
	minPart = 5
	// maxDepth is how often a copy of a copy that is gone is followed.
	maxDepth = 8
)

// Move appends the sequences of a content that consists of pieces of a source, whose sequences are given, and of other bytes. Pieces are in order, in
// the source and in the content. What cannot be copied any more, since it is gone, is left to be literals.
func (m *Mover) Move(dst, source []Sequence, pieces []Piece, content []byte) []Sequence {
	if len(pieces) == 0 {
		return dst
	}
	m.pieces, m.content, m.dst, m.gone, m.end = pieces, content, dst, m.gone[:0], 0
	m.index()
	at, k := 0, 0
	p := pieces[0]
	for i := range source {
		s := source[i]
		from := at + int(s.Literals)
		at = from + int(s.Match)
		for p.To <= from {
			if k++; k == len(pieces) {
				return m.done()
			}
			p = pieces[k]
		}
		if p.From > from || at > p.To {
			m.gone = append(m.gone, gone{from: from, to: at, offset: int(s.Offset)})
			for n := k; n < len(pieces) && pieces[n].From < at; n++ {
				m.copy(part{n, max(from, pieces[n].From), min(at, pieces[n].To), int(s.Offset)}, minPart, 0)
			}
			continue
		}
		if place := from - int(s.Offset); place >= 0 { // All of it stays; mostly what it copies does too.
			n := m.piece(place)
			if q := &pieces[n]; place >= q.From && (place+int(s.Match) <= q.To || n == k) {
				m.add(p.At+from-p.From, q.At+place-q.From, int(s.Match), minMatch)
				continue
			}
			m.copy(part{k, from, at, int(s.Offset)}, minMatch, 0)
		}
	}
	return m.done()
}

// done lets go of what is the caller's.
func (m *Mover) done() []Sequence {
	dst := m.dst
	m.dst, m.content, m.pieces = nil, nil, nil
	return dst
}

// index makes near.
func (m *Mover) index() {
	last := m.pieces[len(m.pieces)-1].To
	m.near = m.near[:0]
	k := 0
	for cell := 0; cell<<cellBits < last; cell++ {
		for m.pieces[k].To <= cell<<cellBits {
			k++
		}
		m.near = append(m.near, int32(k))
	}
}

// part is a copy of source bytes from to to, which lie in a piece.
type part struct{ piece, from, to, offset int }

// copy adds a copy as far as what it copies stays. Where that is gone, but was a copy itself, the bytes are taken from where it came from; depth is
// how often that was done.
func (m *Mover) copy(c part, shortest, depth int) {
	p, from := &m.pieces[c.piece], c.from
	for from < c.to {
		place := from - c.offset
		if place < 0 {
			return
		}
		n := c.to - from
		next := m.piece(place)
		q := &m.pieces[next]
		if next == c.piece && place >= q.From { // A copy may reach into what it makes.
			m.add(p.At+from-p.From, p.At+place-p.From, n, shortest)
			return
		}
		if place >= q.From {
			if q.To-place < n {
				n, shortest = q.To-place, max(shortest, minPart)
			}
			m.add(p.At+from-p.From, q.At+place-q.From, n, shortest)
		} else {
			n = min(n, q.From-place)
			if depth < maxDepth {
				g := m.goneAt(place)
				n = min(n, g.to-place)
				if g.offset > 0 {
					m.copy(part{c.piece, from, from + n, c.offset + g.offset}, minPart, depth+1)
				}
			}
		}
		from += n
		shortest = minPart
	}
}

// gone is a copy in the source of which not all stays; its offset is 0 where there was none.
type gone struct{ from, to, offset int }

// goneAt is the copy that a place of the source was in, or how far there is none.
func (m *Mover) goneAt(at int) gone {
	k := sort.Search(len(m.gone), func(i int) bool { return m.gone[i].to > at })
	switch {
	case k == len(m.gone):
		return gone{to: math.MaxInt}
	case m.gone[k].from > at:
		return gone{to: m.gone[k].from}
	}
	return m.gone[k]
}

// piece is the number of the first one that ends behind a place of the source, which lies before the end of the last.
func (m *Mover) piece(at int) int {
	k := int(m.near[at>>cellBits])
	for m.pieces[k].To <= at {
		k++
	}
	return k
}

// add appends a sequence for n bytes of the content at to, which are the same as those at from.
func (m *Mover) add(to, from, n, shortest int) {
	if n < shortest || uint(from) >= uint(to) || to < m.end || to+n > len(m.content) || !same(m.content[to:to+n], m.content[from:from+n]) {
		return
	}
	offset := uint32(to - from)
	if k := len(m.dst); to == m.end && k > 0 && m.dst[k-1].Offset == offset {
		m.dst[k-1].Match += uint32(n)
	} else {
		m.dst = append(m.dst, Sequence{Literals: uint32(to - m.end), Match: uint32(n), Offset: offset})
	}
	m.end = to + n
}

// same compares two slices of one length, which are short mostly.
func same(a, b []byte) bool {
	const word = 8
	n := len(a)
	b = b[:n]
	if n < word {
		return string(a) == string(b)
	}
	if n > 2*word {
		return bytes.Equal(a, b)
	}
	return binary.LittleEndian.Uint64(a) == binary.LittleEndian.Uint64(b) && binary.LittleEndian.Uint64(a[n-word:]) == binary.LittleEndian.Uint64(b[n-word:])
}
