package event

import (
	"fmt"
	"strings"

	"firn/internal/maintenance"
)

// nessieBranch is the branch whose commits are heard: Firn maintains the state that catalogs show by default.
const nessieBranch = "main"

// nessie decodes events of Nessie's reference subscribers. A COMMIT names no contents; each changed table has a CONTENT_STORED beside it.
func nessie(o object) ([]Notice, error) {
	switch o.text("type") {
	case "CONTENT_STORED", "CONTENT_REMOVED":
	case "COMMIT", "MERGE", "TRANSPLANT", "REFERENCE_CREATED", "REFERENCE_UPDATED", "REFERENCE_DELETED":
		return nil, nil
	default:
		return nil, fmt.Errorf("decode Nessie's event of type %.60q: %w", o.text("type"), ErrUnknown)
	}
	reference, content := o.at("reference"), o.at("content")
	if reference == nil {
		return nil, fmt.Errorf("decode Nessie's event without reference: %w", ErrMalformed)
	}
	if reference.text("type") != "BRANCH" || reference.text("name") != nessieBranch {
		return nil, nil
	}
	if content != nil && content.text("type") != "ICEBERG_TABLE" {
		return nil, nil
	}
	elements, ok := texts(o.at("contentKey")["elements"])
	if !ok || len(elements) < 2 {
		return nil, fmt.Errorf("decode Nessie's event without the elements of a table's key: %w", ErrMalformed)
	}
	snapshot, err := content.integer("snapshotId")
	if err != nil {
		return nil, err
	}
	table, err := identify("", elements[:len(elements)-1], elements[len(elements)-1])
	if err != nil {
		return nil, err
	}
	return []Notice{{
		Source: SourceNessie, EventID: o.text("id"), Origin: o.text("repositoryId"), Table: table, SnapshotID: max(snapshot, 0), // -1: no snapshot yet
	}}, nil
}

// polaris decodes messages of the Kafka sink, rows of the persistence listener, and refuses the CloudWatch sink's, which do not name the table.
// A transaction comes as one event for each table, and once more as a whole: that one says nothing new.
func polaris(o object) ([]Notice, error) {
	kind := o.text("event_type", "eventType")
	switch kind {
	case "AFTER_UPDATE_TABLE", "AFTER_CREATE_TABLE", "AFTER_REGISTER_TABLE", "AFTER_DROP_TABLE", "AFTER_RENAME_TABLE":
	default:
		if strings.HasPrefix(kind, "AFTER_") || strings.HasPrefix(kind, "BEFORE_") {
			return nil, nil
		}
		return nil, fmt.Errorf("decode Polaris' event of type %.60q: %w", kind, ErrUnknown)
	}
	n := Notice{Source: SourcePolaris, EventID: o.text("event_id", "id"), Origin: o.text("catalog_name", "catalog_id", "catalogId")}
	var err error
	if o.has("table_name") {
		levels, ok := texts(o["namespace"])
		if !ok {
			return nil, fmt.Errorf("decode Polaris' message without namespace: %w", ErrMalformed)
		}
		if n.Table, err = identify("", levels, o.text("table_name")); err != nil {
			return nil, err
		}
		return []Notice{n}, nil
	}
	identifier := o.text("resource_identifier", "resourceIdentifier", "table_identifier")
	if identifier == "" {
		return nil, fmt.Errorf("decode Polaris' message %s, as its CloudWatch sink writes it (its Kafka and persistence listeners name tables): %w",
			kind, ErrNoTable)
	}
	if n.Table, err = dotted(identifier); err != nil {
		return nil, err
	}
	for _, name := range []string{"additional_properties", "additionalProperties"} {
		if o[name] == nil {
			continue
		}
		properties, err := o.inner(name)
		if err != nil {
			return nil, err
		}
		n.TableUUID = properties.text("table_uuid")
		if n.SnapshotID, err = properties.integer("table_current_snapshot_id"); err != nil {
			return nil, err
		}
		n.SnapshotID = max(n.SnapshotID, 0)
	}
	return []Notice{n}, nil
}

// commitReport decodes the metrics report that a client sends to a REST catalog. Its name of the table begins with what that client calls the
// catalog: with three parts and more the first one goes.
func commitReport(o object) ([]Notice, error) {
	switch o.text("report-type") {
	case "commit-report":
	case "scan-report":
		return nil, nil
	default:
		return nil, fmt.Errorf("decode report of type %.60q: %w", o.text("report-type"), ErrUnknown)
	}
	n := Notice{Source: SourceCommitReport}
	var err error
	if n.Table, err = dotted(o.text("table-name")); err != nil {
		return nil, err
	}
	if levels := n.Table.Namespace.Levels(); len(levels) > 1 {
		n.Origin, n.Table.Namespace = levels[0], maintenance.NewNamespace(levels[1:]...)
	}
	if n.SnapshotID, err = o.integer("snapshot-id"); err != nil {
		return nil, err
	}
	return []Notice{n}, nil
}
