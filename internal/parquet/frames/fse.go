package frames

import "math/bits"

// distribution says how many of a table's cells each code has (4.1.1). -1 is one cell for a code that is rarer than that.
type distribution struct {
	log    int
	cells  [maxCodes]int16
	length int // codes up to the last one with a cell
}

// predefinedOf are the distributions that the format knows (3.1.1.3.2.2).
func predefinedOf(log int, cells ...int16) (d distribution) {
	d.log, d.length = log, len(cells)
	copy(d.cells[:], cells)
	return d
}

func predefinedLiterals() distribution {
	return predefinedOf(6, 4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1)
}

func predefinedMatches() distribution {
	return predefinedOf(6, 1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
		1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1)
}

func predefinedOffsets() distribution {
	return predefinedOf(5, 1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1)
}

// one is the distribution of a table with a single code.
func one(c uint8) (d distribution) {
	d.length, d.cells[c] = int(c)+1, 1
	return d
}

// distribute shares cells out by how often each code was counted; every code that occurs gets one.
func distribute(counts *[maxCodes]uint32, highest int) (d distribution) {
	const minLog = 5
	var total uint64
	different, last := 0, 0
	for i, n := range counts {
		if n > 0 {
			total += uint64(n)
			different++
			last = i
		}
	}
	if different <= 1 {
		return one(uint8(last))
	}
	// As many cells as codes were counted are of no more use than a quarter of that: their description costs bytes.
	d.log = min(highest, max(minLog, bits.Len64(total)-2, bits.Len(uint(different-1))+1))
	d.length = last + 1
	size := 1 << d.log
	left := size
	for i, n := range counts {
		if n > 0 {
			d.cells[i] = int16(max(1, (uint64(n)*uint64(size)+total/2)/total))
			left -= int(d.cells[i])
		}
	}
	for left != 0 { // Rounding: the largest can best give, or take, what is missing.
		most := 0
		for i, n := range d.cells {
			if n > d.cells[most] {
				most = i
			}
		}
		step := left
		if left < 0 {
			step = max(left, -int(d.cells[most]+1)/2)
		}
		d.cells[most] += int16(step)
		left -= step
	}
	return d
}

// spread lays the codes out over the cells (4.1.1).
func (d *distribution) spread(cells *[1 << literalsLog]uint8) {
	size := 1 << d.log
	high := size
	for i, n := range d.cells[:d.length] {
		if n == -1 {
			high--
			cells[high] = uint8(i)
		}
	}
	at, step := 0, size>>1+size>>3+3
	for i, n := range d.cells[:d.length] {
		for range max(n, 0) {
			cells[at] = uint8(i)
			for at = (at + step) & (size - 1); at >= high; at = (at + step) & (size - 1) {
			}
		}
	}
}

// append writes the description of a distribution (4.1.1).
func (d *distribution) append(dst []byte) []byte {
	const minLog = 5
	var acc uint64
	var n uint
	put := func(v, width int) {
		acc |= uint64(v) << n
		for n += uint(width); n >= 8; n -= 8 {
			dst = append(dst, byte(acc))
			acc >>= 8
		}
	}
	put(d.log-minLog, 4)
	threshold, width, left := 1<<d.log, d.log+1, 1<<d.log+1
	zero := false
	for i := 0; left > 1; i++ {
		if zero {
			run := 0
			for ; d.cells[i] == 0; i++ {
				run++
			}
			for ; run >= 3; run -= 3 {
				put(3, 2)
			}
			put(run, 2)
		}
		cells := int(d.cells[i])
		short := 2*threshold - 1 - left
		left -= max(cells, -cells)
		v := cells + 1
		if v >= threshold {
			v += short
		}
		if v < short {
			put(v, width-1)
		} else {
			put(v, width)
		}
		zero = cells == 0
		for left < threshold {
			width--
			threshold >>= 1
		}
	}
	if n > 0 {
		dst = append(dst, byte(acc))
	}
	return dst
}

// readDistribution reads a description; its length is 0 when it is damaged or has more codes or cells than it may.
func readDistribution(src []byte, codes, highest int) (d distribution, size int) {
	const minLog = 5
	at := 0
	peek := func(width int) int {
		v := 0
		for i := range 4 {
			if at/8+i < len(src) {
				v |= int(src[at/8+i]) << (8 * i)
			}
		}
		return v >> (at % 8) & (1<<width - 1)
	}
	d.log = peek(4) + minLog
	at += 4
	if d.log > highest {
		return d, 0
	}
	threshold, width, left := 1<<d.log, d.log+1, 1<<d.log+1
	zero := false
	for left > 1 && at <= 8*len(src) {
		for run := 3; zero && run == 3 && at <= 8*len(src); at += 2 {
			run = peek(2)
			d.length += run
		}
		if d.length >= codes {
			return d, 0
		}
		short := 2*threshold - 1 - left
		v := peek(width - 1)
		if at += width - 1; v >= short {
			at -= width - 1
			if v = peek(width); v >= threshold {
				v -= short
			}
			at += width
		}
		cells := v - 1
		left -= max(cells, -cells)
		d.cells[d.length] = int16(cells)
		d.length++
		zero = cells == 0
		for left < threshold && threshold > 1 {
			width--
			threshold >>= 1
		}
	}
	if left != 1 || at > 8*len(src) {
		return d, 0
	}
	return d, (at + 7) / 8
}
