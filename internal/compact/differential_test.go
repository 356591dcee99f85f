package compact_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/zeebo/xxh3"

	"firn/internal/compact"
	"firn/internal/compact/arrow"
	"firn/internal/compact/engine"
	"firn/internal/compact/metrics"
	"firn/internal/compact/pages"
	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/source"
)

// fallbackShare is the most of the reference tables' bytes that the page engine may leave to the arrow engine.
const fallbackShare = 0.02

// TestPagesAgainstArrow rewrites every group of every reference table with the page engine and with the arrow engine. Levels and values of all columns
// must be the same, counts equal, and bounds no narrower. It tells how the bytes moved, and why some were left to the arrow engine.
func TestPagesAgainstArrow(t *testing.T) {
	t.Parallel()
	var mutex sync.Mutex
	tiers, causes := map[string]int64{}, map[string]int64{}
	for _, name := range icebergtest.ReferenceNames(t) {
		if refused[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref := icebergtest.Reference(t, name)
			state := ref.Table(t)
			if state.Metadata.CurrentSnapshot() == nil {
				t.Skip("no snapshot")
			}
			slow := newBench(t, ref.Store, state, limits(arrow.Limits{}))
			slow.runAs(strings.Repeat("x", 26))
			fast := newBench(t, ref.Store, state)
			fast.runAs(strings.Repeat("y", 26))
			e := &recorder{Engine: pages.New(fast.store, discard(), pages.Limits{}, arrow.New(fast.store, discard(), arrow.Limits{}))}
			fast.fn = compact.New(compact.Deps{Store: fast.store, WorkLocation: fast.workLocation, Engine: e})
			for i := range fast.groups {
				a, b := slow.rewrite(i), fast.rewrite(i)
				compareResults(t, fast, i, a, b)
				mutex.Lock()
				for tier, n := range e.last.Tiers {
					tiers[tier] += n
				}
				if n := e.last.Tiers[engine.TierFallback]; n > 0 {
					causes[name+": "+b.Engine] += n
				}
				mutex.Unlock()
			}
		})
	}
	t.Cleanup(func() {
		var all int64
		for _, n := range tiers {
			all += n
		}
		for _, tier := range slices.Sorted(maps.Keys(tiers)) {
			t.Logf("%5.2f %% %s", 100*float64(tiers[tier])/float64(all), tier)
		}
		for _, cause := range slices.Sorted(maps.Keys(causes)) {
			t.Logf("%d bytes of %s", causes[cause], cause)
		}
		if n := tiers[engine.TierFallback]; float64(n) > fallbackShare*float64(all) {
			t.Errorf("%d of %d bytes were left to the arrow engine", n, all)
		}
	})
}

// recorder keeps what an engine answered last.
type recorder struct {
	engine.Engine
	last engine.Result
}

func (r *recorder) Rewrite(ctx context.Context, job engine.Job) (engine.Result, error) {
	var err error
	r.last, err = r.Engine.Rewrite(ctx, job)
	return r.last, err
}

// compareResults compares what two engines made of group i.
func compareResults(t *testing.T, b *bench, i int, want, got handoff.GroupResult) {
	t.Helper()
	if want.Outcome != got.Outcome || want.Proof.RowsOut != got.Proof.RowsOut || want.Proof.RowsDeleted != got.Proof.RowsDeleted {
		t.Errorf("group %d: %s with %+v, the arrow engine %s with %+v", i, got.Outcome, got.Proof, want.Outcome, want.Proof)
		return
	}
	l, err := layout.New(b.state.Metadata.CurrentSchema(), b.groups[i].HasRowLineage)
	b.must(err)
	x, y := b.outputs([]handoff.GroupResult{want}), b.outputs([]handoff.GroupResult{got})
	for leaf, text := range digests(t, b, l, x) {
		if other := digests(t, b, l, y)[leaf]; other != text {
			t.Errorf("group %d (%s): column %s has %s, by the arrow engine %s", i, got.Engine, l.Leaves[leaf].Path, other, text)
		}
	}
	if len(x) != 1 || len(y) != 1 {
		return
	}
	if !maps.Equal(x[0].ValueCounts(), y[0].ValueCounts()) {
		t.Errorf("group %d: value counts %v, by the arrow engine %v", i, y[0].ValueCounts(), x[0].ValueCounts())
	}
	for id, n := range y[0].NullValueCounts() {
		if m, ok := x[0].NullValueCounts()[id]; !ok || m != n {
			t.Errorf("group %d: field %d has %d nulls, by the arrow engine %d", i, id, n, m)
		}
	}
	for id, n := range y[0].NaNValueCounts() {
		if m, ok := x[0].NaNValueCounts()[id]; !ok || m != n {
			t.Errorf("group %d: field %d has %d NaN, by the arrow engine %d", i, id, n, m)
		}
	}
	compareBounds(t, l, x[0], y[0])
}

// compareBounds demands bounds that are no narrower than those of the values.
func compareBounds(t *testing.T, l *layout.Layout, want, got iceberg.DataFile) {
	t.Helper()
	for _, leaf := range l.Leaves {
		id := leaf.FieldID
		low, hasLow := got.LowerBoundValues()[id]
		high, hasHigh := got.UpperBoundValues()[id]
		// Both together in new metrics must give the wider ones.
		m := metrics.New(l, slices.Repeat([]metrics.Mode{{Counts: true, Bounds: true}}, len(l.Leaves)))
		add := func(b []byte) {
			if v, ok := metrics.DecodeBound(leaf, b); ok {
				m.Add(leaf.Index, &column.Batch{Rows: 1, Levels: 1, Values: *v})
			}
		}
		add(low)
		add(high)
		alone := m.Result()
		add(want.LowerBoundValues()[id])
		add(want.UpperBoundValues()[id])
		wide := m.Result()
		if hasLow && !bytes.Equal(alone.Lower[id], wide.Lower[id]) {
			t.Errorf("column %s: lower bound %x, by the arrow engine %x", leaf.Path, low, want.LowerBoundValues()[id])
		}
		if hasHigh && !bytes.Equal(alone.Upper[id], wide.Upper[id]) {
			t.Errorf("column %s: upper bound %x, by the arrow engine %x", leaf.Path, high, want.UpperBoundValues()[id])
		}
	}
}

// digests hashes levels and values of all columns of files, one file after the other.
func digests(t *testing.T, b *bench, l *layout.Layout, files []iceberg.DataFile) []string {
	t.Helper()
	out := make([]string, len(l.Leaves))
	levels, values := make([]xxh3.Hasher, len(l.Leaves)), make([]xxh3.Hasher, len(l.Leaves))
	var buf []byte
	for _, df := range files {
		f, err := source.Open(context.Background(), b.store, df.FilePath(), source.Options{SizeBytes: df.FileSizeBytes(), WholeBelowBytes: 1 << 30})
		b.must(err)
		p, err := projection.New(&projection.Target{Layout: l}, f, projection.Options{})
		b.must(err)
		for i := range l.Leaves {
			b.must(p.Scan(i, column.Run{To: f.Rows}, func(v *column.Batch) error {
				buf = buf[:0]
				for n := range v.Levels {
					if len(v.Def) > 0 {
						buf = append(buf, byte(v.Def[n]))
					}
					if len(v.Rep) > 0 {
						buf = append(buf, byte(v.Rep[n]))
					}
				}
				_, _ = levels[i].Write(buf)
				buf = v.AppendPlain(buf[:0])
				_, _ = values[i].Write(buf)
				return nil
			}))
		}
		f.Close()
	}
	for i := range out {
		out[i] = fmt.Sprintf("%x/%x", levels[i].Sum64(), values[i].Sum64())
	}
	return out
}
