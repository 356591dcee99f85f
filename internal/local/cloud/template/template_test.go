package template_test

import (
	"os"
	"strings"
	"testing"

	"firn/internal/local/cloud/template"
)

func place() template.Place {
	return template.Place{Partition: "aws", Region: "eu-west-1", Account: "111122223333", Stack: "Firn"}
}

func golden(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../../../infra/testdata/template.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestGoldenTemplate reads the template that is deployed with README's settings: every type, property and intrinsic function in it is known.
func TestGoldenTemplate(t *testing.T) {
	t.Parallel()
	s, err := template.Read([]byte(golden(t)), place())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Functions) != 7 || len(s.Versions) != 7 || len(s.Queues) != 4 || len(s.Machines) != 1 || len(s.Mappings) != 1 || len(s.Schedules) != 1 {
		t.Errorf("read %d functions, %d versions, %d queues, %d machines", len(s.Functions), len(s.Versions), len(s.Queues), len(s.Machines))
	}
	for _, fn := range s.Functions {
		documents, trust, found := s.Documents(fn.Role)
		if !found || len(documents) == 0 || trust == nil {
			t.Errorf("function %s: role %s with %d policies", fn.ID, fn.Role, len(documents))
		}
		if work := fn.Environment.Variables["FIRN_WORK_LOCATION"]; work != "s3://firn-storageworkd07184ae" {
			t.Errorf("function %s: work location %q", fn.ID, work)
		}
	}
	for _, m := range s.Machines {
		if documents, _, _ := s.Documents(m.RoleArn); len(documents) != 2 {
			t.Errorf("machine %s has %d policies, want its own and that of its children", m.ID, len(documents))
		}
		for name, value := range m.DefinitionSubstitutions {
			if strings.HasSuffix(name, "Function") && !strings.HasSuffix(value, ":1") {
				t.Errorf("%s is %s, no version", name, value)
			}
		}
	}
}

// TestUnknownIsRefused: one change of a good template a row, and what the error must name.
func TestUnknownIsRefused(t *testing.T) {
	t.Parallel()
	good := golden(t)
	for name, c := range map[string]struct{ from, to, want string }{
		"type":             {`"AWS::Scheduler::Schedule"`, `"AWS::Scheduler::ScheduleGroup"`, "AWS::Scheduler::ScheduleGroup"},
		"property":         {`"ScheduleExpression":`, `"ScheduleExpressionTimezone": "UTC", "ScheduleExpression":`, "ScheduleExpressionTimezone"},
		"inner property":   {`"maxReceiveCount":`, `"other": 1, "maxReceiveCount":`, "other"},
		"intrinsic":        {`"Fn::Join"`, `"Fn::Select"`, "Fn::Select"},
		"reference":        {`"Ref": "StorageWorkD07184AE"`, `"Ref": "Elsewhere"`, "Elsewhere"},
		"attribute":        {`"QueueName"`, `"QueueUrl"`, "QueueUrl"},
		"event pattern":    {`"FAILED"`, `{"cidr": "10.0.0.0/8"}`, "cidr"},
		"condition":        {`"StringLikeIfExists"`, `"StringNotLike"`, "StringNotLike"},
		"top level":        {`"Rules":`, `"Conditions": {}, "Rules":`, "Conditions"},
		"batch, no window": {`"MaximumBatchingWindowInSeconds": 20,`, ``, "window"},
	} {
		changed := strings.Replace(good, c.from, c.to, 1)
		if changed == good {
			t.Errorf("%s: the template has no %s", name, c.from)
			continue
		}
		if _, err := template.Read([]byte(changed), place()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that names %s", name, err, c.want)
		}
	}
}
