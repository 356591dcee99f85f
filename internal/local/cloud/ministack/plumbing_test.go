//go:build ministack

package ministack

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// sample is an event of events/samples.
func sample(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../../events/samples/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// put puts one event on the account's bus, and returns the error code of its entry.
func put(t *testing.T, source, kind, detail string) string {
	t.Helper()
	out, err := eventbridge.NewFromConfig(clients(t)).PutEvents(t.Context(), &eventbridge.PutEventsInput{
		Entries: []eventtypes.PutEventsRequestEntry{{Source: &source, DetailType: &kind, Detail: &detail}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.Entries[0].ErrorCode)
}

// TestBus: an event that a rule matches comes to the queue whole, one that none matches does not, and nobody may speak for AWS.
func TestBus(t *testing.T) {
	mapped(t, false)
	q := open(t, "Commits")
	put(t, "test.writer", "Something Else", `{"who":"no rule"}`)
	put(t, "test.writer", "Iceberg Table Committed", `{"v":1,"mark":"bus"}`)
	got := q.receive(`"bus"`)
	if len(got) != 1 || !strings.Contains(got[0], `"detail-type"`) || !strings.Contains(got[0], "Iceberg Table Committed") || !strings.Contains(got[0], "test.writer") {
		t.Errorf("the queue got %q: want the one event, whole", got)
	}
	if code := put(t, "aws.glue", "Glue Data Catalog Table State Change", `{"databaseName":"db","tableName":"t"}`); code != "NotAuthorizedForSourceException" {
		t.Errorf("an event for AWS was answered with %q", code)
	}
}

// TestObjects: a metadata file in the warehouse comes to the queue; other objects of the bucket do not.
func TestObjects(t *testing.T) {
	mapped(t, false)
	q := open(t, "Commits")
	client := s3.NewFromConfig(clients(t), func(o *s3.Options) { o.UsePathStyle = true })
	if _, err := client.PutBucketNotificationConfiguration(t.Context(), &s3.PutBucketNotificationConfigurationInput{
		Bucket: aws.String("lake"), NotificationConfiguration: &s3types.NotificationConfiguration{EventBridgeConfiguration: &s3types.EventBridgeConfiguration{}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"elsewhere/db/t/metadata/00001-a.metadata.json", "warehouse/db/t/data/00001.parquet", "warehouse/db/t/metadata/snap-1.avro", "warehouse/db/t/metadata/00002-b.metadata.json",
	} {
		if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("lake"), Key: &key, Body: strings.NewReader("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if got := q.receive("00002-b.metadata.json"); len(got) != 1 || !strings.Contains(got[0], `"Object Created"`) {
		t.Errorf("the queue got %q: want one event, of the metadata file", got)
	}
}

// TestTopic: what is published to the topic comes to the queue as it is, without SNS's envelope.
func TestTopic(t *testing.T) {
	mapped(t, false)
	q := open(t, "Commits")
	message := `{"mark":"topic","text":"raw"}`
	call(t, "sns", http.MethodPost, "/", "", map[string]string{
		"Action": "Publish", "Version": "2010-03-31", "TopicArn": "arn:aws:sns:" + region + ":" + account + ":commits", "Message": message,
	})
	if got := q.receive(`"topic"`); len(got) != 1 || got[0] != message {
		t.Errorf("the queue got %q, want %q", got, message)
	}
}

// TestClock: the schedule exists, calls schedule with its own role, and what it cannot deliver goes to the queue Missed.
func TestClock(t *testing.T) {
	var got struct {
		ScheduleExpression, State string
		FlexibleTimeWindow        struct{ Mode string }
		Target                    struct {
			Arn, RoleArn, Input string
			DeadLetterConfig    struct{ Arn string }
			RetryPolicy         struct{ MaximumRetryAttempts int }
		}
	}
	id := named(t, "AWS::Scheduler::Schedule", "Pipeline")
	if err := json.Unmarshal(call(t, "scheduler", http.MethodGet, "/schedules/"+id[strings.LastIndex(id, "/")+1:], "", nil), &got); err != nil {
		t.Fatal(err)
	}
	function := named(t, "AWS::Lambda::Function", "PipelineSchedule")
	if got.ScheduleExpression != "rate(15 minutes)" || got.State != "ENABLED" || !strings.HasSuffix(got.Target.Arn, ":function:"+function) || got.Target.Input != "{}" ||
		!strings.Contains(got.Target.RoleArn, "PipelineClockRole") || !strings.Contains(got.Target.DeadLetterConfig.Arn, "PipelineMissed") || got.Target.RetryPolicy.MaximumRetryAttempts != 3 {
		t.Errorf("schedule %+v", got)
	}
}

// TestMapping: the queue feeds evaluate in batches of which single messages may fail, with a window and a bound on calls.
func TestMapping(t *testing.T) {
	m := mapping(t)
	for name, want := range map[string]any{
		"BatchSize": 500, "MaximumBatchingWindowInSeconds": 20, "FunctionResponseTypes": []string{"ReportBatchItemFailures"}, "ScalingConfig": map[string]int{"MaximumConcurrency": 5},
	} {
		if !same(m[name], want) {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	if on, _ := m["FunctionArn"].(string); !strings.Contains(on, named(t, "AWS::Lambda::Function", "PipelineEvaluate")) {
		t.Errorf("it calls %v", m["FunctionArn"])
	}
}

// TestMachine: the state machine is the definition with every substitution made, and calls published versions.
func TestMachine(t *testing.T) {
	arn := named(t, "AWS::StepFunctions::StateMachine", "Pipeline")
	out, err := sfn.NewFromConfig(clients(t)).DescribeStateMachine(t.Context(), &sfn.DescribeStateMachineInput{StateMachineArn: &arn})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(*out.Definition, "${") {
		t.Error("a substitution was not made")
	}
	for _, name := range []string{"Plan", "Compact", "Commit", "Sweep", "Report"} {
		if n := strings.Count(*out.Definition, ":function:"+named(t, "AWS::Lambda::Function", "Pipeline"+name)+":"); n == 0 {
			t.Errorf("no published version of %s is called", name)
		}
	}
}

// TestEvaluate: the real program takes what comes to the queue. An event about a table that the catalog does not know is let go; what is no event is put
// aside with the reason, and nothing is given up.
func TestEvaluate(t *testing.T) {
	mapped(t, false)
	q, refused, dead := open(t, "Commits"), open(t, "Refused"), open(t, "DeadLetters")
	for _, body := range []string{string(sample(t, "glue/table-state-change.json")), "this is no event"} {
		if _, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body}); err != nil {
			t.Fatal(err)
		}
	}
	mapped(t, true)
	defer mapped(t, false)
	refused.receive("this is no event")
	for end := time.Now().Add(30 * time.Second); q.size() != "0+0"; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the queue still holds %s messages", q.size())
		}
	}
	if n := dead.size(); n != "0+0" {
		t.Errorf("%s dead letters", n)
	}
}
