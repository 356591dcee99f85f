// Package frames takes Zstandard frames apart into what they consist of, runs of literals and copies of earlier bytes, and makes frames of such
// sequences. Finding copies is most of the work of compression; who knows where they are, because the bytes were compressed before or repeat each
// other by their form, need not search:
//
//   - Reader lists the sequences of a frame.
//   - Mover turns the sequences of one content into those of another that is made of pieces of it.
//   - Repeats finds those of numbers that share bytes with the number before.
//   - Writer makes a frame that every decoder reads.
//
// Sequences from foreign bytes are hints: the Mover compares each copy with the content before it passes it on. Nothing panics on damaged input.
// The format is RFC 8878; its sections are named where rules come from.
package frames

// Sequence says: so many bytes as they are, then Match bytes that are the same as those Offset bytes before.
type Sequence struct{ Literals, Match, Offset uint32 }

const (
	// MaxContent is the longest content of a frame: decoders need no larger a window than they do for other writers.
	MaxContent = 8 << 20
	// minMatch is the shortest copy, blockBytes the most content of a block (3.1.1.2.4).
	minMatch, blockBytes = 3, 128 << 10
	// maxRun is how many literals, and how long a copy, one sequence has at most when it is written; what is longer is cut.
	maxRun = 1 << 15
)

// The types of blocks, of literals and of tables (3.1.1.2.2, 3.1.1.3.1.1, 3.1.1.3.2.1).
const (
	rawBlock, runBlock, packedBlock                         = 0, 1, 2
	rawLiterals, runLiterals, packedLiterals, againLiterals = 0, 1, 2, 3
	predefined, single, described, repeated                 = 0, 1, 2, 3
)

// The highest logarithms of table sizes and numbers of codes (3.1.1.3.2.1, 3.1.1.3.2.1.1).
const (
	literalsLog, offsetLog, matchLog       = 9, 8, 9
	literalsCodes, offsetCodes, matchCodes = 36, 32, 53
	maxCodes                               = 64
	cellMask                               = 1<<literalsLog - 1
	// offsetBits are the most bits of an offset that are read or written: those of 16 MB.
	offsetBits = 24
)

// code is what a length code stands for: a number, and how many bits are added to it.
type code struct {
	base  uint32
	extra uint8
}

// lengthCodes lists the codes of lengths: the first ones stand for one length each, the others for ranges (3.1.1.3.2.1.1).
func lengthCodes(first uint32, single int, extra ...uint8) []code {
	out := make([]code, 0, single+len(extra))
	for range single {
		out = append(out, code{base: first})
		first++
	}
	for _, e := range extra {
		out = append(out, code{base: first, extra: e})
		first += 1 << e
	}
	return out
}

func codesOfLiterals() []code {
	return lengthCodes(0, 16, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
}

func codesOfMatches() []code {
	return lengthCodes(minMatch, 32, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
}

// codesOfOffsets: code n stands for n bits behind a one.
func codesOfOffsets() []code {
	out := make([]code, offsetCodes)
	for i := range out {
		out[i] = code{base: 1 << i, extra: uint8(i)}
	}
	return out
}

// history are the last three offsets, which have codes of their own (3.1.1.5).
type history [3]uint32

func newHistory() history { return history{1, 4, 8} }

// value is what is written for an offset behind so many literals; the history is brought up to date.
func (h *history) value(offset, literals uint32) uint32 {
	if literals > 0 {
		switch offset {
		case h[0]:
			return 1
		case h[1]:
			h[0], h[1] = h[1], h[0]
			return 2
		case h[2]:
			h[0], h[1], h[2] = h[2], h[0], h[1]
			return 3
		}
	} else {
		switch offset {
		case h[1]:
			h[0], h[1] = h[1], h[0]
			return 1
		case h[2]:
			h[0], h[1], h[2] = h[2], h[0], h[1]
			return 2
		case h[0] - 1:
			h[0], h[1], h[2] = h[0]-1, h[0], h[1]
			return 3
		}
	}
	h[0], h[1], h[2] = offset, h[0], h[1]
	return offset + 3
}

// offset is the inverse of value; 0 says that there is no such offset.
func (h *history) offset(value, literals uint32) uint32 {
	if value > 3 {
		h[0], h[1], h[2] = value-3, h[0], h[1]
		return h[0]
	}
	if literals == 0 {
		value++
	}
	switch value {
	case 1:
	case 2:
		h[0], h[1] = h[1], h[0]
	case 3:
		h[0], h[1], h[2] = h[2], h[0], h[1]
	default:
		h[0], h[1], h[2] = h[0]-1, h[0], h[1]
	}
	return h[0]
}
