//go:build ministack

// Package ministack asks a stranger's emulation of AWS about the deployed stack: what the template wires, somebody else's EventBridge, SNS, SQS, Scheduler and
// Lambda have to carry. `make e2e-ministack` deploys the stack, runs these tests, and removes it. No run is played there: its Distributed Map reports success
// for work that it did not do.
package ministack

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const region, account = "us-east-1", "000000000000"

// endpoint is the emulator's; the test is skipped without one.
func endpoint(t *testing.T) string {
	t.Helper()
	at := os.Getenv("AWS_ENDPOINT_URL")
	if !strings.HasPrefix(at, "http://127.0.0.1:") {
		t.Skip("make e2e-ministack runs it: AWS_ENDPOINT_URL is no emulator on this machine")
	}
	return at
}

// clients is the configuration of the SDK's clients.
func clients(t *testing.T) aws.Config {
	t.Helper()
	endpoint(t)
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(region))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// call sends a request to a service that no client of the SDK is at hand for, and returns the answer. The emulator tells services apart by the signature's
// scope, and does not check the signature.
func call(t *testing.T, service, method, path, body string, fields map[string]string) []byte {
	t.Helper()
	kind := "application/json"
	if fields != nil {
		form := url.Values{}
		for name, value := range fields {
			form.Set(name, value)
		}
		body, kind = form.Encode(), "application/x-www-form-urlencoded"
	}
	r, err := http.NewRequestWithContext(t.Context(), method, endpoint(t)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+region+"/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s %s %s: %s: %s (%v)", service, method, path, response.Status, data, err)
	}
	return data
}

// resources are the deployed ones: physical names by logical ID, of one type.
func resources(t *testing.T, kind string) map[string]string {
	t.Helper()
	var out struct {
		All []struct {
			LogicalID  string `xml:"LogicalResourceId"`
			PhysicalID string `xml:"PhysicalResourceId"`
			Type       string `xml:"ResourceType"`
		} `xml:"DescribeStackResourcesResult>StackResources>member"`
	}
	data := call(t, "cloudformation", http.MethodPost, "/", "", map[string]string{"Action": "DescribeStackResources", "Version": "2010-05-15", "StackName": "Firn"})
	if err := xml.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, r := range out.All {
		if r.Type == kind {
			found[r.LogicalID] = r.PhysicalID
		}
	}
	if len(found) == 0 {
		t.Fatalf("the stack has no %s: %s", kind, data)
	}
	return found
}

// named is the one resource of a type whose logical ID begins so.
func named(t *testing.T, kind, prefix string) string {
	t.Helper()
	for id, physical := range resources(t, kind) {
		if strings.HasPrefix(id, prefix) {
			return physical
		}
	}
	t.Fatalf("the stack has no %s %s", kind, prefix)
	return ""
}

// queue is one of the stack's queues.
type queue struct {
	t      *testing.T
	client *sqs.Client
	url    string
}

func open(t *testing.T, name string) *queue {
	t.Helper()
	return &queue{t: t, client: sqs.NewFromConfig(clients(t)), url: named(t, "AWS::SQS::Queue", "Pipeline"+name)}
}

// receive takes messages until one holds the text, and returns all that it took. It fails the test after half a minute.
func (q *queue) receive(text string) []string {
	q.t.Helper()
	var taken []string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		out, err := q.client.ReceiveMessage(q.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &q.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1})
		if err != nil {
			q.t.Fatal(err)
		}
		found := false
		for _, m := range out.Messages {
			taken, found = append(taken, *m.Body), found || strings.Contains(*m.Body, text)
			if _, err := q.client.DeleteMessage(q.t.Context(), &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				q.t.Fatal(err)
			}
		}
		if found {
			return taken
		}
	}
	q.t.Fatalf("no message with %q came to %s; taken: %q", text, q.url, taken)
	return nil
}

// size is how many messages the queue holds, those that somebody works on included.
func (q *queue) size() string {
	q.t.Helper()
	names := []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible}
	out, err := q.client.GetQueueAttributes(q.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &q.url, AttributeNames: names})
	if err != nil {
		q.t.Fatal(err)
	}
	return out.Attributes[string(names[0])] + "+" + out.Attributes[string(names[1])]
}

// mapping is the event source mapping from the queue of commits to evaluate, as Lambda describes it.
func mapping(t *testing.T) map[string]any {
	t.Helper()
	id := named(t, "AWS::Lambda::EventSourceMapping", "Pipeline")
	var out map[string]any
	if err := json.Unmarshal(call(t, "lambda", http.MethodGet, "/2015-03-31/event-source-mappings/"+id, "", nil), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// mapped switches the mapping on or off.
func mapped(t *testing.T, on bool) {
	t.Helper()
	id := named(t, "AWS::Lambda::EventSourceMapping", "Pipeline")
	call(t, "lambda", http.MethodPut, "/2015-03-31/event-source-mappings/"+id, fmt.Sprintf(`{"Enabled":%t}`, on), nil)
}

// same reports whether two values are the same JSON.
func same(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}
