package evaluate_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/evaluate"
	"firn/internal/event"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/state"
	"firn/internal/store"
)

// ended is the event of an execution that ended, with the input that started it.
func ended(t *testing.T, run started, status string) events.SQSEvent {
	t.Helper()
	body := fmt.Sprintf(`{"id":"e","detail-type":"Step Functions Execution Status Change","source":"aws.states",
		"detail":{"name":%q,"status":%q,"input":%q}}`, run.name, status, run.input)
	return events.SQSEvent{Records: []events.SQSMessage{{MessageId: "ended", Body: body}}}
}

// due returns a looker that has started one run on db.t.
func due(t *testing.T) (*looker, maintenance.TableID, state.Lease) {
	t.Helper()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Property("firn.rewrite_data_files.trigger.small-files", "2"))
	l := newLooker(t, w, "mode: maintain\n")
	for range 4 {
		tbl.Commit(icebergtest.Append(ids(1)...))
	}
	l.tell(t, "t")
	lease, held, err := l.state.Current(context.Background(), tbl.State().ID)
	if err != nil || !held || len(l.started) != 1 {
		t.Fatalf("lease %+v, %v, %v, started %v: want one run", lease, held, err, l.started)
	}
	return l, tbl.State().ID, lease
}

// TestRunThatEndedWithoutReport: it gets its place in history, the lease is free, and the table is due again, at once.
func TestRunThatEndedWithoutReport(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"FAILED", "TIMED_OUT", "ABORTED"} {
		l, id, lease := due(t)
		if again := l.deliver(t, ended(t, l.started[0], status)); len(again) > 0 || len(l.refused) > 0 {
			t.Fatalf("%s: again %v, refused %v", status, again, l.refused)
		}
		record, found, err := l.state.FindRun(context.Background(), lease.RunID)
		if err != nil || !found || record.Report.Outcome != maintenance.Failed || !strings.Contains(record.Report.Reason, status) ||
			!record.Request.Automatic || record.Run.Token != lease.Token || record.StartedMS > record.EndedMS {
			t.Errorf("%s: history %+v, %v, %v", status, record, found, err)
		}
		next, held, err := l.state.Current(context.Background(), id)
		if err != nil || !held || next.Token <= lease.Token || len(l.started) != 2 || l.started[1].name == l.started[0].name {
			t.Errorf("%s: lease %+v, %v, %v, started %v: want a second run", status, next, held, err, l.started)
		}
		// The same event once more meets the second run's lease, and leaves it.
		l.deliver(t, ended(t, l.started[0], status))
		if now, held, err := l.state.Current(context.Background(), id); err != nil || !held || now.Token != next.Token {
			t.Errorf("%s: a late event freed another run's lease: %+v, %v, %v", status, now, held, err)
		}
	}
}

// TestRunThatReported: the event of its end changes neither history nor the lease of a later run.
func TestRunThatReported(t *testing.T) {
	t.Parallel()
	l, id, lease := due(t)
	report := state.RunRecord{
		Run: maintenance.Run{RunID: lease.RunID, Table: id, Token: lease.Token}, EndedMS: 1,
		Report: maintenance.ReportOutput{Outcome: maintenance.Committed},
	}
	if err := l.state.SaveRun(context.Background(), report); err != nil {
		t.Fatal(err)
	}
	l.deliver(t, ended(t, l.started[0], "SUCCEEDED")) // report wrote history and died before it freed the lease
	record, _, err := l.state.FindRun(context.Background(), lease.RunID)
	if err != nil || record.Report.Outcome != maintenance.Committed || record.EndedMS != 1 {
		t.Errorf("history %+v, %v: want the report's", record, err)
	}
	if now, held, err := l.state.Current(context.Background(), id); err != nil || held && now.Token == lease.Token {
		t.Errorf("lease %+v, %v, %v: want it free or another's", now, held, err)
	}
}

// TestCrashWhileARunEnds: whatever write fails, the message comes again and the second time is as the first.
func TestCrashWhileARunEnds(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		l, id, lease := due(t)
		l.items.left = n
		l.deliver(t, ended(t, l.started[0], "ABORTED"))
		l.items.left = -1
		l.deliver(t, ended(t, l.started[0], "ABORTED"))
		l.tell(t, "t")
		if record, found, err := l.state.FindRun(context.Background(), lease.RunID); err != nil || !found || record.Report.Outcome != maintenance.Failed {
			t.Errorf("crash at write %d: history %+v, %v, %v", n, record, found, err)
		}
		if now, held, err := l.state.Current(context.Background(), id); err != nil || !held || now.Token <= lease.Token {
			t.Errorf("crash at write %d: lease %+v, %v, %v: want a second run's", n, now, held, err)
		}
	}
}

// TestEventsReachNoOtherCatalogAndComeFromNoOtherAccount: nothing is opened for them, and none comes back.
func TestEventsReachNoOtherCatalogAndComeFromNoOtherAccount(t *testing.T) {
	t.Parallel()
	var opened, refused []string
	fn := evaluate.New(evaluate.Deps{
		Catalog: func(_ context.Context, name string) (catalogs.Catalog, store.Reader, error) {
			opened = append(opened, name)
			return nil, nil, fmt.Errorf("open catalog %q", name)
		},
		DefaultCatalog: "lake", Catalogs: []string{"lake", "other"}, Events: event.NewRules("111122223333, 123456789012"),
		State: state.New(state.NewMemory()), Log: slog.New(slog.DiscardHandler),
		Now: icebergtest.NewWorld(t).Clock.Now,
		Refuse: func(_ context.Context, m events.SQSMessage, _ error) error {
			refused = append(refused, m.MessageId)
			return nil
		},
	})
	text := "Iceberg Table Committed"
	own := `{"v":1,"catalog":%q,"namespace":["db"],"table":"t"}`
	glue := `{"account":%q,"detail-type":"Glue Data Catalog Table State Change","source":"aws.glue","detail":{"databaseName":"db","tableName":"t"}}`
	out, err := fn.Handle(context.Background(), events.SQSEvent{Records: []events.SQSMessage{
		{MessageId: "theirs", Body: fmt.Sprintf(own, "theirs")},
		{MessageId: "other", Body: fmt.Sprintf(own, "other")},
		{MessageId: "binary", Body: fmt.Sprintf(own, "other"), MessageAttributes: map[string]events.SQSMessageAttribute{"ce_type": {StringValue: &text}}},
		{MessageId: "foreign", Body: fmt.Sprintf(glue, "999999999999")},
		{MessageId: "ours", Body: fmt.Sprintf(glue, "123456789012")},
		{MessageId: "polaris", Body: `{"event_type":"AFTER_UPDATE_TABLE","realm_id":"r","principal":"p"}`},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var again []string
	for _, f := range out.BatchItemFailures {
		again = append(again, f.ItemIdentifier)
	}
	if !slices.Equal(opened, []string{"other", "lake"}) || !slices.Equal(again, []string{"other", "binary", "ours"}) ||
		!slices.Equal(refused, []string{"foreign", "polaris"}) {
		t.Errorf("opened %v, to deliver again %v, refused %v", opened, again, refused)
	}
}

// counted counts the walks through a catalog.
type counted struct {
	catalogs.Catalog
	walks int
}

func (c *counted) Tables(ctx context.Context, namespace maintenance.Namespace) iter.Seq2[maintenance.TableID, error] {
	c.walks++
	return c.Catalog.Tables(ctx, namespace)
}

// TestObjectsAreLocatedWithFewWalks: a batch, a stray object and a table made later cost a walk only where the known locations may be out of date, and
// an object belongs to the longest folder, whichever catalog has it.
func TestObjectsAreLocatedWithFewWalks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	main, other := icebergtest.NewWorld(t), icebergtest.NewWorld(t)
	outer := history(main, "t").Pointer().MetadataLocation
	worlds := map[string]*icebergtest.World{"main": main, "other": other}
	counts := map[string]*counted{"main": {Catalog: main.Catalog}, "other": {Catalog: other.Catalog}}
	st := state.New(state.NewMemory())
	document, err := policy.ParseYAML([]byte(observe))
	if err != nil {
		t.Fatal(err)
	}
	fn := evaluate.New(evaluate.Deps{
		Catalog: func(_ context.Context, name string) (catalogs.Catalog, store.Reader, error) {
			return counts[name], worlds[name].Store, nil
		},
		DefaultCatalog: "main", Catalogs: []string{"main", "other"}, State: st, Policy: document,
		Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	})
	notice := func(location string) {
		t.Helper()
		parts := strings.SplitN(location, "/", 4)
		body := fmt.Sprintf(`{"detail-type":"Object Created","source":"aws.s3","detail":{"bucket":{"name":%q},"object":{"key":%q}}}`, parts[2], parts[3])
		batch := events.SQSEvent{Records: []events.SQSMessage{{MessageId: "1", Body: body}, {MessageId: "2", Body: body}}}
		if out, err := fn.Handle(context.Background(), batch); err != nil || len(out.BatchItemFailures) > 0 {
			t.Fatalf("%v, %v", out, err)
		}
	}
	seen := func(walks int, want ...string) {
		t.Helper()
		tables, _, err := st.Tables(context.Background(), "", 0)
		var names []string
		for _, id := range tables {
			names = append(names, id.String())
		}
		slices.Sort(names)
		if err != nil || !slices.Equal(names, want) || counts["main"].walks != walks || counts["other"].walks != walks {
			t.Errorf("looked at %v, %v, after %d and %d walks: want %v after %d", names, err, counts["main"].walks, counts["other"].walks, want, walks)
		}
	}
	notice(outer)
	seen(1, "main.db.t")
	notice("s3://world/elsewhere/metadata/x.metadata.json")
	notice("s3://world/elsewhere/metadata/y.metadata.json")
	seen(1, "main.db.t")
	inner := history(other, "u").Pointer().MetadataLocation
	notice(inner)
	seen(1, "main.db.t") // too soon to read again
	now = now.Add(time.Minute)
	notice(inner)
	seen(2, "main.db.t", "other.db.u")
	// An object below a known folder is the folder's; one beside it is nobody's.
	notice(inner[:strings.LastIndexByte(inner, '/')] + "/deep/z.metadata.json")
	notice(strings.Replace(inner, "/metadata/", "/metadata_2/", 1))
	now = now.Add(9 * time.Minute)
	notice(outer)
	seen(2, "main.db.t", "other.db.u")
	now = now.Add(time.Minute)
	notice(outer)
	seen(3, "main.db.t", "other.db.u")
}
