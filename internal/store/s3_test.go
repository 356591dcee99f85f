package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firn/internal/store"
	"firn/internal/store/storetest"
)

func TestS3Conformance(t *testing.T) {
	t.Parallel()
	server := storetest.NewS3Server(t, "bucket")
	storetest.Run(t, func(t *testing.T) store.Full { return open(t, server.Properties, nil) }, "s3://bucket/root")
}

// naps records waits instead of waiting.
type naps struct {
	mu      sync.Mutex
	waits   []time.Duration
	retries []store.Retry
}

func (n *naps) sleep(ctx context.Context, d time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waits = append(n.waits, d)
	return ctx.Err()
}

// open returns the S3 store of the properties; with naps it does not wait.
func open(t testing.TB, properties map[string]string, n *naps) store.Full {
	t.Helper()
	cfg := store.Config{Properties: properties}
	if n != nil {
		cfg.Sleep = n.sleep
		cfg.OnRetry = func(r store.Retry) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.retries = append(n.retries, r)
		}
	}
	s, err := store.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func with(properties map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, properties)
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func TestS3RequestCounts(t *testing.T) {
	server := storetest.NewS3Server(t, "one", "two")
	s := open(t, server.Properties, nil)
	for _, c := range []struct {
		name string
		do   func() error
		want map[string]int
	}{
		{"a small object is put by one request", func() error { return s.Put(t.Context(), "s3://one/a", []byte("x"), store.WriteOptions{}) }, map[string]int{"PutObject": 1}},
		{"a small stream is put by one request", func() error {
			up, err := s.Create(t.Context(), "s3a://two/b", store.WriteOptions{})
			if err != nil {
				return err
			}
			if _, err := up.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
			return up.Commit(t.Context())
		}, map[string]int{"PutObject": 1}},
		{"a stream of three parts", func() error {
			up, err := s.Create(t.Context(), "s3://one/c", store.WriteOptions{})
			if err != nil {
				return err
			}
			if _, err := up.Write(make([]byte, 33<<20)); err != nil {
				return err
			}
			return up.Commit(t.Context())
		}, map[string]int{"CreateMultipartUpload": 1, "UploadPart": 3, "CompleteMultipartUpload": 1}},
		{"an aborted stream that sent nothing", func() error {
			up, err := s.Create(t.Context(), "s3://one/d", store.WriteOptions{})
			if err != nil {
				return err
			}
			_, err = up.Write([]byte("x"))
			return errors.Join(err, up.Abort(t.Context()))
		}, map[string]int{}},
		{"an object is read by one request", func() error { _, err := s.Get(t.Context(), "s3://two/b"); return err }, map[string]int{"GetObject": 1}},
		{"so is a range", func() error { _, err := s.GetRange(t.Context(), "s3://one/c", 100, 8); return err }, map[string]int{"GetObject": 1}},
		{"and a tail", func() error { _, err := s.GetRange(t.Context(), "s3://one/c", -8, 8); return err }, map[string]int{"GetObject": 1}},
		{"a short listing is one request", func() error {
			for _, err := range s.List(t.Context(), "s3://one/", store.ListOptions{}) {
				if err != nil {
					return err
				}
			}
			return nil
		}, map[string]int{"ListObjectsV2": 1}},
		{"a delete is one request a bucket", func() error {
			n, failures, err := s.Delete(t.Context(), []string{"s3://one/a", "s3://two/b", "s3n://one/c", "s3a://one/a"})
			if n != 3 || len(failures) != 0 {
				return fmt.Errorf("deleted %d, %v, %w", n, failures, err)
			}
			return err
		}, map[string]int{"DeleteObjects": 2}},
	} {
		server.ResetRequests()
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, name := range []string{
			"GetObject", "HeadObject", "PutObject", "DeleteObject", "DeleteObjects", "ListObjectsV2", "ListMultipartUploads",
			"CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "AbortMultipartUpload",
		} {
			if got := server.Requests(name); got != c.want[name] {
				t.Errorf("%s: %d %s: want %d", c.name, got, name, c.want[name])
			}
		}
	}
}

// answering makes a server refuse the requests of a name by the statuses and codes, in turn, then serve.
func answering(server *storetest.S3Server, name string, statuses []int, codes []string) *atomic.Int64 {
	var n atomic.Int64
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if storetest.RequestName(r) != name {
			return false
		}
		i := int(n.Add(1)) - 1
		if i >= len(statuses) {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if statuses[i] == 0 {
			panic(http.ErrAbortHandler) // a broken connection
		}
		storetest.Refuse(w, statuses[i], codes[i])
		return true
	}
	return &n
}

func repeat[T any](v T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func TestS3Errors(t *testing.T) {
	all := []error{store.ErrNotFound, store.ErrExists, store.ErrPermission, store.ErrTransient, store.ErrArchived}
	for _, c := range []struct {
		status   int
		code     string
		times    int
		class    error // nil: none
		ok       bool
		requests int64
	}{
		{403, "AccessDenied", 100, store.ErrPermission, false, 1},
		{401, "Unauthorized", 100, store.ErrPermission, false, 1},
		{400, "ExpiredToken", 100, store.ErrPermission, false, 1},
		{403, "InvalidObjectState", 100, store.ErrArchived, false, 1},
		{404, "NoSuchKey", 100, store.ErrNotFound, false, 1},
		{404, "NoSuchBucket", 100, nil, false, 1},
		{400, "InvalidRequest", 100, nil, false, 1},
		{400, "KMS.DisabledException", 100, nil, false, 1},
		{501, "NotImplemented", 100, nil, false, 1},
		{503, "SlowDown", 100, store.ErrTransient, false, 7},
		{503, "SlowDown", 6, nil, true, 7},
		{500, "InternalError", 1, nil, true, 2},
		{502, "", 1, nil, true, 2},
		{429, "TooManyRequests", 1, nil, true, 2},
		{400, "RequestTimeout", 1, nil, true, 2},
		{0, "", 3, nil, true, 3},
		{0, "", 100, store.ErrTransient, false, 7},
	} {
		t.Run(fmt.Sprintf("%d %s %d", c.status, c.code, c.times), func(t *testing.T) {
			t.Parallel()
			server := storetest.NewS3Server(t, "b")
			requests := answering(server, "GetObject", repeat(c.status, c.times), repeat(c.code, c.times))
			var n naps
			s := open(t, server.Properties, &n)
			if err := s.Put(t.Context(), "s3://b/k", []byte("content"), store.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			data, err := s.Get(t.Context(), "s3://b/k")
			if c.ok && (err != nil || string(data) != "content") {
				t.Errorf("got %q %v", data, err)
			}
			if !c.ok && err == nil {
				t.Error("no error")
			}
			for _, class := range all {
				if want := c.class != nil && errors.Is(c.class, class); errors.Is(err, class) != want {
					t.Errorf("is %v a %v? %v", err, class, errors.Is(err, class))
				}
			}
			if c.status == 0 && requests.Load() >= c.requests {
				return // net/http may repeat a GET by itself when a kept connection breaks
			}
			if requests.Load() != c.requests || int64(len(n.waits)) != c.requests-1 || len(n.retries) != len(n.waits) {
				t.Errorf("%d requests, waits %v", requests.Load(), n.waits)
			}
			for i, d := range n.waits {
				if longest := 200 * time.Millisecond << i; d < longest/2 || d > longest {
					t.Errorf("wait %d is %v", i, d)
				}
			}
		})
	}
}

// losing lets requests of a name through and loses their answers, n times.
func losing(server *storetest.S3Server, name string, n int) {
	var lost atomic.Int64
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if storetest.RequestName(r) != name || lost.Add(1) > int64(n) {
			return false
		}
		server.Pass(httptest.NewRecorder(), r)
		storetest.Refuse(w, http.StatusInternalServerError, "InternalError")
		return true
	}
}

func TestS3LostAnswers(t *testing.T) {
	once := store.WriteOptions{IfAbsent: true}
	write := func(t *testing.T, s store.Full, size int) error {
		t.Helper()
		up, err := s.Create(t.Context(), "s3://b/k", once)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := up.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		return up.Commit(t.Context())
	}
	for _, c := range []struct {
		name, request string
		size          int
	}{{"put", "PutObject", 10}, {"complete", "CompleteMultipartUpload", 17 << 20}} {
		t.Run(c.name, func(t *testing.T) {
			server := storetest.NewS3Server(t, "b")
			losing(server, c.request, 1)
			s := open(t, server.Properties, &naps{})
			if err := write(t, s, c.size); err != nil {
				t.Errorf("the write lost against itself: %v", err)
			}
			if err := write(t, s, c.size); !errors.Is(err, store.ErrExists) {
				t.Errorf("the second writer got %v", err)
			}
		})
		t.Run(c.name+" refused, then lost to another", func(t *testing.T) {
			server := storetest.NewS3Server(t, "b")
			other := open(t, server.Properties, nil)
			var n atomic.Int64
			server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
				if storetest.RequestName(r) != c.request || n.Add(1) > 1 {
					return false
				}
				_, _ = io.Copy(io.Discard, r.Body)
				if err := other.Put(t.Context(), "s3://b/k", []byte("other"), store.WriteOptions{}); err != nil {
					t.Error(err)
				}
				storetest.Refuse(w, http.StatusInternalServerError, "InternalError")
				return true
			}
			if err := write(t, open(t, server.Properties, &naps{}), c.size); !errors.Is(err, store.ErrExists) {
				t.Errorf("got %v", err)
			}
			if got, err := other.Get(t.Context(), "s3://b/k"); err != nil || string(got) != "other" {
				t.Errorf("the other's object became %q %v", got, err)
			}
		})
		t.Run(c.name+" meets a concurrent write", func(t *testing.T) {
			server := storetest.NewS3Server(t, "b")
			requests := answering(server, c.request, []int{409}, []string{"ConditionalRequestConflict"})
			if err := write(t, open(t, server.Properties, &naps{}), c.size); err != nil || requests.Load() != 2 {
				t.Errorf("%d requests, %v", requests.Load(), err)
			}
		})
	}
}

func TestS3FailedPartEndsTheUpload(t *testing.T) {
	server := storetest.NewS3Server(t, "b")
	answering(server, "UploadPart", repeat(403, 100), repeat("AccessDenied", 100))
	s := open(t, server.Properties, &naps{})
	up, err := s.Create(t.Context(), "s3://b/k", store.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = up.Write(make([]byte, 40<<20))
	if err == nil {
		err = up.Commit(t.Context())
	}
	if !errors.Is(err, store.ErrPermission) {
		t.Errorf("got %v", err)
	}
	if err := up.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	for u, err := range s.Uploads(t.Context(), "s3://b/") {
		t.Errorf("an upload was left: %v %v", u, err)
	}
}

func TestS3SlowBodyEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("start"))
		w.(http.Flusher).Flush()
		<-release
	}))
	defer server.Close()
	defer close(release)
	properties := map[string]string{"s3.endpoint": server.URL, "s3.access-key-id": "a", "s3.secret-access-key": "b"}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := open(t, properties, nil).Get(ctx, "s3://b/k"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrTransient) {
		t.Errorf("the caller's deadline gives %v", err)
	}
	properties["s3.request-timeout"] = "0.02"
	var n naps
	if _, err := open(t, properties, &n).Get(t.Context(), "s3://b/k"); !errors.Is(err, store.ErrTransient) || len(n.waits) != 6 {
		t.Errorf("the attempt's deadline gives %v after %d repetitions", err, len(n.waits))
	}
}

func TestS3ShortBodyIsReadAgain(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		if n.Add(1) < 3 {
			_, _ = w.Write([]byte("01234"))
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("0123456789"))
	}))
	defer server.Close()
	properties := map[string]string{"s3.endpoint": server.URL, "s3.access-key-id": "a", "s3.secret-access-key": "b"}
	data, err := open(t, properties, &naps{}).Get(t.Context(), "s3://b/k")
	if err != nil || string(data) != "0123456789" || n.Load() != 3 {
		t.Errorf("got %q %v after %d requests", data, err, n.Load())
	}
	// This server does not know ranges either: the part is cut here.
	data, err = open(t, properties, &naps{}).GetRange(t.Context(), "s3://b/k", 2, 3)
	if err != nil || string(data) != "234" {
		t.Errorf("range: %q %v", data, err)
	}
}

func TestS3EncryptionGoesWithEveryWrite(t *testing.T) {
	for _, c := range []struct{ kind, key, algorithm, id string }{
		{"kms", "arn:aws:kms:eu-west-1:1:key/k", "aws:kms", "arn:aws:kms:eu-west-1:1:key/k"},
		{"kms", "", "aws:kms", ""},
		{"dsse-kms", "key", "aws:kms:dsse", "key"},
		{"s3", "", "AES256", ""},
		{"none", "", "", ""},
		{"", "", "", ""},
	} {
		server := storetest.NewS3Server(t, "b")
		var writes atomic.Int64
		server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
			name := storetest.RequestName(r)
			if name != "PutObject" && name != "CreateMultipartUpload" {
				return false
			}
			writes.Add(1)
			if r.Header.Get("X-Amz-Server-Side-Encryption") != c.algorithm || r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != c.id {
				_, _ = io.Copy(io.Discard, r.Body)
				storetest.Refuse(w, http.StatusForbidden, "AccessDenied")
				return true
			}
			return false
		}
		s := open(t, with(server.Properties, "s3.sse.type", c.kind, "s3.sse.key", c.key), nil)
		if err := s.Put(t.Context(), "s3://b/put", []byte("x"), store.WriteOptions{IfAbsent: true}); err != nil {
			t.Errorf("%s: put: %v", c.kind, err)
		}
		for _, size := range []int{10, 17 << 20} {
			up, err := s.Create(t.Context(), "s3://b/up", store.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := up.Write(make([]byte, size)); err != nil {
				t.Errorf("%s: write: %v", c.kind, err)
			}
			if err := up.Commit(t.Context()); err != nil {
				t.Errorf("%s: commit: %v", c.kind, err)
			}
		}
		if writes.Load() != 3 {
			t.Errorf("%s: %d writes", c.kind, writes.Load())
		}
	}
}

func TestS3ContentType(t *testing.T) {
	server := storetest.NewS3Server(t, "b")
	var got []string
	server.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		got = append(got, r.Header.Get("Content-Type"))
		return false
	}
	s := open(t, server.Properties, nil)
	if err := s.Put(t.Context(), "s3://b/k", []byte("{}"), store.WriteOptions{ContentType: "application/json"}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"application/json"}) {
		t.Errorf("got %q", got)
	}
}

func TestS3UploadContentSurvivesBufferReuse(t *testing.T) {
	server := storetest.NewS3Server(t, "b")
	s := open(t, server.Properties, nil)
	content := make([]byte, 50<<20)
	for i := range content {
		content[i] = byte(i * 7 >> 3)
	}
	up, err := s.Create(t.Context(), "s3://b/k", store.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scratch := make([]byte, 3<<20+1)
	for rest := content; len(rest) > 0; {
		n := copy(scratch, rest)
		if _, err := up.Write(scratch[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := up.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(t.Context(), "s3://b/k")
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("another content, %v", err)
	}
}
