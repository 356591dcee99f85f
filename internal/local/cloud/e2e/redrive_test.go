//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"firn/internal/contract"
	"firn/internal/local/cloud"
	"firn/internal/maintenance"
	"firn/internal/workflow"
)

// TestRedrive: a run is stopped while groups are rewritten, a new version is deployed, and then the run is redriven before anybody has noticed its end. It goes on
// with the code and the definition that it began with, repeats no group that was done, and lands.
func TestRedrive(t *testing.T) { redrive(t, document(t)) }

func redrive(t testing.TB, doc map[string]any) {
	doc = clone(t, doc)
	oneWorkerAtOnce(doc)
	d, tbl, stopped := stoppedInMidRun(t, doc, true)
	want := tbl.content()
	compacted := d.Invocations(contract.FunctionCompact, 1)
	next, err := read(nextVersions(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Deploy(next); err != nil {
		t.Fatal(err)
	}
	if err := d.RedriveExecution(context.Background(), stopped.ARN); err != nil {
		t.Fatal(err)
	}
	d.settle()
	if n := d.Invocations(contract.FunctionCompact, 1) - compacted; n != 3 { // one of four was done
		t.Errorf("compact was called %d times after the redrive, want 3", n)
	}
	for _, verb := range []string{contract.FunctionPlan, contract.FunctionCompact, contract.FunctionCommit, contract.FunctionReport} {
		if d.Invocations(verb, 1) == 0 || d.Invocations(verb, 2) != 0 {
			t.Errorf("%s: version 1 was called %d times, version 2 %d times", verb, d.Invocations(verb, 1), d.Invocations(verb, 2))
		}
	}
	runs := d.ended()
	if len(runs) != 1 || runs[0].Outcome != maintenance.Committed || runs[0].RunID != stopped.Name {
		t.Errorf("outcomes %+v: want the redriven run's", runs)
	}
	if n := tbl.dataFiles(); n != 4 {
		t.Errorf("%d data files are left, want 4", n)
	}
	d.faults.set(func(f *faults) { f.disturb = nil })
	d.later(tbl) // the event of the stop arrives late: it must free nobody's lease and start nothing
	if n := len(d.Executions()); n != 1 {
		t.Errorf("%d executions, want 1", n)
	}
	tbl.unchanged(want)
	d.clean()
}

// TestRedriveTooLate: the end of a stopped run was noticed and its lease freed; then it is redriven. It commits nothing any more and says why, deletes
// what it wrote, and holds nothing.
func TestRedriveTooLate(t *testing.T) {
	d, tbl, stopped := stoppedInMidRun(t, document(t), false)
	want, before := tbl.content(), len(tbl.State().Metadata.Snapshots())
	if err := d.RedriveExecution(context.Background(), stopped.ARN); err != nil {
		t.Fatal(err)
	}
	d.settle()
	for _, e := range d.Executions() {
		if e.ARN == stopped.ARN && (e.Status != workflow.Failed || e.Error != contract.ErrorLeaseLost || e.RedriveCount != 1) {
			t.Errorf("the redriven run ended %s %s %s", e.Status, e.Error, e.Cause)
		}
	}
	tbl.unchanged(want)
	if n := len(tbl.State().Metadata.Snapshots()); n != before {
		t.Errorf("%d snapshots, %d before the redrive", n, before)
	}
	if _, held, err := d.state.Current(context.Background(), tbl.ID); err != nil || held {
		t.Errorf("the table is held after the redrive: %v %v", held, err)
	}
	d.later(tbl) // what the run did not do is still due: nothing that it reported may hide that
	tbl.unchanged(want)
	if runs := d.ended(); len(runs) != 2 || runs[1].Outcome != maintenance.Committed || tbl.dataFiles() != 4 {
		head, err := d.state.LoadHead(context.Background(), tbl.ID)
		t.Errorf("%d data files are left, outcomes %+v: want 4 by a second run; the last decision was %+v (%v)", tbl.dataFiles(), runs, head.Decision, err)
	}
	d.clean()
}

// stoppedInMidRun is a deployment with a table of four groups whose run was stopped by an operator when the second was called. With deaf set evaluate cannot
// take the event of that: it stays on the queue.
func stoppedInMidRun(t testing.TB, doc map[string]any, deaf bool) (*deployment, *lakeTable, workflow.Description) {
	t.Helper()
	d := deploy(t, doc)
	tbl := d.table("t")
	tbl.fill(12, 4)
	var mu sync.Mutex
	groups, over := 0, false
	d.faults.set(func(f *faults) {
		f.invoking = func(call workflow.Invocation) *workflow.TaskError {
			mu.Lock()
			defer mu.Unlock()
			if call.State != "CompactGroup" {
				return nil
			}
			if groups++; groups != 2 {
				return nil
			}
			over = true
			if err := d.Stop(context.Background()); err != nil {
				t.Error(err)
			}
			return &workflow.TaskError{Name: "Stopped"}
		}
		f.disturb = func(w http.ResponseWriter, _ *http.Request, call cloud.Call) bool {
			mu.Lock()
			defer mu.Unlock()
			if !deaf || !over || !strings.Contains(call.Role, "Evaluate") {
				return false
			}
			refuse(w, "AccessDeniedException")
			return true
		}
	})
	d.TableChanged("db", "t")
	d.settle()
	all := d.Executions()
	if len(all) != 1 || all[0].Status != workflow.Aborted {
		t.Fatalf("executions %+v: want one that was stopped", all)
	}
	return d, tbl, all[0]
}
