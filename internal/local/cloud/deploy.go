package cloud

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"firn/internal/local/cloud/iam"
	"firn/internal/local/cloud/template"
	"firn/internal/local/runtimeapi"
	"firn/internal/store"
	"firn/internal/workflow"
)

// Deploy makes what the stack says, or changes what an earlier one said. Published versions and queues with their messages stay. The error holds every
// fault that AWS would find at deployment, and some that it would find only later.
func (c *Cloud) Deploy(stack *template.Stack) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stack = stack
	c.guard.use(stack)
	var faults []error
	for _, id := range slices.Sorted(maps.Keys(stack.Queues)) {
		faults = append(faults, c.addQueue(stack.Queues[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(stack.Functions)) {
		faults = append(faults, c.addFunction(stack, stack.Functions[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(stack.Mappings)) {
		faults = append(faults, c.checkMapping(stack, stack.Mappings[id]))
	}
	for _, r := range stack.Rules {
		for _, target := range r.Targets {
			if c.queues[target.Arn] == nil || c.queues[target.DeadLetterConfig.Arn] == nil {
				faults = append(faults, fmt.Errorf("rule %s: target %s with dead letters %q: want queues of this stack", r.ID, target.Arn, target.DeadLetterConfig.Arn))
			}
		}
	}
	for _, s := range stack.Subscriptions {
		if s.Protocol == "sqs" && (c.queues[s.Endpoint] == nil || c.queues[s.RedrivePolicy.DeadLetterTargetArn] == nil) {
			faults = append(faults, fmt.Errorf("subscription %s: %s with dead letters %q: want queues of this stack", s.ID, s.Endpoint, s.RedrivePolicy.DeadLetterTargetArn))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(stack.Machines)) {
		faults = append(faults, c.addMachine(stack, stack.Machines[id]))
	}
	return errors.Join(faults...)
}

// addFunction registers the unpublished function, and its versions that are new.
func (c *Cloud) addFunction(stack *template.Stack, fn *template.Function) error {
	faults := []error{c.trusted(stack, fn.Role, "lambda.amazonaws.com")}
	program, err := c.options.Program(fn.Code.S3Key)
	if err != nil {
		return errors.Join(append(faults, fmt.Errorf("function %s: %w", fn.ID, err))...)
	}
	group := ""
	for _, g := range stack.LogGroups {
		if g.Name == fn.LoggingConfig.LogGroup {
			group = g.ARN
		}
	}
	if group == "" {
		faults = append(faults, fmt.Errorf("function %s: log group %q does not exist", fn.ID, fn.LoggingConfig.LogGroup))
	}
	stream := strings.TrimSuffix(group, "*") + "log-stream:1"
	for _, need := range []iam.Request{
		{Action: "logs:CreateLogStream", Resource: stream},
		{Action: "logs:PutLogEvents", Resource: stream},
		{Action: "xray:PutTraceSegments", Resource: "*"},
		{Action: "xray:PutTelemetryRecords", Resource: "*"},
	} {
		if strings.HasPrefix(need.Action, "logs:") || fn.TracingConfig.Mode == "Active" {
			c.guard.role(fn.Role, need)
		}
	}
	versions := map[string]int{fn.ARN: 0}
	for _, v := range stack.Versions {
		if v.FunctionName == fn.Name {
			number, err := strconv.Atoi(v.Name[strings.LastIndex(v.Name, ":")+1:])
			if err != nil {
				faults = append(faults, fmt.Errorf("version %s: %w", v.ID, err))
			}
			versions[v.Name] = number
		}
	}
	for _, arn := range slices.Sorted(maps.Keys(versions)) {
		name := programName(fn, versions[arn])
		if c.programs[arn] != "" {
			continue // published versions never change
		}
		c.programs[arn] = name
		faults = append(faults, c.lambda.Add(runtimeapi.Function{
			Name: name, Bootstrap: program, Env: fn.Environment.Variables, MemoryMB: fn.MemorySize, Timeout: time.Duration(fn.Timeout) * time.Second,
			ReservedConcurrency: fn.ReservedConcurrentExecutions, AccessKeyID: fn.Role[strings.LastIndex(fn.Role, "/")+1:],
		}))
	}
	return errors.Join(faults...)
}

// programName is what the Lambda server calls a version of a function: the verb, the number, the logical ID.
func programName(fn *template.Function, version int) string {
	verb := strings.TrimPrefix(fn.Description, "Firn: ")
	return fmt.Sprintf("%s_%d", verb, version)
}

func verbOf(program string) string {
	verb, _, _ := strings.Cut(program, "_")
	return verb
}

func versionOf(program string) int {
	_, number, _ := strings.Cut(program, "_")
	n, _ := strconv.Atoi(number)
	return n
}

func (c *Cloud) trusted(stack *template.Stack, role, service string) error {
	_, trust, found := stack.Documents(role)
	if !found || !iam.Trusts(trust, service) {
		return fmt.Errorf("role %s does not exist, or does not trust %s", role, service)
	}
	return nil
}

// checkMapping holds a mapping against its queue and function.
func (c *Cloud) checkMapping(stack *template.Stack, m *template.Mapping) error {
	fn, q := functionOf(stack, m.FunctionName), c.queues[m.EventSourceArn]
	if fn == nil || q == nil {
		return fmt.Errorf("mapping %s: function %s or queue %s does not exist", m.ID, m.FunctionName, m.EventSourceArn)
	}
	if q.settings.VisibilityTimeout < fn.Timeout {
		return fmt.Errorf("mapping %s: messages of %s come back after %d s, the function may take %d s", m.ID, q.settings.ID, q.settings.VisibilityTimeout, fn.Timeout)
	}
	return nil
}

func functionOf(stack *template.Stack, nameOrARN string) *template.Function {
	for _, fn := range stack.Functions {
		if fn.Name == nameOrARN || fn.ARN == nameOrARN {
			return fn
		}
	}
	return nil
}

// addMachine loads the definition with its substitutions, and asks for the rights that Step Functions wants at deployment.
func (c *Cloud) addMachine(stack *template.Stack, m *template.Machine) error {
	faults := []error{c.trusted(stack, m.RoleArn, "states.amazonaws.com")}
	machine, err := workflow.Load([]byte(m.DefinitionString), workflow.Options{Substitutions: m.DefinitionSubstitutions})
	if err != nil {
		return errors.Join(append(faults, fmt.Errorf("machine %s: %w", m.ID, err))...)
	}
	for _, function := range machine.Functions() {
		if c.programs[function] == "" || versionOf(c.programs[function]) == 0 {
			faults = append(faults, fmt.Errorf("machine %s: function %s is no published version", m.ID, function))
		}
	}
	if m.LoggingConfiguration.Level != "ALL" || len(m.LoggingConfiguration.Destinations) != 1 {
		faults = append(faults, fmt.Errorf("machine %s: logging %v: want all events in one log group", m.ID, m.LoggingConfiguration))
	}
	for _, action := range []string{
		"logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery", "logs:DeleteLogDelivery", "logs:ListLogDeliveries",
		"logs:PutResourcePolicy", "logs:DescribeResourcePolicies", "logs:DescribeLogGroups",
	} {
		c.guard.role(m.RoleArn, iam.Request{Action: action, Resource: "*"})
	}
	if m.TracingConfiguration.Enabled {
		for _, action := range []string{"xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:GetSamplingRules", "xray:GetSamplingTargets"} {
			c.guard.role(m.RoleArn, iam.Request{Action: action, Resource: "*"})
		}
	}
	c.objects, err = store.New(store.Config{Properties: map[string]string{
		"s3.endpoint": c.front.URL, "s3.region": c.options.Place.Region,
		"s3.access-key-id": m.RoleArn[strings.LastIndex(m.RoleArn, "/")+1:], "s3.secret-access-key": "local",
	}})
	c.executions.Define(m.ARN, machine)
	return errors.Join(append(faults, err)...)
}
