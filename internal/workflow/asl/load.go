package asl

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"firn/internal/workflow/jsonata"
)

// Options are what a definition is loaded with.
type Options struct {
	// Substitutions replace ${Name} in the text, as DefinitionSubstitutions do in a template.
	Substitutions map[string]string
	// Functions, when not nil, are the function names (or ARNs) that may be invoked. A FunctionName must then be a plain string.
	Functions []string
}

// Load reads a definition and checks it. The error is a *DefinitionError that holds all faults.
func Load(text []byte, o Options) (*Definition, error) {
	var found faults
	if len(text) > MaxDefinitionBytes {
		found.list = append(found.list, Fault{Problem: "definition is larger than 1 MB"})
		return nil, &DefinitionError{Faults: found.list}
	}
	v, err := jsonata.Decode(substitute(text, o.Substitutions, &found))
	if err != nil {
		found.list = append(found.list, Fault{Problem: err.Error()})
		return nil, &DefinitionError{Faults: found.list}
	}
	top := &reader{faults: &found}
	r, ok := top.child(v, "")
	if !ok {
		return nil, &DefinitionError{Faults: found.list}
	}
	l := &loader{options: o, names: map[string]string{}, labels: map[string]bool{}}
	d := l.definition(r)
	if checkScope(&found, &d.Scope, scopeContext{}); len(found.list) > 0 {
		return nil, &DefinitionError{Faults: found.list}
	}
	return d, nil
}

// substitute replaces the placeholders. One without a value is a fault.
func substitute(text []byte, values map[string]string, found *faults) []byte {
	placeholder := regexp.MustCompile(`\$\{[^}]*\}`)
	return placeholder.ReplaceAllFunc(text, func(match []byte) []byte {
		name := string(match[2 : len(match)-1])
		if value, ok := values[name]; ok {
			return []byte(value)
		}
		found.list = append(found.list, Fault{Field: "${" + name + "}", Problem: "placeholder has no substitution"})
		return []byte("unresolved")
	})
}

// loader remembers what must be unique in a whole definition.
type loader struct {
	options Options
	names   map[string]string // state name → path of the state that has it
	labels  map[string]bool
}

func (l *loader) definition(r *reader) *Definition {
	r.text("Comment", false)
	r.oneOf("Version", "1.0")
	if r.text("QueryLanguage", true) != "JSONata" {
		r.fault("QueryLanguage", "must be JSONata")
	}
	d := &Definition{TimeoutSeconds: int64(r.plainNumber("TimeoutSeconds", 0, bounds{1, MaxWaitSeconds, true}))}
	d.Scope = l.scope(r, "")
	r.finish("state machine")
	return d
}

// scope reads StartAt and States.
func (l *loader) scope(r *reader, prefix string) Scope {
	s := Scope{StartAt: r.text("StartAt", true), States: map[string]*State{}}
	v, ok := r.take("States")
	if !ok {
		r.fault(r.at("States"), "is missing")
		return s
	}
	states, ok := v.(*jsonata.Object)
	if !ok || len(states.Keys()) == 0 {
		r.fault(r.at("States"), "must be an object of at least one state")
		return s
	}
	for _, name := range states.Keys() {
		v, _ := states.Lookup(name)
		path := prefix + name
		inner, ok := (&reader{faults: r.faults, state: path}).child(v, "")
		if !ok {
			continue
		}
		if utf8.RuneCountInString(name) > MaxNameLength || name == "" {
			inner.fault("", "name must have 1 to %d characters", MaxNameLength)
		}
		if other, twice := l.names[name]; twice {
			inner.fault("", "name is used twice, also by state %s: names are unique in a whole definition", other)
		}
		l.names[name] = path
		s.States[name] = l.state(inner, name)
		s.Order = append(s.Order, name)
	}
	return s
}

func (l *loader) state(r *reader, name string) *State {
	s := &State{Name: name, Type: Type(r.text("Type", true))}
	r.text("Comment", false)
	r.oneOf("QueryLanguage", "JSONata")
	switch s.Type {
	case Task:
		l.task(r, s)
	case Choice:
		choice(r, s)
	case Wait:
		wait(r, s)
	case Map:
		l.mapState(r, s)
	case Pass:
		transition(r, s)
		outputs(r, s)
	case Succeed:
		s.End = true
		s.Output = r.anyTemplate("Output")
	case Fail:
		s.End = true
		s.Error, s.Cause = r.textOrExpression("Error"), r.textOrExpression("Cause")
	default:
		if s.Type != "" {
			r.fault("Type", "state type %q is not supported", s.Type)
		}
		return s
	}
	r.finish(string(s.Type) + " state")
	return s
}

func transition(r *reader, s *State) {
	s.Next, s.End = r.text("Next", false), r.boolean("End")
	if (s.Next == "") != s.End {
		r.fault("", "must have exactly one of Next and End: true")
	}
}

func outputs(r *reader, s *State) {
	s.Output = r.anyTemplate("Output")
	s.Assign = assign(r)
}

// assign reads an object whose keys are variable names.
func assign(r *reader) *Template {
	v, ok := r.take("Assign")
	if !ok {
		return nil
	}
	o, ok := v.(*jsonata.Object)
	if !ok {
		r.fault(r.at("Assign"), "must be an object")
		return nil
	}
	identifier := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	for _, name := range o.Keys() {
		if name == "states" || len(name) > MaxNameLength || !identifier.MatchString(name) {
			r.fault(join(r.at("Assign"), name), "is no name for a variable")
		}
	}
	return r.template(v, r.at("Assign"))
}

func choice(r *reader, s *State) {
	outputs(r, s)
	s.Default = r.text("Default", false)
	if _, ok := r.object.Lookup("Choices"); !ok {
		r.fault("Choices", "is missing")
	}
	r.list("Choices", func(c *reader) {
		rule := Rule{Next: c.text("Next", true), Assign: assign(c), Output: c.anyTemplate("Output")}
		c.text("Comment", false)
		condition := c.textOrExpression("Condition")
		if condition == nil || condition.expr == nil {
			c.fault(c.at("Condition"), "must be an expression")
		} else {
			rule.Condition = condition.expr
		}
		s.Choices = append(s.Choices, rule)
		c.finish("Choice rule")
	})
}

func wait(r *reader, s *State) {
	transition(r, s)
	outputs(r, s)
	s.Seconds = r.number("Seconds", bounds{0, MaxWaitSeconds, true})
	s.Timestamp = r.textOrExpression("Timestamp")
	if (s.Seconds == nil) == (s.Timestamp == nil) {
		r.fault("", "Wait must have exactly one of Seconds and Timestamp")
	}
	if s.Timestamp != nil && s.Timestamp.expr == nil {
		if _, err := ParseTimestamp(s.Timestamp.literal); err != nil {
			r.fault("Timestamp", "%v", err)
		}
	}
}

func (l *loader) task(r *reader, s *State) {
	transition(r, s)
	outputs(r, s)
	s.TimeoutSeconds = r.number("TimeoutSeconds", bounds{1, MaxWaitSeconds, true})
	s.Retry, s.Catch = retriers(r), catchers(r)
	s.Resource = resource(r, Invoke, StartExecution, StartExecutionSync)
	switch s.Resource {
	case Invoke:
		s.Arguments = r.arguments([]string{"FunctionName"}, []string{"Payload"})
		l.function(r, s.Arguments)
	case StartExecution, StartExecutionSync:
		s.Arguments = r.arguments([]string{"StateMachineArn"}, []string{"Input", "Name"})
	default:
		r.take("Arguments")
	}
}

// function checks a plain FunctionName against the functions that exist.
func (l *loader) function(r *reader, arguments *Template) {
	name := arguments.member("FunctionName")
	if name == nil || l.options.Functions == nil {
		return
	}
	text, ok := arguments.Literal("FunctionName")
	switch {
	case !ok:
		r.fault("Arguments.FunctionName", "must be a plain string")
	case !slices.Contains(l.options.Functions, text):
		r.fault("Arguments.FunctionName", "function %q does not exist, known are %s", text, strings.Join(l.options.Functions, ", "))
	}
}

// resource reads a Resource and strips the common part of the ARN.
func resource(r *reader, known ...Resource) Resource {
	arn := r.text("Resource", true)
	if arn == "" {
		return ""
	}
	prefix := regexp.MustCompile(`^arn:aws(-cn|-us-gov)?:states:::`)
	name := Resource(prefix.ReplaceAllString(arn, ""))
	if !prefix.MatchString(arn) || !slices.Contains(known, name) {
		names := make([]string, len(known))
		for i, k := range known {
			names[i] = "arn:aws:states:::" + string(k)
		}
		r.fault(r.at("Resource"), "resource %q is not supported, known are %s", arn, strings.Join(names, ", "))
		return ""
	}
	return name
}
