package encoding

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"unicode/utf8"
)

// Order is how values compare in statistics: by logical type, not by physical type alone.
type Order uint8

// The orders of the format. Decimals of INT32 and INT64 are Signed; booleans, of one byte in statistics, are Bytewise.
const (
	// Undefined is for values whose bounds nobody may use: INT96, intervals, geometry, variant.
	Undefined Order = iota
	// Signed is for two's complement integers, little-endian, of 4 or 8 bytes.
	Signed
	// Unsigned is for integers with an unsigned logical type.
	Unsigned
	// Floating is for IEEE 754 numbers of 2, 4 or 8 bytes. NaN has no place in it.
	Floating
	// BigDecimal is for decimals in byte arrays, fixed or not: big-endian two's complement.
	BigDecimal
	// Bytewise is for strings, binary, UUID and fixed: unsigned bytes from the first on.
	Bytewise
)

// Bounds gathers the minimum and maximum of values and of other bounds in one order. What it tells is always a bound, not always a value: sources
// may have truncated theirs. NaN is left out and counted; zeros are widened to -0 below and +0 above, as readers may not tell them apart.
type Bounds struct {
	order    Order
	width    int
	any      bool // values or bounds came in
	lost     bool // some came in of which nothing is known
	low      uint64
	high     uint64
	min, max []byte
	nans     int64
}

// NewBounds returns bounds of nothing for values of the width, or ByteArray. Widths that the order does not have leave the bounds unknown.
func NewBounds(order Order, width int) Bounds {
	known := false
	switch order {
	case Signed, Unsigned:
		known = width == 4 || width == 8
	case Floating:
		known = width == 2 || width == 4 || width == 8
	case BigDecimal, Bytewise:
		known = width >= 0
	default:
	}
	if !known {
		order = Undefined
	}
	return Bounds{order: order, width: width, lost: !known}
}

// Lose makes the bounds unknown for good: for values whose bounds are absent.
func (b *Bounds) Lose() { b.lost = true }

// NaNs is how many values of AddPlain were NaN.
func (b *Bounds) NaNs() int64 { return b.nans }

// Result returns the bounds in the form of statistics: PLAIN without a length. It returns false when nothing is known or there was no value but
// NaN. The slices stay valid until the bounds change.
func (b *Bounds) Result() (lower, upper []byte, ok bool) {
	low, high := b.low, b.high
	if b.order == Floating {
		zero := uint64(1) << (8*b.width - 1) // the key of +0; that of -0 is one less
		if low == zero {
			low--
		}
		if high == zero-1 {
			high++
		}
	}
	return b.result(low, high)
}

// Exact is Result with zeros as they came in.
func (b *Bounds) Exact() (lower, upper []byte, ok bool) { return b.result(b.low, b.high) }

func (b *Bounds) result(low, high uint64) (lower, upper []byte, ok bool) {
	switch {
	case b.lost || !b.any:
		return nil, nil, false
	case b.order == BigDecimal || b.order == Bytewise:
		return b.min, b.max, true
	}
	b.min, b.max = b.unkey(b.min[:0], low), b.unkey(b.max[:0], high)
	return b.min, b.max, true
}

// Merge takes the bounds of other values, a page or a chunk, in the form of statistics. Bounds that cannot be right, NaN among them, make the
// result unknown, since what they bound is.
func (b *Bounds) Merge(lower, upper []byte) {
	if b.lost {
		return
	}
	if b.order == BigDecimal || b.order == Bytewise {
		if lower == nil || upper == nil || b.wrongLength(lower) || b.wrongLength(upper) || b.compare(lower, upper) > 0 {
			b.lost = true
			return
		}
		b.fold(lower, upper)
		return
	}
	if len(lower) != b.width || len(upper) != b.width {
		b.lost = true
		return
	}
	low, lowNaN := b.key(lower)
	high, highNaN := b.key(upper)
	zeros := b.order == Floating && low == 1<<(8*b.width-1) && high == low-1 // +0 and -0 are one value to some writers
	if lowNaN || highNaN || low > high && !zeros {
		b.lost = true
		return
	}
	b.foldKeys(min(low, high), max(low, high))
}

// Take merges the bounds that another one of the same order and width gathered.
func (b *Bounds) Take(other *Bounds) {
	switch {
	case other.lost:
		b.lost = true
	case !other.any:
	case b.order == BigDecimal || b.order == Bytewise:
		b.fold(other.min, other.max)
	default:
		b.foldKeys(other.low, other.high)
	}
}

// Compare orders two bounds of numbers, or of bytes, in the form of statistics. Both have to be sound: of one length where the order is that of
// numbers, decimals not empty. The two zeros are equal.
func (o Order) Compare(x, y []byte) int {
	switch o {
	case BigDecimal:
		return compareDecimals(x, y)
	case Signed, Unsigned, Floating:
		b := Bounds{order: o, width: len(x)}
		p, _ := b.key(x)
		q, _ := b.key(y)
		zero := uint64(1) << (8*b.width - 1)
		if o == Floating && p == zero-1 {
			p = zero
		}
		if o == Floating && q == zero-1 {
			q = zero
		}
		return cmp.Compare(p, q)
	default:
		return bytes.Compare(x, y)
	}
}

// CutLower cuts a lower bound of bytes to at most n: what is left is not above it. Text is cut between characters.
func CutLower(b []byte, n int, text bool) []byte {
	if len(b) <= n {
		return b
	}
	if text && utf8.Valid(b) {
		for n > 0 && !utf8.RuneStart(b[n]) {
			n--
		}
	}
	return b[:n:n]
}

// CutUpper cuts an upper bound of bytes to at most n and raises its last character (or byte) that can be raised, so that it is not below; ok is
// false when none can.
func CutUpper(b []byte, n int, text bool) (upper []byte, ok bool) {
	if len(b) <= n {
		return b, true
	}
	text = text && utf8.Valid(b)
	cut := append([]byte{}, CutLower(b, n, text)...)
	for len(cut) > 0 {
		size := 1
		r := rune(cut[len(cut)-1])
		if text {
			r, size = utf8.DecodeLastRune(cut)
		}
		cut = cut[:len(cut)-size]
		switch {
		case !text && r < 0xff:
			return append(cut, byte(r+1)), true
		case text && r == 0xd7ff: // The surrogates are no characters.
			return utf8.AppendRune(cut, 0xe000), true
		case text && r < utf8.MaxRune:
			return utf8.AppendRune(cut, r+1), true
		}
	}
	return nil, false
}

// wrongLength says that a bound cannot be one: truncated bounds of fixed values may be shorter, decimals may not be empty.
func (b *Bounds) wrongLength(v []byte) bool {
	if b.order == BigDecimal {
		return len(v) == 0 || (b.width != ByteArray && len(v) != b.width)
	}
	return b.width != ByteArray && len(v) > b.width
}

// AddPlain takes n PLAIN values, which the page has to hold exactly.
func (b *Bounds) AddPlain(page []byte, n int) error {
	switch {
	case n < 0 || b.width < 0 || (b.width != ByteArray && (len(page)%b.width != 0 || len(page)/b.width != n)):
		return corrupt("%d values of %d bytes in a page of %d", n, b.width, len(page))
	case b.order == Undefined || (b.lost && b.order != Floating):
		return nil
	case b.width == ByteArray:
		return b.addByteArrays(page, n)
	case b.order == BigDecimal || b.order == Bytewise:
		for i := range n {
			v := page[i*b.width : (i+1)*b.width]
			b.fold(v, v)
		}
		return nil
	}
	b.addNumbers(page)
	return nil
}

func (b *Bounds) addByteArrays(page []byte, n int) error {
	at := 0
	for i := range n {
		next := nextByteArray(page, at)
		if next < 0 {
			return corrupt("byte array %d exceeds its page of %d", i, len(page))
		}
		v := page[at+prefixBytes : next]
		if b.order == BigDecimal && len(v) == 0 {
			return corrupt("decimal %d without a byte", i)
		}
		b.fold(v, v)
		at = next
	}
	if at != len(page) {
		return corrupt("%d bytes behind %d byte arrays", len(page)-at, n)
	}
	return nil
}

func (b *Bounds) addNumbers(page []byte) {
	low, high := ^uint64(0), uint64(0)
	switch {
	case b.order != Floating && b.width == 4:
		for ; len(page) >= 4; page = page[4:] {
			k := uint64(binary.LittleEndian.Uint32(page) ^ b.flip32())
			low, high = min(low, k), max(high, k)
		}
	case b.order != Floating:
		for ; len(page) >= 8; page = page[8:] {
			k := binary.LittleEndian.Uint64(page) ^ b.flip64()
			low, high = min(low, k), max(high, k)
		}
	case b.width == 8:
		low, high = b.addDoubles(page)
	default:
		for ; len(page) > 0; page = page[b.width:] {
			k, nan := b.key(page)
			if nan {
				b.nans++
				continue
			}
			low, high = min(low, k), max(high, k)
		}
	}
	if low <= high {
		b.foldKeys(low, high)
	}
}

// addDoubles is the loop of addNumbers with the key of doubles spelled out; low is above high when all are NaN.
func (b *Bounds) addDoubles(page []byte) (low, high uint64) {
	const sign, infinity = 1 << 63, 0x7ff0_0000_0000_0000
	low, high = ^uint64(0), 0
	for ; len(page) >= 8; page = page[8:] {
		v := binary.LittleEndian.Uint64(page)
		if v&^sign > infinity {
			b.nans++
			continue
		}
		k := v ^ (uint64(int64(v)>>63) | sign)
		low, high = min(low, k), max(high, k)
	}
	return low, high
}

// flip32 and flip64 are what the key of an integer is its value with.
func (b *Bounds) flip32() uint32 {
	if b.order == Signed {
		return 1 << 31
	}
	return 0
}

func (b *Bounds) flip64() uint64 {
	if b.order == Signed {
		return 1 << 63
	}
	return 0
}

// key maps the number at the front of v to an integer that compares as the number does: -0 just below +0.
func (b *Bounds) key(v []byte) (k uint64, nan bool) {
	var exponent uint64
	switch b.width {
	case 2:
		k, exponent = uint64(binary.LittleEndian.Uint16(v)), 0x7c00
	case 4:
		k, exponent = uint64(binary.LittleEndian.Uint32(v)), 0x7f80_0000
	default:
		k, exponent = binary.LittleEndian.Uint64(v), 0x7ff0_0000_0000_0000
	}
	sign := uint64(1) << (8*b.width - 1)
	switch b.order {
	case Unsigned:
		return k, false
	case Signed:
		return k ^ sign, false
	}
	switch {
	case k&^sign > exponent:
		return 0, true
	case k&sign != 0:
		return ^k & (sign<<1 - 1), false
	default:
		return k | sign, false
	}
}

// unkey appends the number of a key.
func (b *Bounds) unkey(dst []byte, k uint64) []byte {
	sign := uint64(1) << (8*b.width - 1)
	switch {
	case b.order == Signed || (b.order == Floating && k&sign != 0):
		k ^= sign
	case b.order == Floating:
		k = ^k
	}
	return append(dst, binary.LittleEndian.AppendUint64(nil, k)[:b.width]...)
}

func (b *Bounds) foldKeys(low, high uint64) {
	if !b.any {
		b.low, b.high, b.any = low, high, true
		return
	}
	b.low, b.high = min(b.low, low), max(b.high, high)
}

func (b *Bounds) fold(lower, upper []byte) {
	if !b.any {
		b.min, b.max, b.any = append([]byte{}, lower...), append([]byte{}, upper...), true
		return
	}
	if b.compare(lower, b.min) < 0 {
		b.min = append(b.min[:0], lower...)
	}
	if b.compare(upper, b.max) > 0 {
		b.max = append(b.max[:0], upper...)
	}
}

func (b *Bounds) compare(x, y []byte) int {
	if b.order == BigDecimal {
		return compareDecimals(x, y)
	}
	return bytes.Compare(x, y)
}

// compareDecimals compares big-endian two's complement numbers of any length but 0.
func compareDecimals(x, y []byte) int {
	negative := x[0] >= 0x80
	if negative != (y[0] >= 0x80) {
		if negative {
			return -1
		}
		return 1
	}
	var fill byte
	larger := 1 // what the one with more significant bytes is
	if negative {
		fill, larger = 0xff, -1
	}
	for ; len(x) > len(y); x = x[1:] {
		if x[0] != fill {
			return larger
		}
	}
	for ; len(y) > len(x); y = y[1:] {
		if y[0] != fill {
			return -larger
		}
	}
	return bytes.Compare(x, y)
}
