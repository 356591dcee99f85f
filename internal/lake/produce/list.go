package produce

import (
	"bytes"
	"context"
	"fmt"

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
