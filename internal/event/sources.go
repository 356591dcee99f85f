package event

import (
	"encoding/json"
	"fmt"
	"net/url"

	"firn/internal/maintenance"
)

// committed is our own public event, version 1 (events/schemas/iceberg-table-committed.schema.json).
type committed struct {
	V         int                   `json:"v"`
	Source    string                `json:"source"`
	EventID   string                `json:"event_id"`
	Catalog   string                `json:"catalog"`
	Namespace maintenance.Namespace `json:"namespace"`
	Table     string                `json:"table"`
	TableUUID string                `json:"table_uuid"`
	// SnapshotID may be a number or a text: JSON libraries of some writers round large numbers.
	SnapshotID flexibleID `json:"snapshot_id"`
}

// flexibleID is a 64-bit ID as a JSON number or text.
type flexibleID int64

// UnmarshalJSON reads both forms.
func (f *flexibleID) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	if text == "" || text == "null" {
		return nil
	}
	var n int64
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	*f = flexibleID(n)
	return nil
}

func own(body []byte) ([]Notice, error) {
	var c committed
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, fmt.Errorf("decode %s: %w: %w", DetailType, ErrUnknown, err)
	}
	if c.V != 1 {
		return nil, fmt.Errorf("decode %s of version %d: %w", DetailType, c.V, ErrUnknown)
	}
	id := maintenance.TableID{Catalog: c.Catalog, Namespace: c.Namespace, Name: c.Table}
	if err := id.Validate(); err != nil {
		return nil, fmt.Errorf("decode %s: %w: %w", DetailType, ErrUnknown, err)
	}
	source := SourceCommitted
	if c.Source == string(SourceSchedule) {
		source = SourceSchedule
	}
	return []Notice{{Source: source, EventID: c.EventID, Table: id, TableUUID: c.TableUUID, SnapshotID: int64(c.SnapshotID)}}, nil
}

// Encode writes a notice as our own event: what schedule puts on the queue.
func Encode(n Notice) ([]byte, error) {
	return json.Marshal(map[string]any{
		"v": 1, "source": n.Source, "event_id": n.EventID, "catalog": n.Table.Catalog, "namespace": n.Table.Namespace, "table": n.Table.Name,
	})
}

// glue decodes Table State Change and Database State Change. Deleted tables are notices too: looking finds that they are gone.
func glue(e envelope) ([]Notice, error) {
	var d struct {
		Database string   `json:"databaseName"`
		Table    string   `json:"tableName"`
		Tables   []string `json:"changedTables"`
	}
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return nil, fmt.Errorf("decode %s: %w: %w", e.DetailType, ErrUnknown, err)
	}
	names := d.Tables
	if d.Table != "" {
		names = append(names, d.Table)
	}
	if d.Database == "" {
		return nil, fmt.Errorf("decode %s without databaseName: %w", e.DetailType, ErrUnknown)
	}
	notices := make([]Notice, 0, len(names))
	for _, name := range names {
		notices = append(notices, Notice{
			Source: SourceGlue, EventID: e.ID, Table: maintenance.TableID{Namespace: maintenance.NewNamespace(d.Database), Name: name},
		})
	}
	return notices, nil
}

// objectCreated decodes S3's event through EventBridge; its key is not URL-encoded.
func objectCreated(e envelope) ([]Notice, error) {
	var d struct {
		Bucket struct {
			Name string `json:"name"`
		} `json:"bucket"`
		Object struct {
			Key string `json:"key"`
		} `json:"object"`
	}
	if err := json.Unmarshal(e.Detail, &d); err != nil || d.Bucket.Name == "" || d.Object.Key == "" {
		return nil, fmt.Errorf("decode %s without bucket and key: %w", e.DetailType, ErrUnknown)
	}
	return []Notice{{Source: SourceS3, EventID: e.ID, Location: "s3://" + d.Bucket.Name + "/" + d.Object.Key}}, nil
}

// records decodes SNS deliveries to a function, and classic S3 notifications, whose keys are URL-encoded with '+' for a space.
func records(list []json.RawMessage, depth int) ([]Notice, error) {
	var notices []Notice
	for _, raw := range list {
		var r struct {
			Sns *struct {
				Message string `json:"Message"`
			} `json:"Sns"`
			EventSource string `json:"eventSource"`
			S3          *struct {
				Bucket struct {
					Name string `json:"name"`
				} `json:"bucket"`
				Object struct {
					Key string `json:"key"`
				} `json:"object"`
			} `json:"s3"`
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, fmt.Errorf("decode record: %w: %w", ErrUnknown, err)
		}
		switch {
		case r.Sns != nil:
			inner, err := decode([]byte(r.Sns.Message), depth+1)
			if err != nil {
				return nil, err
			}
			notices = append(notices, inner...)
		case r.S3 != nil && r.EventSource == "aws:s3":
			key, err := url.QueryUnescape(r.S3.Object.Key)
			if err != nil || r.S3.Bucket.Name == "" || key == "" {
				return nil, fmt.Errorf("decode S3 record with key %q: %w", r.S3.Object.Key, ErrUnknown)
			}
			notices = append(notices, Notice{Source: SourceS3, Location: "s3://" + r.S3.Bucket.Name + "/" + key})
		default:
			return nil, fmt.Errorf("decode record of source %q: %w", r.EventSource, ErrUnknown)
		}
	}
	return notices, nil
}
