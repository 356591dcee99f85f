package compact_test

import (
	"bytes"
	"context"
	"regexp"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
)

// checkProof compares a result's proof, row map and entries with each other.
func checkProof(t *testing.T, b *bench, group int, r handoff.GroupResult) {
	t.Helper()
	p := r.Proof
	if p.RowsIn-p.RowsDeleted != p.RowsOut {
		t.Errorf("group %d: %d rows in, %d deleted, %d out", group, p.RowsIn, p.RowsDeleted, p.RowsOut)
	}
	for _, c := range p.Columns {
		if c.NullsIn != c.NullsOut || c.HashIn != c.HashOut {
			t.Errorf("group %d: column %d differs: %+v", group, c.FieldID, c)
		}
	}
	m := b.rowMap(r)
	if len(m.Outputs) != len(r.Outputs) || len(m.Sources) != len(b.groups[group].Inputs) {
		t.Fatalf("group %d: the row map has %d outputs and %d sources", group, len(m.Outputs), len(m.Sources))
	}
	// Each output row must come from exactly one source row, and the ranges of a source must ascend without overlap.
	seen := make([][]bool, len(r.Outputs))
	for i, e := range r.Outputs {
		if m.Outputs[i] != e.Path {
			t.Errorf("group %d: output %d is %s in the row map, %s in the result", group, i, m.Outputs[i], e.Path)
		}
		seen[i] = make([]bool, b.decode(e).Count())
	}
	for _, s := range m.Sources {
		end := int64(0)
		for _, rng := range s.Ranges {
			if rng.First < end || rng.Count <= 0 {
				t.Fatalf("group %d: ranges of %s overlap: %+v", group, s.Path, s.Ranges)
			}
			end = rng.First + rng.Count
			for n := range rng.Count {
				if seen[rng.Output][rng.Offset+n] {
					t.Fatalf("group %d: row %d of output %d comes from two rows", group, rng.Offset+n, rng.Output)
				}
				seen[rng.Output][rng.Offset+n] = true
			}
		}
	}
	for i, rows := range seen {
		for n, ok := range rows {
			if !ok {
				t.Fatalf("group %d: row %d of output %d comes from nowhere", group, n, i)
			}
		}
	}
}

// rowMap reads the row map of a result; a permutation becomes one of single rows.
func (b *bench) rowMap(r handoff.GroupResult) (m handoff.RowMap) {
	b.tb.Helper()
	ctx := context.Background()
	if r.Permutation == "" {
		b.must(b.work.Read(ctx, r.RowMap, &m))
		return m
	}
	p, err := handoff.OpenPermutation(ctx, b.store, r.Permutation)
	b.must(err)
	for _, o := range p.Outputs {
		m.Outputs = append(m.Outputs, o.Path)
	}
	for n, source := range p.Sources {
		s := handoff.SourceRowMap{Path: source.Path}
		positions := make([]int64, source.Rows)
		for i := range positions {
			positions[i] = int64(i)
		}
		places, err := p.Lookup(ctx, n, positions)
		b.must(err)
		for i, place := range places {
			if !place.Deleted {
				s.Ranges = append(s.Ranges, handoff.RowRange{First: int64(i), Count: 1, Output: place.Output, Offset: place.Offset})
			}
		}
		m.Sources = append(m.Sources, s)
	}
	return m
}

// checkRaw reads outputs with pqarrow, for tables that iceberg-go's scan refuses. It knows the flat types that such tables have.
func checkRaw(t *testing.T, b *bench, results []handoff.GroupResult, want icebergtest.Expected) {
	t.Helper()
	d := icebergtest.NewDigester(b.state.Metadata.CurrentSchema())
	for _, f := range b.outputs(results) {
		data, err := b.store.Get(context.Background(), f.FilePath())
		b.must(err)
		tbl, err := pqarrow.ReadTable(context.Background(), bytes.NewReader(data), nil, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		b.must(err)
		r := array.NewTableReader(tbl, 0)
		for r.Next() {
			batch := r.RecordBatch()
			for i := range int(batch.NumRows()) {
				var row icebergtest.Row
				for c := range b.state.Metadata.CurrentSchema().NumFields() {
					row = append(row, goValue(t, batch.Column(c), i))
				}
				d.Add(row)
			}
		}
	}
	for _, fault := range d.Content().Check(want.Rows.RowCount, want.Columns) {
		t.Error(fault)
	}
}

func goValue(t *testing.T, a arrow.Array, i int) any {
	t.Helper()
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Int32:
		return a.Value(i)
	case *array.Int64:
		return a.Value(i)
	case *array.Float64:
		return a.Value(i)
	case *array.Boolean:
		return a.Value(i)
	case *array.String:
		return a.Value(i)
	case *array.Date32:
		return int32(a.Value(i))
	case *array.Decimal128:
		return iceberg.Decimal{Val: a.Value(i), Scale: int(a.DataType().(*arrow.Decimal128Type).Scale)}
	}
	t.Fatalf("arrow array %T", a)
	return nil
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern + "$").MatchString(text) }
