package asl

import "slices"

// scopeContext is what surrounds a scope.
type scopeContext struct {
	prefix string   // path of the Map around it, with a slash
	entry  []string // variables that are surely assigned on entry
	outer  []string // variables of enclosing scopes that the scope must not touch, because it is DISTRIBUTED
	above  []string // all variables of enclosing INLINE scopes: they may be read but not assigned
	item   bool     // $states.context.Map.Item exists
}

// edge is a way from one state to another, with the variables that it assigns.
type edge struct {
	from, to string
	field    string
	assigned []string
}

// edges lists the ways out of a state.
func (s *State) edges() []edge {
	var out []edge
	add := func(to, field string, t *Template) {
		if to != "" {
			out = append(out, edge{s.Name, to, field, t.Names()})
		}
	}
	add(s.Next, "Next", s.Assign)
	for i, rule := range s.Choices {
		add(rule.Next, indexed("Choices", i)+".Next", rule.Assign)
	}
	add(s.Default, "Default", s.Assign)
	for i, c := range s.Catch {
		add(c.Next, indexed("Catch", i)+".Next", c.Assign)
	}
	return out
}

// checkScope checks the graph and the variables of a scope and of the scopes in it.
func checkScope(found *faults, s *Scope, around scopeContext) {
	at := func(state, field string) *reader {
		return &reader{faults: found, state: around.prefix + state, path: field}
	}
	if len(s.Order) == 0 {
		return
	}
	_, whole := s.States[s.StartAt]
	if !whole && s.StartAt != "" {
		found.list = append(found.list, Fault{State: trimSlash(around.prefix), Field: "StartAt", Problem: "state " + s.StartAt + " does not exist"})
	}
	var edges []edge
	for _, name := range s.Order {
		for _, e := range s.States[name].edges() {
			if _, ok := s.States[e.to]; !ok {
				at(name, "").fault(e.field, "state %q does not exist here", e.to)
				whole = false
				continue
			}
			edges = append(edges, e)
		}
	}
	if !whole {
		return // what follows would report consequences only
	}
	reached := spread([]string{s.StartAt}, edges, func(e edge) (string, string) { return e.from, e.to })
	ends := spread(terminals(s), edges, func(e edge) (string, string) { return e.to, e.from })
	for _, name := range s.Order {
		switch {
		case !reached[name]:
			at(name, "").fault("", "cannot be reached from %s", s.StartAt)
		case !ends[name]:
			at(name, "").fault("", "has no way to an end")
		}
	}
	checkVariables(found, s, edges, around)
}

func terminals(s *Scope) []string {
	var out []string
	for _, name := range s.Order {
		if s.States[name].End {
			out = append(out, name)
		}
	}
	return out
}

// spread returns everything that can be reached from the seeds.
func spread(seeds []string, edges []edge, direction func(edge) (from, to string)) map[string]bool {
	seen := map[string]bool{}
	for queue := slices.Clone(seeds); len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, e := range edges {
			if from, to := direction(e); from == name {
				queue = append(queue, to)
			}
		}
	}
	return seen
}

func trimSlash(prefix string) string {
	if prefix == "" {
		return ""
	}
	return prefix[:len(prefix)-1]
}
