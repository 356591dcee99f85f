package evaluate_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"firn/internal/contract"
	"firn/internal/icebergtest"
	"firn/internal/policy"
	"firn/internal/state"
	"firn/internal/telemetry"
)

// TestSignals: what alarms watch is told at each look at a table in mode maintain that owes something, and of no other.
func TestSignals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy  string
		commits int
		spent   int64
		month   string
		want    []string // debt and budget, a look each
	}{
		"in debt":              {"mode: maintain\nrewrite_data_files: {trigger: {small-files: 2}}", 5, 0, "", []string{"2.5 0"}},
		"nothing due":          {"mode: maintain\nrewrite_data_files: {trigger: {small-files: 20}}", 5, 0, "", nil},
		"observed":             {"mode: observe\nrewrite_data_files: {trigger: {small-files: 2}}", 5, 0, "", nil},
		"budget spent":         {"mode: maintain\nmax-dollars-per-month: 2\nrewrite_data_files: {trigger: {small-files: 2}}", 5, 2_000_000, "now", []string{"0 1"}},
		"another month's":      {"mode: maintain\nmax-dollars-per-month: 2\nrewrite_data_files: {trigger: {small-files: 20}}", 5, 2_000_000, "2001-01", nil},
		"within the budget":    {"mode: maintain\nmax-dollars-per-month: 2\nrewrite_data_files: {trigger: {small-files: 20}}", 5, 1_999_999, "now", nil},
		"a table without rows": {"mode: maintain", 0, 0, "", nil},
	} {
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t")
		for range c.commits {
			tbl.Commit(icebergtest.Append(ids(1)...))
		}
		l := newLooker(t, w, c.policy)
		document, err := policy.ParseYAML([]byte(c.policy))
		if err != nil {
			t.Fatal(err)
		}
		if c.month != "" {
			head, err := l.state.LoadHead(context.Background(), tbl.State().ID)
			if err != nil {
				t.Fatal(err)
			}
			head.Table, head.Spending = tbl.State().ID, state.Spending{Month: c.month, Micros: c.spent}
			if c.month == "now" {
				head.Spending.Month = w.Clock.Now().UTC().Format("2006-01")
			}
			if _, err := l.state.SaveHead(context.Background(), head); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		l.metrics = telemetry.NewEMF(&out, contract.FunctionEvaluate)
		l.over(l.items, document)
		if again := l.tell(t, "t"); len(again) > 0 {
			t.Errorf("%s: to deliver again: %v", name, again)
		}
		var got []string
		for lines := bufio.NewScanner(&out); lines.Scan(); {
			var line map[string]any
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			if line["function"] != "evaluate" || line["table"] != tbl.State().ID.String() {
				t.Errorf("%s: line %s", name, lines.Bytes())
			}
			got = append(got, fmt.Sprint(line[contract.MetricDebt], " ", line[contract.MetricOverBudget]))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
