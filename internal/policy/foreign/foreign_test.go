package foreign_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/policy/foreign"
)

// TestImports reads answers of Glue and Polaris; what comes out is a policy, and every value of it says where it came from.
func TestImports(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/imports.txt", func(t *testing.T, d *datadriven.TestData) string {
		match := ""
		d.MaybeScanArgs(t, "match", &match)
		layers, err := foreign.Import([]byte(d.Input), match)
		if err != nil {
			if !errors.Is(err, foreign.ErrForeign) {
				t.Errorf("%s: error %v has not its class", d.Pos, err)
			}
			return "refused: " + err.Error() + "\n"
		}
		text := foreign.Document(layers)
		_, inner, _ := strings.Cut(text, "policy:\n")
		document, err := policy.ParseYAML([]byte(dedent(inner)))
		if err != nil {
			t.Fatalf("%s: our own parser refuses what was imported: %v\n%s", d.Pos, err, text)
		}
		p, err := document.Effective(maintenance.TableID{Catalog: "lake", Namespace: "sales", Name: "orders"}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range layers {
			for key := range l.Values {
				if s, _ := p.Setting(key); !strings.Contains(s.Source, ", from ") {
					t.Errorf("%s: %s has source %q", d.Pos, key, s.Source)
				}
			}
		}
		return text
	})
}

func dedent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}

// FuzzImport: whatever comes in, an error has its class and a document is one that our parser takes.
func FuzzImport(f *testing.F) {
	f.Add([]byte(`{"DatabaseName":"sales","TableName":"orders","TableOptimizer":{"type":"compaction","configuration":{"enabled":true}}}`), "")
	f.Add([]byte(`{"policies":[{"name":"p","type":"system.snapshot-expiry","content":{"enable":true,"config":{"max_snapshot_age_days":2}}}]}`), "a.*")
	f.Add([]byte(`{"policy":{"name":"p","policy-type":"system.data-compaction","content":"{\"enable\":true,\"config\":{\"sort_order\":\"a\\nb: c\"}}"}}`), "a.\"*")
	f.Fuzz(func(t *testing.T, document []byte, match string) {
		layers, err := foreign.Import(document, match)
		if err != nil {
			if !errors.Is(err, foreign.ErrForeign) {
				t.Fatal(err)
			}
			return
		}
		if !json.Valid(document) {
			t.Fatal("read what is no JSON")
		}
		_, inner, _ := strings.Cut(foreign.Document(layers), "policy:\n")
		if _, err := policy.ParseYAML([]byte(dedent(inner))); err != nil {
			t.Fatalf("%v\n%s", err, inner)
		}
	})
}
