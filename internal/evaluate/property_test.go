package evaluate_test

import (
	"context"
	"flag"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"firn/internal/evaluate"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// TestAnyHistoryOfEventsEndsInTheLedgerOfAScan: commits of all kinds, on branches too, rollbacks; events lost, doubled and late. One look at the end has the
// counters and the decision of a full scan, and the scheduled reconcile finds no drift.
func TestAnyHistoryOfEventsEndsInTheLedgerOfAScan(t *testing.T) {
	t.Parallel()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := flag.Set("rapid.checks", "12"); err != nil { // each writes and scans several tables; ask for more by the flag
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
		l := newLooker(t, w, observe)
		var drift []int64
		l.fn = evaluate.New(evaluate.Deps{
			Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) { return w.Catalog, w.Store, nil },
			State:   l.state, Starter: l, Now: w.Clock.Now, Log: slog.New(slog.DiscardHandler),
			Drift: func(_ time.Time, _ maintenance.TableID, n int64) error { drift = append(drift, n); return nil },
		})
		w.At(time.Now())
		commits := []icebergtest.Commit{tbl.Commit(icebergtest.Append(spread(3, 0)...))}
		note := func(c icebergtest.Commit) { commits = append(commits, c) }
		for range rapid.IntRange(1, 8).Draw(r, "steps") {
			w.At(time.Now()) // references move by the real clock
			switch rapid.SampledFrom([]string{"append", "append", "many", "delete", "branch", "rollback", "equal", "look", "look twice"}).Draw(r, "step") {
			case "append":
				note(tbl.Commit(icebergtest.Append(spread(rapid.IntRange(1, 4).Draw(r, "rows"), rapid.IntRange(0, 6).Draw(r, "first"))...)))
			case "many":
				note(tbl.Commit(icebergtest.Append(spread(34, 0)...)))
			case "delete":
				c := commits[len(commits)-1]
				if len(c.DataFiles) > 0 && tbl.State().Metadata.CurrentSnapshot().SnapshotID == c.Snapshot.SnapshotID {
					note(tbl.Commit(icebergtest.Remove(c.DataFiles[0])))
				}
			case "equal":
				note(tbl.Commit(icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{int64(1), "g1"})))
			case "branch":
				head := tbl.State().Metadata.CurrentSnapshot().SnapshotID
				tbl.Branch("audit", head)
				tbl.CommitTo("audit", icebergtest.Append(spread(2, 40)...))
			case "rollback":
				tbl.Branch("main", commits[rapid.IntRange(0, len(commits)-1).Draw(r, "to")].Snapshot.SnapshotID)
			case "look":
				l.tell(t, "t")
			case "look twice":
				l.tell(t, "t", "t")
				l.tell(t, "t")
			}
		}
		check := func(when string, decide bool) {
			if again := l.tell(t, "t"); len(again) > 0 {
				r.Fatalf("%s: the look failed", when)
			}
			if diff := cmp.Diff(scanned(t, w, tbl), l.counters(t, tbl.State().ID)); diff != "" {
				r.Fatalf("%s: the ledger differs from a scan:\n%s", when, diff)
			}
			scan := newLooker(t, w, observe)
			scan.tell(t, "t")
			want, err := scan.state.LoadHead(context.Background(), tbl.State().ID)
			if err != nil {
				r.Fatal(err)
			}
			got, err := l.state.LoadHead(context.Background(), tbl.State().ID)
			if err != nil || decide && !cmp.Equal(got.Decision.Due, want.Decision.Due) || got.NeedsScan || got.SmallManifests != want.SmallManifests {
				r.Fatalf("%s: head %+v, %v: want the decision %+v", when, got, err, want.Decision)
			}
		}
		check("after the events", true)
		w.At(time.Now().Add(8 * 24 * time.Hour))
		drift = nil
		check("after the reconcile", false) // jobs that go by the clock are due by now where the table has been known for long
		if len(drift) != 1 || drift[0] != 0 {
			r.Fatalf("the reconcile told a drift of %v", drift)
		}
	})
}
