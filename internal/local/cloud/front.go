package cloud

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Call is one call of a service by a function.
type Call struct {
	// Role is the caller's role by name, Operator for the test itself.
	Role string
	// Action is service:Name as IAM knows it; an object's reads and writes have their S3 name in Request.
	Action, Request string
	// Resource is the ARN, Body what was sent to services that speak JSON.
	Resource string
	Body     []byte
}

// ServeHTTP implements http.Handler: every service under one endpoint, told apart by the target header; what has none is S3.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	role := accessKey(r)
	if role == "" {
		c.guard.violate("%s %s came without a signature", r.Method, r.URL.Path)
		refuse(w, http.StatusForbidden, "MissingAuthenticationTokenException", "the request is not signed")
		return
	}
	target := r.Header.Get("X-Amz-Target")
	if target == "" && strings.Contains(r.Header.Get("Authorization"), "/sts/aws4_request") {
		c.serveSTS(w, r, role)
		return
	}
	if target == "" {
		c.serveS3(w, r, role)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	service, name, _ := strings.Cut(target, ".")
	serve := map[string]func(http.ResponseWriter, *http.Request, Call){
		"DynamoDB_20120810": c.serveDynamoDB, "AWSGlue": c.serveGlue, "AWSStepFunctions": c.serveStates, "AmazonSQS": c.serveSQS, "AWSEvents": c.serveEvents,
		"secretsmanager": c.serveSecrets,
	}[service]
	if serve == nil {
		c.guard.violate("%s called %s, a service that is not known here", role, target)
		refuse(w, http.StatusBadRequest, "UnknownOperationException", target)
		return
	}
	serve(w, r, Call{Role: role, Request: name, Body: body})
}

// accessKey is the access key that a request is signed with: the name of a role.
func accessKey(r *http.Request) string {
	_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(rest, "/")
	return key
}

// allowed asks the policies for a call, and lets the test disturb it when they allow it. False means that it is answered.
func (c *Cloud) allowed(w http.ResponseWriter, r *http.Request, call Call) bool {
	if call.Role != Operator && !c.guard.role(c.roleARN(call.Role), request(call, nil)) {
		refuse(w, http.StatusBadRequest, "AccessDeniedException", fmt.Sprintf("%s is not authorized to perform: %s on resource: %s", call.Role, call.Action, call.Resource))
		return false
	}
	return c.options.Disturb == nil || !c.options.Disturb(w, r, call)
}

// roleARN is the role behind an access key: one of the stack, or one of another account that somebody has assumed.
func (c *Cloud) roleARN(name string) string {
	c.guard.mu.Lock()
	arn := c.guard.assumed[name]
	c.guard.mu.Unlock()
	if arn != "" {
		return arn
	}
	return "arn:" + c.options.Place.Partition + ":iam::" + c.options.Place.Account + ":role/" + name
}

// refuse answers with an error in the form of services that speak JSON.
func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amzn-Errortype", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": kind, "message": message})
}

// answer answers a call of a service that speaks JSON.
func answer(w http.ResponseWriter, out any) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(out)
}
