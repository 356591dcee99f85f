package verify

import (
	"math"

	"github.com/zeebo/xxh3"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// sum adds up hashes in 128 bits, in any order.
type sum struct{ a, b uint64 }

func (s *sum) add(h uint64) {
	s.a += h
	s.b += mix(h ^ 0xa0761d6478bd642f)
}

func (s *sum) merge(o sum) { s.a, s.b = s.a+o.a, s.b+o.b }

// leafHasher makes one hash of all entries that a row has in a column, so that a value which moves to another place of a nested row shows.
type leafHasher struct {
	leaf *layout.Leaf
	seed uint64
}

func newLeafHasher(leaf *layout.Leaf, seed uint64) leafHasher {
	return leafHasher{leaf: leaf, seed: mix(seed + uint64(leaf.Index+1)*0x9e3779b97f4a7c15)}
}

// rows yields the hash and the number of nulls of each row of a batch, in order.
func (l leafHasher) rows(b *column.Batch, yield func(row int64, hash uint64, nulls int64)) {
	level, value := 0, 0
	for row := range int64(b.Rows) {
		h, nulls := l.seed, int64(0)
		for {
			place, present := uint64(1), true
			if l.leaf.MaxDef > 0 {
				place += uint64(b.Def[level])
				present = b.Def[level] == l.leaf.MaxDef
			}
			if l.leaf.MaxRep > 0 {
				place += uint64(b.Rep[level]) << 16
			}
			h = mix(h ^ place)
			switch {
			case !present:
				nulls++
			case l.leaf.Part: // writers may encode a variant anew
				value++
			default:
				h = mix(h + l.value(&b.Values, value))
				value++
			}
			level++
			if l.leaf.MaxRep == 0 || level == b.Levels || b.Rep[level] == 0 {
				break
			}
		}
		yield(b.First+row, h, nulls)
	}
}

// value hashes one value. All NaN are one: engines write different bits for it.
func (l leafHasher) value(v *column.Values, i int) uint64 {
	switch l.leaf.Kind {
	case layout.Boolean:
		if v.Bool[i] {
			return 2
		}
		return 1
	case layout.Int32:
		return uint64(uint32(v.Int32[i]))
	case layout.Int64:
		return uint64(v.Int64[i])
	case layout.Float:
		if f := v.Float[i]; f == f {
			return uint64(math.Float32bits(f))
		}
		return math.MaxUint64
	case layout.Double:
		if f := v.Double[i]; f == f {
			return math.Float64bits(f)
		}
		return math.MaxUint64
	case layout.Fixed:
		return xxh3.HashSeed(v.Fixed[i], l.seed)
	default:
		return xxh3.HashSeed(v.Bytes[i], l.seed)
	}
}
