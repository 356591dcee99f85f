package arrow

import (
	"cmp"
	"slices"

	"firn/internal/handoff"
	"firn/internal/parquet/column"
)

// mapper records where rows go.
type mapper struct {
	sources []handoff.SourceRowMap
	outputs []string
	ranges  int
	limit   int
}

func newMapper(paths []string, limit int) *mapper {
	m := &mapper{limit: limit}
	for _, p := range paths {
		m.sources = append(m.sources, handoff.SourceRowMap{Path: p})
	}
	return m
}

// add says that a run of an input went to an output from offset on.
func (m *mapper) add(input int, r column.Run, output int, offset int64) {
	if m.ranges > m.limit {
		return
	}
	s := &m.sources[input]
	if n := len(s.Ranges); n > 0 {
		last := &s.Ranges[n-1]
		if last.Output == output && last.First+last.Count == r.From && last.Offset+last.Count == offset {
			last.Count += r.To - r.From
			return
		}
	}
	s.Ranges = append(s.Ranges, handoff.RowRange{First: r.From, Count: r.To - r.From, Output: output, Offset: offset})
	m.ranges++
	if m.ranges > m.limit { // Given up: free the memory.
		for i := range m.sources {
			m.sources[i].Ranges = nil
		}
	}
}

// result returns the map with each source's ranges in the order of its rows; nil when there were too many.
func (m *mapper) result() *handoff.RowMap {
	if m.ranges > m.limit {
		return nil
	}
	for _, s := range m.sources {
		slices.SortFunc(s.Ranges, func(a, b handoff.RowRange) int { return cmp.Compare(a.First, b.First) })
	}
	return &handoff.RowMap{Sources: m.sources, Outputs: m.outputs}
}
