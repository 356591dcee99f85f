package compact_test

import (
	"encoding/hex"
	"maps"
	"strconv"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
)

// TestMetricsAgainstSpark compares our manifest entry with the one that Spark made of the same rows: value, null and NaN counts and both bounds
// of every column. Compared are the oracle's rewrites of all files into one.
func TestMetricsAgainstSpark(t *testing.T) {
	t.Parallel()
	compareWithSpark(t)
}

// TestMetricsAgainstSparkByPages does the same where values are not looked at: footers and manifest entries of the inputs must give the same.
func TestMetricsAgainstSparkByPages(t *testing.T) {
	t.Parallel()
	compareWithSpark(t, copying())
}

func compareWithSpark(t *testing.T, opts ...benchOption) {
	t.Helper()
	compared := 0
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		state := ref.Table(t)
		if _, no := refused[name]; no || state.Metadata.CurrentSnapshot() == nil {
			continue
		}
		b := newBench(t, ref.Store, state, opts...)
		if len(b.groups) != 1 {
			continue
		}
		for _, oracle := range ref.OracleNames() {
			if oracle == "rdf_branch" {
				continue // Rewrites another branch.
			}
			want, ok := onlyOutput(ref.Oracle(t, oracle), len(b.groups[0].Inputs))
			if !ok {
				continue
			}
			got := b.outputs(b.rewriteAll())
			if len(got) != 1 {
				t.Errorf("%s: %d outputs", name, len(got))
				break
			}
			compareMetrics(t, name+":"+oracle, got[0], want)
			compared++
			break
		}
	}
	if compared < 15 {
		t.Errorf("only %d tables were compared", compared)
	}
}

// onlyOutput finds the single output of a rewrite of all files.
func onlyOutput(c icebergtest.OracleCase, inputs int) (icebergtest.ExpectedEntry, bool) {
	for i, s := range c.Steps {
		if s.Procedure != "rewrite_data_files" {
			if i == 0 {
				return icebergtest.ExpectedEntry{}, false // The table was changed first.
			}
			continue
		}
		if len(s.Selected.DataFiles) != inputs || len(s.Commits) == 0 {
			break
		}
		var data []icebergtest.ExpectedEntry
		for _, e := range s.Commits[0].Added {
			if e.Kind == "data" {
				data = append(data, e)
			}
		}
		return data[0], len(data) == 1
	}
	return icebergtest.ExpectedEntry{}, false
}

func compareMetrics(t *testing.T, name string, got iceberg.DataFile, want icebergtest.ExpectedEntry) {
	t.Helper()
	if got.Count() != want.RecordCount {
		t.Errorf("%s: %d records, Spark wrote %d", name, got.Count(), want.RecordCount)
	}
	counts := func(what string, got map[int]int64, want map[string]int64) {
		have := map[string]int64{}
		for id, n := range got {
			have[strconv.Itoa(id)] = n
		}
		if !maps.Equal(have, want) {
			t.Errorf("%s: %s %v, Spark wrote %v", name, what, have, want)
		}
	}
	counts("value counts", got.ValueCounts(), want.ValueCounts)
	counts("null counts", got.NullValueCounts(), want.NullValueCounts)
	counts("NaN counts", got.NaNValueCounts(), want.NaNValueCounts)
	bounds := func(what string, got map[int][]byte, want map[string]string) {
		have := map[string]string{}
		for id, b := range got {
			have[strconv.Itoa(id)] = "0x" + hex.EncodeToString(b)
		}
		if !maps.Equal(have, want) {
			t.Errorf("%s: %s\n got %v\nwant %v", name, what, have, want)
		}
	}
	lower, upper := got.LowerBoundValues(), got.UpperBoundValues()
	bounds("lower bounds", lower, want.LowerBounds)
	bounds("upper bounds", upper, want.UpperBounds)
}
