package iam

import (
	"slices"
	"strconv"
	"strings"
)

// Request is one call as policies see it.
type Request struct {
	// Action is service:Name, Resource an ARN.
	Action, Resource string
	// Service is the calling service for calls that no role makes, such as events.amazonaws.com.
	Service string
	// Context are the context keys of the request, such as s3:prefix. A key that is absent is not there, which is another thing than an empty one.
	Context map[string]string
}

// Decision is what policies say about a request.
type Decision struct {
	Allowed bool
	// By are the statements that allow it; when one of them is alone, the request needs it.
	By []*Statement
	// Denied is a statement that forbids it, whatever others allow; nil for none.
	Denied *Statement
}

// Evaluate asks the policies of the caller's role and those of the resource. In one account one side's permission is enough; a deny of either wins.
func Evaluate(r Request, identity, resource []*Document) Decision {
	var d Decision
	ask := func(documents []*Document, onResource bool) {
		for _, document := range documents {
			for _, s := range document.Statement {
				if onResource && !s.Principal.matches(r.Service) || !s.applies(r) {
					continue
				}
				if s.Effect == "Deny" {
					if d.Denied == nil {
						d.Denied = s
					}
				} else {
					d.By = append(d.By, s)
				}
			}
		}
	}
	ask(identity, false)
	ask(resource, true)
	d.Allowed = d.Denied == nil && len(d.By) > 0
	return d
}

// Trusts reports whether a trust policy lets a service, or a role by its ARN, assume the role.
func Trusts(document *Document, who string) bool {
	for _, s := range document.Statement {
		named := slices.Contains(s.Principal.Service, who) || slices.Contains(s.Principal.AWS, who)
		if s.Effect == "Allow" && named && slices.Contains(s.Action, "sts:AssumeRole") && len(s.Condition) == 0 {
			return true
		}
	}
	return false
}

func (p *Principal) matches(service string) bool {
	return p.Everybody || service != "" && slices.Contains(p.Service, service)
}

func (s *Statement) applies(r Request) bool {
	action := strings.ToLower(r.Action)
	if !slices.ContainsFunc(s.Action, func(pattern string) bool { return Like(strings.ToLower(pattern), action) }) {
		return false
	}
	if !slices.ContainsFunc(s.Resource, func(pattern string) bool { return Like(pattern, r.Resource) }) {
		return false
	}
	for operator, keys := range s.Condition {
		name, optional := strings.CutSuffix(operator, ifExists)
		holds := operators()[name]
		for key, want := range keys {
			have, present := r.Context[key]
			if !present && optional {
				continue
			}
			if !present || !slices.ContainsFunc(want, func(w string) bool { return holds(w, have) }) {
				return false
			}
		}
	}
	return true
}

const ifExists = "IfExists"

// operators are the known condition operators: want is the policy's value, have the request's.
func operators() map[string]func(want, have string) bool {
	return map[string]func(want, have string) bool{
		"StringEquals": func(want, have string) bool { return want == have },
		"StringLike":   Like,
		"ArnEquals":    Like, // AWS's ArnEquals and ArnLike are the same
		"ArnLike":      Like,
		"Bool":         strings.EqualFold,
		"NumericLessThan": func(want, have string) bool {
			limit, err := strconv.ParseFloat(want, 64)
			n, err2 := strconv.ParseFloat(have, 64)
			return err == nil && err2 == nil && n < limit
		},
	}
}

// Like matches a text against a pattern in which * is any text and ? one character.
func Like(pattern, text string) bool {
	star, back := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, back = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			back++
			p, t = star+1, back
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
