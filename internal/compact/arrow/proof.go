package arrow

import (
	"fmt"

	"firn/internal/compact/content"
	"firn/internal/handoff"
	"firn/internal/parquet/layout"
)

// ledger is the proof of a group while it is made: the tallies of what was read and kept, and of what was handed to the writer.
type ledger struct {
	layout  *layout.Layout
	in, out []content.Tally
}

func newLedger(l *layout.Layout) *ledger {
	return &ledger{layout: l, in: make([]content.Tally, len(l.Leaves)), out: make([]content.Tally, len(l.Leaves))}
}

// columns compares the two sides; a difference means that this code lost or changed a value.
func (g *ledger) columns() ([]handoff.ColumnProof, error) {
	out := make([]handoff.ColumnProof, len(g.layout.Leaves))
	for i, leaf := range g.layout.Leaves {
		if g.in[i] != g.out[i] {
			return nil, fmt.Errorf("prove column %s: %+v went in and %+v came out", leaf.Path, g.in[i], g.out[i])
		}
		out[i] = handoff.ColumnProof{
			FieldID: leaf.FieldID, NullsIn: g.in[i].Nulls, NullsOut: g.out[i].Nulls,
			HashIn: fmt.Sprintf("%016x", g.in[i].Sum), HashOut: fmt.Sprintf("%016x", g.out[i].Sum),
		}
	}
	return out, nil
}
