package lake

import (
	"testing"

	"firn/internal/lake/peek"
	"firn/internal/store"
)

type keeping struct{ store.Reader }

func (keeping) Kept(_, _ string, _ int, decode func() (any, error)) (any, error) { return decode() }

// TestReadAheadKeepsWhatItsStoreKeeps: what a peek.Keeper decodes, it decodes whole, with all statistics.
func TestReadAheadKeepsWhatItsStoreKeeps(t *testing.T) {
	t.Parallel()
	memory := store.NewMemory(nil)
	for _, c := range []struct {
		st   store.Reader
		want bool
	}{{memory, false}, {keeping{memory}, true}} {
		ahead := newReadAhead(t.Context(), c.st, nil)
		defer ahead.stop()
		if got := peek.Keeps(ahead.at(0), 1000); got != c.want {
			t.Errorf("%T: kept %v", c.st, got)
		}
	}
}
