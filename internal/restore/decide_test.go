package restore

import (
	"strings"
	"testing"
	"time"

	"firn/internal/handoff"
	"firn/internal/store"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	spans := Spans([]handoff.DeletionManifest{{WrittenAt: at.Add(48 * time.Hour)}, {WrittenAt: at}, {WrittenAt: at.Add(time.Minute)}})
	if len(spans) != 2 || !spans[0].From.Equal(at.Add(-skew)) || !spans[0].To.Equal(at.Add(time.Minute+deletingTime+skew)) {
		t.Fatalf("spans %v", spans)
	}
	marker := func(id string, after time.Duration) store.Version {
		return store.Version{ID: id, Marker: true, ModifiedAt: at.Add(after)}
	}
	data := store.Version{ID: "v1", SizeBytes: 1, ModifiedAt: at.Add(-time.Hour)}
	for _, c := range []struct {
		name     string
		versions []store.Version
		state    State
		markers  int
		says     string
	}{
		{"nothing is kept", nil, Gone, 0, "keeps nothing"},
		{"it stands", []store.Version{data}, Present, 0, ""},
		{"deleted by the run", []store.Version{marker("m", time.Second), data}, Restorable, 1, ""},
		{"deleted by the run with a clock that is late", []store.Version{marker("m", -skew), data}, Restorable, 1, ""},
		{"deleted by two attempts of the run, a day apart", []store.Version{marker("n", 48*time.Hour), marker("m", 0), data}, Restorable, 2, ""},
		{"deleted before the run", []store.Version{marker("m", -skew-time.Second), data}, Refused, 0, "2026-11-30T11:44:59Z"},
		{"deleted again later by somebody else", []store.Version{marker("n", 24*time.Hour), marker("m", 0), data}, Refused, 0, "2026-12-01T12:00:00Z"},
		{"deleted before and by the run", []store.Version{marker("n", 0), marker("m", -24*time.Hour), data}, Refused, 0, "not this run"},
		{"the data is gone", []store.Version{marker("m", 0)}, Gone, 0, "only the delete marker"},
		{"versioning is suspended", []store.Version{marker(store.NullVersion, 0), data}, Refused, 0, "suspended"},
	} {
		got := Decide(c.versions, spans)
		if got.State != c.state || len(got.Markers) != c.markers || !strings.Contains(got.Reason, c.says) || (got.Reason == "") != (c.says == "") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
