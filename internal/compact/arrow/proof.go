package arrow

import (
	"fmt"
	"math"

	"github.com/zeebo/xxh3"

	"firn/internal/handoff"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// tally sums one side of a column: nulls, and a hash that does not depend on the order. Each entry counts with its value and its levels, so
// that a value which moved to another place of a nested row shows.
type tally struct {
	entries, nulls int64
	sum            uint64
}

// add counts the entries of b that lie in runs.
func (t *tally) add(leaf *layout.Leaf, b *column.Batch, runs []column.Run) {
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

func (t *tally) entry(leaf *layout.Leaf, b *column.Batch, level, value int, present bool) {
	var place uint64
	if leaf.MaxRep > 0 {
		place = uint64(b.Rep[level])<<16 | uint64(b.Def[level])
	}
	t.entries++
	if !present {
		t.nulls++
		if leaf.MaxRep == 0 {
			place = uint64(b.Def[level])
		}
		t.sum += mix(place + 0x9e3779b97f4a7c15)
		return
	}
	t.sum += mix(hashValue(leaf.Kind, &b.Values, value) ^ mix(place+1))
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

// ledger is the proof of a group while it is made: the tallies of what was read and kept, and of what was handed to the writer.
type ledger struct {
	layout  *layout.Layout
	in, out []tally
}

func newLedger(l *layout.Layout) *ledger {
	return &ledger{layout: l, in: make([]tally, len(l.Leaves)), out: make([]tally, len(l.Leaves))}
}

// columns compares the two sides; a difference means that this code lost or changed a value.
func (g *ledger) columns() ([]handoff.ColumnProof, error) {
	out := make([]handoff.ColumnProof, len(g.layout.Leaves))
	for i, leaf := range g.layout.Leaves {
		if g.in[i] != g.out[i] {
			return nil, fmt.Errorf("prove column %s: %+v went in and %+v came out", leaf.Path, g.in[i], g.out[i])
		}
		out[i] = handoff.ColumnProof{
			FieldID: leaf.FieldID, NullsIn: g.in[i].nulls, NullsOut: g.out[i].nulls,
			HashIn: fmt.Sprintf("%016x", g.in[i].sum), HashOut: fmt.Sprintf("%016x", g.out[i].sum),
		}
	}
	return out, nil
}
