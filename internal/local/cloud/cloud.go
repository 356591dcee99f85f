// Package cloud runs a deployment on this machine as its CloudFormation template says: the built functions as processes behind a Lambda Runtime API,
// with memory, timeout, environment and concurrency from the template; the state machine in the strict interpreter; queues, dead letters and event source
// mappings; rules, topics and schedules. Each process has the access key of its role, and every call that it makes is held against that role's policies:
// a call that they do not allow is refused, as on AWS, and remembered (Violations).
//
// Time is the test's: messages that wait (delays, visibility after a failure) come when Elapse is called, batch windows are over at once, and waits of
// the state machine take a thousandth of what they say.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"firn/internal/local/cloud/template"
	"firn/internal/local/runtimeapi"
	"firn/internal/store"
	"firn/internal/workflow"
)

// Operator is the access key of who may do everything: the test itself.
const Operator = "operator"

// Options are what a cloud is made of.
type Options struct {
	// Place is where stacks are deployed to.
	Place template.Place
	// Program finds the program of a function for this machine by the key of its code, such as "ASSET-plan.zip".
	Program func(key string) (string, error)
	// S3, DynamoDB and Glue serve what policies allow. S3 is asked path-style.
	S3, DynamoDB, Glue http.Handler
	// Secrets are the values of secrets by ARN.
	Secrets map[string]string
	// Others are roles of other accounts by ARN, which functions may assume.
	Others map[string]*template.Role
	// Noisy lists buckets whose owner has switched EventBridge on.
	Noisy []string
	Now   func() time.Time
	// Log gets each line that a function writes; nil drops them. It is called by many goroutines at once.
	Log func(function, line string)
	// Disturb sees each call of a function that its role allows, before it is served, and answers true when it has answered it. Nil disturbs nothing.
	Disturb func(http.ResponseWriter, *http.Request, Call) bool
	// Invoking may fail a call of a function by the state machine before it is made; nil lets all through.
	Invoking func(workflow.Invocation) *workflow.TaskError
	// Observe gets the history of executions; nil for none. It must not block for long.
	Observe func(workflow.Event)
}

// Cloud is a running deployment. Close must be called. Its methods may be called concurrently.
type Cloud struct {
	options    Options
	guard      *guard
	front      *httptest.Server
	lambda     *runtimeapi.Server
	executions *workflow.Executions
	bus        *bus

	mu     sync.Mutex
	stack  *template.Stack
	queues map[string]*queue // by ARN
	// programs are the names under which the Lambda server knows published versions and functions, by ARN.
	programs map[string]string
	looks    Looks
	// objects reach S3 with the state machine's role.
	objects store.Full
}

// New starts a cloud without a stack.
func New(o Options) (*Cloud, error) {
	if o.Log == nil {
		o.Log = func(string, string) {}
	}
	c := &Cloud{options: o, guard: newGuard(o.Others), queues: map[string]*queue{}, programs: map[string]string{}}
	c.bus = &bus{cloud: c}
	c.front = httptest.NewServer(c)
	c.lambda = runtimeapi.New(runtimeapi.Options{
		Now: o.Now, Region: o.Place.Region, AccountID: o.Place.Account, Log: o.Log,
		Env: map[string]string{
			"AWS_ENDPOINT_URL": c.front.URL, "AWS_EC2_METADATA_DISABLED": "true",
			// Nothing here may reach anything but this machine: what tries meets a closed port.
			"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1",
		},
	})
	c.executions = workflow.NewExecutions(workflow.Runtime{
		Host: c, Clock: hurried{workflow.NewClock(o.Now)}, Observe: c.observe, Jitter: func() float64 { return 1 }, Parallelism: 4,
	}, c.ended)
	return c, nil
}

// URL is the endpoint of all services.
func (c *Cloud) URL() string { return c.front.URL }

// Violations are the calls so far that policies did not allow, and what else AWS would not have done.
func (c *Cloud) Violations() []string { return c.guard.list() }

// ForgetViolations drops those so far and returns them: for a test that provoked them.
func (c *Cloud) ForgetViolations() []string { return c.guard.forget() }

// Close ends everything.
func (c *Cloud) Close() {
	c.executions.Close()
	c.lambda.Close()
	c.front.CloseClientConnections()
	c.front.Close()
}

// Settle lets everything happen that can happen now: messages are handled and executions run to their ends, until no message is visible and no execution
// runs.
func (c *Cloud) Settle(ctx context.Context) error {
	for {
		handled, err := c.poll(ctx)
		if err != nil {
			return err
		}
		running, err := c.await(ctx)
		if err != nil {
			return err
		}
		if !handled && !running {
			return nil
		}
	}
}

// await waits for the executions that run now, and reports whether there were any.
func (c *Cloud) await(ctx context.Context) (bool, error) {
	waited := false
	for _, m := range c.current().Machines {
		for _, d := range c.executions.ListExecutions(m.ARN, workflow.Running) {
			waited = true
			if _, err := c.executions.AwaitExecution(ctx, d.ARN); err != nil {
				return waited, fmt.Errorf("wait for execution %s: %w", d.Name, err)
			}
		}
	}
	return waited, nil
}

// Stack is what is deployed.
func (c *Cloud) Stack() *template.Stack { return c.current() }

func (c *Cloud) current() *template.Stack {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stack
}

// Executions are the executions of the state machine so far, in no order.
func (c *Cloud) Executions() []workflow.Description {
	var all []workflow.Description
	for _, m := range c.current().Machines {
		all = append(all, c.executions.ListExecutions(m.ARN, "")...)
	}
	return all
}

// Stop stops the executions that run, as an operator would.
func (c *Cloud) Stop(ctx context.Context) error {
	var faults []error
	for _, m := range c.current().Machines {
		for _, d := range c.executions.ListExecutions(m.ARN, workflow.Running) {
			faults = append(faults, c.executions.StopExecution(ctx, d.ARN, "Operator", "stopped by hand"))
		}
	}
	return errors.Join(faults...)
}

// RedriveExecution redrives an execution that failed, timed out or was stopped, as an operator would.
func (c *Cloud) RedriveExecution(ctx context.Context, arn string) error {
	return c.executions.RedriveExecution(ctx, arn)
}

// Kill kills all processes of a function, by the verb that names it: plan, compact, ...
func (c *Cloud) Kill(verb string) int {
	n := 0
	for _, name := range c.lambda.Names() {
		if verbOf(name) == verb {
			n += c.lambda.Kill(name)
		}
	}
	return n
}

// Invocations counts the calls of a function, by its verb, and by the number of its version (0 is the unpublished one).
func (c *Cloud) Invocations(verb string, version int) int {
	n := 0
	for _, name := range c.lambda.Names() {
		if verbOf(name) == verb && versionOf(name) == version {
			n += c.lambda.Stats(name).Invocations
		}
	}
	return n
}

// Starts counts the processes of a function that were started, by its verb.
func (c *Cloud) Starts(verb string) int {
	n := 0
	for _, name := range c.lambda.Names() {
		if verbOf(name) == verb {
			n += c.lambda.Stats(name).ColdStarts
		}
	}
	return n
}
