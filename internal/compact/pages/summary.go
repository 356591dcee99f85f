package pages

import (
	"slices"

	"firn/internal/compact/metrics"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// summarize works out an output's metrics from the footers and manifest entries of its inputs.
func (r *rewrite) summarize(o *output) metrics.Result {
	m := o.metrics
	for from := 0; from < len(o.sources); {
		to := from + 1
		for to < len(o.sources) && o.sources[to].in == o.sources[from].in {
			to++
		}
		for _, leaf := range r.job.Target.Layout.Leaves {
			measured := func(s rowGroupOf) bool { return s.measured(leaf.Index) }
			if rest := slices.DeleteFunc(slices.Clone(o.sources[from:to]), measured); len(rest) > 0 {
				summarizeInput(m, leaf, rest)
			}
		}
		from = to
	}
	return m.Result()
}

// summarizeInput adds one column of row groups of one input.
func summarizeInput(m *metrics.File, leaf *layout.Leaf, sources []rowGroupOf) {
	in := sources[0].in
	e := newEntry(in, leaf)
	var rows, values, nulls, nans int64
	for i := range sources {
		c := sources[i].remains(leaf.Index)
		rows, values = rows+sources[i].live, values+c.values
		nulls, nans = plus(nulls, c.nulls), plus(nans, c.nans)
	}
	// What the entry says of the whole file holds for its rows only when all of them are here, or when it is nothing.
	all := rows == in.Count()
	if nulls < 0 && (all || e.nulls == 0) {
		nulls = e.nulls
	}
	if !e.float {
		e.nans = 0
	} else if e.counted = nans >= 0; e.counted {
		e.nans = nans
	} else if !all && e.nans != 0 {
		e.nans = metrics.Unknown
	}
	s := metrics.Summary{Values: values, Nulls: nulls, NaNs: e.nans}
	s.Empty = nulls >= 0 && e.nans >= 0 && nulls+e.nans == values
	if !s.Empty {
		s.Lower, s.Upper = e.bounds(leaf, sources)
	}
	m.AddSummary(leaf.Index, s)
}

// entry is what an input's manifest entry says of a column.
type entry struct {
	nulls, nans  int64
	lower, upper *column.Values
	float        bool
	// counted says that nans was counted in the values.
	counted bool
}

// plus adds two counts, either of which may be metrics.Unknown.
func plus(a, b int64) int64 {
	if a < 0 || b < 0 {
		return metrics.Unknown
	}
	return a + b
}

func newEntry(in *input, leaf *layout.Leaf) entry {
	e := entry{nulls: metrics.Unknown, nans: metrics.Unknown, float: leaf.Kind == layout.Float || leaf.Kind == layout.Double}
	if n, ok := in.NullValueCounts()[leaf.FieldID]; ok {
		e.nulls = n
	}
	if n, ok := in.NaNValueCounts()[leaf.FieldID]; ok {
		e.nans = n
	}
	if v, ok := metrics.DecodeBound(leaf, in.LowerBoundValues()[leaf.FieldID]); ok {
		e.lower = v
	}
	if v, ok := metrics.DecodeBound(leaf, in.UpperBoundValues()[leaf.FieldID]); ok {
		e.upper = v
	}
	return e
}

// bounds chooses between the bounds of footers or of values, which are whole values, and the entry's. Footers say nothing of NaN, and some writers'
// bounds are wrong where there is one, so for floats the entry comes first unless the values were seen.
func (e *entry) bounds(leaf *layout.Leaf, sources []rowGroupOf) (lower, upper *column.Values) {
	if e.float && !e.counted && (e.nans != 0 || (e.lower != nil && e.upper != nil)) {
		return e.lower, e.upper
	}
	merged := newBounds(leaf)
	for i := range sources {
		c := sources[i].remains(leaf.Index)
		switch {
		case c.nulls == c.values:
		case c.min == nil || c.max == nil:
			merged.Lose()
		default:
			merged.Merge(c.min, c.max)
		}
	}
	low, high, _ := merged.Exact()
	if lower, upper = value(leaf, low), value(leaf, high); lower == nil || upper == nil {
		return e.lower, e.upper
	}
	return lower, upper
}
