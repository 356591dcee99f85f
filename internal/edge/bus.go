package edge

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"firn/internal/contract"
)

// EventBus sends Firn's own events to one bus of EventBridge.
type EventBus struct {
	client *eventbridge.Client
	bus    string
}

// NewEventBus opens a client with the default credentials; the bus is given by name or ARN.
func NewEventBus(ctx context.Context, bus string) (*EventBus, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("load AWS configuration: %w", err)
	}
	return &EventBus{client: eventbridge.NewFromConfig(cfg), bus: bus}, nil
}

// Publish implements report.Publisher. EventBridge answers 200 also when it did not take the event.
func (b *EventBus) Publish(ctx context.Context, detailType string, detail []byte) error {
	out, err := b.client.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: []types.PutEventsRequestEntry{{
		EventBusName: aws.String(b.bus), Source: aws.String(contract.EventSource), DetailType: aws.String(detailType), Detail: aws.String(string(detail)),
	}}})
	if err != nil {
		return fmt.Errorf("put event %q on bus %s: %w", detailType, b.bus, err)
	}
	for _, entry := range out.Entries {
		if entry.ErrorCode != nil {
			return fmt.Errorf("put event %q on bus %s: %s: %s", detailType, b.bus, *entry.ErrorCode, aws.ToString(entry.ErrorMessage))
		}
	}
	return nil
}
