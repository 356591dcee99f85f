// Package asl reads definitions in Amazon States Language and refuses everything that it does not know.
//
// The subset: query language JSONata; state types Task, Choice, Wait, Map, Pass, Succeed and Fail; the resources lambda:invoke,
// states:startExecution and states:startExecution.sync:2; Map in mode INLINE, or DISTRIBUTED with standard children, an
// ItemReader (s3:getObject of JSON or JSONL), ItemSelector, ItemBatcher and ResultWriter; Retry, Catch, Assign, Output,
// TimeoutSeconds. Load is stricter than AWS wherever AWS would accept a definition and fail, or do something else, later:
// unknown fields, variables that may be unassigned, states without a way to an end, fields of $states that do not exist.
//
// All faults of a definition are reported at once, each with its state and field. The package runs nothing.
package asl

import (
	"fmt"
	"slices"
	"strings"

	"firn/internal/workflow/jsonata"
)

// Limits of AWS that a definition must respect.
const (
	// MaxDefinitionBytes is the size of a definition.
	MaxDefinitionBytes = 1 << 20
	// MaxNameLength is the length of a state's or a variable's name in characters.
	MaxNameLength = 80
	// MaxLabelLength is the length of a Map's Label in characters.
	MaxLabelLength = 40
	// MaxInlineConcurrency is the highest MaxConcurrency of an INLINE Map.
	MaxInlineConcurrency = 40
	// MaxDistributedConcurrency is the highest MaxConcurrency of a DISTRIBUTED Map.
	MaxDistributedConcurrency = 10_000
	// MaxBatchBytes is the highest MaxInputBytesPerBatch.
	MaxBatchBytes = 262_144
	// MaxWaitSeconds is the highest value of Seconds and TimeoutSeconds.
	MaxWaitSeconds = 99_999_999
)

// Definition is a state machine that passed every check.
type Definition struct {
	// Scope holds the top level's states.
	Scope
	// TimeoutSeconds ends the execution; 0 means never.
	TimeoutSeconds int64
}

// Scope is a set of states with an entry: the top level, or the processor of a Map.
type Scope struct {
	StartAt string
	States  map[string]*State
	// Order lists the names as they are written.
	Order []string
}

// Functions lists the plain function names that the scope and the scopes in it invoke, sorted.
func (s *Scope) Functions() []string {
	var out []string
	for _, state := range s.States {
		if state.Resource == Invoke {
			if name, ok := state.Arguments.Literal("FunctionName"); ok {
				out = append(out, name)
			}
		}
		if state.Map != nil {
			out = append(out, state.Map.Processor.Functions()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Type is a state's type.
type Type string

// The state types of the subset.
const (
	Task    Type = "Task"
	Choice  Type = "Choice"
	Wait    Type = "Wait"
	Map     Type = "Map"
	Pass    Type = "Pass"
	Succeed Type = "Succeed"
	Fail    Type = "Fail"
)

// Resource is what a Task calls: the part of the ARN after "states:::".
type Resource string

// The resources of the subset.
const (
	Invoke             Resource = "lambda:invoke"
	StartExecution     Resource = "states:startExecution"
	StartExecutionSync Resource = "states:startExecution.sync:2"
	getObject          Resource = "s3:getObject"
	putObject          Resource = "s3:putObject"
)

// State is one state. Fields that its type does not have are zero.
type State struct {
	Name string
	Type Type
	// Next is the following state; empty with End, and in Choice, Succeed and Fail.
	Next string
	End  bool
	// Assign and Output are nil where they are not written.
	Assign, Output *Template

	// Task
	Resource  Resource
	Arguments *Template
	// TimeoutSeconds is nil without a limit.
	TimeoutSeconds *Number
	Retry          []Retrier
	Catch          []Catcher

	// Choice
	Choices []Rule
	Default string

	// Wait: exactly one of the two.
	Seconds   *Number
	Timestamp *Text

	// Fail
	Error, Cause *Text

	// Map
	Map *MapSpec
}

// Rule is one rule of a Choice.
type Rule struct {
	Condition      *jsonata.Expr
	Next           string
	Assign, Output *Template
}

// Retrier says when and how often a Task or a Map is tried again.
type Retrier struct {
	ErrorEquals     []string
	IntervalSeconds int64
	// MaxAttempts is the number of repetitions, 0 for none.
	MaxAttempts int64
	BackoffRate float64
	// MaxDelaySeconds caps an interval; 0 means no cap.
	MaxDelaySeconds int64
	// FullJitter draws each delay from 0 to the interval.
	FullJitter bool
}

// Catcher says where an error leads.
type Catcher struct {
	ErrorEquals    []string
	Next           string
	Assign, Output *Template
}

// MapSpec is what only a Map has.
type MapSpec struct {
	Distributed bool
	Processor   Scope
	// Items is nil when an ItemReader, or else the state's input, gives the items.
	Items    *Template
	Reader   *ItemReader
	Selector *Template
	Batcher  *ItemBatcher
	Writer   *ResultWriter
	// MaxConcurrency 0 means the mode's highest value.
	MaxConcurrency *Number
	// ToleratedCount and ToleratedPercentage are nil where they are not written.
	ToleratedCount, ToleratedPercentage *Number
	Label                               string
}

// ItemReader reads the items from an object.
type ItemReader struct {
	// Arguments gives Bucket and Key.
	Arguments *Template
	// Lines says JSONL; otherwise the object is one JSON array.
	Lines bool
	// MaxItems is nil for all.
	MaxItems *Number
}

// ItemBatcher puts several items into one child.
type ItemBatcher struct {
	// MaxItems and MaxBytes are nil where they are not written; one of them is.
	MaxItems, MaxBytes *Number
	BatchInput         *Template
}

// ResultWriter writes the children's results to objects.
type ResultWriter struct {
	// Arguments gives Bucket and Prefix.
	Arguments *Template
	// Compact says that only outputs are written, not the children's descriptions.
	Compact bool
}

// Fault is one thing that is wrong with a definition.
type Fault struct {
	// State is the state's name, after the names of the Maps around it and slashes; empty at the top level.
	State string
	// Field is the path inside the state, such as Arguments.FunctionName; empty for the state as a whole.
	Field   string
	Problem string
}

// String returns the fault on one line.
func (f Fault) String() string {
	var where []string
	if f.State != "" {
		where = append(where, "state "+f.State)
	}
	if f.Field != "" {
		where = append(where, f.Field)
	}
	return strings.Join(append(where, f.Problem), ": ")
}

// DefinitionError holds all faults of a definition, in the order in which they were found.
type DefinitionError struct {
	Faults []Fault
}

// Error lists the faults, one a line.
func (e *DefinitionError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	if len(lines) == 1 {
		return "refuse definition: " + lines[0]
	}
	return fmt.Sprintf("refuse definition for %d faults:\n  %s", len(lines), strings.Join(lines, "\n  "))
}
