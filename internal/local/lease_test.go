package local

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"firn/internal/maintenance"
	"firn/internal/state"
)

// TestLeaseIsNeverSeenWithoutItsLock: as soon as another process can see the lease, the run's lock is taken; it does not take the run for a dead one,
// in whatever moment it looks.
func TestLeaseIsNeverSeenWithoutItsLock(t *testing.T) {
	t.Parallel()
	ctx, st, dir := context.Background(), state.New(state.NewMemory()), t.TempDir()
	id := maintenance.TableID{Catalog: "c", Namespace: maintenance.NewNamespace("db"), Name: "t"}
	process := func() *Runner {
		return &Runner{LockDir: dir, Now: time.Now, Log: slog.New(slog.DiscardHandler)} // without functions: it can close nothing
	}
	fill := func(name string) func(int64) (maintenance.RunID, []byte) {
		return func(token int64) (maintenance.RunID, []byte) {
			return maintenance.NewRunID(name, 1, token), []byte("{}")
		}
	}
	first := process()
	lease, lock, err := first.acquire(ctx, st, id, fill("first"))
	if err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if _, _, err := process().acquire(ctx, st, id, fill("second")); !errors.As(err, &busy) || busy.RunID != lease.RunID {
		t.Errorf("error %v: want busy with run %s", err, lease.RunID)
	}
	// The run ends between the other's look at the lease and its try of the lock: there is nothing to close.
	if _, err := st.Release(ctx, id, lease.Token); err != nil {
		t.Fatal(err)
	}
	first.unlock(lock)
	if err := process().closeHolder(ctx, st, id); err != nil {
		t.Error(err)
	}
	if _, lock, err = process().acquire(ctx, st, id, fill("third")); err != nil {
		t.Fatal(err)
	}
	first.unlock(lock)
}

// TestFreeLockProvesNothingOfOtherMachines: with a state that others share, a run without a lock here is left alone until its lease runs out.
func TestFreeLockProvesNothingOfOtherMachines(t *testing.T) {
	t.Parallel()
	ctx, st := context.Background(), state.New(state.NewMemory())
	id := maintenance.TableID{Catalog: "c", Namespace: maintenance.NewNamespace("db"), Name: "t"}
	now := time.Now()
	there, err := st.Acquire(ctx, id, now, time.Hour, func(token int64) (maintenance.RunID, []byte) {
		return maintenance.NewRunID("there", 1, token), []byte("{}")
	})
	if err != nil {
		t.Fatal(err)
	}
	here := &Runner{LockDir: t.TempDir(), SharedState: true, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	fill := func(token int64) (maintenance.RunID, []byte) {
		return maintenance.NewRunID("here", 1, token), []byte("{}")
	}
	var busy *BusyError
	if _, _, err := here.acquire(ctx, st, id, fill); !errors.As(err, &busy) || busy.RunID != there.RunID {
		t.Fatalf("error %v: want busy with run %s", err, there.RunID)
	}
	if lease, held, err := st.Current(ctx, id); err != nil || !held || lease.Token != there.Token {
		t.Errorf("lease %+v, held %t, %v: want the other's", lease, held, err)
	}
	now = now.Add(2 * time.Hour)
	_, lock, err := here.acquire(ctx, st, id, fill)
	if err != nil {
		t.Fatal(err)
	}
	here.unlock(lock)
}
