// Package event turns the bytes of any known event source into notices: hints that a table may have changed. Sources are told apart by their shape,
// not by configuration, and may be wrapped in SNS, SQS, EventBridge, Kafka and CloudEvents envelopes in any nesting, gzipped or not.
//
// A notice says where to look and when, never what is true: the catalog's pointer is. So nothing of an event's content is trusted beyond names, and
// names, size, depth and accounts are checked here, before anybody acts on them.
package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"firn/internal/maintenance"
)

// ErrRefused is the class of every error of this package: the message belongs to the refused queue, not to a retry.
var ErrRefused = errors.New("refused")

// Reasons for which an event is refused; each is an ErrRefused.
var (
	// ErrUnknown says that the bytes have the shape of no known source.
	ErrUnknown = fmt.Errorf("unknown event: %w", ErrRefused)
	// ErrMalformed says that the bytes are no strict JSON (or no gzip), or that a field of a known shape is missing or of another type.
	ErrMalformed = fmt.Errorf("malformed event: %w", ErrRefused)
	// ErrTooLarge says that size, depth, envelopes or the number of tables exceed a bound.
	ErrTooLarge = fmt.Errorf("event too large: %w", ErrRefused)
	// ErrBadName says that a name or key holds what no table of ours may be called by an event.
	ErrBadName = fmt.Errorf("bad name in event: %w", ErrRefused)
	// ErrForeignAccount says that the event comes from an account outside of Rules.Accounts.
	ErrForeignAccount = fmt.Errorf("event of a foreign account: %w", ErrRefused)
	// ErrNoTable says that a known message cannot say which table changed, so that its sender must be set up in another way.
	ErrNoTable = fmt.Errorf("event names no table: %w", ErrRefused)
)

// DetailType is the detail type and the CloudEvents type of our own public event.
const DetailType = "Iceberg Table Committed"

// maxNotices bounds the tables that one message may name.
const maxNotices = 1000

// Source is a kind of event source.
type Source string

// The sources.
const (
	SourceCommitted     Source = "iceberg.committed"
	SourceGlue          Source = "aws.glue"
	SourceS3            Source = "aws.s3"
	SourceS3Tables      Source = "aws.s3tables"
	SourceStepFunctions Source = "aws.states"
	SourceLakekeeper    Source = "lakekeeper"
	SourcePolaris       Source = "polaris"
	SourceNessie        Source = "nessie"
	SourceCommitReport  Source = "iceberg.commit-report"
	SourceSchedule      Source = "firn.schedule"
)

// Notice is a decoded hint. Either Table or Location is set.
type Notice struct {
	Source Source `json:"source"`
	// EventID is the source's own ID, for logs.
	EventID string `json:"event_id,omitempty"`
	// Origin is what the source calls its own catalog (Polaris' catalog, Lakekeeper's warehouse, Nessie's repository, an S3 table bucket), for logs:
	// these names are not ours.
	Origin string `json:"origin,omitempty"`
	// Table names the table. Its Catalog is "" when the source does not know our catalogs' names, which only our own event does.
	Table maintenance.TableID `json:"table,omitzero"`
	// Location is an object under the table (S3); the table is found through the catalog only, never guessed.
	Location string `json:"location,omitempty"`
	// TableUUID and SnapshotID are what the source says, "" and 0 when it does not.
	TableUUID  string `json:"table_uuid,omitempty"`
	SnapshotID int64  `json:"snapshot_id,omitempty"`
	// RunID is set when an execution of the state machine ended; Status is how, in the words of Step Functions: SUCCEEDED, FAILED, TIMED_OUT, ABORTED.
	RunID  maintenance.RunID `json:"run_id,omitempty"`
	Status string            `json:"status,omitempty"`
}

// Message is one delivery.
type Message struct {
	Body []byte
	// Attributes are the message attributes (SQS, SNS) or headers (Kafka, HTTP) beside the body; CloudEvents' binary mode has its type there.
	Attributes map[string]string
}

// Rules are what a deployment asks of events. The zero value asks nothing more than the bounds of this package.
type Rules struct {
	// Accounts are the AWS accounts whose EventBridge events and SNS topics are heard; none means all that may reach the queue.
	Accounts []string
}

// NewRules reads accounts parted by commas; "" hears all.
func NewRules(accounts string) Rules {
	return Rules{Accounts: strings.FieldsFunc(accounts, func(r rune) bool { return r == ',' || r == ' ' })}
}

// Decode is Rules.Decode without rules and attributes.
func Decode(body []byte) ([]Notice, error) { return Rules{}.Decode(Message{Body: body}) }

// Decode returns the notices of a message; none for messages that say nothing of a table (S3's test event, creation of a database, a failed call).
// One bad notice refuses the whole message. An error wraps ErrRefused and one of its reasons.
func (r Rules) Decode(m Message) ([]Notice, error) {
	d := &decoder{rules: r, left: maxTotalBytes}
	notices, err := d.decode(m, 0)
	if err != nil {
		return nil, err
	}
	if len(notices) > maxNotices {
		return nil, fmt.Errorf("decode event of %d tables, more than %d: %w", len(notices), maxNotices, ErrTooLarge)
	}
	for _, n := range notices {
		if err := n.check(); err != nil {
			return nil, fmt.Errorf("decode event of %s: %w", n.Source, err)
		}
	}
	return notices, nil
}

// Encode writes a notice of a table as our own event: what schedule and report put on the queue.
func Encode(n Notice) ([]byte, error) {
	event := map[string]any{
		"v": 1, "source": n.Source, "event_id": n.EventID, "catalog": n.Table.Catalog, "namespace": n.Table.Namespace, "table": n.Table.Name,
	}
	if n.TableUUID != "" {
		event["table_uuid"] = n.TableUUID
	}
	if n.SnapshotID != 0 {
		event["snapshot_id"] = fmt.Sprint(n.SnapshotID) // as text: some JSON libraries round numbers above 2^53
	}
	return json.Marshal(event)
}

// decoder decodes one message and all that is wrapped in it.
type decoder struct {
	rules Rules
	// left is how many bytes may still be read: it bounds what many small packed envelopes unpack to.
	left int
}

// admit refuses accounts that are not heard. Envelopes that name no account are judged by the queue's own policy.
func (d *decoder) admit(account string) error {
	if account == "" || len(d.rules.Accounts) == 0 || slices.Contains(d.rules.Accounts, account) {
		return nil
	}
	return fmt.Errorf("hear account %q: %w", account, ErrForeignAccount)
}
