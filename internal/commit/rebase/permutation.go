package rebase

import (
	"context"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"firn/internal/deletes"
	"firn/internal/handoff"
)

// sortedLimit is how many deleted rows of one group are looked up in a permutation: each may cost a request of its own.
const sortedLimit = 1_000_000

// mapping tells where the rows of a group's sources went.
type mapping interface {
	// translate adds to each output's mask the rows to which the deleted rows of a source went.
	translate(ctx context.Context, source int, deleted deletes.Mask, into []deletes.Mask) error
	// removed are the rows of a source that are in no output.
	removed(ctx context.Context, source int) (deletes.Mask, error)
	// limit is how many deleted rows of the group may be translated.
	limit() int64
}

// permuted is the checked permutation of a sorted group. Its entries are read as they are needed.
type permuted struct {
	p *handoff.Permutation
	// sources and outputs are the permutation's numbers of the group's sources, the group's numbers of the permutation's outputs.
	sources, outputs []int
}

// newPermuted checks that a permutation is one of this group: its files are the group's, with their rows.
func newPermuted(p *handoff.Permutation, g Group) (*permuted, error) {
	m := &permuted{p: p}
	for _, s := range g.Sources {
		at := p.Source(s.File.File.FilePath())
		if at < 0 || p.Sources[at].Rows != s.File.File.Count() {
			return nil, fmt.Errorf("it lacks source %s of %d rows", s.File.File.FilePath(), s.File.File.Count())
		}
		m.sources = append(m.sources, at)
	}
	numbers := make(map[string]int, len(g.Outputs))
	for i, o := range g.Outputs {
		numbers[o.File.FilePath()] = i
	}
	for _, o := range p.Outputs {
		n, ok := numbers[o.Path]
		if !ok || g.Outputs[n].File.Count() != o.Rows {
			return nil, fmt.Errorf("it names output %s of %d rows, which the result lacks", o.Path, o.Rows)
		}
		m.outputs = append(m.outputs, n)
		delete(numbers, o.Path)
	}
	for path := range numbers {
		return nil, fmt.Errorf("it lacks output %s", path)
	}
	return m, nil
}

func (m *permuted) limit() int64 { return sortedLimit }

func (m *permuted) translate(ctx context.Context, source int, deleted deletes.Mask, into []deletes.Mask) error {
	at := m.sources[source]
	var positions []int64
	for it := deleted.Iterator(); it.HasNext(); {
		p := it.Next()
		if p >= uint64(m.p.Sources[at].Rows) {
			break // the file has no such row
		}
		positions = append(positions, int64(p))
	}
	places, err := m.p.Lookup(ctx, at, positions)
	if err != nil {
		return err
	}
	for _, p := range places {
		if p.Deleted {
			continue
		}
		n := m.outputs[p.Output]
		if into[n] == nil {
			into[n] = roaring64.New()
		}
		into[n].Add(uint64(p.Offset))
	}
	return nil
}

func (m *permuted) removed(ctx context.Context, source int) (deletes.Mask, error) {
	out := roaring64.New()
	err := m.p.Removed(ctx, m.sources[source], func(position int64) { out.Add(uint64(position)) })
	return out, err
}

// noLimit leaves it to the limit of the attempt.
const noLimit = math.MaxInt64
