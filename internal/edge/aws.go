package edge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// StateMachine starts executions of one state machine of Step Functions.
type StateMachine struct {
	client *sfn.Client
	arn    string
}

// NewStateMachine opens a client with the default credentials.
func NewStateMachine(ctx context.Context, arn string) (*StateMachine, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("load AWS configuration: %w", err)
	}
	return &StateMachine{client: sfn.NewFromConfig(cfg), arn: arn}, nil
}

// Start starts an execution by name. Step Functions answers the same for the same name and input while the execution runs, and with
// ExecutionAlreadyExists afterwards: both mean that it was started.
func (m *StateMachine) Start(ctx context.Context, name string, input []byte) error {
	_, err := m.client.StartExecution(ctx, &sfn.StartExecutionInput{
		StateMachineArn: aws.String(m.arn), Name: aws.String(name), Input: aws.String(string(input)),
	})
	var exists *sfntypes.ExecutionAlreadyExists
	if err == nil || errors.As(err, &exists) {
		return nil
	}
	return fmt.Errorf("start execution %s of %s: %w", name, m.arn, err)
}

// Queue sends to one queue of SQS.
type Queue struct {
	client *sqs.Client
	url    string
}

// NewQueue opens a client with the default credentials.
func NewQueue(ctx context.Context, url string) (*Queue, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("load AWS configuration: %w", err)
	}
	return &Queue{client: sqs.NewFromConfig(cfg), url: url}, nil
}

// Send puts one message on the queue.
func (q *Queue) Send(ctx context.Context, body []byte) error {
	_, err := q.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: aws.String(q.url), MessageBody: aws.String(string(body))})
	if err != nil {
		return fmt.Errorf("send message to %s: %w", q.url, err)
	}
	return nil
}

// maxDelay is the longest that SQS holds a message back.
const maxDelay = 15 * time.Minute

// SendLater puts one message on the queue that arrives after the delay, in whole seconds and at most 15 minutes.
func (q *Queue) SendLater(ctx context.Context, body []byte, delay time.Duration) error {
	seconds := int32((min(max(delay, 0), maxDelay) + time.Second - 1) / time.Second)
	_, err := q.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: aws.String(q.url), MessageBody: aws.String(string(body)), DelaySeconds: seconds})
	if err != nil {
		return fmt.Errorf("send message to %s: %w", q.url, err)
	}
	return nil
}

const (
	// maxRefusedBytes bounds the body of a refused message, so that body and attributes stay under the limit of SQS.
	maxRefusedBytes = 900 << 10
	// maxReasonBytes bounds the reason beside it.
	maxReasonBytes = 1 << 10
)

// Refuse puts a message that cannot be understood on the queue, with the reason and the queue it came from as attributes. What is longer than the
// queue takes is cut, and bytes that are no text are replaced.
func (q *Queue) Refuse(ctx context.Context, message events.SQSMessage, reason error) error {
	body := strings.ToValidUTF8(message.Body[:min(len(message.Body), maxRefusedBytes)], "\uFFFD")
	if body == "" {
		body = "(empty)" // SQS takes no empty body
	}
	text := reason.Error()
	attributes := map[string]sqstypes.MessageAttributeValue{}
	for name, value := range map[string]string{
		"error":  strings.ToValidUTF8(text[:min(len(text), maxReasonBytes)], "\uFFFD"),
		"source": message.EventSourceARN, "message_id": message.MessageId,
	} {
		if value != "" {
			attributes[name] = sqstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
		}
	}
	_, err := q.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: aws.String(q.url), MessageBody: aws.String(body), MessageAttributes: attributes})
	if err != nil {
		return fmt.Errorf("send refused message %s to %s: %w", message.MessageId, q.url, err)
	}
	return nil
}
