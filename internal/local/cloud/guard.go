package cloud

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"firn/internal/local/cloud/iam"
	"firn/internal/local/cloud/template"
)

// guard holds calls against policies and remembers what they did not allow.
type guard struct {
	mu         sync.Mutex
	stack      *template.Stack
	violations []string
	// needed counts, by a statement's origin, the calls that it alone allowed; denied those that it forbade.
	needed, denied map[string]int
	// others are roles of other accounts by ARN, assumed those that somebody has assumed, by the access key of the session.
	others  map[string]*template.Role
	assumed map[string]string
}

func newGuard(others map[string]*template.Role) *guard {
	return &guard{needed: map[string]int{}, denied: map[string]int{}, others: others, assumed: map[string]string{}}
}

func (g *guard) use(stack *template.Stack) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stack = stack
}

func (g *guard) violate(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.violations = append(g.violations, fmt.Sprintf(format, args...))
}

func (g *guard) list() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.violations)
}

func (g *guard) forget() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.violations
	g.violations = nil
	return old
}

// role reports whether a role's policies, and those of the resource, allow a request. A refusal is a violation.
func (g *guard) role(arn string, r iam.Request) bool {
	g.mu.Lock()
	documents, _, found := g.stack.Documents(arn)
	if other := g.others[arn]; !found && other != nil {
		for _, p := range other.Policies {
			documents, found = append(documents, p.PolicyDocument), true
		}
	}
	g.mu.Unlock()
	if !found {
		g.violate("%s on %s by %s, which is no role of the stack", r.Action, r.Resource, arn)
		return false
	}
	return g.decide(arn[strings.LastIndex(arn, "/")+1:], r, documents)
}

// service reports whether the policy of a resource lets a service of AWS act on it for a source.
func (g *guard) service(name, source string, r iam.Request) bool {
	r.Service, r.Context = name, map[string]string{"aws:SourceArn": source}
	return g.decide(name, r, nil)
}

func (g *guard) decide(who string, r iam.Request, identity []*iam.Document) bool {
	if r.Context == nil {
		r.Context = map[string]string{}
	}
	r.Context["aws:SecureTransport"], r.Context["s3:TlsVersion"] = "true", "1.3"
	d := iam.Evaluate(r, identity, g.resourcePolicies(r.Resource))
	g.mu.Lock()
	defer g.mu.Unlock()
	if d.Denied != nil {
		g.denied[d.Denied.Origin]++
	}
	if d.Allowed {
		if len(d.By) == 1 {
			g.needed[d.By[0].Origin]++
		}
		return true
	}
	why := "no policy allows it"
	if d.Denied != nil {
		why = "denied by " + d.Denied.Origin
	}
	g.violations = append(g.violations, fmt.Sprintf("%s is not authorized to perform %s on %s %v: %s", who, r.Action, r.Resource, r.Context, why))
	return false
}

// resourcePolicies are the policies of a queue or bucket.
func (g *guard) resourcePolicies(arn string) []*iam.Document {
	g.mu.Lock()
	defer g.mu.Unlock()
	var documents []*iam.Document
	for _, q := range g.stack.Queues {
		for _, p := range g.stack.QueuePolicies {
			if q.ARN == arn && slices.Contains(p.Queues, q.Name) {
				documents = append(documents, p.PolicyDocument)
			}
		}
	}
	for _, t := range g.stack.Topics {
		for _, p := range g.stack.TopicPolicies {
			if t.ARN == arn && slices.Contains(p.Topics, t.ARN) {
				documents = append(documents, p.PolicyDocument)
			}
		}
	}
	for _, b := range g.stack.Buckets {
		for _, p := range g.stack.BucketPolicies {
			if (b.ARN == arn || strings.HasPrefix(arn, b.ARN+"/")) && p.Bucket == b.Name {
				documents = append(documents, p.PolicyDocument)
			}
		}
	}
	return documents
}

// Ask asks the policies of a role, "" for nobody's, and of the resource about a request that nobody makes.
func (c *Cloud) Ask(roleName string, r iam.Request) iam.Decision {
	arn := c.roleARN(roleName) // it asks the guard itself
	c.guard.mu.Lock()
	documents, _, _ := c.guard.stack.Documents(arn)
	c.guard.mu.Unlock()
	d := iam.Evaluate(r, documents, c.guard.resourcePolicies(r.Resource))
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	if d.Denied != nil {
		c.guard.denied[d.Denied.Origin]++
	}
	return d
}

// Unneeded lists statements without which every call so far would have been decided as it was: what a test that watches them cannot notice the loss of.
func (c *Cloud) Unneeded() []string {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	var unneeded []string
	note := func(d *iam.Document) {
		for _, s := range d.Statement {
			if s.Effect == "Allow" && c.guard.needed[s.Origin] == 0 || s.Effect == "Deny" && c.guard.denied[s.Origin] == 0 {
				unneeded = append(unneeded, s.Origin)
			}
		}
	}
	s := c.guard.stack
	for _, r := range s.Roles {
		for _, p := range r.Policies {
			note(p.PolicyDocument)
		}
	}
	for _, p := range s.Policies {
		note(p.PolicyDocument)
	}
	for _, p := range s.QueuePolicies {
		note(p.PolicyDocument)
	}
	for _, p := range s.BucketPolicies {
		note(p.PolicyDocument)
	}
	for _, p := range s.TopicPolicies {
		note(p.PolicyDocument)
	}
	slices.Sort(unneeded)
	return unneeded
}
