package deletes

import (
	"encoding/binary"
	"math"

	"github.com/zeebo/xxh3"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
)

// key is the hash of a row's equality columns: 128 bits, so that two different keys of a table meet with a chance below 2^-70.
type key = xxh3.Uint128

// hashKeys computes the keys of a run of rows, column by column: each column's value is hashed onto what the columns before gave.
//
// Equality is that of Java's StructLikeSet, which Spark and Flink use: null equals null and nothing else, NaN equals NaN (all bit patterns),
// and -0.0 is not 0.0, since Java compares floats by their total order.
func hashKeys(p *projection.Projection, l *layout.Layout, rows column.Run, seed uint64) ([]key, error) {
	keys := make([]key, rows.To-rows.From)
	buf := make([]byte, 0, 256)
	for _, leaf := range l.Leaves {
		err := p.Scan(leaf.Index, rows, func(b *column.Batch) error {
			value := 0
			for i := range b.Levels {
				k := &keys[b.First-rows.From+int64(i)]
				buf = binary.LittleEndian.AppendUint64(buf[:0], k.Hi)
				buf = binary.LittleEndian.AppendUint64(buf, k.Lo)
				if leaf.MaxDef > 0 && b.Def[i] < leaf.MaxDef {
					buf = append(buf, 0)
				} else {
					buf = appendValue(append(buf, 1), leaf.Kind, &b.Values, value)
					value++
				}
				*k = xxh3.Hash128Seed(buf, seed)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// appendValue spells value i so that equal values, and only these, have equal bytes.
func appendValue(buf []byte, kind layout.Kind, v *column.Values, i int) []byte {
	switch kind {
	case layout.Boolean:
		if v.Bool[i] {
			return append(buf, 1)
		}
		return append(buf, 0)
	case layout.Int32:
		return binary.LittleEndian.AppendUint32(buf, uint32(v.Int32[i]))
	case layout.Int64:
		return binary.LittleEndian.AppendUint64(buf, uint64(v.Int64[i]))
	case layout.Float:
		f := v.Float[i]
		if f != f {
			f = float32(math.NaN())
		}
		return binary.LittleEndian.AppendUint32(buf, math.Float32bits(f))
	case layout.Double:
		f := v.Double[i]
		if f != f {
			f = math.NaN()
		}
		return binary.LittleEndian.AppendUint64(buf, math.Float64bits(f))
	case layout.Fixed:
		return append(buf, v.Fixed[i]...)
	default:
		return append(buf, v.Bytes[i]...)
	}
}

// table maps keys to the highest sequence number of the deletes that hold them. It is an open-addressing table of 24 bytes a slot.
type table struct {
	slots []slot
	used  int
}

// slot is empty when sequence is 0: sequences are stored plus one.
type slot struct {
	key      key
	sequence int64
}

func newTable() *table { return &table{slots: make([]slot, 1024)} }

func (t *table) reset() {
	clear(t.slots)
	t.used = 0
}

// find returns the slot of a key: its own, or the empty one where it belongs.
func (t *table) find(k key) *slot {
	mask := uint64(len(t.slots) - 1)
	for i := k.Lo & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.sequence == 0 || s.key == k {
			return s
		}
	}
}

func (t *table) add(k key, sequence int64) {
	s := t.find(k)
	if s.sequence == 0 {
		t.used++
		s.key = k
	}
	s.sequence = max(s.sequence, sequence+1)
	if t.used*4 > len(t.slots)*3 {
		t.grow()
	}
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.sequence != 0 {
			*t.find(s.key) = s
		}
	}
}

// deletes says whether a row of a data file with the given sequence number is deleted: a delete must be strictly newer.
func (t *table) deletes(k key, sequence int64) bool {
	return t.find(k).sequence-1 > sequence
}
