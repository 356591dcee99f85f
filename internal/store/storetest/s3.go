package storetest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// S3Server is an S3 server in this process that keeps its objects in memory.
type S3Server struct {
	// Properties reach it: endpoint, region and keys under the names that store.New reads.
	Properties map[string]string
	// Intercept, when set, sees each request first and answers true when it has answered it. Set it before the first request.
	Intercept func(http.ResponseWriter, *http.Request) bool

	inner   http.Handler
	backend *s3mem.Backend
	clock   *seedClock
	mu      sync.Mutex
	calls   map[string]int
	write   sync.Mutex
	// versions are under write.
	versions versions
}

// NewS3Server starts a server with the buckets and stops it with the test. It refuses what AWS refuses and gofakes3 lets through: a GET whose
// If-Match does not hold, the completion of an upload under If-None-Match when the object exists, and more than 1,000 keys in a
// DeleteObjects.
func NewS3Server(t testing.TB, buckets ...string) *S3Server {
	t.Helper()
	clock := &seedClock{}
	backend := s3mem.New(s3mem.WithTimeSource(clock))
	for _, b := range buckets {
		if err := backend.CreateBucket(b); err != nil {
			t.Fatal(err)
		}
	}
	s := &S3Server{inner: gofakes3.New(backend).Server(), backend: backend, clock: clock, calls: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.Properties = map[string]string{
		"s3.endpoint": server.URL, "s3.region": "us-east-1", "s3.access-key-id": "test", "s3.secret-access-key": "testtest",
	}
	return s
}

// seedClock tells the real time, but while an object is seeded.
type seedClock struct{ at atomic.Pointer[time.Time] }

// Now implements gofakes3.TimeSource.
func (c *seedClock) Now() time.Time {
	if at := c.at.Load(); at != nil {
		return at.UTC()
	}
	return time.Now().UTC()
}

// Since implements gofakes3.TimeSource.
func (c *seedClock) Since(at time.Time) time.Duration { return c.Now().Sub(at) }

// Seed puts an object as if it had been written at a time. Nothing else may write meanwhile.
func (s *S3Server) Seed(t testing.TB, bucket, key string, data []byte, at time.Time) {
	t.Helper()
	s.clock.at.Store(&at)
	defer s.clock.at.Store(nil)
	meta := map[string]string{"Last-Modified": at.UTC().Format(http.TimeFormat)}
	if _, err := s.backend.PutObject(bucket, key, meta, bytes.NewReader(data), int64(len(data)), nil); err != nil {
		t.Fatal(err)
	}
	s.write.Lock()
	defer s.write.Unlock()
	s.keep(bucket, key, false)
}

// Requests counts the requests so far by S3's names ("GetObject", "ListObjectsV2", ...).
func (s *S3Server) Requests(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}

// ResetRequests sets all counts to 0.
func (s *S3Server) ResetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.calls)
}

// ServeHTTP implements http.Handler.
func (s *S3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := RequestName(r)
	s.mu.Lock()
	s.calls[name]++
	s.mu.Unlock()
	if s.Intercept != nil && s.Intercept(w, r) {
		return
	}
	s.Pass(w, r)
}

// Pass serves a request without Intercept: with another ResponseWriter, an Intercept carries a call out and loses its answer.
func (s *S3Server) Pass(w http.ResponseWriter, r *http.Request) {
	if s.versioned(w, r) {
		return
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch RequestName(r) {
	case "GetObject":
		if want := r.Header.Get("If-Match"); want != "" && s.tag(r) != want {
			Refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
	case "PutObject":
		s.write.Lock()
		defer s.write.Unlock()
		w = &statusWriter{ResponseWriter: w}
		defer s.keepWritten(w.(*statusWriter), bucket, key)
	case "CompleteMultipartUpload":
		s.write.Lock()
		defer s.write.Unlock()
		if r.Header.Get("If-None-Match") == "*" && s.tag(r) != "" {
			Refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		w = &statusWriter{ResponseWriter: w}
		defer s.keepWritten(w.(*statusWriter), bucket, key)
	case "DeleteObjects":
		body, err := io.ReadAll(r.Body)
		var request struct{ Object []struct{ Key string } }
		if err != nil || xml.Unmarshal(body, &request) != nil || len(request.Object) > 1000 {
			Refuse(w, http.StatusBadRequest, "MalformedXML")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.write.Lock()
		defer s.write.Unlock()
		for _, o := range request.Object {
			defer s.keep(bucket, o.Key, true)
		}
	}
	s.inner.ServeHTTP(w, r)
}

// statusWriter remembers how a request ended.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// keepWritten keeps a version of what a request wrote, if it did.
func (s *S3Server) keepWritten(w *statusWriter, bucket, key string) {
	if w.status == 0 || w.status == http.StatusOK {
		s.keep(bucket, key, false)
	}
}

// tag is the ETag of the request's object, "" when there is none.
func (s *S3Server) tag(r *http.Request) string {
	head := r.Clone(r.Context())
	head.Method, head.Body, head.URL.RawQuery, head.Header = http.MethodHead, http.NoBody, "", http.Header{}
	answer := httptest.NewRecorder()
	s.inner.ServeHTTP(answer, head)
	if answer.Code != http.StatusOK {
		return ""
	}
	return answer.Header().Get("ETag")
}

// RequestName is S3's name of a path-style request.
func RequestName(r *http.Request) string {
	query := r.URL.Query()
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	for _, c := range []struct {
		method, parameter string
		object            bool
		name              string
	}{
		{http.MethodPost, "delete", false, "DeleteObjects"},
		{http.MethodGet, "uploads", false, "ListMultipartUploads"},
		{http.MethodGet, "versions", false, "ListObjectVersions"},
		{http.MethodGet, "list-type", false, "ListObjectsV2"},
		{http.MethodPost, "uploads", true, "CreateMultipartUpload"},
		{http.MethodPut, "uploadId", true, "UploadPart"},
		{http.MethodPost, "uploadId", true, "CompleteMultipartUpload"},
		{http.MethodDelete, "uploadId", true, "AbortMultipartUpload"},
		{http.MethodGet, "", true, "GetObject"},
		{http.MethodHead, "", true, "HeadObject"},
		{http.MethodPut, "", true, "PutObject"},
		{http.MethodDelete, "", true, "DeleteObject"},
	} {
		if r.Method == c.method && (key != "") == c.object && (c.parameter == "" || query.Has(c.parameter)) {
			return c.name
		}
	}
	return r.Method
}

// Refuse answers a request as S3 answers an error.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>made for the test</Message></Error>", code)
}
