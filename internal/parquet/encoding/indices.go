package encoding

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// IndexWidth is the bit width of the indices of a dictionary with that many entries: 0 for at most one, as parquet-mr writes it.
func IndexWidth(entries int) int {
	if entries <= 1 {
		return 0
	}
	return bits.Len32(uint32(entries - 1))
}

// SplitIndices takes the values of a dictionary-encoded data page apart: a byte with the bit width, then the hybrid stream. A page without any
// value may have no byte at all.
func SplitIndices(values []byte) (bitWidth int, stream []byte, err error) {
	if len(values) == 0 {
		return 0, nil, nil
	}
	if values[0] > MaxBitWidth {
		return 0, nil, corrupt("indices of %d bits", values[0])
	}
	return int(values[0]), values[1:], nil
}

// DecodeIndices decodes the n values of a hybrid stream into dst. It does not know the dictionary: RemapIndices and Expand compare with its size.
func DecodeIndices(dst []uint32, src []byte, bitWidth, n int) ([]uint32, error) {
	r, err := newRuns(src, bitWidth, n)
	if err != nil {
		return nil, err
	}
	dst = resize(dst, n)
	for at := 0; ; {
		run, err := r.next()
		if err != nil {
			return nil, err
		}
		if run.count == 0 {
			return dst, nil
		}
		out := dst[at : at+run.count]
		if run.packed != nil {
			unpack(out, run.packed, bitWidth)
		} else {
			fill(out, run.value)
		}
		at += run.count
	}
}

// EncodeIndices appends the hybrid stream of idx to dst. As parquet-mr does it looks at groups of eight: where at least eight equal values
// begin, a run, else eight bit-packed values, at most 63 groups behind one header.
func EncodeIndices(dst []byte, idx []uint32, bitWidth int) ([]byte, error) {
	if bitWidth < 0 || bitWidth > MaxBitWidth {
		return dst, corrupt("bit width %d", bitWidth)
	}
	var all uint32
	for _, v := range idx {
		all |= v
	}
	if uint64(all)>>bitWidth != 0 {
		return dst, corrupt("indices up to %d exceed %d bits", all, bitWidth)
	}
	if bitWidth == 0 && len(idx) > 0 {
		return appendRun(dst, len(idx), 0, 0), nil
	}
	start := 0 // of the values not yet written; they are to be bit-packed
	for at := 0; at < len(idx); {
		n := repeats(idx[at:])
		if n < group {
			at = min(at+group, len(idx))
			continue
		}
		dst = appendPacked(dst, idx[start:at], bitWidth)
		dst = appendRun(dst, n, idx[at], bitWidth)
		at += n
		start = at
	}
	return appendPacked(dst, idx[start:], bitWidth), nil
}

// SumIndices adds up the weights of the n indices of a hybrid stream. It fails for an index without a weight.
func SumIndices(src []byte, bitWidth, n int, weights []uint64) (sum uint64, err error) {
	r, err := newRuns(src, bitWidth, n)
	if err != nil {
		return 0, err
	}
	var scratch [scratchValues]uint32
	for {
		run, err := r.next()
		switch {
		case err != nil:
			return 0, err
		case run.count == 0:
			return sum, nil
		case run.packed == nil && int(run.value) >= len(weights):
			return 0, corrupt("index %d in a dictionary of %d", run.value, len(weights))
		case run.packed == nil:
			sum += uint64(run.count) * weights[run.value]
		}
		for left, packed := run.count, run.packed; len(packed) > 0 && left > 0; {
			values := scratch[:min(left, scratchValues)]
			unpack(values, packed, bitWidth)
			part, err := sumOf(values, weights)
			if err != nil {
				return 0, err
			}
			sum += part
			left, packed = left-len(values), packed[min(len(packed), scratchValues/group*bitWidth):]
		}
	}
}

// sumOf adds up the weights of indices, which have to have one.
func sumOf(indices []uint32, weights []uint64) (sum uint64, err error) {
	for _, i := range indices {
		if int(i) >= len(weights) {
			return 0, corrupt("index %d in a dictionary of %d", i, len(weights))
		}
		sum += weights[i]
	}
	return sum, nil
}

// CheckIndices walks a hybrid stream of n indices and fails for one that is not below entries.
func CheckIndices(src []byte, bitWidth, n, entries int) error {
	r, err := newRuns(src, bitWidth, n)
	if err != nil {
		return err
	}
	var scratch [scratchValues]uint32
	for {
		run, err := r.next()
		if err != nil || run.count == 0 {
			return err
		}
		highest := run.value
		for left, packed := run.count, run.packed; len(packed) > 0 && left > 0; {
			values := scratch[:min(left, scratchValues)]
			unpack(values, packed, bitWidth)
			for _, v := range values {
				highest = max(highest, v)
			}
			left, packed = left-len(values), packed[min(len(packed), scratchValues/group*bitWidth):]
		}
		if uint64(highest) >= uint64(entries) {
			return corrupt("index %d in a dictionary of %d", highest, entries)
		}
	}
}

// RemapIndices rewrites a hybrid stream of n indices of fromWidth bits into one of toWidth bits, each index replaced by remap[index], and
// appends it to dst. Runs stay runs and groups stay groups, so nothing is materialised. It fails for an index without an entry in remap.
func RemapIndices(dst, src []byte, n int, m Remap) ([]byte, error) {
	r, err := newRuns(src, m.FromWidth, n)
	if err != nil {
		return dst, err
	}
	if m.ToWidth < 0 || m.ToWidth > MaxBitWidth {
		return dst, corrupt("bit width %d", m.ToWidth)
	}
	out := dst
	for {
		run, err := r.next()
		if err != nil {
			return dst, err
		}
		if run.count == 0 {
			return out, nil
		}
		if run.packed != nil {
			out, err = m.packed(out, run)
		} else {
			out, err = m.repeated(out, run)
		}
		if err != nil {
			return dst, err
		}
	}
}

// Remap says how RemapIndices changes indices. The entries of Table fit into ToWidth bits.
type Remap struct {
	FromWidth, ToWidth int
	Table              []uint32
	// Weights, when there are any, are as many as entries of Table; Sum gets those of all indices added, as SumIndices does.
	Weights []uint64
	Sum     *uint64
}

// Identity says whether the table maps each index to itself: then pages need no rewriting, whatever the width, as each has its own.
func Identity(table []uint32) bool {
	for i, v := range table {
		if uint32(i) != v {
			return false
		}
	}
	return true
}

func (m *Remap) repeated(dst []byte, r run) ([]byte, error) {
	if int(r.value) >= len(m.Table) {
		return dst, corrupt("index %d in a dictionary of %d", r.value, len(m.Table))
	}
	if v := m.Table[r.value]; uint64(v)>>m.ToWidth != 0 {
		return dst, corrupt("index %d exceeds %d bits", v, m.ToWidth)
	}
	if len(m.Weights) > 0 {
		*m.Sum += uint64(r.count) * m.Weights[r.value]
	}
	return appendRun(dst, r.count, m.Table[r.value], m.ToWidth), nil
}

func (m *Remap) packed(dst []byte, r run) ([]byte, error) {
	var (
		scratch [scratchValues]uint32
		table   = m.Table
		groups  = (r.count + group - 1) / group
		piece   = scratchValues / group * m.FromWidth
	)
	if m.ToWidth > 0 {
		dst = binary.AppendUvarint(dst, uint64(groups)<<1|1)
		dst = slices.Grow(dst, groups*m.ToWidth+packSlack)
	}
	for left, packed := r.count, r.packed; left > 0; {
		values := scratch[:min(left, scratchValues)]
		unpack(values, packed, m.FromWidth)
		if len(m.Weights) > 0 {
			sum, err := sumOf(values, m.Weights)
			if err != nil {
				return dst, err
			}
			*m.Sum += sum
		}
		var all uint32
		for i, v := range values {
			if int(v) >= len(table) {
				return dst, corrupt("index %d in a dictionary of %d", v, len(table))
			}
			values[i] = table[v]
			all |= table[v]
		}
		if uint64(all)>>m.ToWidth != 0 {
			return dst, corrupt("indices up to %d exceed %d bits", all, m.ToWidth)
		}
		if m.ToWidth > 0 {
			dst = pack(dst, values, m.ToWidth)
		}
		left, packed = left-len(values), packed[min(len(packed), piece):]
	}
	if m.ToWidth == 0 {
		dst = appendRun(dst, r.count, 0, 0)
	}
	return dst, nil
}
