package evaluate_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"firn/internal/authority"
	"firn/internal/contract"
	"firn/internal/evaluate"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/telemetry"
)

// counting counts the pointers that are read, and fails when told to.
type counting struct {
	catalogs.Catalog
	loads int
	err   error
}

func (c *counting) Load(ctx context.Context, id maintenance.TableID) (catalogs.Pointer, error) {
	c.loads++
	if c.err != nil {
		return catalogs.Pointer{}, c.err
	}
	return c.Catalog.Load(ctx, id)
}

// fence is a looker whose function is under rules, with the store as hosts hand it out.
func fence(t *testing.T, w *icebergtest.World, tables, warehouses []string) (*looker, *counting) {
	t.Helper()
	rules, err := authority.New(tables, warehouses, "")
	if err != nil {
		t.Fatal(err)
	}
	l := newLooker(t, w, "")
	l.told = &bytes.Buffer{}
	touched := &counting{Catalog: w.Catalog}
	l.fn = evaluate.New(evaluate.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) {
			return touched, rules.Store(w.Store), nil
		},
		State: l.state, Starter: l, Authority: rules, Now: w.Clock.Now, Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewEMF(l.told, contract.FunctionEvaluate),
	})
	return l, touched
}

// TestEventsOfTablesThatAreNotEntrusted touch nothing: not the catalog, not the state.
func TestEventsOfTablesThatAreNotEntrusted(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	history(w, "t")
	history(w, "secret")
	l, touched := fence(t, w, []string{"db.t"}, nil)
	if again := l.tell(t, "secret", "t", "secret"); len(again) > 0 || touched.loads != 1 {
		t.Errorf("to deliver again %v, %d pointers read: want that of the one table that is entrusted", again, touched.loads)
	}
	l.tell(t, "unknown") // not entrusted either
	if n := strings.Count(l.told.String(), `"notices_ignored":1`); n != 3 {
		t.Errorf("%d notices are counted as let go, want 3:\n%s", n, l.told)
	}
	if tables, _, err := l.state.Tables(t.Context(), "", 0); err != nil || len(tables) != 1 || tables[0].Name != "t" {
		t.Errorf("the ledger knows %v, %v", tables, err)
	}
}

// TestPoisonedMetadata: a table whose metadata leads out of the warehouses is refused with the reason, once, and nothing is started for it.
func TestPoisonedMetadata(t *testing.T) {
	t.Parallel()
	for _, property := range []string{"write.data.path", "write.object-storage.path"} {
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t", icebergtest.Property(property, "mem://other/data"))
		tbl.Commit(icebergtest.Append(ids(1)...))
		home, _, _ := strings.Cut(tbl.Pointer().MetadataLocation, "/metadata/")
		l, _ := fence(t, w, nil, []string{home})
		checkRefused(t, property, l, tbl)
	}
	faulty := icebergtest.NewWorld(t)
	huge := faulty.NewTable("db.t", icebergtest.Property("firn."+strings.Repeat("x", 1<<20), "1"))
	l := newLooker(t, faulty, observe)
	if again := l.tell(t, "t"); len(again) > 0 {
		t.Errorf("a property with a name of 1 MB: delivered again: %v", again)
	}
	decisions, err := l.state.Decisions(t.Context(), huge.State().ID, 1)
	if err != nil || len(decisions) != 1 || decisions[0].Action != "skip" || len(decisions[0].Skip) > 4096 {
		t.Errorf("a property with a name of 1 MB: %d decisions, %v: want a skip with a short reason", len(decisions), err)
	}
	w := icebergtest.NewWorld(t)
	tbl := history(w, "t")
	l, _ = fence(t, w, nil, []string{"mem://elsewhere/warehouse"})
	checkRefused(t, "metadata file elsewhere", l, tbl)
}

func checkRefused(t *testing.T, name string, l *looker, tbl *icebergtest.Table) {
	t.Helper()
	if again := l.tell(t, "t"); len(again) > 0 {
		t.Errorf("%s: delivered again: %v", name, again)
	}
	decisions, err := l.state.Decisions(t.Context(), tbl.State().ID, 0)
	if err != nil || len(decisions) != 1 || decisions[0].Action != "skip" || !strings.Contains(decisions[0].Skip, authority.ErrOutside.Error()) {
		t.Errorf("%s: decisions %+v, %v: want a skip with the reason", name, decisions, err)
	}
	if head, err := l.state.LoadHead(t.Context(), tbl.State().ID); err != nil || head.Version != 0 {
		t.Errorf("%s: the ledger has a head: %+v, %v", name, head, err)
	}
}

// TestTransientErrorsAreDeliveredAgain: only what a repetition meets again is done with.
func TestTransientErrorsAreDeliveredAgain(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := history(w, "t")
	l, touched := fence(t, w, nil, nil)
	touched.err = catalogs.ErrTransient
	if again := l.tell(t, "t"); len(again) != 1 {
		t.Errorf("to deliver again: %v", again)
	}
	touched.err = nil
	if again := l.tell(t, "t"); len(again) != 0 {
		t.Errorf("to deliver again: %v", again)
	}
	if counters := l.counters(t, tbl.State().ID); len(counters) != 3 {
		t.Errorf("counters %v", counters)
	}
}
