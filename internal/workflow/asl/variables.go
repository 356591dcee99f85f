package asl

import (
	"fmt"
	"slices"
	"strings"

	"firn/internal/workflow/jsonata"
)

func indexed(name string, i int) string { return fmt.Sprintf("%s[%d]", name, i) }

// assignedIn lists all variables that a scope assigns anywhere, the scopes in it not included.
func (s *Scope) assignedIn() []string {
	var out []string
	for _, state := range s.States {
		out = append(out, state.Assign.Names()...)
		for _, r := range state.Choices {
			out = append(out, r.Assign.Names()...)
		}
		for _, c := range state.Catch {
			out = append(out, c.Assign.Names()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkVariables refuses uses of variables that may be unassigned. A variable counts as assigned in a state only if it is assigned on
// every way to it: on AWS the missing one would fail the execution only on the day when the other way is taken.
func checkVariables(found *faults, s *Scope, edges []edge, around scopeContext) {
	assigned := s.assignedIn()
	surely := reaching(s, edges, around.entry)
	for _, name := range s.Order {
		state := s.States[name]
		if _, reached := surely[name]; !reached {
			continue // reported already
		}
		c := variableChecker{
			reader: &reader{faults: found, state: around.prefix + name},
			state:  state, surely: surely[name], assigned: assigned, around: around,
		}
		c.check()
		for _, target := range state.assignTargets() {
			if slices.Contains(around.above, target.name) {
				c.reader.fault(target.field, "variable $%s belongs to an enclosing scope and cannot be assigned here", target.name)
			}
		}
		if state.Map == nil {
			continue
		}
		inner := scopeContext{prefix: around.prefix + name + "/"}
		if visible := append(slices.Clone(assigned), around.above...); state.Map.Distributed {
			inner.outer = append(visible, around.outer...)
		} else {
			inner.entry, inner.above, inner.outer, inner.item = surely[name], visible, around.outer, true
		}
		checkScope(found, &state.Map.Processor, inner)
	}
}

// reaching computes for each state the variables that are assigned on every way to it.
func reaching(s *Scope, edges []edge, entry []string) map[string][]string {
	in := map[string][]string{s.StartAt: entry}
	known := map[string]bool{s.StartAt: true}
	for changed := true; changed; {
		changed = false
		for _, e := range edges {
			if !known[e.from] {
				continue
			}
			out := union(in[e.from], e.assigned)
			if known[e.to] {
				out = intersection(in[e.to], out)
			}
			if !known[e.to] || len(out) != len(in[e.to]) {
				in[e.to], known[e.to], changed = out, true, true
			}
		}
	}
	return in
}

func union(a, b []string) []string {
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

func intersection(a, b []string) []string {
	var out []string
	for _, name := range a {
		if slices.Contains(b, name) {
			out = append(out, name)
		}
	}
	return out
}

type target struct{ name, field string }

func (s *State) assignTargets() []target {
	var out []target
	add := func(t *Template) {
		for _, name := range t.Names() {
			out = append(out, target{name, join(t.field, name)})
		}
	}
	add(s.Assign)
	for _, r := range s.Choices {
		add(r.Assign)
	}
	for _, c := range s.Catch {
		add(c.Assign)
	}
	return out
}

// variableChecker checks the expressions of one state.
type variableChecker struct {
	reader   *reader
	state    *State
	surely   []string
	assigned []string
	around   scopeContext
}

// allowed says which parts of $states an expression may use beside input and context.
type allowed struct {
	result, errorOutput, item bool
}

func (c variableChecker) check() {
	s := c.state
	plain := allowed{item: c.around.item}
	after := allowed{item: c.around.item, result: s.Type == Task || s.Type == Map}
	caught := allowed{item: c.around.item, errorOutput: true}
	c.template(s.Output, after)
	c.template(s.Assign, after)
	c.template(s.Arguments, plain)
	for i, r := range s.Choices {
		c.expression(indexed("Choices", i)+".Condition", r.Condition, plain)
		c.template(r.Assign, plain)
		c.template(r.Output, plain)
	}
	for _, t := range s.Catch {
		c.template(t.Assign, caught)
		c.template(t.Output, caught)
	}
	for _, n := range []*Number{s.TimeoutSeconds, s.Seconds} {
		c.number(n, plain)
	}
	for _, t := range []*Text{s.Timestamp, s.Error, s.Cause} {
		if t != nil {
			c.expression(t.field, t.expr, plain)
		}
	}
	if s.Map != nil {
		c.mapSpec(s.Map, plain)
	}
}

func (c variableChecker) mapSpec(m *MapSpec, plain allowed) {
	c.template(m.Items, plain)
	c.template(m.Selector, allowed{item: true})
	for _, n := range []*Number{m.MaxConcurrency, m.ToleratedCount, m.ToleratedPercentage} {
		c.number(n, plain)
	}
	if m.Reader != nil {
		c.template(m.Reader.Arguments, plain)
		c.number(m.Reader.MaxItems, plain)
	}
	if m.Batcher != nil {
		c.template(m.Batcher.BatchInput, plain)
		c.number(m.Batcher.MaxItems, plain)
		c.number(m.Batcher.MaxBytes, plain)
	}
	if m.Writer != nil {
		c.template(m.Writer.Arguments, plain)
	}
}

func (c variableChecker) template(t *Template, a allowed) {
	t.expressions(func(field string, e *jsonata.Expr) { c.expression(field, e, a) })
}

func (c variableChecker) number(n *Number, a allowed) {
	if n != nil {
		c.expression(n.field, n.expr, a)
	}
}

func (c variableChecker) expression(field string, e *jsonata.Expr, a allowed) {
	if e == nil {
		return
	}
	for _, ref := range e.References() {
		if ref.Variable == "states" {
			if problem := c.statesField(ref, a); problem != "" {
				c.reader.fault(field, "%s %s", ref, problem)
			}
			continue
		}
		switch name := ref.Variable; {
		case slices.Contains(c.surely, name):
		case slices.Contains(c.around.outer, name):
			c.reader.fault(field, "variable $%s belongs to the outer scope, which a DISTRIBUTED processor cannot see: pass it through ItemSelector or BatchInput", name)
		case slices.Contains(c.assigned, name) || slices.Contains(c.around.above, name):
			c.reader.fault(field, "variable $%s is not assigned on every way to this state", name)
		default:
			c.reader.fault(field, "variable $%s is never assigned", name)
		}
	}
}

// statesField says what is wrong with a use of $states.
func (c variableChecker) statesField(ref jsonata.Reference, a allowed) string {
	if len(ref.Fields) == 0 {
		return "must be followed by input, context, result or errorOutput"
	}
	rest := ref.Fields[1:]
	switch ref.Fields[0] {
	case "input":
		return ""
	case "context":
		return contextField(rest, a.item)
	case "result":
		if !a.result {
			return "does not exist here: only Output and Assign of a Task or Map have a result"
		}
		if c.state.Type == Task && c.state.Resource == Invoke {
			return oneOfFields(rest, "Payload", "StatusCode", "ExecutedVersion")
		}
		return ""
	case "errorOutput":
		if !a.errorOutput {
			return "does not exist here: only Output and Assign of a Catch entry have an error"
		}
		return oneOfFields(rest, "Error", "Cause")
	default:
		return "does not exist"
	}
}

func oneOfFields(fields []string, names ...string) string {
	if len(fields) > 0 && !slices.Contains(names, fields[0]) {
		return "does not exist, known fields are " + strings.Join(names, ", ")
	}
	return ""
}

// contextField checks a path inside the context object against the fields that the interpreter fills.
func contextField(fields []string, item bool) string {
	if len(fields) == 0 {
		return ""
	}
	known := map[string][]string{
		"Execution":    {"Id", "Input", "Name", "StartTime"},
		"StateMachine": {"Id", "Name"},
		"State":        {"EnteredTime", "Name", "RetryCount"},
		"Map":          {"Item"},
	}
	names, ok := known[fields[0]]
	if !ok {
		return "does not exist in the context object"
	}
	if fields[0] == "Map" && !item {
		return "exists only in ItemSelector and inside an INLINE processor"
	}
	if problem := oneOfFields(fields[1:], names...); problem != "" {
		return problem
	}
	if fields[0] == "Map" && len(fields) > 1 {
		return oneOfFields(fields[2:], "Index", "Value")
	}
	return ""
}
