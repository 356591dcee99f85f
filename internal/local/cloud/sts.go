package cloud

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"firn/internal/local/cloud/iam"
)

// maxChained is the longest session, in seconds, of who is in a role already.
const maxChained = 3600

// serveSTS lets a role assume one of another account: its own policy must allow that, and the other's trust policy must name it.
func (c *Cloud) serveSTS(w http.ResponseWriter, r *http.Request, caller string) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
	if err := r.ParseForm(); err != nil || r.PostForm.Get("Action") != "AssumeRole" || r.PostForm.Get("RoleSessionName") == "" {
		c.guard.violate("%s called sts:%s, which is not known here", caller, r.PostForm.Get("Action"))
		refuseSTS(w, "InvalidAction", "")
		return
	}
	arn := r.PostForm.Get("RoleArn")
	if seconds, err := strconv.Atoi(r.PostForm.Get("DurationSeconds")); err != nil || seconds < 900 || seconds > maxChained {
		c.guard.violate("%s wants a session of %s seconds", caller, r.PostForm.Get("DurationSeconds"))
		refuseSTS(w, "ValidationError", "DurationSeconds")
		return
	}
	from, other := c.roleARN(caller), c.options.Others[arn]
	allowed := c.guard.role(from, iam.Request{Action: "sts:AssumeRole", Resource: arn})
	if allowed && (other == nil || !iam.Trusts(other.AssumeRolePolicyDocument, from)) {
		c.guard.violate("role %s does not trust %s", arn, from)
		allowed = false
	}
	if !allowed {
		refuseSTS(w, "AccessDenied", fmt.Sprintf("User: %s is not authorized to perform: sts:AssumeRole on resource: %s", from, arn))
		return
	}
	key := "assumed-" + arn[strings.LastIndex(arn, "/")+1:]
	c.guard.mu.Lock()
	c.guard.assumed[key] = arn
	c.guard.mu.Unlock()
	type session struct{ AccessKeyId, SecretAccessKey, SessionToken, Expiration string }
	var out struct {
		XMLName xml.Name `xml:"AssumeRoleResponse"`
		Session session  `xml:"AssumeRoleResult>Credentials"`
	}
	out.Session = session{key, "local", "local", c.options.Now().Add(maxChained * time.Second).UTC().Format(time.RFC3339)}
	answerSTS(w, http.StatusOK, out)
}

func refuseSTS(w http.ResponseWriter, code, message string) {
	var out struct {
		XMLName xml.Name `xml:"ErrorResponse"`
		Code    string   `xml:"Error>Code"`
		Message string   `xml:"Error>Message"`
	}
	out.Code, out.Message = code, message
	answerSTS(w, http.StatusForbidden, out)
}

func answerSTS(w http.ResponseWriter, status int, out any) {
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(out)
}

// Assumed lists the roles of other accounts that functions have assumed so far, sorted.
func (c *Cloud) Assumed() []string {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	return slices.Sorted(maps.Values(c.guard.assumed))
}
