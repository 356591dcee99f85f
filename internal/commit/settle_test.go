package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// faulty is a committer whose calls a test disturbs.
type faulty struct {
	committer.Committer
	mu    sync.Mutex
	calls int
	// commit takes the place of the n-th call (from 1); nil passes it on.
	commit func(n int, call func() (committer.Result, error)) (committer.Result, error)
	// onHead runs before each Head.
	onHead func()
}

func (f *faulty) Head(ctx context.Context, id maintenance.TableID) (*lake.Table, error) {
	if f.onHead != nil {
		f.onHead()
	}
	return f.Committer.Head(ctx, id)
}

func (f *faulty) Commit(ctx context.Context, base *lake.Table, c committer.Change) (committer.Result, error) {
	f.mu.Lock()
	f.calls++
	n := f.calls
	f.mu.Unlock()
	call := func() (committer.Result, error) { return f.Committer.Commit(ctx, base, c) }
	if f.commit != nil {
		return f.commit(n, call)
	}
	return call()
}

func (x *fixture) faulty() *faulty {
	c, err := committer.New(x.world.Catalog, x.world.Store, committer.Options{Now: x.world.Clock.Now})
	x.check(err)
	return &faulty{Committer: c}
}

// ready is a fixture with a batch that is ready to commit.
func ready(t *testing.T) (*fixture, []string) {
	t.Helper()
	x := newFixture(t)
	paths := x.small(4)
	before := x.rows()
	x.pin(false, paths[:3])
	x.compact()
	return x, before
}

// ours counts the snapshots that this batch made.
func (x *fixture) ours() int {
	n := 0
	for _, s := range x.table.State().Metadata.Snapshots() {
		if s.Summary.Properties[contract.SummaryRunID] == string(x.run.RunID) {
			n++
		}
	}
	return n
}

// once wants one snapshot of ours, the rows as before and no leftover that the table needs.
func (x *fixture) once(before []string) {
	x.t.Helper()
	if n := x.ours(); n != 1 {
		x.t.Errorf("%d snapshots of ours: want 1", n)
	}
	if after := x.rows(); !slices.Equal(before, after) {
		x.t.Errorf("rows changed:\n before %q\n after  %q", before, after)
	}
	for _, path := range x.result().Unneeded {
		for _, s := range x.table.State().Metadata.Snapshots() {
			manifests, err := lake.Manifests(context.Background(), x.world.Store, &s)
			x.check(err)
			for _, m := range manifests {
				if m.FilePath() == path || s.ManifestList == path {
					x.t.Errorf("%s is unneeded but snapshot %d needs it", path, s.SnapshotID)
				}
			}
		}
	}
}

var errLost = errors.New("connection reset by peer")

func TestUnknownAnswers(t *testing.T) {
	t.Parallel()
	type call = func() (committer.Result, error)
	lost := func(c call) error {
		if _, err := c(); err != nil {
			return err
		}
		return errLost
	}
	t.Run("lost answer after success", func(t *testing.T) {
		x, before := ready(t)
		f := x.faulty()
		f.commit = func(_ int, c call) (committer.Result, error) { return committer.Result{}, lost(c) }
		out, err := x.function(nil, f).Handle(context.Background(), x.input())
		if err != nil || out.Outcome != maintenance.Committed || f.calls != 1 {
			t.Errorf("%+v, %v after %d calls: want committed after one", out, err, f.calls)
		}
		x.once(before)
	})
	t.Run("lost answer, and another commit on top before we look", func(t *testing.T) {
		x, before := ready(t)
		f := x.faulty()
		f.commit = func(_ int, c call) (committer.Result, error) {
			err := lost(c)
			x.table.Commit(icebergtest.Append(icebergtest.Row{1000, "z", 1.0}))
			return committer.Result{}, err
		}
		out, err := x.function(nil, f).Handle(context.Background(), x.input())
		if err != nil || out.Outcome != maintenance.Committed || f.calls != 1 {
			t.Errorf("%+v, %v after %d calls: want committed after one", out, err, f.calls)
		}
		if n := x.ours(); n != 1 || len(x.rows()) != len(before)+1 {
			t.Errorf("%d snapshots of ours and %d rows: want 1 and %d", n, len(x.rows()), len(before)+1)
		}
	})
	t.Run("error before any effect", func(t *testing.T) {
		x, before := ready(t)
		f := x.faulty()
		f.commit = func(n int, c call) (committer.Result, error) {
			if n == 1 {
				return committer.Result{}, errLost
			}
			return c()
		}
		out, err := x.function(nil, f).Handle(context.Background(), x.input())
		if err != nil || out.Outcome != maintenance.Committed || f.calls != 2 {
			t.Errorf("%+v, %v after %d calls: want committed after two", out, err, f.calls)
		}
		x.once(before)
		// While the pointer was unmoved, only the same snapshot was sent again.
		var first, second handoff.Fate
		x.check(x.work.Read(context.Background(), x.work.Fate(maintenance.RewriteDataFiles, 0, 0), &first))
		x.check(x.work.Read(context.Background(), x.work.Fate(maintenance.RewriteDataFiles, 0, 1), &second))
		if first.SnapshotID != second.SnapshotID || first.AssertedPointer != second.AssertedPointer {
			t.Errorf("attempts %+v and %+v: want the same snapshot", first, second)
		}
	})
	t.Run("error, and the request lands when it is sent again", func(t *testing.T) {
		x, before := ready(t)
		f := x.faulty()
		var delayed call
		f.commit = func(n int, c call) (committer.Result, error) {
			if n == 1 {
				delayed = c
				return committer.Result{}, errLost
			}
			if _, err := delayed(); err != nil {
				t.Error(err)
			}
			return c()
		}
		out, err := x.function(nil, f).Handle(context.Background(), x.input())
		if err != nil || out.Outcome != maintenance.Committed {
			t.Errorf("%+v, %v: want committed", out, err)
		}
		x.once(before)
	})
	t.Run("error, the table moves on, the request comes too late", func(t *testing.T) {
		x, _ := ready(t)
		f := x.faulty()
		var delayed call
		f.commit = func(n int, c call) (committer.Result, error) {
			if n == 1 {
				delayed = c
				x.table.Commit(icebergtest.Append(icebergtest.Row{1000, "z", 1.0}))
				return committer.Result{}, errLost
			}
			return c()
		}
		before := append(x.rows(), `{"g":"z","id":1000,"val":1}`)
		slices.Sort(before)
		out, err := x.function(nil, f).Handle(context.Background(), x.input())
		if err != nil || out.Outcome != maintenance.Committed {
			t.Errorf("%+v, %v: want committed", out, err)
		}
		if _, err := delayed(); err == nil {
			t.Error("the late request landed too")
		}
		if x.once(before); len(x.result().Unneeded) == 0 {
			t.Error("the lost attempt's manifests are not listed as unneeded")
		}
	})
	t.Run("landed, and a repetition's conflict is the answer", func(t *testing.T) {
		x, before := ready(t)
		f := x.faulty()
		f.commit = func(_ int, c call) (committer.Result, error) {
			if _, err := c(); err != nil {
				t.Error(err)
			}
			return committer.Result{}, fmt.Errorf("409 for the repetition: %w", catalogs.ErrConflict)
		}
		out, err := x.function(nil, f).Handle(context.Background(), x.input())
		if err != nil || out.Outcome != maintenance.Committed || f.calls != 1 {
			t.Errorf("%+v, %v after %d calls: want committed after one", out, err, f.calls)
		}
		x.once(before)
	})
	t.Run("no answer at all", func(t *testing.T) {
		x, before := ready(t)
		f := x.faulty()
		f.commit = func(int, call) (committer.Result, error) { return committer.Result{}, errLost }
		_, err := x.function(nil, f).Handle(context.Background(), x.input())
		var named *maintenance.NamedError
		if !errors.As(err, &named) || named.Name != contract.ErrorCommitStateUnknown {
			t.Fatalf("%v: want %s", err, contract.ErrorCommitStateUnknown)
		}
		if _, err := x.world.Store.Get(context.Background(), x.work.Commit(maintenance.RewriteDataFiles, 0)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an unknown batch has a result: %v", err)
		}
		// Later the catalog answers again: the same snapshot is sent, and lands once.
		if out, err := x.commit(); err != nil || out.Outcome != maintenance.Committed {
			t.Errorf("%+v, %v: want committed", out, err)
		}
		x.once(before)
	})
}

// TestOutputsProveACommit expires the snapshot whose ID would settle the lost answer: the outputs in a later snapshot do.
func TestOutputsProveACommit(t *testing.T) {
	t.Parallel()
	x, before := ready(t)
	f := x.faulty()
	f.commit = func(_ int, c func() (committer.Result, error)) (committer.Result, error) {
		r, err := c()
		x.check(err)
		x.table.Commit(icebergtest.Append(icebergtest.Row{1000, "z", 1.0}))
		x.table.Update(removeSnapshots(r.Table.Metadata.CurrentSnapshot().SnapshotID))
		return committer.Result{}, errLost
	}
	out, err := x.function(nil, f).Handle(context.Background(), x.input())
	if err != nil || out.Outcome != maintenance.Committed || f.calls != 1 {
		t.Errorf("%+v, %v after %d calls: want committed after one", out, err, f.calls)
	}
	if got := len(x.rows()); got != len(before)+1 {
		t.Errorf("%d rows: want %d", got, len(before)+1)
	}
}

func TestRefusedByTheCatalog(t *testing.T) {
	t.Parallel()
	x, before := ready(t)
	x.table.SetProperty("write.metadata.compression-codec", "nonsense")
	out, err := x.commit()
	if err != nil || out.Outcome != maintenance.Refused || !strings.Contains(out.Reason, "nonsense") {
		t.Errorf("%+v, %v: want refused with the reason", out, err)
	}
	if !slices.Equal(before, x.rows()) || x.ours() != 0 {
		t.Error("the table changed")
	}
	if len(x.result().Unneeded) == 0 {
		t.Error("the attempt's manifests are not listed as unneeded")
	}
}

// TestCrashAfterEachChange stops Handle at each write in turn and runs it again: the table always ends the same.
func TestCrashAfterEachChange(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		for n := 0; ; n++ {
			x, before := ready(t)
			faults := store.NewFaults(x.world.Store, store.Rule{Operation: store.OpChange, Skip: n, Crash: true, Applied: applied})
			out, err := x.function(faults, nil).Handle(context.Background(), x.input())
			if faults.Fired() == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if n < 5 {
					t.Errorf("Handle made %d writes only", n)
				}
				break
			}
			if err == nil && (out.Outcome != maintenance.Committed || !strings.Contains(out.Reason, "could not be written") || x.ours() != 1) {
				t.Errorf("change %d crashed and Handle answered %+v without error", n, out)
			}
			out, err = x.commit()
			if err != nil || out.Outcome != maintenance.Committed {
				t.Fatalf("after a crash at change %d: %+v, %v: want committed", n, out, err)
			}
			x.once(before)
		}
	}
}

func TestTransientFaultsOfEachCall(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		x, before := ready(t)
		faults := store.NewFaults(x.world.Store, store.FailNth(store.OpAny, n, store.ErrTransient))
		_, err := x.function(faults, nil).Handle(context.Background(), x.input())
		if faults.Fired() == 0 {
			x.check(err)
			break
		}
		if err != nil && !errors.Is(err, store.ErrTransient) {
			t.Errorf("call %d: %v: want a transient error", n, err)
		}
		if out, err := x.commit(); err != nil || out.Outcome != maintenance.Committed {
			t.Fatalf("after a fault at call %d: %+v, %v: want committed", n, out, err)
		}
		x.once(before)
	}
}

func TestTwoExecutionsRace(t *testing.T) {
	t.Parallel()
	for range 8 {
		x, before := ready(t)
		var wg sync.WaitGroup
		for range 3 {
			fn := x.function(nil, nil)
			fn.Sleep = nil
			wg.Go(func() {
				if out, err := fn.Handle(context.Background(), x.input()); err != nil || out.Outcome != maintenance.Committed {
					t.Errorf("%+v, %v: want committed", out, err)
				}
			})
		}
		wg.Wait()
		x.once(before)
	}
}

// abandon does what sweep does before it deletes an output.
func (x *fixture) abandon() {
	x.t.Helper()
	for n := 0; ; n++ {
		entry := handoff.Fate{V: 1, Abandoned: true}
		first, err := x.work.WriteOnce(context.Background(), x.work.Fate(maintenance.RewriteDataFiles, 0, n), &entry)
		x.check(err)
		if first {
			return
		}
	}
}

// TestZombie freezes a commit and thaws it after sweep closed the log.
func TestZombie(t *testing.T) {
	t.Parallel()
	t.Run("frozen before it announces its call", func(t *testing.T) {
		x, before := ready(t)
		f := x.faulty()
		f.onHead = sync.OnceFunc(x.abandon)
		// The log is read before the head: the abandoning entry is met when the next one is written.
		_, err := x.function(nil, f).Handle(context.Background(), x.input())
		if !errors.Is(err, ErrAbandoned) || f.calls != 0 {
			t.Errorf("%v after %d calls: want %v after none", err, f.calls, ErrAbandoned)
		}
		if x.ours() != 0 || !slices.Equal(before, x.rows()) {
			t.Error("the table changed")
		}
	})
	t.Run("frozen in the call, the table moved meanwhile", func(t *testing.T) {
		x, before := ready(t)
		f := x.faulty()
		f.commit = func(_ int, c func() (committer.Result, error)) (committer.Result, error) {
			x.abandon()
			x.table.Commit(icebergtest.Append(icebergtest.Row{1000, "z", 1.0}))
			return c()
		}
		_, err := x.function(nil, f).Handle(context.Background(), x.input())
		if !errors.Is(err, ErrAbandoned) || f.calls != 1 || x.ours() != 0 || len(x.rows()) != len(before)+1 {
			t.Errorf("%v after %d calls: want %v after one, the table untouched", err, f.calls, ErrAbandoned)
		}
	})
	t.Run("frozen in the call, and it lands", func(t *testing.T) {
		x, before := ready(t)
		f := x.faulty()
		f.commit = func(_ int, c func() (committer.Result, error)) (committer.Result, error) {
			x.abandon()
			return c()
		}
		// Sweep deletes no output of an attempt without definite refusal, so that this one may land.
		if out, err := x.function(nil, f).Handle(context.Background(), x.input()); err != nil || out.Outcome != maintenance.Committed {
			t.Errorf("%+v, %v: want committed", out, err)
		}
		x.once(before)
	})
	t.Run("unknown, then abandoned", func(t *testing.T) {
		x, before := ready(t)
		f := x.faulty()
		f.commit = func(int, func() (committer.Result, error)) (committer.Result, error) {
			x.abandon()
			return committer.Result{}, errLost
		}
		_, err := x.function(nil, f).Handle(context.Background(), x.input())
		var named *maintenance.NamedError
		if !errors.As(err, &named) || named.Name != contract.ErrorCommitStateUnknown || f.calls != 1 {
			t.Errorf("%v after %d calls: want %s after one", err, f.calls, contract.ErrorCommitStateUnknown)
		}
		if x.ours() != 0 || !slices.Equal(before, x.rows()) {
			t.Error("the table changed")
		}
	})
}

// A catalog that never answers beside a writer that always wins: every attempt is settled by the moved pointer, and their number is bounded.
func TestNoAnswerAndLostRaces(t *testing.T) {
	t.Parallel()
	x, _ := ready(t)
	f := x.faulty()
	f.commit = func(n int, _ func() (committer.Result, error)) (committer.Result, error) {
		x.table.Commit(icebergtest.Append(icebergtest.Row{int64(1000 + n), "z", 1.0}))
		return committer.Result{}, errLost
	}
	out, err := x.function(nil, f).Handle(context.Background(), x.input())
	if err != nil || out.Outcome != maintenance.Conflict || f.calls != 5 || x.ours() != 0 {
		t.Errorf("%+v, %v after %d calls: want a conflict after five", out, err, f.calls)
	}
}

func TestLosesEveryRace(t *testing.T) {
	t.Parallel()
	x, _ := ready(t)
	f := x.faulty()
	f.commit = func(n int, c func() (committer.Result, error)) (committer.Result, error) {
		x.table.Commit(icebergtest.Append(icebergtest.Row{int64(1000 + n), "z", 1.0}))
		return c()
	}
	out, err := x.function(nil, f).Handle(context.Background(), x.input())
	if err != nil || out.Outcome != maintenance.Conflict || f.calls != 5 || x.ours() != 0 {
		t.Errorf("%+v, %v after %d calls: want a conflict after five (commit.retry.num-retries is 4)", out, err, f.calls)
	}
	if len(x.waits) != 5 {
		t.Errorf("waits %v: want one after each race", x.waits)
	}
	for _, w := range x.waits {
		if w <= 0 || w > 2e9 {
			t.Errorf("wait %v is out of bounds", w)
		}
	}
	if r := x.result(); len(r.Unneeded) < 10 {
		t.Errorf("unneeded %q: want manifests, lists and metadata files of five attempts", r.Unneeded)
	}
}
