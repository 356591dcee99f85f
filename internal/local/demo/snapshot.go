package demo

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/store"
)

// commit makes one snapshot of main that adds the files: a fast append, or with deletes a row delta.
func (w *Writer) commit(ctx context.Context, added []iceberg.DataFile) (*table.Snapshot, error) {
	base, parent := w.table, w.table.Metadata.CurrentSnapshot()
	kept, err := lake.Manifests(ctx, w.store, parent)
	if err != nil {
		return nil, err
	}
	snap := &table.Snapshot{
		SnapshotID: rand.Int64(), SequenceNumber: base.Metadata.LastSequenceNumber() + 1, TimestampMs: w.now().UnixMilli(), //nolint:gosec // no secret
		SchemaID: new(base.Metadata.CurrentSchema().ID), Summary: summaryOf(parent, added),
	}
	var parentID *int64
	if parent != nil {
		parentID = &parent.SnapshotID
		snap.ParentSnapshotID = parentID
	}
	name := uuid.NewString()
	fresh, err := w.manifests(ctx, snap, name, added)
	if err != nil {
		return nil, err
	}
	if err := w.list(ctx, snap, name, append(fresh, kept...)); err != nil {
		return nil, err
	}
	result, err := w.committer.Commit(ctx, base, committer.Change{
		Requirements: []table.Requirement{table.AssertTableUUID(base.Metadata.TableUUID()), table.AssertRefSnapshotID(table.MainBranch, parentID)},
		Updates: []table.Update{
			table.NewAddSnapshotUpdate(snap), table.NewSetSnapshotRefUpdate(table.MainBranch, snap.SnapshotID, table.BranchRef, -1, -1, -1),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("commit batch: %w", err)
	}
	w.table = result.Table
	return snap, nil
}

// manifests writes one manifest for the added data files and one for the delete files.
func (w *Writer) manifests(ctx context.Context, snap *table.Snapshot, name string, added []iceberg.DataFile) ([]iceberg.ManifestFile, error) {
	var out []iceberg.ManifestFile
	for _, content := range []iceberg.ManifestContent{iceberg.ManifestContentData, iceberg.ManifestContentDeletes} {
		var files []iceberg.DataFile
		for _, f := range added {
			if (f.ContentType() == iceberg.EntryContentData) == (content == iceberg.ManifestContentData) {
				files = append(files, f)
			}
		}
		if len(files) == 0 {
			continue
		}
		m, err := w.manifest(ctx, snap, fmt.Sprintf("%s-m%d.avro", name, len(out)), content, files)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func (w *Writer) manifest(
	ctx context.Context, snap *table.Snapshot, name string, content iceberg.ManifestContent, files []iceberg.DataFile,
) (iceberg.ManifestFile, error) {
	var out bytes.Buffer
	meta := w.table.Metadata
	mw, err := iceberg.NewManifestWriter(meta.Version(), &out, meta.PartitionSpec(), meta.CurrentSchema(), snap.SnapshotID,
		iceberg.WithManifestWriterContent(content))
	if err != nil {
		return nil, fmt.Errorf("open manifest: %w", err)
	}
	for _, f := range files {
		if err := mw.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &snap.SnapshotID, nil, nil, f)); err != nil {
			return nil, fmt.Errorf("add %s to manifest: %w", f.FilePath(), err)
		}
	}
	if err := mw.Close(); err != nil {
		return nil, fmt.Errorf("close manifest: %w", err)
	}
	location := store.Join(meta.Location(), "metadata", name)
	m, err := mw.ToManifestFile(location, int64(out.Len()), iceberg.WithManifestFileContent(content))
	if err != nil {
		return nil, fmt.Errorf("describe manifest: %w", err)
	}
	return m, w.store.Put(ctx, location, out.Bytes(), store.WriteOptions{IfAbsent: true})
}

// list writes the manifest list and names it in the snapshot.
func (w *Writer) list(ctx context.Context, snap *table.Snapshot, name string, manifests []iceberg.ManifestFile) error {
	var out bytes.Buffer
	lw, err := iceberg.NewManifestListWriterV2(&out, snap.SnapshotID, snap.SequenceNumber, snap.ParentSnapshotID)
	if err != nil {
		return fmt.Errorf("open manifest list: %w", err)
	}
	if err := lw.AddManifests(manifests); err != nil {
		return fmt.Errorf("write manifest list: %w", err)
	}
	if err := lw.Close(); err != nil {
		return fmt.Errorf("close manifest list: %w", err)
	}
	snap.ManifestList = store.Join(w.table.Metadata.Location(), "metadata", fmt.Sprintf("snap-%d-1-%s.avro", snap.SnapshotID, name))
	return w.store.Put(ctx, snap.ManifestList, out.Bytes(), store.WriteOptions{IfAbsent: true})
}

// summaryOf counts what the commit adds, and derives the totals from the parent's.
func summaryOf(parent *table.Snapshot, added []iceberg.DataFile) *table.Summary {
	counts, operation := map[string]int64{}, table.OpAppend
	for _, f := range added {
		counts["files-size"] += f.FileSizeBytes()
		if f.ContentType() == iceberg.EntryContentData {
			counts["data-files"]++
			counts["records"] += f.Count()
			continue
		}
		operation = table.OpOverwrite
		counts["delete-files"]++
		counts["position-deletes"] += f.Count()
	}
	props := iceberg.Properties{}
	for _, name := range []string{"data-files", "delete-files", "records", "files-size", "position-deletes", "equality-deletes"} {
		total := counts[name]
		if parent != nil && parent.Summary != nil {
			total += parent.Summary.Properties.GetInt64("total-"+name, 0)
		}
		props["total-"+name] = strconv.FormatInt(total, 10)
		if counts[name] > 0 {
			props["added-"+name] = strconv.FormatInt(counts[name], 10)
		}
	}
	return &table.Summary{Operation: operation, Properties: props}
}
