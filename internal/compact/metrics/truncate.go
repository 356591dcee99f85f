package metrics

import "unicode/utf8"

const (
	firstSurrogate = 0xD800
	lastSurrogate  = 0xDFFF
)

// cutText keeps the first n code points: a prefix is never above the text.
func cutText(b []byte, n int) []byte {
	at := 0
	for range n {
		if at == len(b) {
			return b
		}
		_, size := utf8.DecodeRune(b[at:])
		at += size
	}
	return b[:at]
}

// raiseText keeps the first n code points and raises the last one that can be raised, so that the result is above every text with the prefix:
// "abc" cut at 2 is "ac". Surrogates are skipped. nil when no code point can be raised, or when the bytes are no UTF-8.
func raiseText(b []byte, n int) []byte {
	cut := cutText(b, n)
	if len(cut) == len(b) {
		return b
	}
	if !utf8.Valid(cut) {
		return nil
	}
	for len(cut) > 0 {
		r, size := utf8.DecodeLastRune(cut)
		cut = cut[:len(cut)-size]
		if r == utf8.MaxRune {
			continue
		}
		r++
		if r >= firstSurrogate && r <= lastSurrogate {
			r = lastSurrogate + 1
		}
		return utf8.AppendRune(append([]byte{}, cut...), r)
	}
	return nil
}

// cutBytes keeps the first n bytes.
func cutBytes(b []byte, n int) []byte { return b[:min(n, len(b))] }

// raiseBytes keeps the first n bytes and raises the last one that is not 0xff; nil when there is none.
func raiseBytes(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	for i := n - 1; i >= 0; i-- {
		if b[i] != 0xff {
			out := append([]byte{}, b[:i+1]...)
			out[i]++
			return out
		}
	}
	return nil
}
