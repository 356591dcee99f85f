package event_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/contract"
	"firn/internal/event"
	"firn/internal/maintenance"
)

// sampleEnded is the run of events/samples/firn/run-ended.json.
func sampleEnded() event.RunEnded {
	return event.RunEnded{
		Request: maintenance.Request{Automatic: true, Trigger: "event"},
		Report: maintenance.ReportOutput{
			Run: maintenance.Run{
				RunID: "k3qy5wlv2hm7xg4n6ztdar2bce", TableUUID: "9c12d441-03fe-4693-9a96-a0705ddf69c1",
				Table: maintenance.TableID{Catalog: "lake", Namespace: "sales", Name: "orders"},
			},
			Outcome: maintenance.Committed,
			Jobs: []maintenance.JobOutcome{
				{Job: maintenance.RewriteDataFiles, Outcome: maintenance.Committed, SnapshotID: 3051729675574597004, Columns: map[string]int64{
					"rewritten_data_files_count": 212, "added_data_files_count": 4, "rewritten_bytes_count": 871340021, "failed_data_files_count": 0,
					"removed_delete_files_count": 0,
				}},
				{Job: maintenance.ExpireSnapshots, Outcome: maintenance.NothingToDo},
			},
		},
		StartedAt: time.Date(2026, 11, 30, 3, 12, 31, 84e6, time.FixedZone("CET", 3600)), EndedAt: time.Date(2026, 11, 30, 2, 14, 8, 911e6, time.UTC),
		CostMicros: 2871,
	}
}

// TestRunEndedIsTheSampleAndMatchesItsSchema: what is sent is what subscribers were shown.
func TestRunEndedIsTheSampleAndMatchesItsSchema(t *testing.T) {
	t.Parallel()
	var sample struct {
		Source string          `json:"source"`
		Kind   string          `json:"detail-type"`
		Detail json.RawMessage `json:"detail"`
	}
	if err := json.Unmarshal(read(t, "firn/run-ended.json"), &sample); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, sample.Detail); err != nil {
		t.Fatal(err)
	}
	got, err := event.EncodeEnded(sampleEnded())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plainJSON(t, want.Bytes()), plainJSON(t, got)); diff != "" {
		t.Errorf("the sample is not what is sent:\n%s", diff)
	}
	if sample.Source != contract.EventSource || sample.Kind != contract.EventRunEnded {
		t.Errorf("the sample is a %q of %q", sample.Kind, sample.Source)
	}
	schema := compile(t, endedSchema)
	long := sampleEnded()
	long.Report.Reason, long.Report.Jobs[0].Reason, long.Report.Error = strings.Repeat("ä", 5000), strings.Repeat("\x00é", 5000), contract.ErrorInternal
	long.Report.Jobs[0].Refusals, long.Report.Jobs[0].Files = []string{"a", "b"}, []string{"s3://a/secret"}
	for _, outcome := range []maintenance.Outcome{
		maintenance.Committed, maintenance.NothingToDo, maintenance.Conflict, maintenance.Refused, maintenance.Unknown, maintenance.Failed, maintenance.DryRun,
	} {
		long.Report.Outcome, long.Report.Jobs[1].Outcome = outcome, outcome
		body, err := event.EncodeEnded(long)
		if err != nil || len(body) > 16<<10 || strings.Contains(string(body), "secret") {
			t.Fatalf("%d bytes, %v", len(body), err)
		}
		if err := validate(t, schema, body); err != nil {
			t.Errorf("%s: %v", outcome, err)
		}
	}
	for _, job := range maintenance.Jobs() {
		long.Report.Jobs[0].Job = job
		body, err := event.EncodeEnded(long)
		if err != nil || validate(t, schema, body) != nil {
			t.Errorf("%s: %v, %v", job, err, validate(t, schema, body))
		}
	}
	if validate(t, schema, []byte(`{"v":1}`)) == nil {
		t.Error("the schema takes anything")
	}
}

func plainJSON(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
