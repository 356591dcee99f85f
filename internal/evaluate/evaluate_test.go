package evaluate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"firn/internal/contract"
	"firn/internal/evaluate"
	"firn/internal/event"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/state"
	"firn/internal/store"
	"firn/internal/telemetry"
)

// started is an execution that the function asked for.
type started struct {
	name  string
	input string
}

// looker is the function over a world, with a state that can be made to fail.
type looker struct {
	fn      *evaluate.Function
	world   *icebergtest.World
	items   *failingItems
	state   state.Store
	started []started
	refused []string
	// startErr is what the next start answers.
	startErr error
	// metrics takes what alarms watch; nil for nobody. told is where a test has it written.
	metrics telemetry.Sink
	told    *bytes.Buffer
	// observeOnly keeps it from starting runs.
	observeOnly bool
}

func (l *looker) Start(_ context.Context, name string, input []byte) error {
	if l.startErr != nil {
		return l.startErr
	}
	l.started = append(l.started, started{name, string(input)})
	return nil
}

// failingItems fails the write after a number of writes: a crash at each of them in turn.
type failingItems struct {
	state.Items
	left int
}

var errCrash = errors.New("crash")

func (f *failingItems) Put(ctx context.Context, item state.Item) error {
	if f.left == 0 {
		return errCrash
	}
	f.left--
	return f.Items.Put(ctx, item)
}

func newLooker(t *testing.T, w *icebergtest.World, policyText string) *looker {
	t.Helper()
	document, err := policy.ParseYAML([]byte(policyText))
	if err != nil {
		t.Fatal(err)
	}
	l := &looker{world: w, items: &failingItems{Items: state.NewMemory(), left: -1}}
	l.over(l.items, document)
	return l
}

// over makes the function anew over these items.
func (l *looker) over(items state.Items, document policy.Document) {
	w := l.world
	l.state = state.New(items)
	l.fn = evaluate.New(evaluate.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) { return w.Catalog, w.Store, nil },
		State:   l.state, Starter: l, Policy: document, Now: w.Clock.Now, Log: slog.New(slog.DiscardHandler), Metrics: l.metrics, ObserveOnly: l.observeOnly,
		Refuse: func(_ context.Context, m events.SQSMessage, _ error) error {
			l.refused = append(l.refused, m.MessageId)
			return nil
		},
	})
}

// tell delivers one notice for each name, in one batch, and returns the messages to deliver again.
func (l *looker) tell(t *testing.T, names ...string) []string {
	t.Helper()
	var batch events.SQSEvent
	for i, name := range names {
		body, err := event.Encode(event.Notice{Source: event.SourceCommitted, Table: maintenance.TableID{Namespace: "db", Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		batch.Records = append(batch.Records, events.SQSMessage{MessageId: fmt.Sprint(name, i), Body: string(body)})
	}
	return l.deliver(t, batch)
}

func (l *looker) deliver(t *testing.T, batch events.SQSEvent) []string {
	t.Helper()
	out, err := l.fn.Handle(context.Background(), batch)
	if err != nil {
		t.Fatal(err)
	}
	var again []string
	for _, f := range out.BatchItemFailures {
		again = append(again, f.ItemIdentifier)
	}
	return again
}

// counters returns the ledger's partitions, sorted.
func (l *looker) counters(t *testing.T, id maintenance.TableID) []state.PartitionCounters {
	t.Helper()
	shards, err := l.state.LoadShards(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	var all []state.PartitionCounters
	for _, s := range shards {
		all = append(all, s.Partitions...)
	}
	for i := range all {
		all[i].LastWriteMS = 0 // a scan does not see removals
	}
	slices.SortFunc(all, func(a, b state.PartitionCounters) int {
		if a.SpecID != b.SpecID {
			return a.SpecID - b.SpecID
		}
		return strings.Compare(a.Partition, b.Partition)
	})
	return all
}

const observe = "mode: observe\n"

func ids(n int) []icebergtest.Row {
	var rows []icebergtest.Row
	for i := range n {
		rows = append(rows, icebergtest.Row{int64(i), fmt.Sprint("g", i%3), float64(i)})
	}
	return rows
}

// history makes a table with appends, deletes and a removal over three partitions.
func history(w *icebergtest.World, name string) *icebergtest.Table {
	tbl := w.NewTable("db."+name, icebergtest.Partitioned("g"))
	first := tbl.Commit(icebergtest.Append(ids(9)...))
	tbl.Commit(icebergtest.Append(ids(6)...))
	tbl.Commit(icebergtest.DeletePositions(first.DataFiles[0], 0, 1))
	tbl.Commit(icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{int64(4), "g1"}))
	tbl.Commit(icebergtest.Remove(first.DataFiles[2]), icebergtest.Append(ids(3)...))
	return tbl
}

// TestFoldedCountersEqualAScan folds snapshot by snapshot and compares with one look at the end.
func TestFoldedCountersEqualAScan(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	step := newLooker(t, w, observe)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	step.tell(t, "t")
	first := tbl.Commit(icebergtest.Append(ids(9)...))
	for _, change := range [][]icebergtest.Change{
		{icebergtest.Append(ids(6)...)},
		{icebergtest.DeletePositions(first.DataFiles[0], 0, 1)},
		{icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{int64(4), "g1"})},
		{icebergtest.Remove(first.DataFiles[2]), icebergtest.Append(ids(3)...)},
	} {
		step.tell(t, "t", "t")
		tbl.Commit(change...)
	}
	step.tell(t, "t")
	id := tbl.State().ID
	got, want := step.counters(t, id), scanned(t, w, tbl)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 3 {
		t.Errorf("folded counters differ from a scan:\n%s", diff)
	}
	head, err := step.state.LoadHead(context.Background(), id)
	if err != nil || head.Commits != 5 || head.NeedsScan {
		t.Errorf("head %+v, %v: want five commits", head, err)
	}
}

// spread are rows of n partitions, with a file each.
func spread(n, offset int) []icebergtest.Row {
	var rows []icebergtest.Row
	for i := range n {
		rows = append(rows, icebergtest.Row{int64(i), fmt.Sprint("g", offset+i), float64(i)})
	}
	return rows
}

// TestCrashAfterEveryWrite stops the look after each single write: while counters live in the head, while they move to shards, and while they are in shards.
// The repeated look, behind one more commit or at once, ends in the same ledger as a scan.
func TestCrashAfterEveryWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		before, stays int
		more          bool
	}{
		{"inline", 3, 3, true},
		{"inline, at once", 3, 3, false},
		{"to shards", 30, 10, true},
		{"to shards, at once", 30, 10, false},
		{"shards", 40, 20, true},
		{"shards, at once", 40, 20, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for writes := 0; ; writes++ {
				w := icebergtest.NewWorld(t)
				tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
				l := newLooker(t, w, observe)
				tbl.Commit(bare(t, tbl, c.before, 0)...)
				l.tell(t, "t")
				tbl.Commit(bare(t, tbl, c.stays, max(c.before-5, 0))...)
				l.items.left = writes
				crashed := len(l.tell(t, "t")) > 0
				if c.more {
					tbl.Commit(bare(t, tbl, 3, 1)...)
				}
				l.items.left = -1
				if again := l.tell(t, "t"); len(again) > 0 {
					t.Fatalf("after a crash at write %d the look fails for ever", writes)
				}
				if diff := cmp.Diff(scanned(t, w, tbl), l.counters(t, tbl.State().ID)); diff != "" {
					t.Fatalf("after a crash at write %d:\n%s", writes, diff)
				}
				if !crashed {
					if writes < 2 {
						t.Fatalf("only %d writes were stopped", writes)
					}
					return
				}
			}
		})
	}
}

// scanned are the counters that one look at the end finds.
func scanned(t *testing.T, w *icebergtest.World, tbl *icebergtest.Table) []state.PartitionCounters {
	t.Helper()
	once := newLooker(t, w, observe)
	if again := once.tell(t, tbl.State().ID.Name); len(again) > 0 {
		t.Fatal("the scan failed")
	}
	return once.counters(t, tbl.State().ID)
}

func TestMaintainStartsOneRunAndThenFallsSilent(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	l := newLooker(t, w, "mode: maintain\nrewrite_data_files:\n  trigger:\n    small-files: 3\n")
	for range 3 {
		tbl.Commit(icebergtest.Append(ids(1)...))
		l.tell(t, "t", "t")
	}
	if len(l.started) != 1 || !strings.Contains(l.started[0].input, `"job":"rewrite_data_files"`) {
		t.Fatalf("started %v, want one run that rewrites", l.started)
	}
	// Held by a run that may not have been started: the same name and bytes again, and the table is pending.
	l.tell(t, "t")
	if len(l.started) != 2 || l.started[1] != l.started[0] {
		t.Errorf("second start %v differs from the first", l.started)
	}
	lease, held, err := l.state.Current(context.Background(), tbl.State().ID)
	if err != nil || !held || !lease.Pending {
		t.Errorf("lease %+v, %v, %v: want it pending", lease, held, err)
	}
	// The run ends with a commit of ours and the lease is free: the event of our own commit starts nothing.
	if _, err := l.state.Release(context.Background(), lease.Table, lease.Token); err != nil {
		t.Fatal(err)
	}
	head, err := l.state.LoadHead(context.Background(), lease.Table)
	if err != nil {
		t.Fatal(err)
	}
	head.Commits = 0
	head.Jobs = map[maintenance.Job]state.JobState{
		maintenance.RewriteDataFiles: {LastRunMS: w.Clock.Now().UnixMilli(), LastOutcome: maintenance.Committed},
		maintenance.ExpireSnapshots:  {LastRunMS: w.Clock.Now().UnixMilli(), LastOutcome: maintenance.Committed},
	}
	if _, err := l.state.SaveHead(context.Background(), head); err != nil {
		t.Fatal(err)
	}
	tbl.Commit(icebergtest.Append(ids(1)...), icebergtest.Operation("replace"), icebergtest.Summary(contract.SummaryRunID, string(lease.RunID)))
	for range 10 {
		l.tell(t, "t")
	}
	if len(l.started) != 2 {
		t.Errorf("our own commit started %v", l.started[2:])
	}
}

func TestFreshDeploymentObserves(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Property("firn.rewrite_data_files.trigger.small-files", "2"))
	l := newLooker(t, w, "")
	for range 4 {
		tbl.Commit(icebergtest.Append(ids(1)...))
	}
	l.tell(t, "t")
	decisions, err := l.state.Decisions(context.Background(), tbl.State().ID, 1)
	if err != nil || len(decisions) != 1 || decisions[0].Action != "observe" || len(l.started) != 0 {
		t.Errorf("decisions %+v, %v, started %v: want an observation", decisions, err, l.started)
	}
}

// TestObservingHostStartsNothing: where the function may not start runs a table that asks for them is observed, and its decision says why. A run that a lease
// announces is not started again either.
func TestObservingHostStartsNothing(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Property("firn.rewrite_data_files.trigger.small-files", "2"), icebergtest.Property("firn.mode", "maintain"))
	for range 4 {
		tbl.Commit(icebergtest.Append(ids(1)...))
	}
	id := tbl.State().ID
	for _, observes := range []bool{true, false} {
		l := newLooker(t, w, "")
		l.observeOnly = observes
		l.over(l.items, policy.Document{})
		l.tell(t, "t")
		decisions, err := l.state.Decisions(t.Context(), id, 1)
		if err != nil || len(decisions) != 1 {
			t.Fatalf("decisions %+v, %v", decisions, err)
		}
		if d := decisions[0]; observes && (d.Action != "observe" || !strings.Contains(strings.Join(d.Reasons, "\n"), "nothing here may start runs")) || !observes && d.Action != "start" {
			t.Errorf("observes only: %t: %+v", observes, d)
		}
		if (len(l.started) == 0) != observes {
			t.Errorf("observes only: %t, started %v", observes, l.started)
		}
		if observes {
			continue
		}
		l.observeOnly = true
		l.over(l.items, policy.Document{})
		l.tell(t, "t")
		if len(l.started) != 1 {
			t.Errorf("an observing host starts the run of another again: %v", l.started)
		}
	}
}

func TestOddTablesAndMessages(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	history(w, "t")
	l := newLooker(t, w, observe)
	l.told = &bytes.Buffer{}
	l.metrics = telemetry.NewEMF(l.told, contract.FunctionEvaluate)
	l.over(l.items, policy.Document{})
	batch := events.SQSEvent{Records: []events.SQSMessage{
		{MessageId: "bad", Body: "no event"},
		{MessageId: "test", Body: `{"Event":"s3:TestEvent"}`},
		{MessageId: "gone", Body: `{"v":1,"catalog":"","namespace":["db"],"table":"dropped"}`},
		{MessageId: "elsewhere", Body: `{"v":1,"catalog":"","namespace":["db"],"table":"t"}`},
	}}
	if again := l.deliver(t, batch); len(again) != 0 {
		t.Errorf("messages to deliver again: %v", again)
	}
	if n := strings.Count(l.told.String(), `"notices_ignored":1`); n != 1 {
		t.Errorf("%d notices are counted as let go, want that of the dropped table:\n%s", n, l.told)
	}
	if !slices.Equal(l.refused, []string{"bad"}) {
		t.Errorf("refused %v, want the one that is no event", l.refused)
	}
	if counters := l.counters(t, maintenance.TableID{Namespace: "db", Name: "t"}); len(counters) != 3 {
		t.Errorf("the good message was not handled: %v", counters)
	}
}

func TestLocationFindsItsTable(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := history(w, "t")
	history(w, "t_2")
	l := newLooker(t, w, observe)
	metadata := tbl.Pointer().MetadataLocation
	key := strings.SplitN(metadata, "/", 4)[3]
	bucket := strings.SplitN(metadata, "/", 4)[2]
	body := fmt.Sprintf(`{"detail-type":"Object Created","source":"aws.s3","detail":{"bucket":{"name":%q},"object":{"key":%q}}}`, bucket, key)
	stray := strings.Replace(body, key, "elsewhere/metadata/x.metadata.json", 1)
	if again := l.deliver(t, events.SQSEvent{Records: []events.SQSMessage{{MessageId: "1", Body: body}, {MessageId: "2", Body: stray}}}); len(again) > 0 {
		t.Fatalf("to deliver again: %v", again)
	}
	tables, _, err := l.state.Tables(context.Background(), "", 0)
	if err != nil || len(tables) != 1 || tables[0].Name != "t" {
		t.Errorf("looked at %v, %v: want the one table", tables, err)
	}
}

func TestTableMadeAnewStartsAFreshLedger(t *testing.T) {
	t.Parallel()
	old, anew := icebergtest.NewWorld(t), icebergtest.NewWorld(t)
	history(old, "t")
	l := newLooker(t, old, observe)
	l.tell(t, "t")
	other := newLooker(t, anew, observe)
	tbl := anew.NewTable("db.t")
	tbl.Commit(icebergtest.Append(ids(1)...))
	other.state, other.items = l.state, l.items
	other.fn = evaluate.New(evaluate.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) {
			return anew.Catalog, anew.Store, nil
		},
		State: l.state, Starter: l, Now: anew.Clock.Now, Log: slog.New(slog.DiscardHandler),
	})
	if again := other.tell(t, "t"); len(again) > 0 {
		t.Fatalf("to deliver again: %v", again)
	}
	if counters := l.counters(t, tbl.State().ID); len(counters) != 1 || counters[0].DataFiles != 1 {
		t.Errorf("counters %+v: want those of the new table only", counters)
	}
}

func TestRollbackIsScannedAnew(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	l := newLooker(t, w, observe)
	first := tbl.Commit(icebergtest.Append(ids(1)...))
	tbl.Commit(icebergtest.Append(ids(2)...))
	l.tell(t, "t")
	w.At(time.Now().Add(time.Hour))
	tbl.Branch("main", first.Snapshot.SnapshotID)
	l.tell(t, "t")
	if counters := l.counters(t, tbl.State().ID); len(counters) != 1 || counters[0].DataRows != 1 {
		t.Errorf("counters %+v: want the rolled back state", counters)
	}
}

// TestSwitchedOffTables: a table that is left alone is not counted, and the history says once by which setting, and again when that changes.
func TestSwitchedOffTables(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Property("firn.enabled", "false"))
	l := newLooker(t, w, "namespaces: {db: {mode: \"off\"}}\n")
	look := func() {
		tbl.Commit(icebergtest.Append(ids(1)...))
		l.tell(t, "t")
	}
	look()
	look()
	tbl.SetProperty("firn.enabled", "true")
	look()
	decisions, err := l.state.Decisions(t.Context(), tbl.State().ID, 0)
	var told []string
	for _, d := range decisions {
		told = append(told, d.Action+": "+d.Skip)
	}
	if want := []string{"skip: mode is off (namespace db)", "skip: enabled is false (table property firn.enabled)"}; err != nil || !slices.Equal(told, want) {
		t.Errorf("history says %q, %v; want %q", told, err, want)
	}
	if head, err := l.state.LoadHead(t.Context(), tbl.State().ID); err != nil || head.Version != 0 {
		t.Errorf("head %+v, %v: want none", head, err)
	}
	w.At(w.Clock.Now().Add(25 * time.Hour))
	look()
	if decisions, err = l.state.Decisions(t.Context(), tbl.State().ID, 0); err != nil || len(decisions) != 3 {
		t.Errorf("a day later there are %d records, %v; want one more", len(decisions), err)
	}
}

// TestCatchUpIsBounded: snapshots that nobody looked at are folded one by one up to a bound, and beyond it the table is counted anew. Either way the counters
// are those of a scan.
func TestCatchUpIsBounded(t *testing.T) {
	t.Parallel()
	for missed, walked := range map[int]bool{100: true, 101: false} {
		w := icebergtest.NewWorld(t)
		w.StockEvery = 1000
		tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
		tbl.Commit(bare(t, tbl, 2, 0)...)
		l := newLooker(t, w, observe)
		l.tell(t, "t")
		before, err := l.state.LoadHead(t.Context(), tbl.State().ID)
		if err != nil {
			t.Fatal(err)
		}
		for range missed {
			tbl.Commit(bare(t, tbl, 1, 1)...)
		}
		l.tell(t, "t")
		after, err := l.state.LoadHead(t.Context(), tbl.State().ID)
		if err != nil || (after.Generation == before.Generation) != walked {
			t.Errorf("%d snapshots: generation %d after %d, %v; want them walked: %t", missed, after.Generation, before.Generation, err, walked)
		}
		if got, want := l.counters(t, after.Table), scanned(t, w, tbl); !slices.Equal(got, want) {
			t.Errorf("%d snapshots:\n%s", missed, cmp.Diff(want, got))
		}
	}
}
