// Package iam decides as AWS's Identity and Access Management would whether a request is allowed, for the part of its policy language that Firn's
// template uses. A document with anything else is refused when it is read: a condition that nobody checks would allow too much.
package iam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Document is a policy document.
type Document struct {
	Version   string
	Statement []*Statement
}

// Statement is one statement of a document.
type Statement struct {
	Sid    string
	Effect string
	// Action and Resource may hold * and ?. A trust policy has no resource.
	Action, Resource Strings
	// Principal is set in policies of resources and in trust policies.
	Principal *Principal
	// Condition is by operator, then by context key.
	Condition map[string]map[string]Strings

	// Origin says where the statement stands, for people; see Label.
	Origin string `json:"-"`
}

// Principal is who a statement of a resource's policy is about: everybody, or services and accounts by name.
type Principal struct {
	Everybody    bool
	AWS, Service Strings
}

// Strings is one text or a list of them.
type Strings []string

// UnmarshalJSON implements json.Unmarshaler. Numbers and truth values become text, as conditions write them either way.
func (s *Strings) UnmarshalJSON(data []byte) error {
	var list []any
	if err := json.Unmarshal(data, &list); err != nil {
		var one any
		if err := json.Unmarshal(data, &one); err != nil {
			return fmt.Errorf("read value of policy: %w", err)
		}
		list = []any{one}
	}
	*s = nil
	for _, v := range list {
		switch v := v.(type) {
		case string:
			*s = append(*s, v)
		case bool:
			*s = append(*s, strconv.FormatBool(v))
		case float64:
			*s = append(*s, strconv.FormatFloat(v, 'g', -1, 64))
		default:
			return fmt.Errorf("read value of policy: %s is no text", data)
		}
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Principal) UnmarshalJSON(data []byte) error {
	if string(data) == `"*"` {
		p.Everybody = true
		return nil
	}
	var named struct{ AWS, Service Strings }
	if err := strict(data, &named); err != nil {
		return fmt.Errorf("read principal: %w", err)
	}
	p.AWS, p.Service = named.AWS, named.Service
	p.Everybody = slices.Contains(named.AWS, "*")
	return nil
}

func strict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// Label gives every statement its origin: where the document stands, and the statement's Sid or number.
func (d *Document) Label(where string) {
	for i, s := range d.Statement {
		name := s.Sid
		if name == "" {
			name = strconv.Itoa(i)
		}
		s.Origin = where + "/" + name
	}
}

// Check faults what a document of that kind must not hold, or what this package does not know: all faults at once.
func (d *Document) Check(kind Kind) error {
	var faults []error
	if d.Version != "2012-10-17" {
		faults = append(faults, fmt.Errorf("version is %q", d.Version))
	}
	for i, s := range d.Statement {
		for _, fault := range s.faults(kind) {
			faults = append(faults, fmt.Errorf("statement %d %s: %w", i, s.Sid, fault))
		}
	}
	return errors.Join(faults...)
}

// Kind is where a document stands.
type Kind int

// The kinds of documents.
const (
	// Identity is a role's own policy, Resource one of a bucket, queue or topic, Trust says who may assume a role.
	Identity Kind = iota
	Resource
	Trust
)

func (s *Statement) faults(kind Kind) []error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if s.Effect != "Allow" && s.Effect != "Deny" {
		fault("effect is %q", s.Effect)
	}
	for _, action := range s.Action {
		if service, name, is := strings.Cut(action, ":"); !is || service == "" || name == "" {
			fault("action %q is no service:Name", action)
		}
	}
	if len(s.Action) == 0 {
		fault("it has no action")
	}
	if (len(s.Resource) == 0) != (kind == Trust) {
		fault("resources %v do not belong into this kind of policy", s.Resource)
	}
	if (s.Principal == nil) != (kind == Identity) {
		fault("principal %v does not belong into this kind of policy", s.Principal)
	}
	for _, operator := range slices.Sorted(maps.Keys(s.Condition)) {
		if _, known := operators()[strings.TrimSuffix(operator, ifExists)]; !known {
			fault("condition operator %s is not known here", operator)
		}
	}
	return faults
}
