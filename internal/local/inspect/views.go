package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"firn/internal/maintenance"
	"firn/internal/sparksql"
)

// Rows are a metadata table: Spark's column names, and a value a column in each row (nil is null).
type Rows struct {
	View    string
	Columns []string
	Rows    [][]any
	// Wide are columns that a terminal has no room for.
	Wide []string
}

// views are the metadata tables by name.
func views() map[string]func(*View, context.Context) (Rows, error) {
	return map[string]func(*View, context.Context) (Rows, error){
		"snapshots": (*View).snapshots, "history": (*View).history, "refs": (*View).refs, "metadata_log_entries": (*View).metadataLog,
		"partitions": (*View).partitionRows, "manifests": (*View).manifestRows, "all_manifests": (*View).allManifestRows,
		"position_deletes": (*View).positionDeletes,
		"files":            (*View).files, "data_files": (*View).dataFiles, "delete_files": (*View).deleteFiles, "entries": (*View).entries,
		"all_files": (*View).allFiles, "all_data_files": (*View).allDataFiles, "all_delete_files": (*View).allDeleteFiles,
		"all_entries": (*View).allEntries,
	}
}

// ViewNames lists the views: Spark's metadata tables.
func ViewNames() []string { return sparksql.MetadataTables() }

// viewName spells a view as Spark does; metadata_log is short for metadata_log_entries.
func viewName(name string) string {
	if name = strings.ToLower(name); name == "metadata_log" {
		return "metadata_log_entries"
	}
	return name
}

// IsView reports whether there is a view of that name.
func IsView(name string) bool { return views()[viewName(name)] != nil }

// Rows reads one view.
func (v *View) Rows(ctx context.Context, name string) (Rows, error) {
	if !IsView(name) {
		return Rows{}, fmt.Errorf("unknown view %q%s; the views are %s", name, maintenance.Suggestion(name, ViewNames()), strings.Join(ViewNames(), ", "))
	}
	rows, err := views()[viewName(name)](v, ctx)
	rows.View = viewName(name)
	return rows, err
}

// MarshalJSON writes the rows as objects.
func (r Rows) MarshalJSON() ([]byte, error) {
	objects := make([]map[string]any, 0, len(r.Rows))
	for _, row := range r.Rows {
		object := make(map[string]any, len(row))
		for i, name := range r.Columns {
			object[name] = row[i]
		}
		objects = append(objects, object)
	}
	return json.Marshal(map[string]any{"view": r.View, "rows": objects})
}

func (v *View) snapshots(context.Context) (Rows, error) {
	rows := Rows{
		Columns: []string{"committed_at", "snapshot_id", "parent_id", "operation", "manifest_list", "summary"},
		Wide:    []string{"manifest_list", "summary"},
	}
	for _, s := range v.Table.Metadata.Snapshots() {
		var operation any
		summary := map[string]string{}
		if s.Summary != nil {
			operation, summary = string(s.Summary.Operation), s.Summary.Properties
		}
		rows.Rows = append(rows.Rows, []any{stamp(s.TimestampMs), s.SnapshotID, value(s.ParentSnapshotID), operation, s.ManifestList, summary})
	}
	return rows, nil
}

// history is the snapshot log: when each state became the current one.
func (v *View) history(context.Context) (Rows, error) {
	rows := Rows{Columns: []string{"made_current_at", "snapshot_id", "parent_id", "is_current_ancestor"}}
	ancestors := map[int64]bool{}
	for s := v.Table.Metadata.CurrentSnapshot(); s != nil && !ancestors[s.SnapshotID]; {
		ancestors[s.SnapshotID] = true
		if s.ParentSnapshotID == nil {
			break
		}
		s = v.Table.Metadata.SnapshotByID(*s.ParentSnapshotID)
	}
	for e := range v.Table.Metadata.SnapshotLogs() {
		var parent any
		if s := v.Table.Metadata.SnapshotByID(e.SnapshotID); s != nil {
			parent = value(s.ParentSnapshotID)
		}
		rows.Rows = append(rows.Rows, []any{stamp(e.TimestampMs), e.SnapshotID, parent, ancestors[e.SnapshotID]})
	}
	return rows, nil
}

func (v *View) refs(context.Context) (Rows, error) {
	rows := Rows{Columns: []string{
		"name", "type", "snapshot_id", "max_reference_age_in_ms", "min_snapshots_to_keep", "max_snapshot_age_in_ms",
	}}
	for name, r := range v.Table.Metadata.Refs() {
		rows.Rows = append(rows.Rows, []any{
			name, strings.ToUpper(string(r.SnapshotRefType)), r.SnapshotID, value(r.MaxRefAgeMs), value(r.MinSnapshotsToKeep), value(r.MaxSnapshotAgeMs),
		})
	}
	slices.SortFunc(rows.Rows, func(a, b []any) int { return strings.Compare(a[0].(string), b[0].(string)) })
	return rows, nil
}

func (v *View) partitionRows(ctx context.Context) (Rows, error) {
	rows := Rows{Columns: []string{
		"partition", "spec_id", "record_count", "file_count", "total_data_file_size_in_bytes", "position_delete_record_count",
		"position_delete_file_count", "equality_delete_record_count", "equality_delete_file_count", "last_updated_at", "last_updated_snapshot_id",
	}}
	s, err := v.survey(ctx)
	if err != nil {
		return rows, err
	}
	for _, p := range s.partitions {
		var at, id any
		if p.LastSnapshotID != 0 {
			at, id = stamp(p.LastWriteMS), p.LastSnapshotID
		}
		rows.Rows = append(rows.Rows, []any{
			p.Name, p.SpecID, p.Records, p.DataFiles, p.DataBytes, p.PositionRecords, p.PositionDeleteFiles + p.DeletionVectors, p.EqualityRecords,
			p.EqualityDeleteFiles, at, id,
		})
	}
	return rows, nil
}

// metadataLog is the metadata log and the current file, each with the snapshot that was current then.
func (v *View) metadataLog(context.Context) (Rows, error) {
	rows := Rows{Columns: []string{"timestamp", "file", "latest_snapshot_id", "latest_schema_id", "latest_sequence_number"}}
	meta := v.Table.Metadata
	add := func(ms int64, file string) {
		var id, schema, sequence any
		for e := range meta.SnapshotLogs() {
			if e.TimestampMs > ms {
				break
			}
			id, schema, sequence = e.SnapshotID, nil, nil
			if s := meta.SnapshotByID(e.SnapshotID); s != nil {
				schema, sequence = value(s.SchemaID), s.SequenceNumber
			}
		}
		rows.Rows = append(rows.Rows, []any{stamp(ms), file, id, schema, sequence})
	}
	for e := range meta.PreviousFiles() {
		add(e.TimestampMs, e.MetadataFile)
	}
	add(meta.LastUpdatedMillis(), v.Table.Pointer.MetadataLocation)
	return rows, nil
}

// value is what a pointer points to, or nil.
func value[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}
