package store_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"firn/internal/store"
)

func TestS3Properties(t *testing.T) {
	for _, c := range []struct {
		name string
		p    map[string]string
		want []string // parts of the error; none: accepted
	}{
		{"none", nil, nil},
		{"strange to us", map[string]string{"s3.preload-client-enabled": "true", "uri": "http://x"}, nil},
		{"endpoint without scheme", map[string]string{"s3.endpoint": "minio:9000"}, []string{"s3.endpoint", "minio:9000"}},
		{"half a key", map[string]string{"s3.access-key-id": "a"}, []string{"s3.secret-access-key"}},
		{"client keys", map[string]string{"client.access-key-id": "a", "client.secret-access-key": "b"}, nil},
		{"path style", map[string]string{"s3.path-style-access": "maybe"}, []string{"s3.path-style-access", "maybe"}},
		{"python's booleans", map[string]string{"s3.force-virtual-addressing": "True"}, nil},
		{"contradiction", map[string]string{"s3.path-style-access": "true", "s3.force-virtual-addressing": "true"}, []string{"contradict"}},
		{"agreement", map[string]string{"s3.path-style-access": "true", "s3.force-virtual-addressing": "false"}, nil},
		{"customer's key", map[string]string{"s3.sse.type": "custom"}, []string{"s3.sse.type", "custom", "kms"}},
		{"timeout", map[string]string{"s3.request-timeout": "-1"}, []string{"s3.request-timeout"}},
		{"remote signing", map[string]string{"s3.remote-signing-enabled": "true"}, []string{"s3.remote-signing-enabled"}},
		{"role", map[string]string{"client.role-arn": "arn"}, []string{"client.role-arn"}},
		{"all at once", map[string]string{"s3.endpoint": "x", "s3.sse.type": "y", "s3.connect-timeout": "z"}, []string{"s3.endpoint", "s3.sse.type", "s3.connect-timeout"}},
	} {
		_, err := store.New(store.Config{Properties: c.p})
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, part := range c.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not name %q", c.name, err, part)
			}
		}
	}
}

func TestS3Addressing(t *testing.T) {
	var host, path string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, path = r.Host, r.URL.Path
		w.WriteHeader(http.StatusOK)
	}))
	defer proxy.Close()
	port := proxy.URL[strings.LastIndexByte(proxy.URL, ':'):]
	keys := map[string]string{"s3.endpoint": "http://localhost" + port, "s3.access-key-id": "a", "s3.secret-access-key": "b"}
	for _, c := range []struct {
		more       []string
		host, path string
	}{
		{nil, "localhost", "/bucket/k/x"},
		{[]string{"s3.path-style-access", "true"}, "localhost", "/bucket/k/x"},
		{[]string{"s3.path-style-access", "false"}, "bucket.localhost", "/k/x"},
		{[]string{"s3.force-virtual-addressing", "true"}, "bucket.localhost", "/k/x"},
		{[]string{"s3.force-virtual-addressing", "false"}, "localhost", "/bucket/k/x"},
	} {
		host, path = "", ""
		_, err := open(t, with(keys, c.more...), &naps{}).Head(t.Context(), "s3://bucket/k/x")
		if host == "" && strings.HasPrefix(c.host, "bucket.") {
			t.Logf("%v: this machine does not resolve bucket.localhost: %v", c.more, err)
			continue
		}
		if host != c.host+port || path != c.path {
			t.Errorf("%v: asked %s %s: %v", c.more, host, path, err)
		}
	}
}

func TestS3WithoutCredentials(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	_, err := open(t, map[string]string{"s3.region": "eu-west-1"}, &naps{}).Get(t.Context(), "s3://b/k")
	if !errors.Is(err, store.ErrPermission) || !strings.Contains(err.Error(), "credentials") {
		t.Errorf("got %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	if _, err = open(t, nil, &naps{}).Get(t.Context(), "s3://b/k"); err == nil || !strings.Contains(err.Error(), "s3.region") {
		t.Errorf("without a region: %v", err)
	}
}
