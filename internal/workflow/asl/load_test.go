package asl_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"firn/internal/workflow/asl"
)

func base(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/base.asl.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func options() asl.Options {
	return asl.Options{Substitutions: map[string]string{
		"PlanFunction": "plan", "CompactFunction": "compact", "CommitFunction": "commit", "MachineArn": "arn:aws:states:us-east-1:1:stateMachine:child",
	}}
}

// mutate replaces one piece of the base definition, which must occur.
func mutate(t *testing.T, old, replacement string) string {
	t.Helper()
	text := base(t)
	if !strings.Contains(text, old) {
		t.Fatalf("base definition has no %q", old)
	}
	return strings.Replace(text, old, replacement, 1)
}

func faults(t *testing.T, text string, o asl.Options) []asl.Fault {
	t.Helper()
	_, err := asl.Load([]byte(text), o)
	var refused *asl.DefinitionError
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("got %T, want a DefinitionError", err)
	}
	if refused == nil {
		return nil
	}
	return refused.Faults
}

func TestBaseDefinitionLoads(t *testing.T) {
	d, err := asl.Load([]byte(base(t)), options())
	if err != nil {
		t.Fatal(err)
	}
	if d.StartAt != "Plan" || len(d.States) != 11 || d.TimeoutSeconds != 86400 {
		t.Fatalf("got start %s, %d states, timeout %d", d.StartAt, len(d.States), d.TimeoutSeconds)
	}
	if name, ok := d.States["Plan"].Arguments.Literal("FunctionName"); !ok || name != "plan" {
		t.Fatalf("placeholder became %q", name)
	}
	if got := strings.Join(d.Functions(), " "); got != "commit compact plan" {
		t.Fatalf("got functions %s", got)
	}
}

// TestTheEighteenFaults holds the faults that linters miss in part; each must be refused, at its state and field, and alone.
func TestTheEighteenFaults(t *testing.T) {
	for _, c := range []struct{ name, old, replacement, fault string }{
		{"unknown field", `"Comment": "pins",`, `"Commment": "pins",`, "state Plan: Commment: unknown field in a Task state"},
		{"InputPath in a JSONata state", `"Comment": "pins",`, `"InputPath": "$",`, "state Plan: InputPath: field of JSONPath in a JSONata Task state"},
		{"Parameters in a JSONata state", `"Comment": "pins",`, `"Parameters": {},`, "state Plan: Parameters: field of JSONPath in a JSONata Task state"},
		{"Next to nowhere", `"Next": "More"`, `"Next": "Mor"`, `state Plan: Next: state "Mor" does not exist here`},
		{"unreachable state", `"Start": {`, `"Lost": {"Type": "Succeed"}, "Start": {`, "state Lost: cannot be reached from Plan"},
		{"Wait without time", `"Seconds": "{% $delay %}",`, ``, "state Pause: Wait must have exactly one of Seconds and Timestamp"},
		{"JSONata syntax error", `{% $states.input.table %}`, `{% $states.input.( %}`, `state Plan: Arguments.Payload.table: parse expression`},
		{"ExecutionType missing", `"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"`, `"Mode": "DISTRIBUTED"`, "state Groups: ItemProcessor.ProcessorConfig.ExecutionType: is missing"},
		{"ToleratedFailurePercentage 150", `"ToleratedFailurePercentage": 50`, `"ToleratedFailurePercentage": 150`, "state Groups: ToleratedFailurePercentage: 150 is outside 0 to 100"},
		{"MaxAttempts -1", `"MaxAttempts": 4`, `"MaxAttempts": -1`, "state Plan: Retry[0].MaxAttempts: -1 is outside 0"},
		{"undefined variable", `{% $states.input.table %}`, `{% $nope %}`, "state Plan: Arguments.Payload.table: variable $nope is never assigned"},
		{"ItemReader with INLINE", `"Items": "{% $states.input.names %}",`, `"ItemReader": {},`, "state Each: ItemReader: needs a processor in mode DISTRIBUTED"},
		{"InputType JSONX", `"InputType": "JSONL"`, `"InputType": "JSONX"`, `state Groups: ItemReader.ReaderConfig.InputType: "JSONX" is no input type`},
		{"Label over 40", `"Label": "groups"`, `"Label": "` + strings.Repeat("g", 41) + `"`, "state Groups: Label: has 41 characters, at most 40 are allowed"},
		{"States.ALL not last", `"ErrorEquals": ["Firn.Transient"]`, `"ErrorEquals": ["States.ALL"]`, "state Plan: Retry[0].ErrorEquals: States.ALL must be in the last entry"},
		{"States.ALL with others", `"ErrorEquals": ["States.ALL"], "Comment": "plan"`, `"ErrorEquals": ["States.ALL", "X"], "Comment": "plan"`, "state Plan: Catch[0].ErrorEquals: States.ALL must stand alone"},
		{"resource typo", `arn:aws:states:::lambda:invoke", "Comment"`, `arn:aws:states:::lambda:invokee", "Comment"`, `state Plan: Resource: resource "arn:aws:states:::lambda:invokee" is not supported`},
		{"startExecution without StateMachineArn", `"StateMachineArn": "${MachineArn}", `, ``, "state Start: Arguments.StateMachineArn: is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := faults(t, mutate(t, c.old, c.replacement), options())
			if len(got) != 1 || !strings.HasPrefix(got[0].String(), c.fault) {
				t.Fatalf("got %v\nwant %s", got, c.fault)
			}
		})
	}
}

func TestMoreFaults(t *testing.T) {
	for _, c := range []struct{ name, old, replacement, fault string }{
		{
			"K20 outer variable in a DISTRIBUTED processor", `"item": "{% $states.input.Items %}"`, `"item": "{% $round %}"`,
			"state Groups/Compact: Arguments.Payload.item: variable $round belongs to the outer scope",
		},
		{"variable on one way only", `"Assign": {"late": 1}`, `"Assign": {"late": 1, "rare": "{% $rare %}"}`, "state Pause: Assign.rare: variable $rare is not assigned on every way"},
		{"inner scope assigns an outer variable", `"Assign": {"inner": 1}`, `"Assign": {"round": 1}`, "state Each/Inner: Assign.round: variable $round belongs to an enclosing scope"},
		{"result outside a result", `{% $states.input.table %}`, `{% $states.result.x %}`, "state Plan: Arguments.Payload.table: $states.result.x does not exist here"},
		{"misspelt result", `{% $states.result.Payload.round %}`, `{% $states.result.Paylod.round %}`, "state Plan: Assign.round: $states.result.Paylod.round does not exist, known fields are Payload"},
		{"misspelt context", `{% $states.context.Execution.Name %}`, `{% $states.context.Execution.Nane %}`, "state Plan: Arguments.Payload.run: $states.context.Execution.Nane does not exist"},
		{"misspelt $states", `{% $states.input.table %}`, `{% $states.inputs.table %}`, "state Plan: Arguments.Payload.table: $states.inputs.table does not exist"},
		{"Map item outside a Map", `{% $states.input.table %}`, `{% $states.context.Map.Item.Value %}`, "state Plan: Arguments.Payload.table: $states.context.Map.Item.Value exists only in ItemSelector"},
		{"Map item in a DISTRIBUTED child", `"item": "{% $states.input.Items %}"`, `"item": "{% $states.context.Map.Item.Value %}"`, "state Groups/Compact: Arguments.Payload.item: $states.context.Map.Item.Value exists only in"},
		{"error outside Catch", `{% $states.input.table %}`, `{% $states.errorOutput.Error %}`, "state Plan: Arguments.Payload.table: $states.errorOutput.Error does not exist here"},
		{"refused function", `{% $states.input.table %}`, `{% $uuid() %}`, "state Plan: Arguments.Payload.table: function $uuid is refused"},
		{"state type", `"Type": "Succeed"`, `"Type": "Parallel"`, `state Done: Type: state type "Parallel" is not supported`},
		{"name twice", `"Inner": {`, `"Plan": {"Type": "Pass", "Next": "Inner"}, "Inner": {`, "state Each/Plan: name is used twice, also by state Plan"},
		{"Next and End", `"Next": "More"`, `"Next": "More", "End": true`, "state Plan: must have exactly one of Next and End"},
		{"no way out", `"Next": "Plan", "Comment": "loop"`, `"Next": "Pause", "Comment": "loop"`, "state Pause: has no way to an end"},
		{"space around an expression", `{% $states.input.table %}`, ` {% $states.input.table %}`, "state Plan: Arguments.Payload.table: expression must begin with {%"},
		{"placeholder without value", `"${PlanFunction}"`, `"${PlanFuncton}"`, "${PlanFuncton}: placeholder has no substitution"},
		{"EXPRESS children", `"ExecutionType": "STANDARD"`, `"ExecutionType": "EXPRESS"`, "state Groups: ItemProcessor.ProcessorConfig.ExecutionType: EXPRESS is not supported"},
		{"States.Runtime caught", `"ErrorEquals": ["Firn.Transient"]`, `"ErrorEquals": ["States.Runtime"]`, "state Plan: Retry[0].ErrorEquals: States.Runtime can neither be retried nor caught"},
		{"unknown States error", `"ErrorEquals": ["Firn.Transient"]`, `"ErrorEquals": ["States.Timout"]`, "state Plan: Retry[0].ErrorEquals: States.Timout is no error of Step Functions"},
		{"unknown argument", `"FunctionName": "${PlanFunction}",`, `"FunctionName": "${PlanFunction}", "InvocationType": "Event",`, "state Plan: Arguments.InvocationType: unknown argument"},
		{"Items beside ItemReader", `"Label": "groups"`, `"Label": "groups", "Items": [1]`, "state Groups: ItemReader: must not stand beside Items"},
		{"batcher without limit", `"MaxItemsPerBatch": 10, `, ``, "state Groups: ItemBatcher: must have MaxItemsPerBatch or MaxInputBytesPerBatch"},
		{"query language", `"QueryLanguage": "JSONata"`, `"QueryLanguage": "JSONPath"`, "QueryLanguage: must be JSONata"},
		{"StartAt to nowhere", `"StartAt": "Inner"`, `"StartAt": "Iner"`, "state Each: StartAt: state Iner does not exist"},
		{"Choice without expression", `"Condition": "{% $round > 3 %}"`, `"Condition": true`, "state More: Choices[0].Condition: must be a string"},
		{"MaxDelay below Interval", `"MaxDelaySeconds": 60`, `"MaxDelaySeconds": 2`, "state Plan: Retry[0].MaxDelaySeconds: must be greater than IntervalSeconds"},
		{"fraction of seconds", `"TimeoutSeconds": 900`, `"TimeoutSeconds": 0.5`, "state Plan: TimeoutSeconds: 0.5 is no integer"},
		{"inline concurrency", `"MaxConcurrency": 2`, `"MaxConcurrency": 41`, "state Each: MaxConcurrency: 41 is outside 0 to 40"},
		{"variable name", `"Assign": {"inner": 1}`, `"Assign": {"states": 1}`, "state Each/Inner: Assign.states: is no name for a variable"},
		{"key twice", `"Comment": "pins",`, `"Comment": "pins", "Comment": "again",`, `key "Comment" is given twice`},
		{"no JSON", `"Comment": "pins",`, `"Comment": pins,`, "read JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := faults(t, mutate(t, c.old, c.replacement), options())
			for _, f := range got {
				if strings.HasPrefix(f.String(), c.fault) {
					return
				}
			}
			t.Fatalf("got %v\nwant %s", got, c.fault)
		})
	}
}

func TestUnknownFunctionIsRefused(t *testing.T) {
	o := options()
	o.Functions = []string{"plan", "compact"}
	got := faults(t, base(t), o)
	if len(got) != 1 || got[0].String() != `state Commit: Arguments.FunctionName: function "commit" does not exist, known are plan, compact` {
		t.Fatalf("got %v", got)
	}
	o.Functions = append(o.Functions, "commit")
	if got := faults(t, base(t), o); got != nil {
		t.Fatalf("got %v", got)
	}
	got = faults(t, mutate(t, `"FunctionName": "${PlanFunction}"`, `"FunctionName": "{% $states.input.f %}"`), o)
	if len(got) != 1 || !strings.Contains(got[0].Problem, "plain string") {
		t.Fatalf("got %v", got)
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	text := mutate(t, `"Comment": "pins",`, `"Commment": "pins", "InputPath": "$",`)
	text = strings.Replace(text, `"Seconds": "{% $delay %}",`, ``, 1)
	text = strings.Replace(text, `"MaxAttempts": 4`, `"MaxAttempts": -1`, 1)
	text = strings.Replace(text, `{% $states.input.table %}`, `{% $nope %}`, 1)
	if got := faults(t, text, options()); len(got) != 5 {
		t.Fatalf("got %d faults: %v", len(got), got)
	}
}

func TestDefinitionSize(t *testing.T) {
	if got := faults(t, strings.Repeat(" ", asl.MaxDefinitionBytes)+base(t), options()); len(got) != 1 || !strings.Contains(got[0].Problem, "1 MB") {
		t.Fatalf("got %v", got)
	}
}

func FuzzLoad(f *testing.F) {
	text := base(f)
	f.Add(text)
	f.Add(`{"QueryLanguage":"JSONata","StartAt":"A","States":{"A":{"Type":"Map","End":true,"ItemProcessor":{"StartAt":"B","States":{"B":{"Type":"Pass","End":true}}}}}}`)
	f.Add(`{"States":{"A":[],"B":{"Type":"Choice","Choices":[{"Condition":"{%%}"}]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := asl.Load([]byte(text), options())
		if (d == nil) == (err == nil) {
			t.Fatal("want a definition or an error")
		}
		if err != nil {
			_ = fmt.Sprint(err)
		}
	})
}
