package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"firn/internal/local/cloud/iam"
	"firn/internal/local/cloud/template"
	"firn/internal/store"
	"firn/internal/workflow"
)

// hurried is a clock whose waits take a thousandth of what they say, at most 50 ms.
type hurried struct{ workflow.Clock }

// Sleep implements workflow.Clock.
func (h hurried) Sleep(ctx context.Context, d time.Duration) error {
	return h.Clock.Sleep(ctx, min(d/1000, 50*time.Millisecond))
}

// Invoke implements workflow.Host: the state machine calls a published version, if its role may.
func (c *Cloud) Invoke(ctx context.Context, call workflow.Invocation) (json.RawMessage, error) {
	m := machineOf(c.current(), call.ExecutionARN)
	if m == nil || !c.guard.role(m.RoleArn, iam.Request{Action: "lambda:InvokeFunction", Resource: call.Function}) {
		return nil, &workflow.TaskError{Name: "Lambda.AccessDeniedException", Cause: "not authorized to perform lambda:InvokeFunction on " + call.Function}
	}
	if c.options.Invoking != nil {
		if failure := c.options.Invoking(call); failure != nil {
			return nil, failure
		}
	}
	return c.call(ctx, call.Function, call.Payload)
}

// machineOf finds the machine of an execution, or of a child of one of its maps.
func machineOf(stack *template.Stack, executionARN string) *template.Machine {
	for _, m := range stack.Machines {
		rest, is := strings.CutPrefix(executionARN, strings.Replace(m.ARN, ":stateMachine:", ":execution:", 1))
		if is && (strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, "/")) {
			return m
		}
	}
	return nil
}

// ReadObject implements workflow.Host with the state machine's role.
func (c *Cloud) ReadObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	data, err := c.objects.Get(ctx, "s3://"+bucket+"/"+key)
	if err != nil {
		return nil, fmt.Errorf("read items: %w", err)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// WriteObject implements workflow.Host with the state machine's role.
func (c *Cloud) WriteObject(ctx context.Context, bucket, key string, body []byte) error {
	return c.objects.Put(ctx, "s3://"+bucket+"/"+key, body, store.WriteOptions{})
}

// observe asks for what a Distributed Map needs when one starts, and hands events on.
func (c *Cloud) observe(e workflow.Event) {
	if m := machineOf(c.current(), e.ExecutionARN); m != nil && (e.Type == "MapRunStarted" || e.Type == "MapRunRedriven") {
		execution := strings.Replace(m.ARN, ":stateMachine:", ":execution:", 1)
		c.guard.role(m.RoleArn, iam.Request{Action: "states:StartExecution", Resource: m.ARN})
		for _, action := range []string{"states:DescribeExecution", "states:StopExecution", "states:RedriveExecution"} {
			c.guard.role(m.RoleArn, iam.Request{Action: action, Resource: execution + "/" + e.State + ":child"})
		}
	}
	if c.options.Observe != nil {
		c.options.Observe(e)
	}
}

// ended tells the bus how an execution ended.
func (c *Cloud) ended(d workflow.Description) {
	input := string(d.Input)
	c.bus.send(event{
		Source: "aws.states", DetailType: "Step Functions Execution Status Change", Resources: []string{d.ARN},
		Detail: map[string]any{
			"executionArn": d.ARN, "stateMachineArn": d.MachineARN, "name": d.Name, "status": string(d.Status),
			"startDate": d.StartedAt.UnixMilli(), "stopDate": d.StoppedAt.UnixMilli(), "input": input, "inputDetails": map[string]any{"included": true},
			"output": nil, "outputDetails": nil, "error": d.Error, "cause": d.Cause,
		},
	})
}
