package event

import (
	"fmt"
	"net/url"
	"strings"

	"firn/internal/contract"
	"firn/internal/maintenance"
)

// eventBridge decodes AWS' own events by source, ours by detail type, and takes anybody else's for an envelope.
func (d *decoder) eventBridge(o object, depth int) ([]Notice, error) {
	if err := d.admit(o.text("account")); err != nil {
		return nil, err
	}
	detail, err := o.inner("detail")
	if err != nil {
		return nil, err
	}
	id, kind, source := o.text("id"), o.text("detail-type"), o.text("source")
	switch {
	case kind == DetailType:
		return own(detail, id)
	case source == contract.EventSource && strings.HasPrefix(kind, "Firn "):
		return nil, nil // what we tell others of our runs: whoever routes it back to us changes nothing
	case kind == "Scheduled Event":
		if detail.has("v") {
			return own(detail, id)
		}
		return nil, fmt.Errorf("decode a schedule without input, which is for the function schedule: %w", ErrNoTable)
	case source == "aws.glue" && strings.HasPrefix(kind, "Glue Data Catalog "):
		return glue(detail, id)
	case source == "aws.s3" && kind == "Object Created":
		return at(id, detail.at("bucket").text("name"), detail.at("object").text("key"))
	case kind == "AWS API Call via CloudTrail" && strings.HasPrefix(source, "aws."):
		return cloudTrail(detail, id)
	case source == "aws.states" && kind == "Step Functions Execution Status Change":
		return execution(detail, id)
	case !strings.HasPrefix(source, "aws."):
		return d.shape(detail, depth+1)
	}
	return nil, fmt.Errorf("decode %.60q of source %.60q: %w", kind, source, ErrUnknown)
}

// glue decodes Table State Change and Database State Change. Deleted tables are notices too: looking finds that they are gone.
func glue(detail object, id string) ([]Notice, error) {
	database := detail.text("databaseName")
	if database == "" {
		return nil, fmt.Errorf("decode Glue's state change without databaseName: %w", ErrMalformed)
	}
	names := []string{}
	if detail.has("changedTables") {
		var ok bool
		if names, ok = texts(detail["changedTables"]); !ok {
			return nil, fmt.Errorf("decode Glue's changedTables: %w", ErrMalformed)
		}
	}
	if detail.has("tableName") {
		names = append(names, detail.text("tableName"))
	}
	if len(names) == 0 && !strings.HasSuffix(detail.text("typeOfChange"), "Database") {
		return nil, fmt.Errorf("decode Glue's state change without tables: %w", ErrMalformed)
	}
	notices := make([]Notice, 0, len(names))
	for _, name := range names {
		table, err := identify("", []string{database}, name)
		if err != nil {
			return nil, err
		}
		notices = append(notices, Notice{Source: SourceGlue, EventID: id, Table: table})
	}
	return notices, nil
}

// s3Record decodes a classic notification, whose keys are URL-encoded with '+' for a space. Removed objects say nothing.
func s3Record(r object) ([]Notice, error) {
	if !strings.HasPrefix(r.text("eventName"), "ObjectCreated:") {
		return nil, nil
	}
	key, err := url.QueryUnescape(r.at("s3", "object").text("key"))
	if err != nil {
		return nil, fmt.Errorf("decode the key of an S3 record: %w", ErrMalformed)
	}
	return at("", r.at("s3", "bucket").text("name"), key)
}

// cloudTrail decodes the calls that move a table's pointer. A call that failed moved nothing; other calls say nothing of a commit.
func cloudTrail(detail object, id string) ([]Notice, error) {
	if detail.text("errorCode") != "" || detail["readOnly"] == true {
		return nil, nil
	}
	request := detail.at("requestParameters")
	n := Notice{EventID: id}
	var err error
	switch detail.text("eventSource") + " " + detail.text("eventName") {
	case "glue.amazonaws.com UpdateTable":
		n.Source, n.Origin = SourceGlue, request.text("catalogId")
		n.Table, err = identify("", []string{request.text("databaseName")}, request.at("tableInput").text("name"))
	case "s3tables.amazonaws.com UpdateTableMetadataLocation", "s3tables.amazonaws.com UpdateTable":
		n.Source, n.Origin = SourceS3Tables, request.text("tableBucketARN")
		n.Table, err = identify("", []string{request.text("namespace")}, request.text("name"))
	case " ":
		return nil, fmt.Errorf("decode a CloudTrail record without call: %w", ErrMalformed)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("decode CloudTrail's %s: %w", detail.text("eventName"), err)
	}
	return []Notice{n}, nil
}

// execution decodes the end of an execution of our state machine: its name is the run ID, its input says which table.
func execution(detail object, id string) ([]Notice, error) {
	n := Notice{Source: SourceStepFunctions, EventID: id, RunID: maintenance.RunID(detail.text("name")), Status: detail.text("status")}
	switch n.Status {
	case "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED":
	case "RUNNING", "PENDING_REDRIVE":
		return nil, nil
	default:
		return nil, fmt.Errorf("decode an execution without status: %w", ErrMalformed)
	}
	if err := n.RunID.Validate(); err != nil {
		return nil, fmt.Errorf("decode an execution whose name is no run ID: %w", ErrUnknown)
	}
	if detail["input"] == nil {
		return nil, fmt.Errorf("decode an execution without its input: %w", ErrNoTable) // left out by AWS where it is too large, which ours never is
	}
	input, err := detail.inner("input")
	if err != nil {
		return nil, err
	}
	table := input.at("run", "table")
	levels, ok := texts(table["namespace"])
	if !ok || input.at("run").text("run_id") != string(n.RunID) {
		return nil, fmt.Errorf("decode an execution whose input is not a run's: %w", ErrUnknown)
	}
	if n.Table, err = identify(table.text("catalog"), levels, table.text("name")); err != nil {
		return nil, err
	}
	return []Notice{n}, nil
}
