package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/local/cloud/iam"
	"firn/internal/local/cloud/template"
)

// Looks says how a mapping called its function so far.
type Looks struct {
	// Batches counts the calls, Largest is the most messages of one, Parallel the most calls at once, Failed the calls that ended in an error.
	Batches, Largest, Parallel, Failed int
}

// Looks is how mappings called their functions so far.
func (c *Cloud) Looks() Looks {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}

// ForgetLooks begins to count anew.
func (c *Cloud) ForgetLooks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks = Looks{}
}

// Poll hands the visible messages to the functions of the mappings, once, and waits for no execution: for what a test wants in the middle of a run.
func (c *Cloud) Poll(ctx context.Context) error {
	_, err := c.poll(ctx)
	return err
}

// poll hands visible messages to the functions of the mappings, and reports whether there were any.
func (c *Cloud) poll(ctx context.Context) (bool, error) {
	stack, any := c.current(), false
	for _, m := range stack.Mappings {
		q, fn := c.queue(m.EventSourceArn), functionOf(stack, m.FunctionName)
		for _, action := range []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"} {
			if !c.guard.role(fn.Role, iam.Request{Action: action, Resource: m.EventSourceArn}) {
				return false, fmt.Errorf("mapping %s cannot poll: %s is not allowed", m.ID, action)
			}
		}
		var batches [][]*Message
		for batch := q.take(m.BatchSize); len(batch) > 0; batch = q.take(m.BatchSize) {
			batches = append(batches, batch)
		}
		any = any || len(batches) > 0
		limit := m.ScalingConfig.MaximumConcurrency
		if limit == 0 {
			limit = 1000 // the mapping's own bound, which no account has to spare
		}
		slots := make(chan struct{}, limit)
		var running sync.WaitGroup
		for _, batch := range batches {
			slots <- struct{}{}
			running.Go(func() {
				c.handle(ctx, m, q, batch, len(slots))
				<-slots
			})
		}
		running.Wait()
	}
	return any, ctx.Err()
}

// handle calls the function with a batch, deletes what it handled, and moves to the dead letters what has failed too often.
func (c *Cloud) handle(ctx context.Context, m *template.Mapping, q *queue, batch []*Message, parallel int) {
	failed, err := c.look(ctx, m, q, batch)
	c.mu.Lock()
	c.looks.Batches++
	c.looks.Largest = max(c.looks.Largest, len(batch))
	c.looks.Parallel = max(c.looks.Parallel, parallel)
	if err != nil {
		c.looks.Failed++
	}
	c.mu.Unlock()
	if err != nil {
		c.options.Log("mapping", err.Error())
		failed = batch
	}
	q.delete(slices.DeleteFunc(slices.Clone(batch), func(one *Message) bool { return slices.Contains(failed, one) }))
	for _, letter := range q.exhausted(failed) {
		c.queue(q.dead).put(letter.Body, letter.Attributes, false, letter.sent)
	}
}

// look is one call of the function. Without ReportBatchItemFailures whatever it answers is success.
func (c *Cloud) look(ctx context.Context, m *template.Mapping, q *queue, batch []*Message) (failed []*Message, err error) {
	in := events.SQSEvent{}
	for _, one := range batch {
		in.Records = append(in.Records, record(one, q, c.options.Place.Region))
	}
	payload, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	out, err := c.call(ctx, functionOf(c.current(), m.FunctionName).ARN, payload)
	if err != nil {
		return nil, err
	}
	var answer events.SQSEventResponse
	if len(m.FunctionResponseTypes) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return nil, fmt.Errorf("decode answer of %s: %w", m.FunctionName, err)
	}
	for _, failure := range answer.BatchItemFailures {
		i := slices.IndexFunc(batch, func(one *Message) bool { return one.ID == failure.ItemIdentifier })
		if i < 0 {
			return batch, nil // an unknown identifier fails the whole batch
		}
		failed = append(failed, batch[i])
	}
	return failed, nil
}

// call calls a function or a version of it by ARN.
func (c *Cloud) call(ctx context.Context, arn string, payload []byte) (json.RawMessage, error) {
	c.mu.Lock()
	program := c.programs[arn]
	c.mu.Unlock()
	if program == "" {
		return nil, fmt.Errorf("call %s: it does not exist", arn)
	}
	return c.lambda.Invoke(ctx, program, payload)
}

func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
