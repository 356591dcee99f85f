package compact_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"firn/internal/compact/engine"
	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// refused are the reference tables of which at least one group cannot be rewritten, with the words of the reason.
var refused = map[string]string{
	"fmt_orc":        "format ORC",
	"fmt_avro":       "format AVRO",
	"encrypted_file": "encrypted",
}

// unscannable are tables whose rewritten files iceberg-go's scan still refuses, because of the schema.
var unscannable = map[string]bool{"defaults_v3": true}

// TestReferenceTables rewrites every file of every reference table and reads the result with iceberg-go: digest, counts, nulls, min and max
// must be what Spark and the Iceberg Java library say.
func TestReferenceTables(t *testing.T) {
	t.Parallel()
	var all int64
	tiers := map[string]int64{}
	rewriteReferenceTables(t, func(name string, r handoff.GroupResult) {
		for tier, n := range r.Tiers {
			all += n
			tiers[tier] += n
		}
		if n := r.Tiers[engine.TierFallback]; n > 0 {
			t.Logf("%s: %d bytes: %s", name, n, r.Engine)
		}
	})
	t.Cleanup(func() {
		for tier, n := range tiers {
			t.Logf("%s: %.1f %%", tier, 100*float64(n)/float64(all))
		}
		if 50*tiers[engine.TierFallback] > all {
			t.Errorf("%d of %d bytes went to the engine that decodes all", tiers[engine.TierFallback], all)
		}
	})
}

// TestReferenceTablesByPages does the same with pages copied however small they are, wherever that is possible.
func TestReferenceTablesByPages(t *testing.T) {
	t.Parallel()
	copied := map[bool]int{}
	rewriteReferenceTables(t, func(name string, r handoff.GroupResult) {
		copied[r.Engine == "pages"]++
		if r.Engine != "pages" {
			t.Logf("%s: %s", name, r.Engine)
		}
	}, copying())
	t.Cleanup(func() {
		t.Logf("%d groups by pages, %d not", copied[true], copied[false])
		if copied[true] < 30 {
			t.Errorf("only %d groups were copied by pages", copied[true])
		}
	})
}

func rewriteReferenceTables(t *testing.T, see func(string, handoff.GroupResult), opts ...benchOption) {
	t.Helper()
	for _, name := range icebergtest.ReferenceNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rewriteReferenceTable(t, name, see, opts...)
		})
	}
}

var seeing sync.Mutex

func rewriteReferenceTable(t *testing.T, name string, see func(string, handoff.GroupResult), opts ...benchOption) {
	t.Helper()
	ctx := context.Background()
	ref := icebergtest.Reference(t, name)
	state := ref.Table(t)
	if state.Metadata.CurrentSnapshot() == nil {
		t.Skip("no snapshot")
	}
	b := newBench(t, ref.Store, state, opts...)
	if reason, ok := refused[name]; ok {
		checkRefused(t, b, reason)
		return
	}
	results := b.rewriteAll()
	for i, r := range results {
		checkProof(t, b, i, r)
		if see != nil {
			seeing.Lock()
			see(name, r)
			seeing.Unlock()
		}
	}
	w := ref.World(t)
	tbl := w.Open(ref.ID)
	b.commit(tbl, results)
	if unscannable[name] {
		checkRaw(t, b, results, ref.Expected)
		return
	}
	rows, err := icebergtest.ReadRows(ctx, ref.Store, tbl.State(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range rows.Check(ref.Expected.Rows.RowCount, ref.Expected.Columns) {
		t.Error(fault)
	}
	want := ref.Expected.Rows.Lineage
	if want == nil {
		return
	}
	got, err := icebergtest.ReadLineage(ctx, ref.Store, tbl.State(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if name != "dv_upgraded" && (got.Count != want.Count || got.Digest != want.Digest) {
		t.Errorf("lineage of %d rows is %s: want %+v", got.Count, got.Digest, *want)
	}
}

func checkRefused(t *testing.T, b *bench, reason string) {
	t.Helper()
	found := false
	for i := range b.groups {
		r := b.rewrite(i)
		if r.Outcome == maintenance.Refused {
			found = true
			if !strings.Contains(r.Reason, reason) {
				t.Errorf("group %d: reason %q: want %q in it", i, r.Reason, reason)
			}
			if len(r.Outputs) != 0 {
				t.Errorf("group %d: a refused group has outputs", i)
			}
		}
	}
	if !found {
		t.Errorf("no group was refused")
	}
}
