package edge_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/edge"
)

// TestRefusedMessages: they reach their queue with reason and source, cut to what the queue takes; an answer of 400 is an error.
func TestRefusedMessages(t *testing.T) {
	var got struct {
		QueueURL          string `json:"QueueUrl"`
		MessageBody       string
		MessageAttributes map[string]struct{ StringValue string }
	}
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(data, &got) != nil {
			t.Errorf("request %s, %v", data, err)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{}`)
	}))
	defer server.Close()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_MAX_ATTEMPTS": "1",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	queue, err := edge.NewQueue(context.Background(), server.URL+"/1/refused")
	if err != nil {
		t.Fatal(err)
	}
	message := events.SQSMessage{MessageId: "m", EventSourceARN: "arn:aws:sqs:eu-west-1:1:commits"}
	for body, want := range map[string]string{"no event": "no event", "": "(empty)", strings.Repeat("x", 1<<20): strings.Repeat("x", 900<<10)} {
		message.Body = body
		// The server's answer has no checksum of the body, which the client asks for only when it is there.
		if err := queue.Refuse(context.Background(), message, errors.New("unknown "+strings.Repeat("e", 2000))); err != nil {
			t.Fatal(err)
		}
		if got.MessageBody != want || got.QueueURL != server.URL+"/1/refused" {
			t.Errorf("body of %d bytes to %s, want %d bytes", len(got.MessageBody), got.QueueURL, len(want))
		}
		a := got.MessageAttributes
		if reason := a["error"].StringValue; len(reason) != 1024 || !strings.HasPrefix(reason, "unknown e") {
			t.Errorf("reason of %d bytes", len(reason))
		}
		if a["source"].StringValue != message.EventSourceARN || a["message_id"].StringValue != "m" {
			t.Errorf("attributes %v", a)
		}
	}
	status = http.StatusBadRequest
	if err := queue.Refuse(context.Background(), message, errors.New("x")); err == nil || !strings.Contains(err.Error(), "refused message m") {
		t.Errorf("error %v", err)
	}
}
