package report_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/report"
	"firn/internal/state"
	"firn/internal/store"
	"firn/internal/telemetry"
)

const workLocation = "mem://work/firn"

type world struct {
	fn *report.Function
	// function is one with another state.
	function func(state.Store) *report.Function
	work     *handoff.Work
	state    state.Store
	run      maintenance.Run
	told     []maintenance.TableID
	// events are the details of outcome events by detail type; offline is the error of the bus.
	events  map[string][]string
	offline error
}

// Publish implements report.Publisher.
func (w *world) Publish(_ context.Context, kind string, detail []byte) error {
	if w.offline == nil {
		w.events[kind] = append(w.events[kind], string(detail))
	}
	return w.offline
}

func (w *world) Notify(_ context.Context, table maintenance.TableID) error {
	w.told = append(w.told, table)
	return nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	now := func() time.Time { return time.UnixMilli(1_700_000_000_000) }
	st := store.NewMemory(now)
	w := &world{state: state.New(state.NewMemory()), events: map[string][]string{}}
	table := maintenance.TableID{Namespace: "db", Name: "t"}
	lease, err := w.state.Acquire(context.Background(), table, now(), time.Hour, func(token int64) (maintenance.RunID, []byte) {
		w.run = maintenance.Run{RunID: maintenance.NewRunID("u", 1, token), Table: table, TableUUID: "u", Token: token}
		return w.run.RunID, []byte("{}")
	})
	if err != nil || lease.RunID != w.run.RunID {
		t.Fatal(err)
	}
	w.work = handoff.Open(st, workLocation, w.run.RunID)
	w.function = func(s state.Store) *report.Function {
		return report.New(report.Deps{
			Work: st, WorkLocation: workLocation, State: s, Metrics: telemetry.Discard{}, Notifier: w, Events: w, Now: now, Log: slog.New(slog.DiscardHandler),
		})
	}
	w.fn = w.function(w.state)
	return w
}

func (w *world) write(t *testing.T, location string, v any) {
	t.Helper()
	if _, err := w.work.WriteOnce(context.Background(), location, v); err != nil {
		t.Fatal(err)
	}
}

func (w *world) handle(t *testing.T, failure *maintenance.StepError) maintenance.ReportOutput {
	t.Helper()
	out, err := w.fn.Handle(context.Background(), maintenance.ReportInput{V: contract.PayloadVersion, Run: w.run, Error: failure})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *world) rewriteIndex(batches int, partial bool, maxFailed int) *handoff.Index {
	return &handoff.Index{
		V: contract.PayloadVersion, Run: w.run, Job: maintenance.RewriteDataFiles, Batches: make([]handoff.Batch, batches), PartialProgress: partial,
		MaxFailedCommits: maxFailed, PlannedAtMS: 5,
	}
}

func commitResult(outcome maintenance.Outcome, snapshot, files int64) *handoff.CommitResult {
	return &handoff.CommitResult{
		V: contract.PayloadVersion, Outcome: outcome, SnapshotID: snapshot, Reason: "because",
		Columns: map[string]int64{"rewritten_data_files_count": files},
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	job := maintenance.RewriteDataFiles
	tests := map[string]struct {
		prepare func(*testing.T, *world)
		failure *maintenance.StepError
		want    maintenance.Outcome
		columns int64
	}{
		"nothing was planned": {func(*testing.T, *world) {}, nil, maintenance.NothingToDo, 0},
		"two batches landed": {func(t *testing.T, w *world) {
			w.write(t, w.work.Index(job), w.rewriteIndex(2, true, 2))
			w.write(t, w.work.Commit(job, 0), commitResult(maintenance.Committed, 7, 3))
			w.write(t, w.work.Commit(job, 1), commitResult(maintenance.Committed, 8, 4))
		}, nil, maintenance.Committed, 7},
		"one of two landed, tolerated": {func(t *testing.T, w *world) {
			w.write(t, w.work.Index(job), w.rewriteIndex(2, true, 1))
			w.write(t, w.work.Commit(job, 0), commitResult(maintenance.Committed, 7, 3))
			w.write(t, w.work.Commit(job, 1), commitResult(maintenance.Conflict, 0, 0))
		}, nil, maintenance.Committed, 3},
		"one of two landed, not tolerated": {func(t *testing.T, w *world) {
			w.write(t, w.work.Index(job), w.rewriteIndex(2, true, 0))
			w.write(t, w.work.Commit(job, 0), commitResult(maintenance.Committed, 7, 3))
			w.write(t, w.work.Commit(job, 1), commitResult(maintenance.Conflict, 0, 0))
		}, nil, maintenance.Failed, 3},
		"the only batch conflicted": {func(t *testing.T, w *world) {
			w.write(t, w.work.Index(job), w.rewriteIndex(1, false, 0))
			w.write(t, w.work.Commit(job, 0), commitResult(maintenance.Conflict, 0, 0))
		}, nil, maintenance.Conflict, 0},
		"died before the commit": {func(t *testing.T, w *world) {
			w.write(t, w.work.Index(job), w.rewriteIndex(1, false, 0))
		}, &maintenance.StepError{Error: "States.Timeout"}, maintenance.Failed, 0},
		"a call was announced and never settled": {func(t *testing.T, w *world) {
			w.write(t, w.work.Index(job), w.rewriteIndex(1, false, 0))
			w.write(t, w.work.Fate(job, 0, 0), &handoff.Fate{V: contract.PayloadVersion, SnapshotID: 9})
		}, &maintenance.StepError{Error: contract.ErrorCommitStateUnknown}, maintenance.Unknown, 0},
		"a settled call, then the end": {func(t *testing.T, w *world) {
			w.write(t, w.work.Index(job), w.rewriteIndex(1, false, 0))
			w.write(t, w.work.Fate(job, 0, 0), &handoff.Fate{V: contract.PayloadVersion, SnapshotID: 9})
			w.write(t, w.work.FateEnd(job, 0, 0), &handoff.FateEnd{V: contract.PayloadVersion, Outcome: maintenance.Conflict})
		}, nil, maintenance.Failed, 0},
		"refused by plan": {func(t *testing.T, w *world) {
			index := w.rewriteIndex(0, false, 0)
			index.Outcome = maintenance.Refused
			w.write(t, w.work.Index(job), index)
		}, nil, maintenance.Refused, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.prepare(t, w)
			first := w.handle(t, test.failure)
			if first.Outcome != test.want {
				t.Errorf("outcome %s (%s), want %s", first.Outcome, first.Reason, test.want)
			}
			if len(first.Jobs) > 0 && first.Jobs[0].Columns["rewritten_data_files_count"] != test.columns {
				t.Errorf("columns %v, want %d files", first.Jobs[0].Columns, test.columns)
			}
			if diff := cmp.Diff(first, w.handle(t, test.failure)); diff != "" {
				t.Errorf("second call differs:\n%s", diff)
			}
			if _, held, err := w.state.Current(context.Background(), w.run.Table); err != nil || held {
				t.Errorf("lease held: %v, %v", held, err)
			}
			runs, err := w.state.Runs(context.Background(), w.run.Table, 0)
			if err != nil || len(runs) != 1 {
				t.Errorf("history has %d runs, %v: want one", len(runs), err)
			}
		})
	}
}

func TestRefusedFilesAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	index := w.rewriteIndex(1, false, 0)
	index.Detail = []byte(`{"groups":1,"refused_files":1,"refusals":[{"Path":"s3://b/f.orc","Reason":"format ORC"}]}`)
	w.write(t, w.work.Index(maintenance.RewriteDataFiles), index)
	w.write(t, w.work.Commit(maintenance.RewriteDataFiles, 0), commitResult(maintenance.Committed, 7, 3))
	job := w.handle(t, nil).Jobs[0]
	if job.Outcome != maintenance.Committed || !slices.Equal(job.Refusals, []string{"left alone s3://b/f.orc: format ORC"}) {
		t.Errorf("outcome %s with notes %q: want committed, and the file that was left alone", job.Outcome, job.Refusals)
	}
}

func TestPendingTableGoesBackOnTheQueueOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if marked, err := w.state.MarkPending(context.Background(), w.run.Table); err != nil || !marked {
		t.Fatal(marked, err)
	}
	w.handle(t, nil)
	w.handle(t, nil)
	if len(w.told) != 1 || w.told[0] != w.run.Table {
		t.Errorf("told %v, want the table once", w.told)
	}
}

// TestContention: what other writers cost a rewrite is summed up over its batches, and left out when there were none.
func TestContention(t *testing.T) {
	t.Parallel()
	w, quiet := newWorld(t), newWorld(t)
	one := commitResult(maintenance.Committed, 7, 3)
	one.Attempts, one.Rebased = 3, &handoff.Rebased{Groups: 2, DeleteFiles: 4, Positions: 9}
	one.Dropped = []handoff.DroppedGroup{{Outcome: maintenance.Conflict}, {Outcome: maintenance.Refused}}
	two := commitResult(maintenance.Conflict, 0, 0)
	two.Attempts, two.Dropped = 1, []handoff.DroppedGroup{{Outcome: maintenance.Conflict}}
	w.write(t, w.work.Index(maintenance.RewriteDataFiles), w.rewriteIndex(2, true, 1))
	w.write(t, w.work.Commit(maintenance.RewriteDataFiles, 0), one)
	w.write(t, w.work.Commit(maintenance.RewriteDataFiles, 1), two)
	want := maintenance.Contention{Attempts: 4, Commits: 1, RebasedGroups: 2, RebasedRows: 9, ConflictGroups: 2}
	if got := w.handle(t, nil).Jobs[0].Contention; got == nil || *got != want {
		t.Errorf("%+v: want %+v", got, want)
	}
	alone := commitResult(maintenance.Committed, 7, 3)
	alone.Attempts = 1
	quiet.write(t, quiet.work.Index(maintenance.RewriteDataFiles), quiet.rewriteIndex(1, false, 0))
	quiet.write(t, quiet.work.Commit(maintenance.RewriteDataFiles, 0), alone)
	if got := quiet.handle(t, nil).Jobs[0].Contention; got != nil {
		t.Errorf("%+v: want none", got)
	}
}

// TestOutcomeEvents: subscribers are told each run once, again when report is repeated, and a bus that is down ends nothing but this call: history is
// kept and the lease is free.
func TestOutcomeEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.offline = errors.New("bus is down")
	in := maintenance.ReportInput{V: contract.PayloadVersion, Run: w.run, Request: maintenance.Request{Automatic: true, Trigger: "event"}}
	if _, err := w.fn.Handle(context.Background(), in); !errors.Is(err, w.offline) {
		t.Fatalf("error %v: want the bus's, so that the state is repeated", err)
	}
	if _, found, err := w.state.FindRun(context.Background(), w.run.RunID); err != nil || !found {
		t.Errorf("history is not kept: %v", err)
	}
	if _, held, err := w.state.Current(context.Background(), w.run.Table); err != nil || held {
		t.Errorf("the lease is held: %v", err)
	}
	w.offline = nil
	for range 2 {
		if _, err := w.fn.Handle(context.Background(), in); err != nil {
			t.Fatal(err)
		}
	}
	told := w.events[contract.EventRunEnded]
	if len(w.events) != 1 || len(told) != 2 || told[0] != told[1] || !strings.Contains(told[0], string(w.run.RunID)) ||
		!strings.Contains(told[0], `"outcome":"nothing_to_do"`) {
		t.Errorf("events %v", w.events)
	}
}

// A plan of any size leaves an outcome that fits a state's data and an item of the history: only a dry run's travels, and only when it is short.
func TestPlanTravelsWhenShort(t *testing.T) {
	t.Parallel()
	short, long := json.RawMessage(`{"expired":[1]}`), json.RawMessage(`{"expired":["`+strings.Repeat("x", 500_000)+`"]}`)
	for name, c := range map[string]struct {
		detail json.RawMessage
		dry    bool
		plan   json.RawMessage
		named  bool
	}{
		"short": {short, true, short, false}, "long": {long, true, nil, true}, "no dry run": {long, false, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			location := w.work.Index(maintenance.ExpireSnapshots)
			w.write(t, location, &handoff.Index{
				V: contract.PayloadVersion, Job: maintenance.ExpireSnapshots, DryRun: c.dry, Outcome: maintenance.NothingToDo, Detail: c.detail,
			})
			got := w.handle(t, nil).Jobs[0]
			if string(got.Plan) != string(c.plan) || c.named != (got.PlanLocation == location) {
				t.Errorf("plan of %d bytes at %q, want %d bytes, named %t", len(got.Plan), got.PlanLocation, len(c.plan), c.named)
			}
		})
	}
}
