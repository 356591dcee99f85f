// Package statetest is the conformance suite of state backends.
package statetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/maintenance"
	"firn/internal/state"
)

func table(name string) maintenance.TableID {
	return maintenance.TableID{Catalog: "c", Namespace: maintenance.NewNamespace("a", "b.c"), Name: name}
}

var start = time.UnixMilli(1_700_000_000_000)

// Run runs the suite; open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) state.Store) {
	t.Helper()
	tests := map[string]func(*testing.T, state.Store){
		"lease_one_of_many_racers_wins":    leaseRace,
		"lease_token_grows":                leaseTokens,
		"lease_lost_after_takeover":        leaseTakeover,
		"lease_pending_survives_renew":     leasePending,
		"looks":                            looks,
		"head_condition":                   headCondition,
		"head_names_table":                 headTables,
		"shards":                           shards,
		"item_size":                        tooLarge,
		"admission":                        admission,
		"cursors":                          cursors,
		"history_newest_first_and_once":    history,
		"drop_forgets_counters_not_tokens": drop,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func fill(token int64) (maintenance.RunID, []byte) {
	return maintenance.NewRunID("uuid", 7, token), []byte(fmt.Sprintf(`{"token":%d}`, token))
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func leaseRace(t *testing.T, s state.Store) {
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			_, err := s.Acquire(context.Background(), table("t"), start, time.Minute, fill)
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, state.ErrLeaseHeld):
				t.Errorf("acquire: %v", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d racers won", won.Load())
	}
}

func leaseTokens(t *testing.T, s state.Store) {
	ctx := context.Background()
	for want := int64(1); want <= 3; want++ {
		l := must[state.Lease](t)(s.Acquire(ctx, table("t"), start, time.Minute, fill))
		if l.Token != want || l.Phase != state.LeaseStarting || string(l.Input) != fmt.Sprintf(`{"token":%d}`, want) {
			t.Errorf("lease %+v, want token %d", l, want)
		}
		held, err := s.Acquire(ctx, table("t"), start, time.Minute, fill)
		if !errors.Is(err, state.ErrLeaseHeld) || held.RunID != l.RunID {
			t.Errorf("second acquire: %+v, %v", held, err)
		}
		must[bool](t)(s.Release(ctx, table("t"), l.Token))
	}
}

func leaseTakeover(t *testing.T, s state.Store) {
	ctx := context.Background()
	old := must[state.Lease](t)(s.Acquire(ctx, table("t"), start, time.Minute, fill))
	if err := s.Renew(ctx, table("t"), old.Token, start.Add(30*time.Second), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(ctx, table("t"), start.Add(80*time.Second), time.Minute, fill); !errors.Is(err, state.ErrLeaseHeld) {
		t.Errorf("acquire of a renewed lease: %v", err)
	}
	must[state.Lease](t)(s.Acquire(ctx, table("t"), start.Add(91*time.Second), time.Minute, fill))
	if err := s.Renew(ctx, table("t"), old.Token, start, time.Minute); !errors.Is(err, state.ErrLeaseLost) {
		t.Errorf("renew of a lost lease: %v", err)
	}
	if _, err := s.Release(ctx, table("t"), old.Token); !errors.Is(err, state.ErrLeaseLost) {
		t.Errorf("release of a lost lease: %v", err)
	}
}

func leasePending(t *testing.T, s state.Store) {
	ctx := context.Background()
	if marked := must[bool](t)(s.MarkPending(ctx, table("t"))); marked {
		t.Error("marked a free lease")
	}
	l := must[state.Lease](t)(s.Acquire(ctx, table("t"), start, time.Minute, fill))
	if marked := must[bool](t)(s.MarkPending(ctx, table("t"))); !marked {
		t.Error("did not mark a held lease")
	}
	if err := s.Renew(ctx, table("t"), l.Token, start, time.Minute); err != nil {
		t.Fatal(err)
	}
	current, found, err := s.Current(ctx, table("t"))
	if err != nil || !found || current.Phase != state.LeaseRunning || !current.Pending {
		t.Errorf("current %+v, %v, %v", current, found, err)
	}
	if pending := must[bool](t)(s.Release(ctx, table("t"), l.Token)); !pending {
		t.Error("release forgot that the table is due")
	}
	if _, found, err := s.Current(ctx, table("t")); err != nil || found {
		t.Errorf("current after release: %v, %v", found, err)
	}
}

func looks(t *testing.T, s state.Store) {
	ctx := context.Background()
	first := must[state.Look](t)(s.LastLook(ctx, table("t")))
	if !first.At.IsZero() || first.Held {
		t.Errorf("look at a table that nobody looked at: %+v", first)
	}
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			switch err := s.ClaimLook(ctx, first, start); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, state.ErrConditionFailed):
				t.Errorf("claim: %v", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 16 racing looks go on", won.Load())
	}
	lease := must[state.Lease](t)(s.Acquire(ctx, table("t"), start, time.Minute, fill))
	held := must[state.Look](t)(s.LastLook(ctx, table("t")))
	if !held.At.Equal(start) || !held.Held || held.Lease.RunID != lease.RunID {
		t.Errorf("look %+v, want the claim and the lease", held)
	}
	must[bool](t)(s.Release(ctx, table("t"), lease.Token))
	if err := s.ClaimLook(ctx, held, start.Add(time.Second)); !errors.Is(err, state.ErrConditionFailed) {
		t.Errorf("claim over a lease that was freed meanwhile: %v", err)
	}
	free := must[state.Look](t)(s.LastLook(ctx, table("t")))
	if !free.At.Equal(start) || free.Held {
		t.Errorf("look %+v after release", free)
	}
	if err := s.ClaimLook(ctx, free, start.Add(time.Second)); err != nil {
		t.Error(err)
	}
	if next := must[state.Lease](t)(s.Acquire(ctx, table("t"), start, time.Minute, fill)); next.Token != lease.Token+1 {
		t.Errorf("token %d after looks, want %d", next.Token, lease.Token+1)
	}
}

func headCondition(t *testing.T, s state.Store) {
	ctx := context.Background()
	empty := must[state.Head](t)(s.LoadHead(ctx, table("t")))
	if empty.Version != 0 || empty.Table != table("t") {
		t.Errorf("empty head %+v", empty)
	}
	empty.SnapshotID, empty.Jobs = 1<<62+1, map[maintenance.Job]state.JobState{maintenance.ExpireSnapshots: {LastRunMS: 5}}
	saved := must[state.Head](t)(s.SaveHead(ctx, empty))
	if _, err := s.SaveHead(ctx, empty); !errors.Is(err, state.ErrConditionFailed) {
		t.Errorf("second create: %v", err)
	}
	if got := must[state.Head](t)(s.LoadHead(ctx, table("t"))); !cmp.Equal(got, saved) {
		t.Errorf("head %s", cmp.Diff(saved, got))
	}
	must[state.Head](t)(s.SaveHead(ctx, saved))
	if _, err := s.SaveHead(ctx, saved); !errors.Is(err, state.ErrConditionFailed) {
		t.Errorf("stale save: %v", err)
	}
}

func headTables(t *testing.T, s state.Store) {
	ctx := context.Background()
	for i := range 7 {
		must[state.Head](t)(s.SaveHead(ctx, state.Head{Table: table(fmt.Sprint("t", i))}))
	}
	var names []string
	for cursor := ""; ; {
		tables, next, err := s.Tables(ctx, cursor, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range tables {
			names = append(names, id.Name)
		}
		if cursor = next; next == "" {
			break
		}
	}
	if want := []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6"}; !cmp.Equal(names, want) {
		t.Errorf("tables %v", names)
	}
}

func shards(t *testing.T, s state.Store) {
	ctx := context.Background()
	partitions := state.Counters{{SpecID: 1, Partition: "day=1", SmallFiles: 4, UnclusteredBytes: 1 << 60}, {Partition: "", LastWriteMS: 5}, {}}
	first := state.Shard{Generation: 2, Number: 3, FoldedTo: 9, Partitions: partitions}
	saved := must[state.Shard](t)(s.SaveShard(ctx, table("t"), first))
	must[state.Shard](t)(s.SaveShard(ctx, table("t"), state.Shard{Generation: 2, Number: 12}))
	must[state.Shard](t)(s.SaveShard(ctx, table("t"), state.Shard{Generation: 1, Number: 3}))
	must[state.Shard](t)(s.SaveShard(ctx, table("t_2"), state.Shard{Generation: 2, Number: 1}))
	if _, err := s.SaveShard(ctx, table("t"), first); !errors.Is(err, state.ErrConditionFailed) {
		t.Errorf("stale shard: %v", err)
	}
	if got := must[state.Shard](t)(s.LoadShard(ctx, table("t"), 2, 3)); !cmp.Equal(got, saved) {
		t.Errorf("shard %s", cmp.Diff(saved, got))
	}
	if got := must[state.Shard](t)(s.LoadShard(ctx, table("t"), 2, 4)); got.Version != 0 || got.Number != 4 {
		t.Errorf("shard that does not exist: %+v", got)
	}
	if got := must[[]state.Shard](t)(s.LoadShards(ctx, table("t"))); len(got) != 0 {
		t.Errorf("shards before the head moved: %+v", got)
	}
	head := must[state.Head](t)(s.SaveHead(ctx, state.Head{Table: table("t"), Generation: 2, ShardCount: 16, Digests: state.Digests{state.DigestOf(saved)}}))
	if got := must[state.Head](t)(s.LoadHead(ctx, table("t"))); !cmp.Equal(got, head) {
		t.Errorf("head %s", cmp.Diff(head, got))
	}
	got := must[[]state.Shard](t)(s.LoadShards(ctx, table("t")))
	if len(got) != 2 || !cmp.Equal(got[0], saved) {
		t.Errorf("shards %+v", got)
	}
	if err := s.DropShards(ctx, table("t"), 2); err != nil {
		t.Fatal(err)
	}
	if old := must[state.Shard](t)(s.LoadShard(ctx, table("t"), 1, 3)); old.Version != 0 {
		t.Errorf("a shard of an old generation is left: %+v", old)
	}
	if got := must[[]state.Shard](t)(s.LoadShards(ctx, table("t"))); len(got) != 2 {
		t.Errorf("shards after old ones were dropped: %+v", got)
	}
	must[state.Head](t)(s.SaveHead(ctx, state.Head{Table: table("inline"), SnapshotID: 9, Partitions: partitions}))
	if got := must[[]state.Shard](t)(s.LoadShards(ctx, table("inline"))); len(got) != 1 || !cmp.Equal(got[0].Partitions, partitions) {
		t.Errorf("counters in the head: %+v", got)
	}
}

func tooLarge(t *testing.T, s state.Store) {
	huge := state.Shard{Partitions: state.Counters{{Partition: strings.Repeat("x", state.MaxItemBytes)}}}
	if _, err := s.SaveShard(context.Background(), table("t"), huge); !errors.Is(err, state.ErrTooLarge) {
		t.Errorf("an item over the limit: %v", err)
	}
}

func admission(t *testing.T, s state.Store) {
	ctx := context.Background()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := s.ChangeAdmission(ctx, func(a *state.Admission) bool {
				a.Running = append(a.Running, state.Running{Table: table(fmt.Sprint(i))})
				return true
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := s.ChangeAdmission(ctx, func(a *state.Admission) bool {
		if len(a.Running) != 8 {
			t.Errorf("running %+v: want all eight", a.Running)
		}
		a.Running = nil
		return false
	}); err != nil {
		t.Error(err)
	}
	if err := s.ChangeAdmission(ctx, func(a *state.Admission) bool {
		if len(a.Running) != 8 {
			t.Errorf("running %+v: a change that answered false was stored", a.Running)
		}
		a.Waiting = make([]state.Waiting, 10_000)
		return true
	}); err != nil {
		t.Error(err)
	}
}

func cursors(t *testing.T, s state.Store) {
	ctx := context.Background()
	for _, want := range []string{"", "a", "b", ""} {
		if want != "" {
			if err := s.SaveCursor(ctx, "walk", want); err != nil {
				t.Fatal(err)
			}
		} else if err := s.SaveCursor(ctx, "other", "x"); err != nil {
			t.Fatal(err)
		}
		if got := must[string](t)(s.LoadCursor(ctx, "walk")); want != "" && got != want {
			t.Errorf("cursor %q, want %q", got, want)
		}
	}
}

func history(t *testing.T, s state.Store) {
	ctx := context.Background()
	for i := range int64(3) {
		r := state.RunRecord{Run: maintenance.Run{Table: table("t"), RunID: maintenance.NewRunID("u", i, i)}, StartedMS: 100 + i}
		for range 2 {
			if err := s.SaveRun(ctx, r); err != nil {
				t.Fatal(err)
			}
			if err := s.SaveDecision(ctx, state.Decision{Table: table("t"), AtMS: 100 + i, Action: "none"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	runs := must[[]state.RunRecord](t)(s.Runs(ctx, table("t"), 2))
	if len(runs) != 2 || runs[0].StartedMS != 102 || runs[1].StartedMS != 101 {
		t.Errorf("runs %+v", runs)
	}
	decisions := must[[]state.Decision](t)(s.Decisions(ctx, table("t"), 0))
	if len(decisions) != 3 || decisions[0].AtMS != 102 {
		t.Errorf("decisions %+v", decisions)
	}
	if _, found, err := s.FindRun(ctx, runs[0].Run.RunID); err != nil || !found {
		t.Errorf("find run: %v, %v", found, err)
	}
	if _, found, err := s.FindRun(ctx, "none"); err != nil || found {
		t.Errorf("find unknown run: %v, %v", found, err)
	}
}

func drop(t *testing.T, s state.Store) {
	ctx := context.Background()
	l := must[state.Lease](t)(s.Acquire(ctx, table("t"), start, time.Minute, fill))
	must[bool](t)(s.Release(ctx, table("t"), l.Token))
	must[state.Shard](t)(s.SaveShard(ctx, table("t"), state.Shard{Number: 3}))
	must[state.Head](t)(s.SaveHead(ctx, state.Head{Table: table("t")}))
	for range 2 {
		if err := s.DropTable(ctx, table("t")); err != nil {
			t.Fatal(err)
		}
	}
	if got := must[[]state.Shard](t)(s.LoadShards(ctx, table("t"))); len(got) != 0 {
		t.Errorf("shards left: %v", got)
	}
	if tables, _, err := s.Tables(ctx, "", 0); err != nil || len(tables) != 0 {
		t.Errorf("tables left: %v, %v", tables, err)
	}
	if next := must[state.Lease](t)(s.Acquire(ctx, table("t"), start, time.Minute, fill)); next.Token <= l.Token {
		t.Errorf("token %d repeats", next.Token)
	}
}
