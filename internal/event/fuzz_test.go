package event_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"firn/internal/event"
)

// FuzzDecode: whatever comes in, an error has its class, and a notice names one thing with harmless names that go round as our own event.
func FuzzDecode(f *testing.F) {
	for _, name := range sampleNames(f) {
		f.Add(read(f, name), "", "")
	}
	f.Add(read(f, "firn/committed.json"), event.DetailType, "e")
	f.Add([]byte(`{}`), "updateTable", "a\x1fb")
	f.Fuzz(func(t *testing.T, body []byte, kind, namespace string) {
		m := event.Message{Body: body}
		if kind != "" {
			m.Attributes = map[string]string{"ce_type": kind, "ce_namespace": namespace, "ce_name": "t", "ce_tabular-id": "u"}
		}
		notices, err := event.Rules{}.Decode(m)
		if err != nil {
			if !errors.Is(err, event.ErrRefused) || len(notices) != 0 {
				t.Fatalf("%d notices with error %v", len(notices), err)
			}
			return
		}
		for _, n := range notices {
			checkNotice(t, n)
		}
	})
}

func checkNotice(t *testing.T, n event.Notice) {
	t.Helper()
	if (n.Location == "") == (n.Table.Name == "") {
		t.Fatalf("%+v names a table and a location, or none", n)
	}
	if n.Location != "" {
		key, _ := strings.CutPrefix(n.Location, "s3://")
		if strings.Contains("/"+key+"/", "/../") || strings.ContainsFunc(key, unicode.IsControl) {
			t.Fatalf("location %q", n.Location)
		}
		return
	}
	for _, name := range append(n.Table.Namespace.Levels(), n.Table.Name) {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "'\"`;/\\\x00\n\x1f") {
			t.Fatalf("name %q", name)
		}
	}
	body, err := event.Encode(n)
	if err != nil {
		t.Fatal(err)
	}
	back, err := event.Decode(body)
	if err != nil || len(back) != 1 || !cmp.Equal(back[0].Table, n.Table) || back[0].SnapshotID != n.SnapshotID {
		t.Fatalf("%s: %+v, %v", body, back, err)
	}
}
