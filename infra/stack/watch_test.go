package stack_test

import (
	"os"
	"strings"
	"testing"

	"firn/infra/watch"
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
	if n := len(tp.of("AWS::CloudWatch::Alarm")); n != 8+3*7 {
		t.Errorf("%d alarms", n)
	}
}
