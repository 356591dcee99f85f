package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"firn/internal/local/cloud/iam"
	"firn/internal/local/cloud/template"
)

// event is an event on the default bus.
type event struct {
	Version    string    `json:"version"`
	ID         string    `json:"id"`
	DetailType string    `json:"detail-type"`
	Source     string    `json:"source"`
	Account    string    `json:"account"`
	Time       time.Time `json:"time"`
	Region     string    `json:"region"`
	Resources  []string  `json:"resources"`
	Detail     any       `json:"detail"`
}

// bus is the default event bus.
type bus struct {
	cloud *Cloud

	mu   sync.Mutex
	next int
	sent []json.RawMessage
	// muted are sources whose events are lost.
	muted []string
}

// send fills in what the bus adds and routes an event.
func (b *bus) send(e event) {
	o := b.cloud.options
	b.mu.Lock()
	if slices.Contains(b.muted, e.Source) {
		b.mu.Unlock()
		return
	}
	b.next++
	e.Version, e.ID, e.Time, e.Region = "0", "event-"+strconv.Itoa(b.next), o.Now().UTC().Truncate(time.Second), o.Place.Region
	if e.Account == "" {
		e.Account = o.Place.Account
	}
	if e.Resources == nil {
		e.Resources = []string{}
	}
	b.mu.Unlock()
	data, err := json.Marshal(e)
	if err != nil {
		b.cloud.guard.violate("an event is no JSON: %v", err)
		return
	}
	b.route(data)
}

// route puts an event on the queues of the rules that match.
func (b *bus) route(data []byte) {
	b.mu.Lock()
	b.sent = append(b.sent, data)
	b.mu.Unlock()
	for _, rule := range b.cloud.current().Rules {
		matched, err := rule.Pattern.MatchJSON(data)
		if err != nil {
			b.cloud.guard.violate("an event is no JSON: %v", err)
			return
		}
		if !matched {
			continue
		}
		for _, target := range rule.Targets {
			b.cloud.deliver("events.amazonaws.com", rule.ARN, target.Arn, target.DeadLetterConfig.Arn, data)
		}
	}
}

// deliver lets a service put a message on a queue, or on its dead letters when the queue's policy does not let it.
func (c *Cloud) deliver(service, source, queueARN, deadARN string, body []byte) {
	for _, arn := range []string{queueARN, deadARN} {
		if c.guard.service(service, source, iam.Request{Action: "sqs:SendMessage", Resource: arn}) {
			c.queue(arn).put(string(body), nil, false, c.options.Now())
			return
		}
	}
}

// Publish puts an event of a service on the bus, as AWS itself does: the source may begin with "aws.".
func (c *Cloud) Publish(source, detailType string, detail any) {
	c.bus.send(event{Source: source, DetailType: detailType, Detail: detail})
}

// PublishRaw puts a whole event on the bus.
func (c *Cloud) PublishRaw(data []byte) { c.bus.route(data) }

// Mute loses the events of sources from now on; without arguments nothing is lost any more.
func (c *Cloud) Mute(sources ...string) {
	c.bus.mu.Lock()
	defer c.bus.mu.Unlock()
	c.bus.muted = sources
}

// Events are the events on the bus so far, of one detail type; "" is all.
func (c *Cloud) Events(detailType string) []json.RawMessage {
	c.bus.mu.Lock()
	defer c.bus.mu.Unlock()
	var out []json.RawMessage
	for _, data := range c.bus.sent {
		var head struct {
			DetailType string `json:"detail-type"`
		}
		if err := json.Unmarshal(data, &head); err == nil && (detailType == "" || head.DetailType == detailType) {
			out = append(out, data)
		}
	}
	return out
}

// Notify publishes a message to a topic: raw, or in the envelope of SNS, to the queues that are subscribed to it.
func (c *Cloud) Notify(topicARN, message string, attributes map[string]string) error {
	stack := c.current()
	for _, s := range stack.Subscriptions {
		if s.TopicArn != topicARN || s.Protocol != "sqs" {
			continue
		}
		if s.Filter != nil && !passes(s, message, attributes) {
			continue
		}
		body := []byte(message)
		if !s.RawMessageDelivery {
			var err error
			body, err = json.Marshal(map[string]any{
				"Type": "Notification", "MessageId": "1", "TopicArn": topicARN, "Message": message, "Timestamp": c.options.Now().UTC(),
				"SignatureVersion": "1", "Signature": "x", "SigningCertURL": "https://x", "UnsubscribeURL": "https://x",
			})
			if err != nil {
				return fmt.Errorf("encode notification: %w", err)
			}
		}
		c.deliver("sns.amazonaws.com", topicARN, s.Endpoint, s.RedrivePolicy.DeadLetterTargetArn, body)
	}
	return nil
}

// passes applies a filter policy to a message's attributes, or to its body.
func passes(s *template.Subscription, message string, attributes map[string]string) bool {
	if s.FilterPolicyScope == "MessageBody" {
		matched, err := s.Filter.MatchJSON([]byte(message))
		return err == nil && matched
	}
	values := map[string]any{}
	for name, value := range attributes {
		values[name] = value
	}
	return s.Filter.Match(values)
}

// Fire lets a schedule's time come, by a part of its logical ID: its role calls its function. A failed call is tried again as often as the schedule says,
// then its input goes to its dead letters.
func (c *Cloud) Fire(ctx context.Context, part string) error {
	stack := c.current()
	for _, s := range stack.Schedules {
		if !containsFold(s.ID, part) {
			continue
		}
		if err := c.trusted(stack, s.Target.RoleArn, "scheduler.amazonaws.com"); err != nil {
			return err
		}
		allowed := c.guard.role(s.Target.RoleArn, iam.Request{Action: "lambda:InvokeFunction", Resource: s.Target.Arn})
		err := fmt.Errorf("schedule %s may not call its function", s.ID)
		retries := s.Target.RetryPolicy.MaximumRetryAttempts
		if s.Target.RetryPolicy.MaximumEventAgeInSeconds == 0 {
			retries = 185 // Scheduler's default
		}
		for try := 0; allowed && err != nil && try <= retries; try++ {
			_, err = c.call(ctx, s.Target.Arn, []byte(s.Target.Input))
		}
		if err == nil {
			return nil
		}
		if c.guard.role(s.Target.RoleArn, iam.Request{Action: "sqs:SendMessage", Resource: s.Target.DeadLetterConfig.Arn}) {
			c.queue(s.Target.DeadLetterConfig.Arn).put(s.Target.Input, nil, false, c.options.Now())
		}
		return err
	}
	return fmt.Errorf("no schedule has %q in its name", strings.ToLower(part))
}
