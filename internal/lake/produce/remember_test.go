package produce

import (
	"errors"
	"testing"

	"firn/internal/lake/peek"
	"firn/internal/store"
)

// What was decoded from a small manifest is kept: by its location and form, within the limit, and never an error.
func TestRememberKeepsWhatWasDecoded(t *testing.T) {
	t.Parallel()
	const bytes = 1000
	m := Remember(store.NewMemory(nil), 2*bytes*decodedFactor).(peek.Keeper)
	times := map[string]int{}
	ask := func(location, form string, err error) {
		t.Helper()
		got, gotErr := m.Kept(location, form, bytes, func() (any, error) {
			times[location+" "+form]++
			return location + form, err
		})
		if !errors.Is(gotErr, err) || got != location+form {
			t.Errorf("%s %s: %v, %v", location, form, got, gotErr)
		}
	}
	broken := errors.New("broken")
	ask("a.avro", "list", broken)
	ask("a.avro", "list", nil)
	ask("a.avro", "list", nil)
	ask("a.avro", "entries", nil)
	ask("a.avro", "entries", nil)
	ask("b.avro", "entries", nil) // beyond the limit
	ask("b.avro", "entries", nil)
	ask("v1.metadata.json", "table", nil) // each attempt reads another
	ask("v1.metadata.json", "table", nil)
	for what, want := range map[string]int{"a.avro list": 2, "a.avro entries": 1, "b.avro entries": 2, "v1.metadata.json table": 2} {
		if times[what] != want {
			t.Errorf("%s was decoded %d times, want %d", what, times[what], want)
		}
	}
}
