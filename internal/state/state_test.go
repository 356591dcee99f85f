package state_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/state/statetest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	statetest.Run(t, func(*testing.T) state.Store { return state.New(state.NewMemory()) })
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	statetest.Run(t, func(t *testing.T) state.Store {
		items, err := state.OpenSQLite(context.Background(), filepath.Join(t.TempDir(), "state ?#.db"))
		if err != nil {
			t.Fatal(err)
		}
		s := state.New(items)
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}

// meeting changes the lease once between a read of it and the write that follows.
type meeting struct {
	state.Items
	before func()
}

func (m *meeting) Put(ctx context.Context, item state.Item) error {
	if before := m.before; before != nil {
		m.before = nil
		before()
	}
	return m.Items.Put(ctx, item)
}

// TestPendingBesideOthers: a look that meets a held lease marks it, whoever else changes it at the same time; one that was freed meanwhile is not marked.
func TestPendingBesideOthers(t *testing.T) {
	t.Parallel()
	table, now := maintenance.TableID{Namespace: "db", Name: "t"}, time.UnixMilli(1_800_000_000_000)
	for name, c := range map[string]struct {
		other func(ctx context.Context, s state.Store, token int64) error
		held  bool
	}{
		"another look": {func(ctx context.Context, s state.Store, _ int64) error {
			_, err := s.MarkPending(ctx, table)
			return err
		}, true},
		"the run renews": {func(ctx context.Context, s state.Store, token int64) error {
			return s.Renew(ctx, table, token, now, time.Hour)
		}, true},
		"the run ends": {func(ctx context.Context, s state.Store, token int64) error {
			_, err := s.Release(ctx, table, token)
			return err
		}, false},
	} {
		items := &meeting{Items: state.NewMemory()}
		s := state.New(items)
		lease, err := s.Acquire(t.Context(), table, now, time.Hour, func(int64) (maintenance.RunID, []byte) { return "r", []byte("{}") })
		if err != nil {
			t.Fatal(name, err)
		}
		items.before = func() {
			if err := c.other(t.Context(), s, lease.Token); err != nil {
				t.Error(name, err)
			}
		}
		marked, err := s.MarkPending(t.Context(), table)
		if err != nil || marked != c.held {
			t.Errorf("%s: marked %t, %v", name, marked, err)
		}
		if now, held, err := s.Current(t.Context(), table); err != nil || held != c.held || now.Pending != c.held {
			t.Errorf("%s: lease %+v, held %t, %v", name, now, held, err)
		}
	}
}
