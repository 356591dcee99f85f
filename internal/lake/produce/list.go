package produce

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/store"
)

// list writes the manifest list and returns the snapshot that points to it.
func (b *build) list(ctx context.Context, manifests []iceberg.ManifestFile) (*table.Snapshot, error) {
	schemaID := b.meta.CurrentSchema().ID
	snap := &table.Snapshot{
		SnapshotID:       b.a.SnapshotID,
		ParentSnapshotID: &b.a.Parent.SnapshotID,
		TimestampMs:      max(b.a.Now.UnixMilli(), b.a.Parent.TimestampMs+1, b.meta.LastUpdatedMillis()),
		ManifestList:     store.Join(b.base, fmt.Sprintf("snap-%d-1-%s.avro", b.a.SnapshotID, b.attempt)),
		SchemaID:         &schemaID,
		Summary:          &table.Summary{Operation: table.OpReplace, Properties: b.summary()},
	}
	var buf bytes.Buffer
	w, err := b.listWriter(&buf, snap)
	if err != nil {
		return nil, fmt.Errorf("start manifest list: %w", err)
	}
	for _, m := range manifests {
		if err := keepEmptyBounds(m); err != nil {
			return nil, err
		}
	}
	if err := w.AddManifests(manifests); err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("close manifest list: %w", err)
	}
	if b.meta.Version() == 3 {
		// The writer moved its cursor by the rows of every manifest that had no first row ID yet: ours, and older ones of an upgraded table.
		first := b.meta.NextRowID()
		assigned := *w.NextRowID() - first
		snap.FirstRowID, snap.AddedRows = &first, &assigned
	}
	return snap, b.put(ctx, snap.ManifestList, buf.Bytes())
}

func (b *build) listWriter(buf *bytes.Buffer, snap *table.Snapshot) (*iceberg.ManifestListWriter, error) {
	switch b.meta.Version() {
	case 1:
		return iceberg.NewManifestListWriterV1(buf, snap.SnapshotID, snap.ParentSnapshotID)
	case 2:
		snap.SequenceNumber = b.meta.LastSequenceNumber() + 1
		return iceberg.NewManifestListWriterV2(buf, snap.SnapshotID, snap.SequenceNumber, snap.ParentSnapshotID)
	default:
		snap.SequenceNumber = b.meta.LastSequenceNumber() + 1
		return iceberg.NewManifestListWriterV3(buf, snap.SnapshotID, snap.SequenceNumber, b.meta.NextRowID(), snap.ParentSnapshotID)
	}
}

// keepEmptyBounds makes bounds of no bytes (the empty string as partition value) survive in the list. Their slices come out of manifests and
// lists as nil, which the list's writer would encode as null: "no value but null", by which every reader passes over the whole manifest.
func keepEmptyBounds(m iceberg.ManifestFile) error {
	if !slices.ContainsFunc(m.Partitions(), func(s iceberg.FieldSummary) bool { return lost(s.LowerBound) || lost(s.UpperBound) }) {
		return nil
	}
	// The type has no setter that keeps everything else, first_row_id among it; the field is exported for the encoder's sake.
	value := reflect.Indirect(reflect.ValueOf(m)).FieldByName("PartitionList")
	if !value.IsValid() {
		return fmt.Errorf("keep partition bounds of manifest %s: type %T has no PartitionList", m.FilePath(), m)
	}
	list, ok := reflect.TypeAssert[*[]iceberg.FieldSummary](value)
	if !ok || list == nil {
		return fmt.Errorf("keep partition bounds of manifest %s: PartitionList is %s", m.FilePath(), value.Type())
	}
	for _, s := range *list {
		for _, bound := range []*[]byte{s.LowerBound, s.UpperBound} {
			if lost(bound) {
				*bound = []byte{}
			}
		}
	}
	return nil
}

// lost tells a bound that is there and would be written as absent.
func lost(bound *[]byte) bool { return bound != nil && *bound == nil }
