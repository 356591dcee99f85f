package event

import (
	"encoding/json"
	"fmt"
)

// own decodes our public event, version 1 (events/schemas/iceberg-table-committed.schema.json). id is the envelope's, for events without one.
func own(o object, id string) ([]Notice, error) {
	if v, _ := o["v"].(json.Number); v != "1" {
		return nil, fmt.Errorf("decode %s of another version than 1: %w", DetailType, ErrMalformed)
	}
	levels, ok := texts(o["namespace"])
	if !ok {
		return nil, fmt.Errorf("decode %s without levels of a namespace: %w", DetailType, ErrMalformed)
	}
	table, err := identify(o.text("catalog"), levels, o.text("table"))
	if err != nil {
		return nil, err
	}
	snapshot, err := o.integer("snapshot_id")
	if err != nil {
		return nil, err
	}
	n := Notice{Source: SourceCommitted, EventID: o.text("event_id"), Table: table, TableUUID: o.text("table_uuid"), SnapshotID: snapshot}
	for _, name := range []string{"catalog", "table", "source", "event_id", "table_uuid", "observed_at", "metadata_location"} {
		if _, isText := o[name].(string); o.has(name) && !isText {
			return nil, fmt.Errorf("decode %s with a %s that is no text: %w", DetailType, name, ErrMalformed)
		}
	}
	if o.text("source") == string(SourceSchedule) {
		n.Source = SourceSchedule
	}
	if n.EventID == "" {
		n.EventID = id
	}
	return []Notice{n}, nil
}
