// Package pattern matches events as EventBridge's rules and SNS's filter policies do. A pattern with an operator that it does not know is refused when it
// is compiled: a filter that is half understood lets through what it should not, or drops what it should not.
package pattern

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"firn/internal/local/cloud/iam"
)

// Pattern is a compiled pattern. Its methods may be called concurrently.
type Pattern struct {
	fields map[string]*node
	// any are the alternatives of $or; an empty list asks for nothing.
	any []*Pattern
}

// node is a field: a list of matchers of which one must hold, or a pattern of the object in it.
type node struct {
	matchers []matcher
	object   *Pattern
}

// matcher judges one value; present is false when the field is absent.
type matcher func(value any, present bool) bool

// Compile reads a pattern from decoded JSON.
func Compile(value any) (*Pattern, error) {
	object, is := value.(map[string]any)
	if !is || len(object) == 0 {
		return nil, errors.New("compile event pattern: want an object with fields")
	}
	p := &Pattern{fields: map[string]*node{}}
	for name, v := range object {
		if name == "$or" {
			list, is := v.([]any)
			if !is || len(list) < 2 {
				return nil, errors.New("compile event pattern: $or wants a list of patterns")
			}
			for _, one := range list {
				alternative, err := Compile(one)
				if err != nil {
					return nil, err
				}
				p.any = append(p.any, alternative)
			}
			continue
		}
		n, err := compileField(v)
		if err != nil {
			return nil, fmt.Errorf("compile event pattern: field %s: %w", name, err)
		}
		p.fields[name] = n
	}
	return p, nil
}

func compileField(v any) (*node, error) {
	switch v := v.(type) {
	case map[string]any:
		inner, err := Compile(v)
		return &node{object: inner}, err
	case []any:
		n := &node{}
		for _, one := range v {
			m, err := compileMatcher(one)
			if err != nil {
				return nil, err
			}
			n.matchers = append(n.matchers, m)
		}
		if len(n.matchers) == 0 {
			return nil, errors.New("the list is empty")
		}
		return n, nil
	default:
		return nil, fmt.Errorf("%v is neither a list nor an object", v)
	}
}

func compileMatcher(v any) (matcher, error) {
	object, is := v.(map[string]any)
	if !is {
		if _, is := v.([]any); is {
			return nil, errors.New("a list in a list")
		}
		return func(value any, present bool) bool { return present && equal(value, v) }, nil
	}
	if len(object) != 1 {
		return nil, fmt.Errorf("%v is not one operator", object)
	}
	for operator, argument := range object {
		switch operator {
		case "exists":
			want, is := argument.(bool)
			if !is {
				return nil, errors.New("exists wants true or false")
			}
			return func(_ any, present bool) bool { return present == want }, nil
		case "anything-but":
			return anythingBut(argument)
		case "numeric":
			return numeric(argument)
		default:
			return textual(operator, argument)
		}
	}
	return nil, nil //nolint:nilnil // the object has one field
}

// textual are operators on text: prefix, suffix, wildcard, equals-ignore-case.
func textual(operator string, argument any) (matcher, error) {
	fold := false
	if inner, is := argument.(map[string]any); is && (operator == "prefix" || operator == "suffix") && len(inner) == 1 {
		argument, fold = inner["equals-ignore-case"], true
	}
	want, is := argument.(string)
	if !is {
		return nil, fmt.Errorf("operator %s wants a text", operator)
	}
	var holds func(text, want string) bool
	switch operator {
	case "prefix":
		holds = strings.HasPrefix
	case "suffix":
		holds = strings.HasSuffix
	case "wildcard":
		if strings.Contains(want, "**") || strings.ContainsAny(want, `\?`) {
			return nil, fmt.Errorf("wildcard %q: consecutive stars, ? and escapes are not known here", want)
		}
		holds = func(text, want string) bool { return iam.Like(want, text) }
	case "equals-ignore-case":
		holds = strings.EqualFold
	default:
		return nil, fmt.Errorf("operator %s is not known here", operator)
	}
	return func(value any, present bool) bool {
		text, is := value.(string)
		if fold {
			text, want = strings.ToLower(text), strings.ToLower(want)
		}
		return present && is && holds(text, want)
	}, nil
}

func anythingBut(argument any) (matcher, error) {
	var but []matcher
	list, is := argument.([]any)
	if !is {
		list = []any{argument}
	}
	for _, one := range list {
		m, err := compileMatcher(one)
		if err != nil {
			return nil, err
		}
		but = append(but, m)
	}
	return func(value any, present bool) bool {
		return present && !slices.ContainsFunc(but, func(m matcher) bool { return m(value, true) })
	}, nil
}

// numeric is a list of comparisons, all of which must hold: ["`>`", 0, "`<=`", 5].
func numeric(argument any) (matcher, error) {
	list, is := argument.([]any)
	if !is || len(list) == 0 || len(list)%2 != 0 {
		return nil, errors.New("numeric wants pairs of an operator and a number")
	}
	for i := 0; i < len(list); i += 2 {
		operator, isText := list[i].(string)
		_, isNumber := list[i+1].(float64)
		if !isText || !isNumber || !slices.Contains([]string{"=", "<", "<=", ">", ">="}, operator) {
			return nil, fmt.Errorf("numeric: %v %v is no comparison", list[i], list[i+1])
		}
	}
	return func(value any, present bool) bool {
		n, is := value.(float64)
		if !present || !is {
			return false
		}
		for i := 0; i < len(list); i += 2 {
			limit, _ := list[i+1].(float64)
			holds := map[string]bool{"=": n == limit, "<": n < limit, "<=": n <= limit, ">": n > limit, ">=": n >= limit}
			operator, _ := list[i].(string)
			if !holds[operator] {
				return false
			}
		}
		return true
	}, nil
}

// Match reports whether an event, decoded JSON, has everything that the pattern asks for.
func (p *Pattern) Match(event map[string]any) bool {
	for name, n := range p.fields {
		value, present := event[name]
		if !n.match(value, present) {
			return false
		}
	}
	return len(p.any) == 0 || slices.ContainsFunc(p.any, func(alternative *Pattern) bool { return alternative.Match(event) })
}

func (n *node) match(value any, present bool) bool {
	if n.object != nil {
		if inner, is := value.(map[string]any); is {
			return n.object.Match(inner)
		}
		if list, is := value.([]any); is {
			return slices.ContainsFunc(list, func(one any) bool { return n.match(one, true) })
		}
		return n.object.Match(map[string]any{}) // exists: false may still hold
	}
	values := []any{value}
	if list, is := value.([]any); is {
		values = list
		present = present && len(list) > 0
		if !present {
			values = []any{nil}
		}
	}
	return slices.ContainsFunc(values, func(one any) bool {
		return slices.ContainsFunc(n.matchers, func(m matcher) bool { return m(one, present) })
	})
}

// MatchJSON is Match of an event as bytes.
func (p *Pattern) MatchJSON(event []byte) (bool, error) {
	var decoded map[string]any
	if err := json.Unmarshal(event, &decoded); err != nil {
		return false, fmt.Errorf("decode event: %w", err)
	}
	return p.Match(decoded), nil
}

func equal(a, b any) bool {
	switch a.(type) {
	case nil, string, bool, float64:
		return a == b
	default:
		return false
	}
}
