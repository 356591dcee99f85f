package state_test

import (
	"context"
	"path/filepath"
	"testing"

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
