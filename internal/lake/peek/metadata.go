package peek

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/apache/iceberg-go"

	"firn/internal/store"
)

// MainBranch is the branch that a table's current snapshot is on.
const MainBranch = "main"

// newestVersion is the newest format version that is read.
const newestVersion = 3

// Metadata is what is looked at of a metadata file; fields are named as in the specification. It is immutable.
type Metadata struct {
	FormatVersion      int                 `json:"format-version"`
	TableUUID          string              `json:"table-uuid"`
	Location           string              `json:"location"`
	LastUpdatedMS      int64               `json:"last-updated-ms"`
	LastSequenceNumber int64               `json:"last-sequence-number"`
	NextRowID          int64               `json:"next-row-id"`
	CurrentSchemaID    int                 `json:"current-schema-id"`
	Schemas            []json.RawMessage   `json:"schemas"`
	DefaultSpecID      int                 `json:"default-spec-id"`
	Specs              []Spec              `json:"partition-specs"`
	DefaultSortOrderID int                 `json:"default-sort-order-id"`
	Properties         map[string]string   `json:"properties"`
	CurrentSnapshotID  *int64              `json:"current-snapshot-id"`
	Snapshots          []Snapshot          `json:"snapshots"`
	SnapshotLog        []SnapshotLogEntry  `json:"snapshot-log"`
	MetadataLog        []MetadataLogEntry  `json:"metadata-log"`
	Refs               map[string]Ref      `json:"refs"`
	Statistics         []StatisticsFile    `json:"statistics"`
	PartitionStats     []PartitionStatFile `json:"partition-statistics"`
	// V1Spec and V1Schema are the only spec and schema of old files of version 1.
	V1Spec   json.RawMessage `json:"partition-spec"`
	V1Schema json.RawMessage `json:"schema"`
}

// Spec is a partition spec of iceberg-go that may be decoded from a metadata file.
type Spec struct{ iceberg.PartitionSpec }

// Snapshot is one snapshot.
type Snapshot struct {
	ID             int64             `json:"snapshot-id"`
	ParentID       *int64            `json:"parent-snapshot-id"`
	SequenceNumber int64             `json:"sequence-number"`
	TimestampMS    int64             `json:"timestamp-ms"`
	ManifestList   string            `json:"manifest-list"`
	Summary        map[string]string `json:"summary"`
	SchemaID       *int              `json:"schema-id"`
}

// Ref is a branch or a tag with its retention.
type Ref struct {
	SnapshotID         int64  `json:"snapshot-id"`
	Type               string `json:"type"`
	MinSnapshotsToKeep *int   `json:"min-snapshots-to-keep"`
	MaxSnapshotAgeMS   *int64 `json:"max-snapshot-age-ms"`
	MaxRefAgeMS        *int64 `json:"max-ref-age-ms"`
}

// SnapshotLogEntry says when a snapshot became current.
type SnapshotLogEntry struct {
	SnapshotID  int64 `json:"snapshot-id"`
	TimestampMS int64 `json:"timestamp-ms"`
}

// MetadataLogEntry is an earlier metadata file.
type MetadataLogEntry struct {
	MetadataFile string `json:"metadata-file"`
	TimestampMS  int64  `json:"timestamp-ms"`
}

// StatisticsFile is a Puffin file of table statistics.
type StatisticsFile struct {
	SnapshotID int64  `json:"snapshot-id"`
	Path       string `json:"statistics-path"`
	SizeBytes  int64  `json:"file-size-in-bytes"`
}

// PartitionStatFile is a file of partition statistics.
type PartitionStatFile struct {
	SnapshotID int64  `json:"snapshot-id"`
	Path       string `json:"statistics-path"`
	SizeBytes  int64  `json:"file-size-in-bytes"`
}

// ReadMetadata reads and parses a metadata file.
func ReadMetadata(ctx context.Context, st store.Reader, location string) (*Metadata, error) {
	data, err := ReadMetadataFile(ctx, st, location)
	if err != nil {
		return nil, err
	}
	m, err := Kept(st, location, "peek", data, func() (*Metadata, error) { return ParseMetadata(data) })
	if err != nil {
		return nil, fmt.Errorf("read metadata file %s: %w", location, err)
	}
	return m, nil
}

// ParseMetadata parses the unpacked content of a metadata file of format version 1, 2 or 3; another version is ErrUnsupported.
func ParseMetadata(data []byte) (*Metadata, error) {
	var m Metadata
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("parse metadata: %w: %w", ErrTableFault, err)
	}
	if m.FormatVersion < 1 || m.FormatVersion > newestVersion {
		return nil, fmt.Errorf("parse metadata: format version %d, want 1 to %d: %w", m.FormatVersion, newestVersion, ErrUnsupported)
	}
	if m.Location == "" {
		return nil, fmt.Errorf("parse metadata: it has no location: %w", ErrTableFault)
	}
	if err := m.complete(); err != nil {
		return nil, fmt.Errorf("parse metadata: %w: %w", ErrTableFault, err)
	}
	return &m, nil
}

// complete fills in what old writers leave out: the list of specs, -1 for "no snapshot", the main branch.
func (m *Metadata) complete() error {
	if len(m.Specs) == 0 && len(m.V1Spec) > 0 {
		var s Spec
		if err := json.Unmarshal(fmt.Appendf(nil, `{"spec-id":%d,"fields":%s}`, m.DefaultSpecID, m.V1Spec), &s); err != nil {
			return fmt.Errorf("partition spec: %w", err)
		}
		m.Specs = []Spec{s}
	}
	if len(m.Schemas) == 0 && len(m.V1Schema) > 0 {
		m.Schemas = []json.RawMessage{m.V1Schema}
	}
	if m.CurrentSnapshotID != nil && *m.CurrentSnapshotID == -1 {
		m.CurrentSnapshotID = nil
	}
	if m.CurrentSnapshotID == nil {
		return nil
	}
	if m.Snapshot(*m.CurrentSnapshotID) == nil {
		return fmt.Errorf("current snapshot %d is not among the snapshots: %w", *m.CurrentSnapshotID, ErrTableFault)
	}
	if _, ok := m.Refs[MainBranch]; !ok {
		if m.Refs == nil {
			m.Refs = map[string]Ref{}
		}
		m.Refs[MainBranch] = Ref{SnapshotID: *m.CurrentSnapshotID, Type: "branch"}
	}
	return nil
}

// Snapshot finds a snapshot by ID, nil when it is not in the metadata.
func (m *Metadata) Snapshot(id int64) *Snapshot {
	for i := range m.Snapshots {
		if m.Snapshots[i].ID == id {
			return &m.Snapshots[i]
		}
	}
	return nil
}

// Head returns the snapshot of a branch ("" is main); nil when there is no such branch, or main has no snapshot.
func (m *Metadata) Head(branch string) *Snapshot {
	if branch == "" {
		branch = MainBranch
	}
	ref, ok := m.Refs[branch]
	if !ok || ref.Type != "branch" {
		return nil
	}
	return m.Snapshot(ref.SnapshotID)
}

// Spec finds a partition spec by ID.
func (m *Metadata) Spec(id int) (iceberg.PartitionSpec, bool) {
	for _, s := range m.Specs {
		if s.ID() == id {
			return s.PartitionSpec, true
		}
	}
	return iceberg.PartitionSpec{}, false
}

// Since returns the snapshots from head back to, and without, the ancestor seen: newest first. ok is false when seen is no ancestor of head or a
// snapshot between was expired: then nobody can tell what changed.
func (m *Metadata) Since(head, seen int64) (changed []*Snapshot, ok bool) {
	byID := make(map[int64]*Snapshot, len(m.Snapshots))
	for i := range m.Snapshots {
		byID[m.Snapshots[i].ID] = &m.Snapshots[i]
	}
	for id := head; id != seen; {
		s := byID[id]
		if s == nil || s.ParentID == nil || len(changed) == len(byID) {
			return nil, false
		}
		changed = append(changed, s)
		id = *s.ParentID
	}
	return changed, true
}
