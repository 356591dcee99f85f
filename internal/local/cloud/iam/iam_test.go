package iam_test

import (
	"encoding/json"
	"strings"
	"testing"

	"firn/internal/local/cloud/iam"
)

func document(t *testing.T, text string) *iam.Document {
	t.Helper()
	var d iam.Document
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		t.Fatal(err)
	}
	d.Label("role")
	return &d
}

// TestEvaluate holds decisions against the rules of the policy language, one rule a row.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	role := document(t, `{"Version":"2012-10-17","Statement":[
		{"Sid":"Read","Effect":"Allow","Action":["s3:GetObject","s3:Put*"],"Resource":"arn:aws:s3:::lake/wh/*"},
		{"Sid":"NoMetadata","Effect":"Deny","Action":"s3:PutObject","Resource":"arn:aws:s3:::lake/wh/*/metadata/*"},
		{"Sid":"List","Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws:s3:::lake","Condition":{"StringLikeIfExists":{"s3:prefix":["wh","wh/*"]}}},
		{"Sid":"Uploads","Effect":"Allow","Action":"s3:ListBucketMultipartUploads","Resource":"arn:aws:s3:::lake","Condition":{"StringLike":{"s3:prefix":["wh","wh/*"]}}},
		{"Sid":"Again","Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::lake/wh/one"}]}`)
	bucket := document(t, `{"Version":"2012-10-17","Statement":[
		{"Effect":"Deny","Principal":{"AWS":"*"},"Action":"s3:*","Resource":["arn:aws:s3:::lake","arn:aws:s3:::lake/*"],"Condition":{"Bool":{"aws:SecureTransport":"false"}}},
		{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"*","Condition":{"NumericLessThan":{"s3:TlsVersion":1.2}}},
		{"Sid":"Service","Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":"sqs:SendMessage","Resource":"q","Condition":{"ArnEquals":{"aws:SourceArn":"arn:rule"}}}]}`)
	if err := role.Check(iam.Identity); err != nil {
		t.Fatal(err)
	}
	if err := bucket.Check(iam.Resource); err != nil {
		t.Fatal(err)
	}
	tls := map[string]string{"aws:SecureTransport": "true", "s3:TlsVersion": "1.3"}
	with := func(key, value string) map[string]string {
		return map[string]string{"aws:SecureTransport": "true", "s3:TlsVersion": "1.3", key: value}
	}
	for name, c := range map[string]struct {
		request iam.Request
		allowed bool
		by      int
	}{
		"granted":                       {iam.Request{Action: "s3:GetObject", Resource: "arn:aws:s3:::lake/wh/a/b", Context: tls}, true, 1},
		"action's case does not matter": {iam.Request{Action: "S3:getobject", Resource: "arn:aws:s3:::lake/wh/a", Context: tls}, true, 1},
		"two statements":                {iam.Request{Action: "s3:GetObject", Resource: "arn:aws:s3:::lake/wh/one", Context: tls}, true, 2},
		"another prefix":                {iam.Request{Action: "s3:GetObject", Resource: "arn:aws:s3:::lake/whx/a", Context: tls}, false, 0},
		"another action":                {iam.Request{Action: "s3:DeleteObject", Resource: "arn:aws:s3:::lake/wh/a", Context: tls}, false, 0},
		"wildcard in the action":        {iam.Request{Action: "s3:PutObject", Resource: "arn:aws:s3:::lake/wh/t/data/a", Context: tls}, true, 1},
		"a deny wins":                   {iam.Request{Action: "s3:PutObject", Resource: "arn:aws:s3:::lake/wh/t/metadata/a", Context: tls}, false, 1},
		"condition holds":               {iam.Request{Action: "s3:ListBucket", Resource: "arn:aws:s3:::lake", Context: with("s3:prefix", "wh/t")}, true, 1},
		"condition fails":               {iam.Request{Action: "s3:ListBucket", Resource: "arn:aws:s3:::lake", Context: with("s3:prefix", "other")}, false, 0},
		"absent key, IfExists":          {iam.Request{Action: "s3:ListBucket", Resource: "arn:aws:s3:::lake", Context: tls}, true, 1},
		"absent key":                    {iam.Request{Action: "s3:ListBucketMultipartUploads", Resource: "arn:aws:s3:::lake", Context: tls}, false, 0},
		"no TLS":                        {iam.Request{Action: "s3:GetObject", Resource: "arn:aws:s3:::lake/wh/a", Context: with("aws:SecureTransport", "false")}, false, 1},
		"old TLS":                       {iam.Request{Action: "s3:GetObject", Resource: "arn:aws:s3:::lake/wh/a", Context: with("s3:TlsVersion", "1.1")}, false, 1},
		"a service":                     {iam.Request{Action: "sqs:SendMessage", Resource: "q", Service: "events.amazonaws.com", Context: with("aws:SourceArn", "arn:rule")}, true, 1},
		"a service for another rule":    {iam.Request{Action: "sqs:SendMessage", Resource: "q", Service: "events.amazonaws.com", Context: with("aws:SourceArn", "arn:other")}, false, 0},
		"another service":               {iam.Request{Action: "sqs:SendMessage", Resource: "q", Service: "sns.amazonaws.com", Context: with("aws:SourceArn", "arn:rule")}, false, 0},
	} {
		d := iam.Evaluate(c.request, []*iam.Document{role}, []*iam.Document{bucket})
		if d.Allowed != c.allowed || len(d.By) != c.by {
			t.Errorf("%s: allowed %t by %d statements, want %t by %d", name, d.Allowed, len(d.By), c.allowed, c.by)
		}
	}
}

// TestUnknownIsRefused: what this package does not evaluate it does not read.
func TestUnknownIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"condition operator": `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*","Condition":{"IpAddress":{"aws:SourceIp":"1.2.3.4"}}}]}`,
		"NotAction":          `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","NotAction":"s3:GetObject","Resource":"*"}]}`,
		"no resource":        `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject"}]}`,
		"effect":             `{"Version":"2012-10-17","Statement":[{"Effect":"allow","Action":"s3:GetObject","Resource":"*"}]}`,
		"principal":          `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"*"}]}`,
		"action":             `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"GetObject","Resource":"*"}]}`,
		"version":            `{"Version":"2008-10-17","Statement":[]}`,
	} {
		var d iam.Document
		dec := json.NewDecoder(strings.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&d); err == nil && d.Check(iam.Identity) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestLike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"*a*b*", "xxaxxbxx", true},
		{"*a*b", "aab", true},
		{"*.json", "x.json.gz", false},
		{"a", "ab", false},
		{"ab", "a", false},
		{"a**", "a", true},
	} {
		if iam.Like(c.pattern, c.text) != c.want {
			t.Errorf("Like(%q, %q): want %t", c.pattern, c.text, c.want)
		}
	}
}
