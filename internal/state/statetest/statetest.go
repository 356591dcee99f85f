// Package statetest is the conformance suite of state backends.
package statetest

import (
	"context"
	"errors"
	"fmt"
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
		"head_condition":                   headCondition,
		"head_names_table":                 headTables,
		"shards":                           shards,
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
	first := state.Shard{Number: 3, FoldedTo: 9, Partitions: []state.PartitionCounters{{SpecID: 1, Partition: "day=1", SmallFiles: 4}}}
	saved := must[state.Shard](t)(s.SaveShard(ctx, table("t"), first))
	must[state.Shard](t)(s.SaveShard(ctx, table("t"), state.Shard{Number: 12}))
	must[state.Shard](t)(s.SaveShard(ctx, table("t_2"), state.Shard{Number: 1}))
	if _, err := s.SaveShard(ctx, table("t"), first); !errors.Is(err, state.ErrConditionFailed) {
		t.Errorf("stale shard: %v", err)
	}
	got := must[[]state.Shard](t)(s.LoadShards(ctx, table("t")))
	if len(got) != 2 || !cmp.Equal(got[0], saved) {
		t.Errorf("shards %+v", got)
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
