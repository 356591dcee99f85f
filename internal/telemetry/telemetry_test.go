package telemetry_test

import (
	"bytes"
	"testing"
	"time"

	"firn/internal/maintenance"
	"firn/internal/telemetry"
)

func TestEMFLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	sink := telemetry.NewEMF(&out, "report")
	table := maintenance.TableID{Namespace: "db", Name: "t"}
	columns := map[string]int64{"rewritten_data_files_count": 128, "rewritten_bytes_count": 512}
	if err := sink.Emit(time.UnixMilli(1700000000000), table, maintenance.RewriteDataFiles, telemetry.Counts(columns)); err != nil {
		t.Fatal(err)
	}
	want := `{"_aws":{"CloudWatchMetrics":[{"Namespace":"Firn","Dimensions":[["function","job"]],"Metrics":[` +
		`{"Name":"rewritten_bytes_count","Unit":"Bytes"},{"Name":"rewritten_data_files_count","Unit":"Count"}]}],"Timestamp":1700000000000},` +
		`"function":"report","job":"rewrite_data_files","rewritten_bytes_count":512,"rewritten_data_files_count":128,"table":"db.t"}` + "\n"
	if got := out.String(); got != want {
		t.Errorf("line\n%swant\n%s", got, want)
	}
	out.Reset()
	if err := sink.Emit(time.UnixMilli(1700000000000), table, "", telemetry.Counts(map[string]int64{"ledger_drift_partitions": 2})); err != nil {
		t.Fatal(err)
	}
	want = `{"_aws":{"CloudWatchMetrics":[{"Namespace":"Firn","Dimensions":[["function"]],"Metrics":[{"Name":"ledger_drift_partitions","Unit":"Count"}]}],` +
		`"Timestamp":1700000000000},"function":"report","ledger_drift_partitions":2,"table":"db.t"}` + "\n"
	if got := out.String(); got != want { // no job: no dimension without a value, which CloudWatch would drop the metric for
		t.Errorf("line\n%swant\n%s", got, want)
	}
}
