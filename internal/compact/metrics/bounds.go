package metrics

import (
	"encoding/binary"
	"math"

	"firn/internal/parquet/column"
)

// ordered keeps bounds of a fixed-size type.
type ordered[T any] struct {
	seen    bool
	min     T
	max     T
	values  func(*column.Values) []T
	compare func(a, b T) int
	nan     func(T) bool
	bytes   func(T) []byte
}

func newOrdered[T any](values func(*column.Values) []T, compare func(a, b T) int, encode func(T) []byte) *ordered[T] {
	return &ordered[T]{values: values, compare: compare, bytes: encode}
}

func (o *ordered[T]) add(v *column.Values) int64 {
	var nans int64
	for _, x := range o.values(v) {
		if o.nan != nil && o.nan(x) {
			nans++
			continue
		}
		if !o.seen {
			o.seen, o.min, o.max = true, x, x
			continue
		}
		if o.compare(x, o.min) < 0 {
			o.min = x
		}
		if o.compare(x, o.max) > 0 {
			o.max = x
		}
	}
	return nans
}

func (o *ordered[T]) encode(Mode) (lower, upper []byte) {
	if !o.seen {
		return nil, nil
	}
	return o.bytes(o.min), o.bytes(o.max)
}

// truth keeps bounds of booleans.
type truth struct{ no, yes bool }

func (t *truth) add(v *column.Values) int64 {
	for _, b := range v.Bool {
		if b {
			t.yes = true
		} else {
			t.no = true
		}
	}
	return 0
}

func (t *truth) encode(Mode) (lower, upper []byte) {
	if !t.no && !t.yes {
		return nil, nil
	}
	lower, upper = []byte{0}, []byte{0}
	if !t.no {
		lower[0] = 1
	}
	if t.yes {
		upper[0] = 1
	}
	return lower, upper
}

// raw keeps bounds of byte values, in copies of its own.
type raw struct {
	seen     bool
	min, max []byte
	at       func(v *column.Values, i int) []byte
	compare  func(a, b []byte) int
	bytes    func([]byte) []byte
	// text says that bounds are cut at code points; cut, that they may be cut at all.
	text, cut bool
}

func newRaw(at func(*column.Values, int) []byte, compare func(a, b []byte) int, encode func([]byte) []byte) *raw {
	return &raw{at: at, compare: compare, bytes: encode}
}

func (r *raw) add(v *column.Values) int64 {
	for i := range v.Len() {
		x := r.at(v, i)
		if !r.seen {
			r.seen = true
			r.min, r.max = append(r.min, x...), append(r.max, x...)
			continue
		}
		if r.compare(x, r.min) < 0 {
			r.min = append(r.min[:0], x...)
		}
		if r.compare(x, r.max) > 0 {
			r.max = append(r.max[:0], x...)
		}
	}
	return 0
}

func (r *raw) encode(mode Mode) (lower, upper []byte) {
	if !r.seen {
		return nil, nil
	}
	lower, upper = r.bytes(r.min), r.bytes(r.max)
	if lower == nil { // A clone of nothing: the empty value is a bound.
		lower = []byte{}
	}
	if upper == nil {
		upper = []byte{}
	}
	if !r.cut || mode.Truncate == 0 {
		return lower, upper
	}
	if r.text {
		return cutText(lower, mode.Truncate), raiseText(upper, mode.Truncate)
	}
	return cutBytes(lower, mode.Truncate), raiseBytes(upper, mode.Truncate)
}

func encodeInt32(decimal bool) func(int32) []byte {
	return func(v int32) []byte {
		if decimal {
			return shortest(binary.BigEndian.AppendUint32(nil, uint32(v)))
		}
		return binary.LittleEndian.AppendUint32(nil, uint32(v))
	}
}

func encodeInt64(decimal bool) func(int64) []byte {
	return func(v int64) []byte {
		if decimal {
			return shortest(binary.BigEndian.AppendUint64(nil, uint64(v)))
		}
		return binary.LittleEndian.AppendUint64(nil, uint64(v))
	}
}

func encodeFloat(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }

func encodeDouble(v float64) []byte {
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
}

// shortest drops the leading bytes that only repeat the sign of a big-endian two's complement number.
func shortest(b []byte) []byte {
	for len(b) > 1 && ((b[0] == 0 && b[1]&0x80 == 0) || (b[0] == 0xff && b[1]&0x80 != 0)) {
		b = b[1:]
	}
	return append([]byte{}, b...)
}
