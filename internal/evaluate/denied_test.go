package evaluate_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/contract"
	"firn/internal/evaluate"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/telemetry"
)

// denying is a catalog that denies the tables of these names, and ends every listing early.
type denying struct {
	catalogs.Catalog
	tables map[string]bool
}

var errDenied = fmt.Errorf("%w: GetTable: AccessDeniedException: not authorized to perform: glue:GetTable", catalogs.ErrPermission)

func (d *denying) Load(ctx context.Context, id maintenance.TableID) (catalogs.Pointer, error) {
	if d.tables[id.Name] {
		return catalogs.Pointer{}, errDenied
	}
	return d.Catalog.Load(ctx, id)
}

func (d *denying) Tables(ctx context.Context, namespace maintenance.Namespace) iter.Seq2[maintenance.TableID, error] {
	return func(yield func(maintenance.TableID, error) bool) {
		for id, err := range d.Catalog.Tables(ctx, namespace) {
			if !yield(id, err) {
				return
			}
		}
		if len(d.tables) > 0 {
			yield(maintenance.TableID{}, errDenied)
		}
	}
}

// TestDeniedTablesAreSkippedLoudly: a table that the catalog denies is no crash. Its notice is done, the reason and the cure are in the decision, a metric
// counts it, the other tables of the batch are looked at, and the table itself once the grant is there.
func TestDeniedTablesAreSkippedLoudly(t *testing.T) {
	t.Parallel()
	for name, objects := range map[string]bool{"named": false, "by the objects that a writer put": true} {
		w := icebergtest.NewWorld(t)
		open, shut := history(w, "open"), history(w, "shut")
		cat, l, metrics := &denying{w.Catalog, map[string]bool{"shut": true}}, newLooker(t, w, ""), &bytes.Buffer{}
		l.fn = evaluate.New(evaluate.Deps{
			Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) { return cat, w.Store, nil },
			State:   l.state, Starter: l, Now: w.Clock.Now, Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewEMF(metrics, contract.FunctionEvaluate),
			Cure: func(text string, id maintenance.TableID) string {
				if !strings.Contains(text, "glue:GetTable") {
					return ""
				}
				return "allow glue:GetTable on " + id.String()
			},
		})
		tell := func() []string {
			if !objects {
				return l.tell(t, "shut", "open")
			}
			put := func(location string) events.SQSMessage {
				bucket, key, _ := strings.Cut(location[strings.Index(location, "://")+3:], "/")
				return events.SQSMessage{MessageId: key, Body: fmt.Sprintf(
					`{"detail-type":"Object Created","source":"aws.s3","detail":{"bucket":{"name":%q},"object":{"key":%q}}}`, bucket, key)}
			}
			out, err := l.fn.Handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{
				put(shut.Pointer().MetadataLocation), put(open.Pointer().MetadataLocation),
			}})
			if err != nil {
				t.Fatal(err)
			}
			var again []string
			for _, f := range out.BatchItemFailures {
				again = append(again, f.ItemIdentifier)
			}
			return again
		}
		if again := tell(); len(again) > 0 {
			t.Errorf("%s: to deliver again: %v", name, again)
		}
		if !strings.Contains(metrics.String(), `"looks_denied":1`) {
			t.Errorf("%s: metrics %s", name, metrics)
		}
		if n := len(l.counters(t, open.State().ID)); n != 3 {
			t.Errorf("%s: %d partitions of the other table are known", name, n)
		}
		if objects {
			continue // no object is found to be a denied table's
		}
		decisions, err := l.state.Decisions(t.Context(), shut.State().ID, 0)
		if err != nil || len(decisions) != 1 || decisions[0].Action != "skip" || !strings.HasSuffix(decisions[0].Skip, "; allow glue:GetTable on db.shut") {
			t.Errorf("%s: decisions %+v, %v: want a skip with reason and cure", name, decisions, err)
		}
		cat.tables = nil
		if again := tell(); len(again) > 0 || len(l.counters(t, shut.State().ID)) != 3 {
			t.Errorf("%s: with the grant, to deliver again %v; %d partitions", name, again, len(l.counters(t, shut.State().ID)))
		}
	}
}
