package evaluate_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"firn/internal/contract"
	"firn/internal/evaluate"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/report"
	"firn/internal/state"
	"firn/internal/store"
)

const hourMS = int64(time.Hour / time.Millisecond)

func asks(name string, debt float64) state.Waiting {
	namespace, table, _ := strings.Cut(name, ".")
	return state.Waiting{Table: maintenance.TableID{Namespace: maintenance.NewNamespace(namespace), Name: table}, Debt: debt}
}

// TestAdmit walks through requests: who asks, with which debt, at which hour, and who gets a place.
func TestAdmit(t *testing.T) {
	t.Parallel()
	var a state.Admission
	caps := evaluate.Caps{Runs: 3, PerNamespace: 2}
	leave := func(name string) {
		for i, r := range a.Running {
			if r.Table == asks(name, 0).Table {
				a.Running = append(a.Running[:i:i], a.Running[i+1:]...)
				return
			}
		}
		t.Fatalf("%s does not run", name)
	}
	for i, step := range []struct {
		leave, who string
		debt       float64
		hour       int64
		want       bool
	}{
		{"", "a.1", 1, 0, true},
		{"", "a.2", 1, 0, true},
		{"", "a.2", 1, 0, true},   // an earlier look got the place
		{"", "a.3", 99, 0, false}, // the namespace is full
		{"", "b.1", 1, 0, true},
		{"", "c.1", 1, 0, false}, // all places are taken
		{"", "c.2", 5, 0, false},
		{"b.1", "c.1", 1, 1, false}, // c.2 owes more, a.3's namespace is full
		{"", "c.2", 5, 1, true},
		{"a.1", "c.1", 1, 2, false}, // a.3 comes first
		{"", "a.3", 99, 2, true},
		{"c.2", "d.1", 2, 2, false}, // c.1 has waited two hours: 1 x 9 beats 2 x 1
		{"", "c.1", 1, 2, true},
		{"c.1", "d.2", 1, 20, true}, // d.1 has not been seen for long: it does not keep its place
	} {
		if step.leave != "" {
			leave(step.leave)
		}
		w := asks(step.who, step.debt)
		w.SinceMS = step.hour * hourMS
		if got := evaluate.Admit(&a, caps, w, step.hour*hourMS); got != step.want {
			t.Errorf("step %d, %s: admitted %t, want %t; %+v", i, step.who, got, step.want, a)
		}
	}
	// Places of runs whose lease has long expired are free again.
	w := asks("e.1", 1)
	if !evaluate.Admit(&a, caps, w, 100*hourMS) || len(a.Running) != 1 {
		t.Errorf("running %+v: want the newcomer alone", a.Running)
	}
}

// TestNobodyStarves: a small table among large ones that always come back gets its place, within hours.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	var a state.Admission
	caps := evaluate.Caps{Runs: 1}
	for minute := int64(0); minute < 24*60; minute += 5 {
		now := minute * hourMS / 60
		a.Running = nil
		for i := range 4 {
			w := asks(fmt.Sprint("big.", i), 20)
			w.SinceMS = now
			evaluate.Admit(&a, caps, w, now)
		}
		small := asks("small.t", 1)
		small.SinceMS = now
		if evaluate.Admit(&a, caps, small, now) {
			return
		}
	}
	t.Errorf("the small table waits for a day: %+v", a.Waiting)
}

// TestRunsAtOnce: evaluate keeps to the cap, report gives the place back and rouses those that wait.
func TestRunsAtOnce(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	l := newLooker(t, w, "")
	document, err := policy.ParseYAML([]byte("mode: maintain\nrewrite_data_files.trigger.small-files: 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	l.fn = evaluate.New(evaluate.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) { return w.Catalog, w.Store, nil },
		State:   l.state, Starter: l, Policy: document, Now: w.Clock.Now, Log: slog.New(slog.DiscardHandler), Caps: evaluate.Caps{Runs: 2},
	})
	for _, name := range []string{"a", "b", "c", "d"} {
		tbl := w.NewTable("db." + name)
		for range 3 {
			tbl.Commit(icebergtest.Append(ids(1)...))
		}
		l.tell(t, name)
	}
	if len(l.started) != 2 {
		t.Fatalf("%d runs started, the cap is two", len(l.started))
	}
	decisions, err := l.state.Decisions(t.Context(), maintenance.TableID{Namespace: "db", Name: "c"}, 1)
	if err != nil || len(decisions) != 1 || decisions[0].Action != "waiting" {
		t.Errorf("decisions %+v, %v: want one that waits", decisions, err)
	}
	lease, _, err := l.state.Current(t.Context(), maintenance.TableID{Namespace: "db", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.state.Release(t.Context(), lease.Table, lease.Token); err != nil {
		t.Fatal(err)
	}
	waiting, err := report.Leave(t.Context(), l.state, lease.Table)
	if err != nil || len(waiting) != 2 {
		t.Fatalf("waiting %v, %v", waiting, err)
	}
	l.tell(t, "d") // asks out of turn: c came first, and owes as much
	l.tell(t, "c")
	if len(l.started) != 3 || !strings.Contains(l.started[2].input, `"name":"c"`) {
		t.Errorf("started %v: want the one that waited longest", l.started[2:])
	}
}

// optimizing is a catalog that maintains tables itself.
type optimizing struct {
	catalogs.Catalog
	on  []string
	err error
}

func (o optimizing) Optimizers(context.Context, maintenance.TableID) ([]string, error) {
	return o.on, o.err
}

// TestOtherMaintainers: a table that somebody else maintains is left alone, with the reason, unless the policy takes it over.
func TestOtherMaintainers(t *testing.T) {
	t.Parallel()
	replace := func(tbl *icebergtest.Table, summary ...icebergtest.Change) {
		tbl.Commit(append(summary, icebergtest.Append(ids(1)...), icebergtest.Operation("replace"))...)
	}
	for name, c := range map[string]struct {
		at      string
		change  func(*icebergtest.Table)
		on      []string
		err     error
		policy  string
		skip    string
		started int
	}{
		"nobody":                     {started: 1},
		"optimizers":                 {on: []string{"compaction", "retention"}, skip: "compaction, retention"},
		"optimizers, taken over":     {on: []string{"compaction"}, policy: "takeover: true\n", started: 1},
		"optimizers, no permission":  {err: catalogs.ErrRefused, started: 1},
		"S3 Tables":                  {at: "mem://63a8e430--table-s3/t", skip: "S3 Tables"},
		"S3 Tables, taken over":      {at: "mem://63a8e430--table-s3/t", policy: "takeover: true\n", started: 1},
		"another engine":             {change: func(tbl *icebergtest.Table) { replace(tbl) }, skip: "another engine"},
		"another engine, not looked": {change: func(tbl *icebergtest.Table) { replace(tbl) }, policy: "foreign-rewrite-window: 0s\n", started: 1},
		"ours": {change: func(tbl *icebergtest.Table) {
			replace(tbl, icebergtest.Summary(contract.SummaryRunID, "r"))
		}, started: 1},
	} {
		w := icebergtest.NewWorld(t)
		options := []icebergtest.TableOption{}
		if c.at != "" {
			options = append(options, icebergtest.At(c.at))
		}
		tbl := w.NewTable("db.t", options...)
		for range 3 {
			tbl.Commit(icebergtest.Append(ids(1)...))
		}
		if c.change != nil {
			c.change(tbl)
		}
		l := newLooker(t, w, "")
		document, err := policy.ParseYAML([]byte("mode: maintain\nrewrite_data_files.trigger.small-files: 2\n" + c.policy))
		if err != nil {
			t.Fatal(err)
		}
		l.fn = evaluate.New(evaluate.Deps{
			Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) {
				return optimizing{w.Catalog, c.on, c.err}, w.Store, nil
			},
			State: l.state, Starter: l, Policy: document, Now: w.Clock.Now, Log: slog.New(slog.DiscardHandler),
		})
		again := l.tell(t, "t")
		decisions, err := l.state.Decisions(t.Context(), tbl.State().ID, 1)
		if err != nil || len(again) > 0 || len(decisions) != 1 || len(l.started) != c.started {
			t.Errorf("%s: decisions %+v, %v, started %d, again %v", name, decisions, err, len(l.started), again)
			continue
		}
		if got := decisions[0].Skip; !strings.Contains(got, c.skip) || c.skip == "" && got != "" {
			t.Errorf("%s: skipped because %q, want %q", name, got, c.skip)
		}
	}
}
