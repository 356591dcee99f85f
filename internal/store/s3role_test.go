package store_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"firn/internal/store"
)

// TestS3Roles: requests to a bucket that has a role are made in it, all others with the credentials at hand; the role is assumed once, tried again when the
// service is busy, and what its owner refuses is a missing permission that names the role.
func TestS3Roles(t *testing.T) {
	var mu sync.Mutex
	assumed, keys, busy := map[string]int{}, map[string]string{}, 2
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		key, _, _ := strings.Cut(rest, "/")
		if r.Method != http.MethodPost {
			keys[strings.SplitN(r.URL.Path, "/", 3)[1]] = key
			return
		}
		role := r.FormValue("RoleArn")
		assumed[role]++
		w.Header().Set("Content-Type", "text/xml")
		switch {
		case key != "own" || r.FormValue("Action") != "AssumeRole" || r.FormValue("RoleSessionName") != "firn" || r.FormValue("DurationSeconds") != "3600":
			t.Errorf("%s by %s", r.Form, key)
		case strings.HasSuffix(role, "/closed"):
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not authorized to perform: sts:AssumeRole on resource: %s</Message></Error></ErrorResponse>", role)
		case busy > 0:
			busy--
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, "<ErrorResponse><Error><Code>Throttling</Code><Message>slow down</Message></Error></ErrorResponse>")
		default:
			_, _ = fmt.Fprint(w, `<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>theirs</AccessKeyId><SecretAccessKey>s</SecretAccessKey>`+
				`<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`)
		}
	}))
	defer server.Close()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "own", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "",
	} {
		t.Setenv(name, value)
	}
	const role = "arn:aws:iam::999988887777:role/"
	waits := &naps{}
	s, err := store.New(store.Config{
		Roles: map[string]string{"partner": role + "lake", "second": role + "lake", "shut": role + "closed"}, Sleep: waits.sleep,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, bucket := range []string{"mine", "partner", "second", "partner"} {
		if _, err := s.Head(t.Context(), "s3://"+bucket+"/k"); err != nil {
			t.Errorf("%s: %v", bucket, err)
		}
	}
	if fmt.Sprint(keys) != "map[mine:own partner:theirs second:theirs]" || assumed[role+"lake"] != 3 || len(waits.waits) != 2 {
		t.Errorf("keys %v, assumed %v, %d waits: want one role for two buckets, after two busy answers", keys, assumed, len(waits.waits))
	}
	if _, err := s.Head(t.Context(), "s3://shut/k"); !errors.Is(err, store.ErrPermission) || !strings.Contains(err.Error(), role+"closed") {
		t.Errorf("a role that lets nobody in: %v", err)
	}
}
