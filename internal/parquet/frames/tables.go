package frames

import "math/bits"

// encoder writes codes by a distribution (4.1.1): a state says which cell comes next.
type encoder struct {
	log    int
	next   [1 << literalsLog]uint16
	change [maxCodes]change
}

// change says for a code how many bits of a state are written, and where the next one is found.
type change struct {
	bits uint32
	from int32
}

func (e *encoder) set(d *distribution) {
	e.log = d.log
	size := 1 << d.log
	var cells [1 << literalsLog]uint8
	d.spread(&cells)
	var starts [maxCodes]int32
	total := int32(0)
	for i, n := range d.cells[:d.length] {
		starts[i] = total
		cells := int32(max(n, -n))
		switch {
		case cells == 1:
			e.change[i] = change{bits: uint32(d.log)<<16 - uint32(size), from: total - 1}
		case cells > 1:
			out := uint32(d.log - bits.Len32(uint32(cells-1)) + 1)
			e.change[i] = change{bits: out<<16 - uint32(cells)<<out, from: total - cells}
		}
		total += cells
	}
	for i, c := range cells[:size] {
		e.next[starts[c]] = uint16(size + i)
		starts[c]++
	}
}

// first is the state that a stream ends with, and so begins to be written with.
func (e *encoder) first(c uint8) uint32 {
	t := e.change[c]
	n := (t.bits + 1<<15) >> 16
	return uint32(e.next[int32((n<<16-t.bits)>>n)+t.from])
}

// cell is one of a decoder's: the code's number and extra bits, and how the next state is read.
type cell struct {
	base  uint32
	next  uint16
	bits  uint8
	extra uint8
}

type decoder struct {
	log   int
	cells [1 << literalsLog]cell
	// set says that there is a table, which the next block may repeat.
	set bool
}

// fill makes the table of a distribution; ok is false for codes that are not read here.
func (t *decoder) fill(d *distribution, codes []code) (ok bool) {
	t.log, t.set = d.log, true
	size := 1 << d.log
	var cells [1 << literalsLog]uint8
	d.spread(&cells)
	var seen [maxCodes]uint16
	for i, n := range d.cells[:d.length] {
		seen[i] = uint16(max(n, -n))
	}
	for i, c := range cells[:size] {
		if int(c) >= len(codes) {
			return false
		}
		n := seen[c]
		seen[c]++
		width := d.log - bits.Len16(n) + 1
		t.cells[i] = cell{base: codes[c].base, extra: codes[c].extra, bits: uint8(width), next: n<<width - uint16(size)}
	}
	return true
}
