package content

import (
	"math"

	"github.com/zeebo/xxh3"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// Tally sums a column: entries, nulls, and a hash that does not depend on the order. Each entry counts with its value and its levels, so that a
// value which moved to another place of a nested row shows. Equal columns have equal tallies.
type Tally struct {
	// Entries are values, nulls and empty lists; Nulls are those without a value.
	Entries, Nulls int64
	Sum            uint64
}

// Add counts the entries of b that lie in runs.
func (t *Tally) Add(leaf *layout.Leaf, b *column.Batch, runs []column.Run) {
	level, value, row := 0, 0, b.First
	take := func(until int64, count bool) {
		for row < until {
			for {
				present := leaf.MaxDef == 0 || b.Def[level] == leaf.MaxDef
				if count {
					t.entry(leaf, b, level, value, present)
				}
				if present {
					value++
				}
				level++
				if leaf.MaxRep == 0 || level == b.Levels || b.Rep[level] == 0 {
					break
				}
			}
			row++
		}
	}
	for _, r := range runs {
		take(r.From, false)
		take(r.To, true)
	}
}

func (t *Tally) entry(leaf *layout.Leaf, b *column.Batch, level, value int, present bool) {
	var place uint64
	if leaf.MaxRep > 0 {
		place = uint64(b.Rep[level])<<16 | uint64(b.Def[level])
	}
	t.Entries++
	if !present {
		t.Nulls++
		if leaf.MaxRep == 0 {
			place = uint64(b.Def[level])
		}
		t.Sum += mix(place + 0x9e3779b97f4a7c15)
		return
	}
	t.Sum += mix(hashValue(leaf.Kind, &b.Values, value) ^ mix(place+1))
}

func hashValue(kind layout.Kind, v *column.Values, i int) uint64 {
	switch kind {
	case layout.Boolean:
		if v.Bool[i] {
			return mix(2)
		}
		return mix(1)
	case layout.Int32:
		return mix(uint64(uint32(v.Int32[i])))
	case layout.Int64:
		return mix(uint64(v.Int64[i]))
	case layout.Float:
		return mix(uint64(math.Float32bits(v.Float[i])))
	case layout.Double:
		return mix(math.Float64bits(v.Double[i]))
	case layout.Fixed:
		return xxh3.Hash(v.Fixed[i])
	default:
		return xxh3.Hash(v.Bytes[i])
	}
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
