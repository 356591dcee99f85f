package edge_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"firn/internal/edge"
)

// TestEventBus: an event has the bus, our source and its detail; one that the bus does not take is an error, though the answer is 200.
func TestEventBus(t *testing.T) {
	answer := `{"FailedEntryCount":0,"Entries":[{"EventId":"1"}]}`
	var got struct {
		Entries []struct{ Source, DetailType, Detail, EventBusName string }
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &got); err != nil || r.Header.Get("X-Amz-Target") != "AWSEvents.PutEvents" {
			t.Errorf("request %s %s", r.Header.Get("X-Amz-Target"), body)
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"} {
		t.Setenv(name, value)
	}
	bus, err := edge.NewEventBus(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Publish(t.Context(), "Firn Run Ended", []byte(`{"v":1}`)); err != nil {
		t.Fatal(err)
	}
	if e := got.Entries[0]; e.Source != "firn" || e.DetailType != "Firn Run Ended" || e.Detail != `{"v":1}` || e.EventBusName != "default" {
		t.Errorf("sent %+v", e)
	}
	answer = `{"FailedEntryCount":1,"Entries":[{"ErrorCode":"ThrottlingException","ErrorMessage":"later"}]}`
	if err := bus.Publish(t.Context(), "Firn Run Ended", []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "ThrottlingException") {
		t.Errorf("error %v, want one that names the refusal", err)
	}
}
