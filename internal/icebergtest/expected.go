package icebergtest

import "encoding/json"

// Expected are facts about a reference table, recorded with Spark and the Iceberg Java library. What is not here stands in Raw form in the
// archive only.
type Expected struct {
	Table         string `json:"table"`
	Category      int    `json:"category"`
	Description   string `json:"description"`
	FormatVersion int    `json:"format_version"`
	Location      string `json:"location"`
	// MetadataFile is the location of the current metadata file.
	MetadataFile       string                     `json:"metadata_file"`
	CurrentSnapshotID  *int64                     `json:"current_snapshot_id"`
	LastSequenceNumber int64                      `json:"last_sequence_number"`
	NextRowID          *int64                     `json:"next_row_id"`
	Properties         map[string]string          `json:"properties"`
	Rows               ExpectedRows               `json:"rows"`
	RowsBySnapshot     map[string]RowCount        `json:"rows_by_snapshot"`
	Columns            map[string]ExpectedColumn  `json:"columns"`
	Counts             map[string]int64           `json:"counts"`
	Live               ExpectedLive               `json:"live"`
	Manifests          []ExpectedManifest         `json:"manifests"`
	Refs               map[string]json.RawMessage `json:"refs"`
	Objects            []ExpectedObject           `json:"objects"`
	PlacedObjects      []PlacedObject             `json:"placed_objects"`
	// Prefixes are the key prefixes that belong to the test.
	Prefixes []string `json:"prefixes"`
}

// RowCount is a number of rows and their digest.
type RowCount struct {
	Count  int64  `json:"count"`
	Digest string `json:"digest"`
}

// ExpectedRows are the rows of the current snapshot. Lineage has _row_id and _last_updated_sequence_number added to each row (format version 3).
type ExpectedRows struct {
	RowCount
	Lineage *RowCount `json:"lineage"`
	// ReadBy says which engines could read the table; ReadErrors what the others said.
	ReadBy     []string          `json:"read_by"`
	ReadErrors map[string]string `json:"read_errors"`
}

// ExpectedColumn is what is known of a leaf column's values. Min and Max are the JSON form of their canonical texts.
type ExpectedColumn struct {
	Values  int64           `json:"values"`
	Nulls   int64           `json:"nulls"`
	NonNull int64           `json:"non_null"`
	NaN     *int64          `json:"nan"`
	Min     json.RawMessage `json:"min"`
	Max     json.RawMessage `json:"max"`
}

// ExpectedLive are the live entries by kind.
type ExpectedLive struct {
	DataFiles           []ExpectedEntry `json:"data_files"`
	PositionDeleteFiles []ExpectedEntry `json:"position_delete_files"`
	EqualityDeleteFiles []ExpectedEntry `json:"equality_delete_files"`
	DeletionVectors     []ExpectedEntry `json:"deletion_vectors"`
}

// ExpectedEntry is a manifest entry with inherited values applied.
type ExpectedEntry struct {
	Status             string                     `json:"status"`
	SnapshotID         int64                      `json:"snapshot_id"`
	DataSequenceNumber int64                      `json:"data_sequence_number"`
	FileSequenceNumber *int64                     `json:"file_sequence_number"`
	FirstRowID         *int64                     `json:"first_row_id"`
	Kind               string                     `json:"kind"`
	Path               string                     `json:"path"`
	Format             string                     `json:"format"`
	SpecID             int                        `json:"spec_id"`
	Partition          map[string]json.RawMessage `json:"partition"`
	RecordCount        int64                      `json:"record_count"`
	FileSize           int64                      `json:"file_size"`
	SortOrderID        *int                       `json:"sort_order_id"`
	EqualityIDs        []int                      `json:"equality_ids"`
	ReferencedDataFile *string                    `json:"referenced_data_file"`
	ContentOffset      *int64                     `json:"content_offset"`
	ContentSize        *int64                     `json:"content_size"`
	SplitOffsets       []int64                    `json:"split_offsets"`
	ValueCounts        map[string]int64           `json:"value_counts"`
	NullValueCounts    map[string]int64           `json:"null_value_counts"`
	NaNValueCounts     map[string]int64           `json:"nan_value_counts"`
	LowerBounds        map[string]string          `json:"lower_bounds"`
	UpperBounds        map[string]string          `json:"upper_bounds"`
}

// ExpectedManifest is an entry of the current manifest list.
type ExpectedManifest struct {
	Path              string `json:"path"`
	Length            int64  `json:"length"`
	PartitionSpecID   int    `json:"partition_spec_id"`
	Content           string `json:"content"`
	SequenceNumber    int64  `json:"sequence_number"`
	MinSequenceNumber int64  `json:"min_sequence_number"`
	AddedSnapshotID   int64  `json:"added_snapshot_id"`
	FirstRowID        *int64 `json:"first_row_id"`
}

// ExpectedObject is an object of the bucket firn-ref.
type ExpectedObject struct {
	Key            string `json:"key"`
	Size           int64  `json:"size"`
	LastModifiedMS int64  `json:"last_modified_ms"`
}

// PlacedObject is an object that is no part of the table.
type PlacedObject struct {
	Key     string  `json:"key"`
	Size    int64   `json:"size"`
	DaysOld float64 `json:"days_old"`
	Why     string  `json:"why"`
}

// OracleCase is one run of Spark's procedures on a fresh copy of the table.
type OracleCase struct {
	Case          string       `json:"case"`
	Table         string       `json:"table"`
	RowsBefore    RowCount     `json:"rows_before"`
	LineageBefore *RowCount    `json:"lineage_before"`
	RowsUnchanged bool         `json:"rows_unchanged"`
	Steps         []OracleStep `json:"steps"`
}

// OracleStep is plain SQL (Statement), a view of files (FileListView) or a procedure call.
type OracleStep struct {
	Statement    string          `json:"statement"`
	FileListView json.RawMessage `json:"file_list_view"`
	// Procedure, Args and Call (the SQL text) say what was called; NowMS is the clock at the call.
	Procedure string                     `json:"procedure"`
	Args      map[string]json.RawMessage `json:"args"`
	Call      string                     `json:"call"`
	NowMS     int64                      `json:"now_ms"`
	// Result are the rows that the procedure returned, Error its message when it failed.
	Result []map[string]json.RawMessage `json:"result"`
	Error  string                       `json:"error"`
	Before OracleState                  `json:"before"`
	After  OracleState                  `json:"after"`
	// Selected are the paths that the new snapshots removed: the inputs of a rewrite.
	Selected struct {
		DataFiles   []string `json:"data_files"`
		DeleteFiles []string `json:"delete_files"`
	} `json:"selected"`
	Commits           []OracleCommit `json:"commits"`
	ManifestsRemoved  []string       `json:"manifests_removed"`
	EntriesPreserved  bool           `json:"entries_preserved"`
	SnapshotsRemoved  []int64        `json:"snapshots_removed"`
	RefsRemoved       []string       `json:"refs_removed"`
	StatisticsRemoved []string       `json:"statistics_removed"`
	SchemasAfter      int            `json:"schemas_after"`
	SpecsAfter        int            `json:"specs_after"`
	SnapshotLogAfter  int            `json:"snapshot_log_after"`
	ObjectsAdded      []string       `json:"objects_added"`
	ObjectsRemoved    []string       `json:"objects_removed"`
}

// OracleState is the table before or after a call.
type OracleState struct {
	MetadataFile       string             `json:"metadata_file"`
	FormatVersion      int                `json:"format_version"`
	CurrentSnapshotID  int64              `json:"current_snapshot_id"`
	LastSequenceNumber int64              `json:"last_sequence_number"`
	NextRowID          *int64             `json:"next_row_id"`
	SnapshotIDs        []int64            `json:"snapshot_ids"`
	Counts             map[string]int64   `json:"counts"`
	Rows               ExpectedRows       `json:"rows"`
	Manifests          []ExpectedManifest `json:"manifests"`
	ManifestsKept      int                `json:"manifests_kept"`
}

// OracleCommit is one new snapshot.
type OracleCommit struct {
	SnapshotID       int64             `json:"snapshot_id"`
	ParentSnapshotID *int64            `json:"parent_snapshot_id"`
	SequenceNumber   int64             `json:"sequence_number"`
	Operation        string            `json:"operation"`
	Summary          map[string]string `json:"summary"`
	AddedRows        *int64            `json:"added_rows"`
	FirstRowID       *int64            `json:"first_row_id"`
	Added            []ExpectedEntry   `json:"added"`
	Removed          []ExpectedEntry   `json:"removed"`
}
