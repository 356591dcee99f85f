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
