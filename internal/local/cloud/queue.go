package cloud

import (
	"crypto/md5" //nolint:gosec // SQS's checksum
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/local/cloud/template"
)

// Message is a message on a queue.
type Message struct {
	ID, Body   string
	Attributes map[string]string
	// Received is how often it was handed out.
	Received int

	sent    time.Time
	waiting bool // delayed, or failed and not visible again yet
}

// queue is one queue of SQS.
type queue struct {
	settings *template.Queue
	dead     string // ARN of the queue of dead letters, "" for none

	mu       sync.Mutex
	messages []*Message
	next     int
}

// addQueue makes a queue, or gives one that exists its new settings.
func (c *Cloud) addQueue(settings *template.Queue) error {
	dead := settings.RedrivePolicy.DeadLetterTargetArn
	if q := c.queues[settings.ARN]; q != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.settings, q.dead = settings, dead
		return nil
	}
	c.queues[settings.ARN] = &queue{settings: settings, dead: dead}
	if dead == "" {
		return nil
	}
	for _, other := range c.stack.Queues {
		if other.ARN == dead {
			return nil
		}
	}
	return fmt.Errorf("queue %s: its dead letters go to %s, which does not exist", settings.ID, dead)
}

func (c *Cloud) queue(arn string) *queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues[arn]
}

// queueByURL finds a queue by the URL that Ref gives.
func (c *Cloud) queueByURL(url string) *queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.queues {
		if q.settings.Name == url {
			return q
		}
	}
	return nil
}

// put adds a message; one with a delay waits for Elapse.
func (q *queue) put(body string, attributes map[string]string, delay bool, at time.Time) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next++
	id := q.settings.ID + "-" + strconv.Itoa(q.next)
	q.messages = append(q.messages, &Message{ID: id, Body: body, Attributes: attributes, sent: at, waiting: delay})
	return id
}

// take hands out visible messages; they stay on the queue until delete.
func (q *queue) take(most int) []*Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []*Message
	for _, m := range q.messages {
		if !m.waiting && len(out) < most {
			m.waiting = true
			m.Received++
			out = append(out, m)
		}
	}
	return out
}

// delete removes messages by identity.
func (q *queue) delete(gone []*Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = slices.DeleteFunc(q.messages, func(m *Message) bool { return slices.Contains(gone, m) })
}

// exhausted removes and returns the messages among those that were received as often as the queue allows.
func (q *queue) exhausted(failed []*Message) []*Message {
	if q.dead == "" {
		return nil
	}
	var out []*Message
	for _, m := range failed {
		if m.Received >= q.settings.MaxReceives {
			out = append(out, m)
		}
	}
	q.delete(out)
	return out
}

// Messages lists what is on a queue, by a part of its logical ID.
func (c *Cloud) Messages(part string) []Message {
	var out []Message
	for _, q := range c.named(part) {
		q.mu.Lock()
		for _, m := range q.messages {
			out = append(out, *m)
		}
		q.mu.Unlock()
	}
	return out
}

// Purge removes what is on a queue.
func (c *Cloud) Purge(part string) {
	for _, q := range c.named(part) {
		q.mu.Lock()
		q.messages = nil
		q.mu.Unlock()
	}
}

// Elapse lets time pass until every message that waits is visible.
func (c *Cloud) Elapse() {
	for _, q := range c.named("") {
		q.mu.Lock()
		for _, m := range q.messages {
			m.waiting = false
		}
		q.mu.Unlock()
	}
}

// Redrive moves the dead letters of a queue back to it, as the console's button does.
func (c *Cloud) Redrive(part string) int {
	moved := 0
	for _, q := range c.named(part) {
		dead := c.queue(q.dead)
		if dead == nil {
			continue
		}
		dead.mu.Lock()
		letters := dead.messages
		dead.messages = nil
		dead.mu.Unlock()
		for _, m := range letters {
			q.put(m.Body, m.Attributes, false, c.options.Now())
			moved++
		}
	}
	return moved
}

func (c *Cloud) named(part string) []*queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*queue
	for _, q := range c.queues {
		if containsFold(q.settings.ID, part) {
			out = append(out, q)
		}
	}
	return out
}

// record is a message as a function gets it.
func record(m *Message, q *queue, region string) events.SQSMessage {
	attributes := map[string]events.SQSMessageAttribute{}
	for name, value := range m.Attributes {
		attributes[name] = events.SQSMessageAttribute{DataType: "String", StringValue: &value}
	}
	sum := md5.Sum([]byte(m.Body)) //nolint:gosec // SQS's checksum
	return events.SQSMessage{
		MessageId: m.ID, ReceiptHandle: "receipt-" + m.ID, Body: m.Body, Md5OfBody: hex.EncodeToString(sum[:]),
		Attributes: map[string]string{
			"ApproximateReceiveCount": strconv.Itoa(m.Received), "SentTimestamp": strconv.FormatInt(m.sent.UnixMilli(), 10),
			"SenderId": "local", "ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.sent.UnixMilli(), 10),
		},
		MessageAttributes: attributes, EventSource: "aws:sqs", EventSourceARN: q.settings.ARN, AWSRegion: region,
	}
}
