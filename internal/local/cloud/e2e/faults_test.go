//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs/catalogtest"
	"firn/internal/local/cloud"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/store/storetest"
	"firn/internal/workflow"
)

// TestRefusedAndLostGroups: of 20 groups one cannot be read and the worker of another is killed each time. With partial progress the 18 others land, without
// it nothing does; rows stay the same.
func TestRefusedAndLostGroups(t *testing.T) {
	t.Run("partial progress", func(t *testing.T) { partialProgress(t, document(t)) })
	t.Run("all or nothing", func(t *testing.T) { allOrNothing(t, document(t)) })
}

func partialProgress(t testing.TB, doc map[string]any) { refusedAndLostGroups(t, doc, true) }

func allOrNothing(t testing.TB, doc map[string]any) { refusedAndLostGroups(t, doc, false) }

func refusedAndLostGroups(t testing.TB, doc map[string]any, partial bool) {
	doc = clone(t, doc)
	oneWorkerAtOnce(doc)
	d := deploy(t, doc)
	tbl := d.table("t", icebergtest.Property("firn.rewrite_data_files.partial-progress.enabled", fmt.Sprint(partial)),
		icebergtest.Property("firn.rewrite_data_files.partial-progress.max-commits", "10"),
		icebergtest.Property("firn.rewrite_data_files.max-file-group-input-files", "10"))
	tbl.fill(9, 20)
	var rows []icebergtest.Row
	for p := range 20 {
		rows = append(rows, icebergtest.Row{int64(1000 + p), fmt.Sprintf("g%02d", p), 0.5})
	}
	last := tbl.commit(icebergtest.Append(rows...))
	want := tbl.content()
	ctx, broken, deadly := context.Background(), last.DataFiles[4], last.DataFiles[11]
	good, err := d.world.Store.Get(ctx, broken)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.world.Store.Put(ctx, broken, []byte("PAR1 this is no Parquet file PAR1"), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(deadly, "s3://"), "/")
	kills := 0
	d.faults.set(func(f *faults) {
		f.disturb = func(_ http.ResponseWriter, r *http.Request, call cloud.Call) bool {
			if call.Action == "s3:GetObject" && strings.Contains(call.Role, "Compact") && strings.HasSuffix(r.URL.Path, key) {
				kills += d.Kill("compact")
				return false
			}
			return false
		}
	})
	d.TableChanged("db", "t")
	d.settle()
	if kills < 3 {
		t.Errorf("%d workers were killed, want the first and its retries", kills)
	}
	if err := d.world.Store.Put(ctx, broken, good, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	tbl.unchanged(want)
	files := map[bool]int{true: 18 + 20, false: 200}[partial]
	if n := tbl.dataFiles(); n != files {
		t.Errorf("%d data files, want %d", n, files)
	}
	runs := d.ended()
	outcome := map[bool]maintenance.Outcome{true: maintenance.Committed}[partial]
	if len(runs) != 1 || partial && runs[0].Outcome != outcome || !partial && runs[0].Outcome == maintenance.Committed {
		t.Errorf("outcomes %+v", runs)
	}
	d.clean()
}

// oneWorkerAtOnce lets a test kill one worker: nobody else is at work then.
func oneWorkerAtOnce(doc map[string]any) {
	for _, r := range doc["Resources"].(map[string]any) {
		if r := r.(map[string]any); r["Type"] == "AWS::StepFunctions::StateMachine" {
			r["Properties"].(map[string]any)["DefinitionSubstitutions"].(map[string]any)["CompactConcurrency"] = "1"
		}
	}
}

// TestStopInMidRun: an operator stops a run while groups are rewritten. Its end comes back as an event, the lease is free, and the next look starts anew.
func TestStopInMidRun(t *testing.T) { stopInMidRun(t, document(t)) }

func stopInMidRun(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	tbl := d.table("t")
	tbl.fill(12, 3)
	want := tbl.content()
	var once sync.Once
	d.faults.set(func(f *faults) {
		f.observe = func(e workflow.Event) {
			if e.State == "CompactGroup" && e.Type == "TaskStateEntered" {
				once.Do(func() { go func() { _ = d.Stop(context.Background()) }() })
			}
		}
	})
	d.TableChanged("db", "t")
	d.settle()
	statuses := map[workflow.Status]int{}
	for _, e := range d.Executions() {
		statuses[e.Status]++
	}
	if statuses[workflow.Aborted] != 1 {
		t.Errorf("executions %v: want one that was stopped", statuses)
	}
	d.later(tbl)
	d.later(tbl)
	if n := tbl.dataFiles(); n != 3 {
		t.Errorf("%d data files are left after the next run", n)
	}
	tbl.unchanged(want)
	if !d.logs.contain("run ended without report") {
		t.Error("nothing was logged for the alarm about runs without report")
	}
	d.clean()
}

// TestThrottling: each service says "not so fast" or fails now and then; the table is compacted all the same.
func TestThrottling(t *testing.T) { throttling(t, document(t)) }

func throttling(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	tbl := d.table("t")
	tbl.fill(10, 2)
	want := tbl.content()
	var mu sync.Mutex
	calls, disturbed := map[string]int{}, map[string]int{}
	d.faults.set(func(f *faults) {
		f.disturb = func(w http.ResponseWriter, r *http.Request, call cloud.Call) bool {
			if call.Role == cloud.Operator || call.Action == "glue:UpdateTable" {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			calls[call.Action]++
			if calls[call.Action]%4 != 1 { // the first, and every fourth
				return false
			}
			disturbed[call.Action]++
			switch service, _, _ := strings.Cut(call.Action, ":"); service {
			case "s3":
				storetest.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
			case "dynamodb":
				refuse(w, "ProvisionedThroughputExceededException")
			default:
				refuse(w, "ThrottlingException")
			}
			return true
		}
	})
	d.TableChanged("db", "t")
	d.settle()
	for range 5 {
		d.later(tbl)
	}
	tbl.unchanged(want)
	if n := tbl.dataFiles(); n != 2 {
		t.Errorf("%d data files are left", n)
	}
	for _, action := range []string{"s3:GetObject", "s3:PutObject", "dynamodb:PutItem", "dynamodb:GetItem", "glue:GetTable", "states:StartExecution", "events:PutEvents"} {
		if disturbed[action] == 0 {
			t.Errorf("no call of %s was throttled: %v", action, calls)
		}
	}
	d.clean()
}

func refuse(w http.ResponseWriter, kind string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amzn-Errortype", kind)
	w.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(w, `{"__type":%q,"message":"slow down"}`, kind)
}

// TestEveryRetry: each state of the machine meets each error that may pass, once, and the run ends as if nothing had been.
func TestEveryRetry(t *testing.T) { everyRetry(t, document(t)) }

func everyRetry(t testing.TB, doc map[string]any) {
	passing := []string{
		"Lambda.TooManyRequestsException", "Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException", "Lambda.ClientExecutionTimeoutException",
		"Firn.Transient", "Sandbox.Timedout", "Runtime.ExitError",
	}
	d, tbl, _ := decayed(t, doc)
	want := tbl.content()
	var mu sync.Mutex
	met := map[string]int{}
	d.faults.set(func(f *faults) {
		f.invoking = func(call workflow.Invocation) *workflow.TaskError {
			mu.Lock()
			defer mu.Unlock()
			n := met[call.State]
			if call.Attempt != n || n >= len(passing) {
				return nil
			}
			met[call.State]++
			return &workflow.TaskError{Name: passing[n], Cause: "made for the test"}
		}
	})
	d.TableChanged("db", "t")
	d.later(tbl)
	for _, state := range []string{"Plan", "CompactGroup", "Commit", "SweepListRange", "SweepReach", "SweepDeleteRange", "SweepAbandon", "Report"} {
		if met[state] != len(passing) {
			t.Errorf("state %s met %d of %d errors", state, met[state], len(passing))
		}
	}
	runs := d.ended()
	if len(runs) != 1 || runs[0].Outcome != maintenance.Committed {
		t.Errorf("outcomes %+v: want one committed run", runs)
	}
	for _, e := range d.Executions() {
		if e.Status != workflow.Succeeded {
			t.Errorf("execution %s ended %s: %s %s", e.Name, e.Status, e.Error, e.Cause)
		}
	}
	tbl.unchanged(want)
	d.clean()
}

// TestStaleVersion: another writer commits between our read of the pointer and our swap. Glue refuses ours, and the next attempt has both.
func TestStaleVersion(t *testing.T) { staleVersion(t, document(t)) }

func staleVersion(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	tbl := d.table("t")
	tbl.fill(10, 1)
	var once sync.Once
	d.faults.set(func(f *faults) {
		f.disturb = func(_ http.ResponseWriter, _ *http.Request, call cloud.Call) bool {
			if call.Action == "glue:UpdateTable" && call.Role != cloud.Operator {
				once.Do(func() { tbl.commit(icebergtest.Append(icebergtest.Row{int64(900), "g00", 1.5})) })
			}
			return false
		}
	})
	d.TableChanged("db", "t")
	d.settle()
	d.later(tbl)
	content := tbl.content()
	if len(content.Rows) != 11 || tbl.dataFiles() != 2 {
		t.Errorf("%d rows in %d files, want 11 in ours and theirs", len(content.Rows), tbl.dataFiles())
	}
	if n := len(d.glue.Requests("UpdateTable")); n < 13 {
		t.Errorf("%d requests of UpdateTable: ours was not refused", n)
	}
	d.clean()
}

// TestLostAnswer: Glue commits and answers with an error. The run finds its own commit, and neither repeats it nor deletes its files.
func TestLostAnswer(t *testing.T) { lostAnswer(t, document(t)) }

func lostAnswer(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	tbl := d.table("t")
	tbl.fill(10, 1)
	want := tbl.content()
	d.glue.Arm(catalogtest.ErrorAfter)
	d.TableChanged("db", "t")
	d.settle()
	d.later(tbl)
	tbl.unchanged(want)
	runs := d.ended()
	if tbl.dataFiles() != 1 || len(runs) != 1 || runs[0].Outcome != maintenance.Committed {
		t.Errorf("%d data files, outcomes %+v", tbl.dataFiles(), runs)
	}
	if n := len(tbl.State().Metadata.Snapshots()); n != 11 {
		t.Errorf("%d snapshots, want the writer's ten and ours", n)
	}
	d.clean()
}

// TestFailedMessages: while Glue is down, messages are delivered as often as the queue says, then wait among the dead letters; beside them a good message is
// handled once. A redrive brings them back.
func TestFailedMessages(t *testing.T) { failedMessages(t, document(t)) }

func failedMessages(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	bad, good := d.table("bad"), d.table("good")
	bad.fill(10, 1)
	good.fill(10, 1)
	down := func(w http.ResponseWriter, _ *http.Request, call cloud.Call) bool {
		if call.Action == "glue:GetTable" && strings.HasSuffix(call.Resource, "/bad") {
			refuse(w, "InternalServiceException")
			return true
		}
		return false
	}
	d.faults.set(func(f *faults) { f.disturb = down })
	d.TableChanged("db", "bad")
	d.TableChanged("db", "good")
	d.settle()
	if good.dataFiles() != 1 {
		t.Error("a message that failed kept another one of its batch from being handled")
	}
	if messages := d.Messages("Commits"); !slices.ContainsFunc(messages, func(m cloud.Message) bool { return strings.Contains(m.Body, `"bad"`) }) {
		t.Errorf("the failed message is not on the queue any more: %+v", messages)
	}
	for range 4 {
		if n := len(d.Messages("DeadLetters")); n != 0 {
			t.Fatalf("%d dead letters too early", n)
		}
		d.later(bad)
	}
	if n := len(d.Messages("DeadLetters")); n != 1 {
		t.Fatalf("%d dead letters after five deliveries, want 1", n)
	}
	d.faults.set(func(f *faults) { f.disturb = nil })
	if d.Redrive("Commits") != 1 {
		t.Error("nothing was moved back")
	}
	d.later(bad)
	if bad.dataFiles() != 1 {
		t.Errorf("%d data files are left after the redrive", bad.dataFiles())
	}
	d.clean()
}
