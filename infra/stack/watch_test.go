package stack_test

import (
	"os"
	"strings"
	"testing"

	"firn/infra/watch"
	"firn/internal/contract"
)

// TestAlarmsHaveRunbooks: each alarm names a section of docs/operations.md that exists, and sends to the operator's address.
func TestAlarmsHaveRunbooks(t *testing.T) {
	data, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if heading, is := strings.CutPrefix(line, "## "); is {
			anchors[watch.Anchor(strings.TrimSpace(heading))] = true
		}
	}
	tp := synth(t, with("alarms.email", "ops@example.com"))
	for id, alarm := range tp.of("AWS::CloudWatch::Alarm") {
		text := flat(alarm.Properties["AlarmDescription"])
		_, anchor, found := strings.Cut(text, "docs/operations.md#")
		if !found || !anchors[anchor] {
			t.Errorf("alarm %s: %s names no section of docs/operations.md", id, text)
		}
		if len(flats(alarm.Properties["AlarmActions"])) != 1 || alarm.Properties["TreatMissingData"] != "notBreaching" {
			t.Errorf("alarm %s: %v", id, alarm.Properties)
		}
	}
	for metric, hours := range map[string]float64{contract.MetricDebt: 6, contract.MetricOverBudget: 1, contract.MetricDenied: 1} {
		found := false
		for _, alarm := range tp.of("AWS::CloudWatch::Alarm") {
			p := alarm.Properties
			found = found || p["MetricName"] == metric && p["Statistic"] == "Maximum" && p["Period"] == 3600.0 && p["EvaluationPeriods"] == hours &&
				flat(p["Dimensions"]) == `[{"Name":"function","Value":"evaluate"}]`
		}
		if !found {
			t.Errorf("no alarm watches %s for %v hours", metric, hours)
		}
	}
	if n := len(tp.of("AWS::CloudWatch::Alarm")); n != 11+3*7 {
		t.Errorf("%d alarms", n)
	}
}
