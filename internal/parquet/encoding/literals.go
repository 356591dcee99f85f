package encoding

// Indices that are bit-packed mostly repeat nothing: a search finds copies by chance, or none, and takes most of the time that there is. A frame of
// literals alone, Huffman-coded, is then as small, or smaller.

// minLiterals is the shortest page that is worth a trial, indexPages is for how many pages the outcome holds: indices of ordered rows soon look otherwise.
const minLiterals, indexPages = 1 << 10, 8

// AppendIndices is Append for a page of dictionary indices: without a search where a trial says that one finds nothing.
func (c *Compressor) AppendIndices(dst, src []byte, t *Trial) ([]byte, error) {
	if c.codec != Zstd || c.level > highestCopied || len(src) < minLiterals || len(src) > maxStridedBytes {
		return c.Append(dst, src)
	}
	if t.pages == 0 {
		t.way = c.tryLiterals(src[:min(len(src), trialBytes)], dst[len(dst):])
	}
	if t.pages++; t.pages == indexPages {
		t.pages = 0
	}
	if t.way == byLiterals {
		return c.appendLiteralFrame(dst, src), nil
	}
	return c.Append(dst, src)
}

// tryLiterals compresses the front of a page in both ways; what needs no search may be a two hundredth larger.
func (c *Compressor) tryLiterals(front, room []byte) way {
	const slack = 200
	best := len(c.zstd.EncodeAll(front, room))
	if len(c.appendLiteralFrame(room, front)) <= best+best/slack {
		return byLiterals
	}
	return search
}

// appendLiteralFrame appends src, which is not empty, as a Zstandard frame without any copy.
func (c *Compressor) appendLiteralFrame(dst, src []byte) []byte {
	dst = appendFrameHeader(dst, len(src))
	for last := 0; len(src) > 0; {
		last = len(dst)
		n := min(len(src), blockBytes)
		dst = c.appendLiteralBlock(dst, src[:n])
		if src = src[n:]; len(src) == 0 {
			dst[last] |= lastBlock
		}
	}
	return dst
}
