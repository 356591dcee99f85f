package inspect_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"firn/internal/decide/replay"
	"firn/internal/icebergtest"
	"firn/internal/local/inspect"
	"firn/internal/policy"
)

var update = flag.Bool("update", false, "write golden files anew")

// referenceReplays is the page of what the default policy would have done on all reference tables.
const referenceReplays = "../../../docs/replay-reference-tables.md"

// TestReferenceTablesReplay plays the default policy over the history of every reference table, and keeps the page of it true.
func TestReferenceTablesReplay(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.WriteString("# Replay of the reference tables\n\n" +
		"Made by `go test ./internal/local/inspect -update`; do not edit by hand. The default policy, as if its mode were `maintain`, over the whole history of each\n" +
		"table of `testdata/reference`, which other engines wrote, until 2026-12-01. [explain-and-replay.md](explain-and-replay.md) shows whole outputs.\n\n" +
		"| Table | Due at the end | Commits | Rewrites that were | Runs | Files rewritten | Bytes rewritten | Files a query at the end, as it was | with the policy |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		tbl := ref.Table(t)
		now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
		v, err := inspect.Look(context.Background(), ref.Store, tbl, now)
		if err != nil {
			t.Fatal(err)
		}
		p, err := policy.Document{}.Effective(tbl.ID, tbl.Metadata.Properties(), nil)
		if err != nil {
			t.Fatal(err)
		}
		health, err := v.Health(context.Background(), p, inspect.History{})
		if err != nil {
			t.Fatal(err)
		}
		h, err := v.Since(context.Background(), now.AddDate(-1, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		r, err := replay.Play(h, p, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		end := r.OverTime[len(r.OverTime)-1]
		if was := end.AsItWas; was.DataFiles != health.DataFiles.DataFiles || was.Rows != health.DataFiles.Records ||
			was.DeleteFiles != health.DeleteFiles.Position+health.DeleteFiles.Equality+health.DeleteFiles.Vectors {
			t.Errorf("%s: the history ends with %+v, the table has %+v and %+v", name, was, health.DataFiles, health.DeleteFiles)
		}
		fmt.Fprintf(&page, "| `%s` | %s | %d | %d | %d | %d | %d | %.1f | %.1f |\n", name, strings.Join(health.Automatic(), ", "), r.Commits, r.Rewrites, r.Proposed.Runs,
			r.Proposed.RewrittenFiles, r.Proposed.RewrittenBytes, end.AsItWas.PerQuery, end.Proposed.PerQuery)
	}
	if *update {
		if err := os.WriteFile(referenceReplays, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(referenceReplays)
	if err != nil || string(want) != page.String() {
		t.Errorf("%s is out of date (%v): run go test ./internal/local/inspect -update", referenceReplays, err)
	}
}
