// Package event turns the bytes of any known event source into notices: hints that a table may have changed. It understands our own public event
// "Iceberg Table Committed", Glue Data Catalog state changes, S3 notifications (classic, and through EventBridge) and the scheduler's notices,
// wrapped in SNS or EventBridge envelopes or not, in any nesting.
//
// A notice says where to look and when, never what is true: the catalog's pointer is. So nothing of an event's content is trusted beyond names.
package event

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"firn/internal/maintenance"
)

// ErrUnknown says that the bytes are no event of a known source; the message belongs to the refused queue, not to a retry.
var ErrUnknown = errors.New("unknown event")

// DetailType is the detail type and the CloudEvents type of our own public event.
const DetailType = "Iceberg Table Committed"

// maxNesting bounds envelopes within envelopes; maxBytes bounds what a packed message may unpack to.
const (
	maxNesting = 6
	maxBytes   = 4 << 20
)

// Source is a kind of event source.
type Source string

// The sources.
const (
	SourceCommitted Source = "iceberg.committed"
	SourceGlue      Source = "aws.glue"
	SourceS3        Source = "aws.s3"
	SourceSchedule  Source = "firn.schedule"
)

// Notice is a decoded hint. Either Table or Location is set.
type Notice struct {
	Source Source `json:"source"`
	// EventID is the source's own ID, for logs.
	EventID string `json:"event_id,omitempty"`
	// Table names the table. Its Catalog is "" when the source does not know our catalogs' names (Glue).
	Table maintenance.TableID `json:"table"`
	// Location is an object under the table (S3); the table is found through the catalog only, never guessed.
	Location string `json:"location,omitempty"`
	// TableUUID and SnapshotID are what the source says, 0 and "" when it does not.
	TableUUID  string `json:"table_uuid,omitempty"`
	SnapshotID int64  `json:"snapshot_id,omitempty"`
}

// Decode returns the notices in a message's body; none for messages that say nothing of a table (S3's test event, creation of a database). An
// error wraps ErrUnknown.
func Decode(body []byte) ([]Notice, error) { return decode(body, 0) }

func decode(body []byte, depth int) ([]Notice, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("unwrap more than %d envelopes: %w", maxNesting, ErrUnknown)
	}
	body, err := unpack(bytes.TrimSpace(body))
	if err != nil {
		return nil, err
	}
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, fmt.Errorf("decode event: %w: %w", ErrUnknown, err)
	}
	switch {
	case e.Type == "Notification" && e.Message != nil:
		return decode([]byte(*e.Message), depth+1)
	case e.Event == "s3:TestEvent":
		return nil, nil
	case len(e.Records) > 0:
		return records(e.Records, depth)
	case e.DetailType != "":
		return detail(e, body)
	case e.V != nil:
		return own(body)
	}
	return nil, fmt.Errorf("decode event with keys %s: %w", keys(body), ErrUnknown)
}

// envelope holds the fields by which shapes are told apart.
type envelope struct {
	// SNS
	Type    string  `json:"Type"`
	Message *string `json:"Message"`
	// S3's test event and classic notifications
	Event   string            `json:"Event"`
	Records []json.RawMessage `json:"Records"`
	// EventBridge
	ID         string          `json:"id"`
	DetailType string          `json:"detail-type"`
	Source     string          `json:"source"`
	Detail     json.RawMessage `json:"detail"`
	// ours
	V *int `json:"v"`
}

// unpack reads gzip, bare or in base64; anything else is returned as it is.
func unpack(body []byte) ([]byte, error) {
	if raw, err := base64.StdEncoding.DecodeString(string(body)); err == nil && bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		body = raw
	}
	if !bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		return body, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("unpack event: %w: %w", ErrUnknown, err)
	}
	out, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("unpack event: %w: %w", ErrUnknown, err)
	}
	if len(out) > maxBytes {
		return nil, fmt.Errorf("unpack event of more than %d bytes: %w", maxBytes, ErrUnknown)
	}
	return out, nil
}

// detail decodes the detail of an EventBridge event.
func detail(e envelope, body []byte) ([]Notice, error) {
	switch {
	case e.DetailType == DetailType:
		notices, err := own(e.Detail)
		for i := range notices {
			if notices[i].EventID == "" {
				notices[i].EventID = e.ID
			}
		}
		return notices, err
	case e.Source == string(SourceGlue):
		return glue(e)
	case e.Source == string(SourceS3) && e.DetailType == "Object Created":
		return objectCreated(e)
	}
	return nil, fmt.Errorf("decode %q of source %q (keys %s): %w", e.DetailType, e.Source, keys(body), ErrUnknown)
}

// keys names a message's keys for an error, never its values.
func keys(body []byte) string {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil {
		return "none"
	}
	names := make([]string, 0, len(object))
	for k := range object {
		names = append(names, k)
	}
	return fmt.Sprintf("%q", names)
}
