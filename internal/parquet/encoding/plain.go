package encoding

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Span is a range of positions, To not included. Lists of spans are sorted and do not overlap. A row mask is the spans of the rows that stay:
// few deletes make long spans, which are copied as one piece.
type Span struct{ From, To int }

// SpanLen is the number of positions in spans.
func SpanLen(spans []Span) int {
	n := 0
	for _, s := range spans {
		n += s.To - s.From
	}
	return n
}

// checkSpans says that spans are a list within n positions.
func checkSpans(spans []Span, n int) error {
	at := 0
	for _, s := range spans {
		if s.From < at || s.To < s.From || s.To > n {
			return corrupt("span %d to %d in %d positions from %d", s.From, s.To, n, at)
		}
		at = s.To
	}
	return nil
}

// LevelSpans turns spans of rows into spans of levels: a row begins at each repetition level 0. Without repetition they are the same.
func LevelSpans(dst []Span, rep []uint8, rows []Span) ([]Span, error) {
	if len(rep) > 0 && rep[0] != 0 {
		return nil, corrupt("page begins within a row")
	}
	return mapSpans(dst, rep, rows, func(level uint8) bool { return level == 0 })
}

// ValueSpans turns spans of levels into spans of the values that are present, those at the maximum definition level.
func ValueSpans(dst []Span, def []uint8, maxDef uint8, levels []Span) ([]Span, error) {
	if err := checkSpans(levels, len(def)); err != nil {
		return nil, err
	}
	at, values := 0, 0
	highest := []byte{maxDef}
	countTo := func(end int) int {
		values += bytes.Count(def[at:end], highest)
		at = end
		return values
	}
	dst = dst[:0]
	for _, s := range levels {
		from := countTo(s.From)
		dst = appendSpan(dst, Span{from, countTo(s.To)})
	}
	return dst, nil
}

// mapSpans turns spans of the items that begin where begins holds into spans of positions.
func mapSpans(dst []Span, levels []uint8, items []Span, begins func(uint8) bool) ([]Span, error) {
	at, seen := 0, -1 // seen is the item that position at-1 belongs to
	find := func(item int) bool {
		for seen < item {
			if at == len(levels) {
				seen++
				return seen == item
			}
			if begins(levels[at]) {
				if seen+1 == item {
					return true
				}
				seen++
			}
			at++
		}
		return true
	}
	dst = dst[:0]
	last := 0
	for _, s := range items {
		if s.From < last || s.To < s.From {
			return nil, corrupt("span %d to %d after %d", s.From, s.To, last)
		}
		last = s.To
		if s.From == s.To {
			continue
		}
		if !find(s.From) {
			return nil, corrupt("row %d behind the page", s.From)
		}
		from := at
		if !find(s.To) {
			return nil, corrupt("row %d behind the page", s.To-1)
		}
		dst = appendSpan(dst, Span{from, at})
	}
	return dst, nil
}

// appendSpan leaves out what is empty and joins what touches.
func appendSpan(dst []Span, s Span) []Span {
	if s.From == s.To {
		return dst
	}
	if n := len(dst); n > 0 && dst[n-1].To == s.From {
		dst[n-1].To = s.To
		return dst
	}
	return append(dst, s)
}

// Select appends the items of src within spans to dst: levels, indices, booleans.
func Select[T any](dst, src []T, spans []Span) ([]T, error) {
	if err := checkSpans(spans, len(src)); err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, SpanLen(spans))
	for _, s := range spans {
		dst = append(dst, src[s.From:s.To]...)
	}
	return dst, nil
}

// SelectPlain appends the PLAIN values of a page within spans to dst. The page has to hold n values of the width exactly.
func SelectPlain(dst, page []byte, width, n int, spans []Span) ([]byte, error) {
	if err := checkSpans(spans, n); err != nil {
		return dst, err
	}
	if width != ByteArray {
		if width < 0 || len(page)%width != 0 || len(page)/width != n {
			return dst, corrupt("%d values of %d bytes in a page of %d", n, width, len(page))
		}
		dst = slices.Grow(dst, width*SpanLen(spans))
		for _, s := range spans {
			dst = append(dst, page[width*s.From:width*s.To]...)
		}
		return dst, nil
	}
	dst, _, err := SelectByteArrays(dst, nil, page, n, spans)
	return dst, err
}

// SelectByteArrays appends the byte arrays of a page within spans to dst, and to places where each span lies in the page. The page has to hold n
// exactly.
func SelectByteArrays(dst []byte, places []Span, page []byte, n int, spans []Span) ([]byte, []Span, error) {
	if err := checkSpans(spans, n); err != nil {
		return dst, places, err
	}
	start, at, i := len(dst), 0, 0
	skip := func(to int) bool {
		for ; i < to && at >= 0; i++ {
			at = nextByteArray(page, at)
		}
		return at >= 0
	}
	for _, s := range spans {
		if !skip(s.From) {
			break
		}
		from := at
		if !skip(s.To) {
			break
		}
		dst, places = append(dst, page[from:at]...), append(places, Span{from, at})
	}
	if at >= 0 && skip(n) && at == len(page) {
		return dst, places, nil
	}
	return dst[:start], places, corrupt("%d byte arrays are not what fills a page of %d", n, len(page))
}

// NextByteArray takes a value from the front of PLAIN byte arrays.
func NextByteArray(page []byte) (value, rest []byte, err error) {
	end := nextByteArray(page, 0)
	if end < 0 {
		return nil, nil, corrupt("byte array exceeds its page of %d", len(page))
	}
	return page[prefixBytes:end:end], page[end:], nil
}

// AppendByteArray appends a value with its length.
func AppendByteArray(dst, value []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(value))), value...)
}

// DecodeBooleans decodes n PLAIN booleans, eight a byte from the lowest bit, into dst as 0 and 1. Pages of booleans join only when decoded.
func DecodeBooleans(dst []uint8, src []byte, n int) ([]uint8, error) {
	if n < 0 || n > MaxPageValues || len(src) != (n+7)/8 {
		return nil, corrupt("%d booleans in %d bytes", n, len(src))
	}
	dst = resize(dst, n)
	spreadBits(dst, src)
	return dst, nil
}

// EncodeBooleans appends booleans, each 0 or not, in PLAIN form to dst.
func EncodeBooleans(dst []byte, values []uint8) []byte {
	start := len(dst)
	dst = slices.Grow(dst, (len(values)+7)/8)[:start+(len(values)+7)/8]
	clear(dst[start:])
	for i, v := range values {
		if v != 0 {
			dst[start+i/8] |= 1 << (i % 8)
		}
	}
	return dst
}
