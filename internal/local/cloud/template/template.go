// Package template reads a CloudFormation template as far as Firn's own needs it. It is strict: a resource of an unknown type, an unknown property of a
// known one, or an unknown intrinsic function is an error, so that nothing that the template says is passed over in silence by a host that runs it.
package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Place is where a template is deployed to: what pseudo parameters stand for.
type Place struct {
	Partition, Region, Account string
	// Stack is the stack's name, with which physical names begin.
	Stack string
	// Versions are the numbers of published versions by logical ID; one that is not listed has number 1.
	Versions map[string]int
}

// Stack is a template with every reference resolved, by logical ID.
type Stack struct {
	Place          Place
	Functions      map[string]*Function
	Versions       map[string]*Version
	Mappings       map[string]*Mapping
	Queues         map[string]*Queue
	QueuePolicies  map[string]*QueuePolicy
	Rules          map[string]*Rule
	Schedules      map[string]*Schedule
	Subscriptions  map[string]*Subscription
	Topics         map[string]*Topic
	TopicPolicies  map[string]*TopicPolicy
	Machines       map[string]*Machine
	Roles          map[string]*Role
	Policies       map[string]*Policy
	Tables         map[string]*Table
	Buckets        map[string]*Bucket
	BucketPolicies map[string]*BucketPolicy
	LogGroups      map[string]*LogGroup
	// Outputs are the values that a deployment prints, by name.
	Outputs map[string]string
	// Watched counts what only CloudWatch reads: alarms, dashboards, metric filters. Their references are resolved, and nothing else is done with them.
	Watched int
}

type document struct {
	Description string
	Outputs     map[string]struct {
		Description string
		Value       any
	}
	Parameters map[string]any
	Rules      map[string]any
	Resources  map[string]*resource
}

type resource struct {
	Type                string
	Properties          any
	DependsOn           []string
	DeletionPolicy      string
	UpdateReplacePolicy string
	Metadata            map[string]any
}

// Read reads a template. The error holds every fault.
func Read(data []byte, at Place) (*Stack, error) {
	var d document
	if err := strict(data, &d); err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	var faults []error
	for name := range d.Parameters {
		if name != "BootstrapVersion" { // the CDK's own check of its bootstrap stack
			faults = append(faults, fmt.Errorf("parameter %s: parameters are not known here", name))
		}
	}
	r := resolver{place: at, resources: d.Resources}
	s := &Stack{Place: at, Outputs: map[string]string{}}
	for _, id := range slices.Sorted(maps.Keys(d.Resources)) {
		if err := s.add(id, d.Resources[id], r); err != nil {
			faults = append(faults, fmt.Errorf("resource %s: %w", id, err))
		}
	}
	for name, output := range d.Outputs {
		value, err := r.value(output.Value)
		if err != nil {
			faults = append(faults, fmt.Errorf("output %s: %w", name, err))
		}
		s.Outputs[name] = fmt.Sprint(value)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("read template:\n%w", err)
	}
	return s, nil
}

// add resolves one resource and files it under its type.
func (s *Stack) add(id string, res *resource, r resolver) error {
	for _, on := range res.DependsOn {
		if r.resources[on] == nil {
			return fmt.Errorf("it depends on %s, which does not exist", on)
		}
	}
	known, is := kinds()[res.Type]
	if !is {
		return fmt.Errorf("type %s is not known here", res.Type)
	}
	properties, err := r.value(res.Properties)
	if err != nil {
		return err
	}
	if properties == nil {
		properties = map[string]any{}
	}
	data, err := json.Marshal(properties)
	if err != nil {
		return err
	}
	name, _ := r.reference(id)
	arn, _ := r.attribute(id, "Arn")
	return known.file(s, Identity{ID: id, Name: name, ARN: arn, Retained: res.DeletionPolicy == "Retain"}, data)
}

// Identity is what a resource is called.
type Identity struct {
	// ID is the logical ID, Name what Ref gives, ARN the resource's ARN where it has one.
	ID, Name, ARN string
	// Retained says that the resource outlives its stack.
	Retained bool
}

func strict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// file decodes properties into a new value of the type and puts it into the stack's map.
func file[T any](into func(*Stack) *map[string]*T, identity func(*T) *Identity) func(*Stack, Identity, []byte) error {
	return func(s *Stack, id Identity, data []byte) error {
		v := new(T)
		if err := strict(data, v); err != nil {
			return err
		}
		*identity(v) = id
		if check, is := any(v).(interface{ check() error }); is {
			if err := check.check(); err != nil {
				return err
			}
		}
		m := into(s)
		if *m == nil {
			*m = map[string]*T{}
		}
		(*m)[id.ID] = v
		return nil
	}
}
