package cloud

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"firn/internal/local/cloud/iam"
)

func request(call Call, context map[string]string) iam.Request {
	return iam.Request{Action: call.Action, Resource: call.Resource, Context: context}
}

// serveS3 holds a request of S3 against the caller's role and passes it on. A missing object is answered by 403 where the role may not list the bucket.
func (c *Cloud) serveS3(w http.ResponseWriter, r *http.Request, role string) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	call := Call{Role: role, Request: objectRequest(r, key)}
	bucketARN := "arn:" + c.options.Place.Partition + ":s3:::" + bucket
	keys := []string{key}
	if call.Request == "DeleteObjects" {
		var err error
		if keys, err = keysOf(r); err != nil {
			refuseS3(w, http.StatusBadRequest, "MalformedXML")
			return
		}
	}
	context := map[string]string{}
	for _, name := range []string{"prefix", "delimiter"} {
		if v := r.URL.Query(); v.Has(name) {
			context["s3:"+name] = v.Get(name)
		}
	}
	call.Action = objectActions()[call.Request]
	if call.Action == "" {
		c.guard.violate("%s sent %s %s, a request of S3 that is not known here", role, r.Method, r.URL)
		refuseS3(w, http.StatusNotImplemented, "NotImplemented")
		return
	}
	for _, key := range keys {
		call.Resource = bucketARN
		if !strings.HasPrefix(call.Action, "s3:ListBucket") {
			call.Resource += "/" + key
		}
		if role != Operator && !c.guard.role(c.roleARN(role), request(call, context)) {
			refuseS3(w, http.StatusForbidden, "AccessDenied")
			return
		}
	}
	if c.options.Disturb != nil && c.options.Disturb(w, r, call) {
		return
	}
	seen := &status{ResponseWriter: w, code: http.StatusOK}
	if call.Action == "s3:GetObject" && role != Operator {
		// S3 answers a missing object with 404 only to who may list the bucket.
		seen.missing = func() bool {
			return c.guard.role(c.roleARN(role), iam.Request{Action: "s3:ListBucket", Resource: bucketARN})
		}
	}
	c.options.S3.ServeHTTP(seen, r)
	if seen.code == http.StatusOK && slices.Contains([]string{"PutObject", "CompleteMultipartUpload"}, call.Request) && slices.Contains(c.options.Noisy, bucket) {
		c.Publish("aws.s3", "Object Created", map[string]any{
			"version": "0", "bucket": map[string]any{"name": bucket}, "reason": call.Request, "request-id": "R", "requester": c.options.Place.Account,
			"source-ip-address": "127.0.0.1", "object": map[string]any{"key": key, "size": max(r.ContentLength, 0), "etag": "x", "sequencer": "0"},
		})
	}
}

// status remembers the status of an answer, and turns 404 into 403 for who may not know that an object is missing.
type status struct {
	http.ResponseWriter

	code    int
	missing func() bool
	hidden  bool
}

// WriteHeader implements http.ResponseWriter.
func (s *status) WriteHeader(code int) {
	s.code = code
	if code == http.StatusNotFound && s.missing != nil && !s.missing() {
		s.hidden = true
		refuseS3(s.ResponseWriter, http.StatusForbidden, "AccessDenied")
		return
	}
	s.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (s *status) Write(data []byte) (int, error) {
	if s.hidden {
		return len(data), nil
	}
	return s.ResponseWriter.Write(data)
}

// objectActions are IAM's names of S3's requests.
func objectActions() map[string]string {
	return map[string]string{
		"GetObject": "s3:GetObject", "HeadObject": "s3:GetObject", "PutObject": "s3:PutObject", "CreateMultipartUpload": "s3:PutObject",
		"UploadPart": "s3:PutObject", "CompleteMultipartUpload": "s3:PutObject", "AbortMultipartUpload": "s3:AbortMultipartUpload",
		"DeleteObject": "s3:DeleteObject", "DeleteObjects": "s3:DeleteObject", "ListObjectsV2": "s3:ListBucket",
		"ListMultipartUploads": "s3:ListBucketMultipartUploads", "ListParts": "s3:ListMultipartUploadParts",
	}
}

// objectRequest is S3's name of a path-style request, "" for one that is not known here.
func objectRequest(r *http.Request, key string) string {
	query, object := r.URL.Query(), key != ""
	switch {
	case r.Method == http.MethodPost && query.Has("delete") && !object:
		return "DeleteObjects"
	case r.Method == http.MethodGet && query.Has("uploads") && !object:
		return "ListMultipartUploads"
	case r.Method == http.MethodGet && query.Get("list-type") == "2" && !object:
		return "ListObjectsV2"
	case r.Method == http.MethodPost && query.Has("uploads") && object:
		return "CreateMultipartUpload"
	case r.Method == http.MethodPost && query.Has("uploadId") && object:
		return "CompleteMultipartUpload"
	case r.Method == http.MethodGet && query.Has("uploadId") && object:
		return "ListParts"
	case r.Method == http.MethodPut && query.Has("uploadId") && object:
		return "UploadPart"
	case r.Method == http.MethodDelete && query.Has("uploadId") && object:
		return "AbortMultipartUpload"
	case r.Header.Get("X-Amz-Copy-Source") != "" || !object:
		return ""
	}
	return map[string]string{
		http.MethodGet: "GetObject", http.MethodHead: "HeadObject", http.MethodPut: "PutObject", http.MethodDelete: "DeleteObject",
	}[r.Method]
}

// keysOf are the keys of a DeleteObjects; the body can be read again.
func keysOf(r *http.Request) ([]string, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var in struct{ Object []struct{ Key string } }
	if err := xml.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	var keys []string
	for _, o := range in.Object {
		keys = append(keys, o.Key)
	}
	return keys, nil
}

func refuseS3(w http.ResponseWriter, code int, kind string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>refused by the local stack</Message></Error>", kind)
}
