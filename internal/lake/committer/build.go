package committer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
)

// build applies the change to the base and returns the next metadata file's content, and that content read back. raw is the base's file.
//
// iceberg-go's builder does the work and the checks, and then what the change did not touch is taken from raw as its writer wrote it: the
// library models only the fields that it knows (it drops, for one, a snapshot's key-id, without which an encrypted table is lost).
func build(base *lake.Table, raw []byte, change Change, now time.Time) (data []byte, next table.Metadata, err error) {
	defer func() {
		if fault := recover(); fault != nil { // metadata of other writers reaches library code that indexes without asking
			data, next, err = nil, nil, fmt.Errorf("build metadata: the library gave up: %v", fault)
		}
	}()
	// The builder keeps references into its base: give it one of its own.
	parsed, err := lake.ParseMetadata(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("read base metadata: %w", err)
	}
	if parsed.TableUUID() != base.Metadata.TableUUID() || parsed.LastUpdatedMillis() != base.Metadata.LastUpdatedMillis() {
		return nil, nil, fmt.Errorf("metadata file %s is not the base's", base.Pointer.MetadataLocation)
	}
	before, err := json.Marshal(parsed)
	if err != nil {
		return nil, nil, fmt.Errorf("encode base metadata: %w", err)
	}
	after, err := apply(raw, parsed, change, base.Pointer.MetadataLocation, now)
	if err != nil {
		return nil, nil, fmt.Errorf("apply updates: %w", err)
	}
	if data, err = carry(raw, before, after); err != nil {
		return nil, nil, err
	}
	if next, err = lake.ParseMetadata(data); err != nil {
		return nil, nil, fmt.Errorf("read metadata back: %w", err)
	}
	return data, next, verify(next, after)
}

// epoch is where apply moves a base's last-updated-ms to: long before any clock, long enough after zero that no entry of a log becomes negative.
const epoch = 1_000_000_000_000

// apply returns the library's rendition of the base with the updates applied. The library stamps a change that adds no snapshot with the wall
// clock and then refuses it when the table's last writer was a minute ahead; so the table's logs are moved into the past for it, and back
// afterwards. last-updated-ms becomes the newest added snapshot's time, else now, and never less than the base's.
func apply(raw []byte, parsed table.Metadata, change Change, location string, now time.Time) ([]byte, error) {
	stamped, shift := true, int64(0)
	for _, u := range change.Updates {
		if u.Action() == table.UpdateAddSnapshot || movesMain(u) {
			stamped = false
		}
	}
	updated := parsed.LastUpdatedMillis()
	if stamped {
		shift = updated - epoch
		moved, err := shiftLogs(raw, -shift, epoch)
		if err != nil {
			return nil, err
		}
		if parsed, err = lake.ParseMetadata(moved); err != nil {
			return nil, err
		}
	}
	built, err := table.UpdateTableMetadata(parsed, change.Updates, location)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(built)
	if err != nil {
		return nil, err
	}
	if stamped {
		return shiftLogs(after, shift, max(updated, now.UnixMilli()))
	}
	return shiftLogs(after, 0, max(updated, built.LastUpdatedMillis()))
}

// movesMain reports whether an update sets branch main, which writes an entry of the snapshot log with a time of its own.
func movesMain(u table.Update) bool {
	if u.Action() != table.UpdateSetSnapshotRef {
		return false
	}
	var ref struct {
		Name string `json:"ref-name"`
	}
	data, err := json.Marshal(u) // the library's type is not exported
	return err != nil || json.Unmarshal(data, &ref) != nil || ref.Name == table.MainBranch
}

// shiftLogs adds by to the times of both logs and sets last-updated-ms.
func shiftLogs(text []byte, by, updated int64) ([]byte, error) {
	fields, err := object(text)
	if err != nil {
		return nil, err
	}
	for i, f := range fields {
		switch f.key {
		case "last-updated-ms":
			fields[i].value = json.RawMessage(strconv.FormatInt(updated, 10))
		case "snapshot-log", "metadata-log":
			if fields[i].value, err = shiftLog(f.value, by); err != nil {
				return nil, fmt.Errorf("read %s: %w", f.key, err)
			}
		}
	}
	return encode(fields)
}

// shiftLog adds by to each entry's timestamp-ms.
func shiftLog(log json.RawMessage, by int64) (json.RawMessage, error) {
	var entries []json.RawMessage
	if err := json.Unmarshal(log, &entries); err != nil || by == 0 {
		return log, err
	}
	for i, e := range entries {
		fields, err := object(e)
		if err != nil {
			return nil, err
		}
		for j, f := range fields {
			if f.key != "timestamp-ms" {
				continue
			}
			at, err := strconv.ParseInt(string(f.value), 10, 64)
			if err != nil {
				return nil, err
			}
			fields[j].value = json.RawMessage(strconv.FormatInt(at+by, 10))
		}
		if entries[i], err = encode(fields); err != nil {
			return nil, err
		}
	}
	return list(entries), nil
}

// verify compares what will be written with what the builder made, field by field in the library's own rendition: carrying over may add what
// the library does not know, and must change nothing that it knows.
func verify(next table.Metadata, after []byte) error {
	want, err := lake.ParseMetadata(after)
	if err != nil {
		return fmt.Errorf("read metadata back: %w", err)
	}
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(next)
	if err := errors.Join(errA, errB); err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	if string(a) != string(b) {
		return errors.New("verify metadata: what would be written differs from what was built")
	}
	return nil
}
