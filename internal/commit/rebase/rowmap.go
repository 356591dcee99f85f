package rebase

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"firn/internal/deletes"
	"firn/internal/handoff"
)

// rows is a checked row map: where each row of each source went.
type rows struct {
	// ranges are by source, ascending; outputs are numbered as the group's outputs are.
	ranges [][]handoff.RowRange
	counts []int64
	// outputs is the number of outputs.
	outputs int
}

// newRows checks that a row map is one of this group: it knows every source, its ranges lie in their files, and each row of each output comes from
// exactly one row.
func newRows(m handoff.RowMap, g Group) (*rows, error) {
	outputs := make(map[string]int, len(g.Outputs))
	for i, o := range g.Outputs {
		outputs[o.File.FilePath()] = i
	}
	numbers := make([]int, len(m.Outputs))
	for i, path := range m.Outputs {
		n, ok := outputs[path]
		if !ok {
			return nil, fmt.Errorf("it names output %s, which the result lacks", path)
		}
		numbers[i] = n
	}
	sources := make(map[string][]handoff.RowRange, len(m.Sources))
	for _, s := range m.Sources {
		sources[s.Path] = s.Ranges
	}
	r := &rows{outputs: len(g.Outputs)}
	taken := make([][]handoff.RowRange, len(g.Outputs))
	for _, s := range g.Sources {
		ranges, ok := sources[s.File.File.FilePath()]
		if !ok {
			return nil, fmt.Errorf("it lacks source %s", s.File.File.FilePath())
		}
		ranges = slices.Clone(ranges)
		end := int64(0)
		for i := range ranges {
			at := &ranges[i]
			if at.First < end || at.Count < 1 || at.Offset < 0 || at.First+at.Count > s.File.File.Count() || at.Output < 0 || at.Output >= len(numbers) {
				return nil, fmt.Errorf("source %s: range %d of %d rows at %d, to output %d", s.File.File.FilePath(), i, at.Count, at.First, at.Output)
			}
			end = at.First + at.Count
			at.Output = numbers[at.Output]
			taken[at.Output] = append(taken[at.Output], *at)
		}
		r.ranges, r.counts = append(r.ranges, ranges), append(r.counts, s.File.File.Count())
	}
	for i, ranges := range taken {
		if err := covers(ranges, g.Outputs[i].File.Count()); err != nil {
			return nil, fmt.Errorf("output %s: %w", g.Outputs[i].File.FilePath(), err)
		}
	}
	return r, nil
}

// covers checks that the ranges fill an output without gap and overlap.
func covers(ranges []handoff.RowRange, count int64) error {
	slices.SortFunc(ranges, func(a, b handoff.RowRange) int { return cmp.Compare(a.Offset, b.Offset) })
	at := int64(0)
	for _, r := range ranges {
		if r.Offset != at {
			return fmt.Errorf("rows from %d on come from no source, or from two", min(at, r.Offset))
		}
		at += r.Count
	}
	if at != count {
		return fmt.Errorf("%d of %d rows come from a source", at, count)
	}
	return nil
}

// translate adds to each output's mask the rows to which the deleted rows of a source went. Rows in no range are in no output: deletes of T0 removed
// them.
func (r *rows) translate(_ context.Context, source int, deleted deletes.Mask, into []deletes.Mask) error {
	it := deleted.Iterator()
	for _, at := range r.ranges[source] {
		it.AdvanceIfNeeded(uint64(at.First))
		for it.HasNext() && it.PeekNext() < uint64(at.First+at.Count) {
			if into[at.Output] == nil {
				into[at.Output] = roaring64.New()
			}
			into[at.Output].Add(uint64(at.Offset) + it.Next() - uint64(at.First))
		}
		if !it.HasNext() {
			break
		}
	}
	return nil
}

func (r *rows) limit() int64 { return noLimit }

// removed are the rows of a source that are in no output.
func (r *rows) removed(_ context.Context, source int) (deletes.Mask, error) {
	m := roaring64.New()
	m.AddRange(0, uint64(r.counts[source]))
	for _, at := range r.ranges[source] {
		m.RemoveRange(uint64(at.First), uint64(at.First+at.Count))
	}
	return m, nil
}
