//go:build e2e

package e2e

import (
	"testing"

	"firn/internal/contract"
	"firn/internal/maintenance"
)

// TestCommitEvent: a commit in Glue, its event on the bus, a look, a run, and in the end fewer files with the same rows, and the outcome on the bus.
func TestCommitEvent(t *testing.T) { commitEvent(t, document(t)) }

func commitEvent(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	tbl := d.table("orders")
	tbl.fill(12, 2)
	want := tbl.content()
	d.TableChanged("db", "orders")
	d.settle()
	d.later(tbl) // our own commit's events: a look, and nothing to do
	tbl.unchanged(want)
	if n := tbl.dataFiles(); n != 2 {
		t.Errorf("%d data files are left, want 2", n)
	}
	ended := d.ended()
	if len(ended) != 1 || ended[0].Outcome != maintenance.Committed || ended[0].Table != "orders" {
		t.Fatalf("outcome events %+v: want one of a committed run", ended)
	}
	if got := ended[0].Jobs[0].Columns; got["rewritten_data_files_count"] != 24 || got["added_data_files_count"] != 2 {
		t.Errorf("columns %v", got)
	}
	for _, verb := range []string{contract.FunctionPlan, contract.FunctionCompact, contract.FunctionCommit, contract.FunctionReport} {
		if d.Invocations(verb, 1) == 0 || d.Invocations(verb, 0) != 0 {
			t.Errorf("%s: version 1 was called %d times, the unpublished one %d times", verb, d.Invocations(verb, 1), d.Invocations(verb, 0))
		}
	}
	d.clean()
}
