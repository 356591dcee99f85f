package inspect

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"

	"firn/internal/deletes"
	"firn/internal/lake"
	"firn/internal/store"
)

// fileColumns are the columns of the views of files.
func fileColumns() []string {
	return []string{
		"content", "file_path", "file_format", "spec_id", "partition", "record_count", "file_size_in_bytes", "column_sizes", "value_counts",
		"null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds", "key_metadata", "split_offsets", "equality_ids", "sort_order_id",
		"first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes",
	}
}

// fileRow is a file under fileColumns.
func (v *View) fileRow(e lake.Entry) []any {
	f := e.File
	var partition any
	if spec := v.specs[e.SpecID]; !spec.IsUnpartitioned() {
		partition = v.partition(e.SpecID, f.Partition())
	}
	return []any{
		int(f.ContentType()), f.FilePath(), string(f.FileFormat()), e.SpecID, partition, f.Count(), f.FileSizeBytes(), f.ColumnSizes(),
		f.ValueCounts(), f.NullValueCounts(), f.NaNValueCounts(), f.LowerBoundValues(), f.UpperBoundValues(), bytesOrNil(f.KeyMetadata()),
		f.SplitOffsets(), f.EqualityFieldIDs(), value(f.SortOrderID()), value(e.FirstRowID), value(f.ReferencedDataFile()),
		value(f.ContentOffset()), value(f.ContentSizeInBytes()),
	}
}

// anyContent takes data and delete manifests.
func anyContent(iceberg.ManifestContent) bool { return true }

func isData(c iceberg.ManifestContent) bool { return c == iceberg.ManifestContentData }

func isDeletes(c iceberg.ManifestContent) bool { return c == iceberg.ManifestContentDeletes }

func (v *View) files(ctx context.Context) (Rows, error) {
	return v.fileRows(ctx, v.manifests, anyContent)
}

func (v *View) dataFiles(ctx context.Context) (Rows, error) {
	return v.fileRows(ctx, v.manifests, isData)
}

func (v *View) deleteFiles(ctx context.Context) (Rows, error) {
	return v.fileRows(ctx, v.manifests, isDeletes)
}

func (v *View) allFiles(ctx context.Context) (Rows, error) { return v.allFileRows(ctx, anyContent) }

func (v *View) allDataFiles(ctx context.Context) (Rows, error) { return v.allFileRows(ctx, isData) }

func (v *View) allDeleteFiles(ctx context.Context) (Rows, error) {
	return v.allFileRows(ctx, isDeletes)
}

func (v *View) allFileRows(ctx context.Context, of func(iceberg.ManifestContent) bool) (Rows, error) {
	manifests, err := v.allManifests(ctx)
	if err != nil {
		return Rows{}, err
	}
	return v.fileRows(ctx, manifests, of)
}

// fileRows are the live files of the manifests of a content. A file that several manifests name, as those of several snapshots may, stands once for each.
func (v *View) fileRows(ctx context.Context, manifests []iceberg.ManifestFile, of func(iceberg.ManifestContent) bool) (Rows, error) {
	columns := fileColumns()
	rows := Rows{Columns: columns, Wide: slices.Concat(columns[2:3], columns[7:])}
	for _, m := range manifests {
		if !of(m.ManifestContent()) {
			continue
		}
		for e, err := range lake.Entries(ctx, v.store, m, lake.EntryOptions{Memo: &v.memo}) {
			if err != nil {
				return rows, err
			}
			rows.Rows = append(rows.Rows, v.fileRow(e))
		}
	}
	return rows, nil
}

// fileObject is a file as a nested value: an object in JSON, its location on a terminal.
type fileObject struct{ row []any }

// MarshalJSON writes the columns of the views of files.
func (f fileObject) MarshalJSON() ([]byte, error) {
	object := make(map[string]any, len(f.row))
	for i, name := range fileColumns() {
		object[name] = f.row[i]
	}
	return json.Marshal(object)
}

// String is the location.
func (f fileObject) String() string { return Cell(f.row[1]) }

func (v *View) entries(ctx context.Context) (Rows, error) { return v.entryRows(ctx, v.manifests) }

func (v *View) allEntries(ctx context.Context) (Rows, error) {
	manifests, err := v.allManifests(ctx)
	if err != nil {
		return Rows{}, err
	}
	return v.entryRows(ctx, manifests)
}

// entryRows are the manifests' entries, deleted ones too: status 0 is existing, 1 added, 2 deleted.
func (v *View) entryRows(ctx context.Context, manifests []iceberg.ManifestFile) (Rows, error) {
	rows := Rows{Columns: []string{"status", "snapshot_id", "sequence_number", "file_sequence_number", "data_file"}}
	for _, m := range manifests {
		for e, err := range lake.Entries(ctx, v.store, m, lake.EntryOptions{IncludeDeleted: true, Memo: &v.memo}) {
			if err != nil {
				return rows, err
			}
			rows.Rows = append(rows.Rows, []any{int(e.Status), e.SnapshotID, e.DataSequence, e.FileSequence, fileObject{v.fileRow(e)}})
		}
	}
	return rows, nil
}

// allManifests are the manifests of all snapshots, each once, the current snapshot's first.
func (v *View) allManifests(ctx context.Context) ([]iceberg.ManifestFile, error) {
	seen := map[string]bool{}
	var out []iceberg.ManifestFile
	add := func(manifests []iceberg.ManifestFile) {
		for _, m := range manifests {
			if !seen[m.FilePath()] {
				seen[m.FilePath()] = true
				out = append(out, m)
			}
		}
	}
	add(v.manifests)
	for _, s := range v.Table.Metadata.Snapshots() {
		manifests, err := lake.Manifests(ctx, v.store, &s)
		if err != nil {
			return nil, err
		}
		add(manifests)
	}
	return out, nil
}

func manifestColumns() []string {
	return []string{
		"content", "path", "length", "partition_spec_id", "added_snapshot_id", "added_data_files_count", "existing_data_files_count",
		"deleted_data_files_count", "added_delete_files_count", "existing_delete_files_count", "deleted_delete_files_count",
	}
}

func manifestRow(m iceberg.ManifestFile) []any {
	counts := []any{m.AddedDataFiles(), m.ExistingDataFiles(), m.DeletedDataFiles(), 0, 0, 0}
	if m.ManifestContent() == iceberg.ManifestContentDeletes {
		counts = append([]any{0, 0, 0}, counts[:3]...)
	}
	return append([]any{int(m.ManifestContent()), m.FilePath(), m.Length(), m.PartitionSpecID(), m.SnapshotID()}, counts...)
}

func (v *View) manifestRows(context.Context) (Rows, error) {
	rows := Rows{Columns: manifestColumns()}
	for _, m := range v.manifests {
		rows.Rows = append(rows.Rows, manifestRow(m))
	}
	return rows, nil
}

// allManifestRows are the manifests of each snapshot; one that several snapshots share stands once for each of them.
func (v *View) allManifestRows(ctx context.Context) (Rows, error) {
	rows := Rows{Columns: append(manifestColumns(), "reference_snapshot_id")}
	for _, s := range v.Table.Metadata.Snapshots() {
		manifests, err := lake.Manifests(ctx, v.store, &s)
		if err != nil {
			return rows, err
		}
		for _, m := range manifests {
			rows.Rows = append(rows.Rows, append(manifestRow(m), s.SnapshotID))
		}
	}
	return rows, nil
}

// positionDeletes are the positions of the live position delete files and vectors that apply to a live data file. It is the one view that reads more than
// metadata: the delete files themselves. Stored rows are not shown.
func (v *View) positionDeletes(ctx context.Context) (Rows, error) {
	rows := Rows{
		Columns: []string{"file_path", "pos", "row", "partition", "spec_id", "delete_file_path", "content_offset", "content_size_in_bytes"},
		Wide:    []string{"row", "content_offset", "content_size_in_bytes"},
	}
	live := map[string]int64{}
	for e, err := range v.live(ctx, isData) {
		if err != nil {
			return rows, err
		}
		path, err := store.Canonical(e.File.FilePath())
		if err != nil {
			return rows, err
		}
		live[path] = e.DataSequence
	}
	for e, err := range v.live(ctx, isDeletes) {
		if err != nil {
			return rows, err
		}
		if e.File.ContentType() != iceberg.EntryContentPosDeletes {
			continue
		}
		masks, err := deletes.Collect(ctx, v.store, []deletes.File{{DataFile: e.File, Sequence: e.DataSequence}}, live)
		if err != nil {
			return rows, err
		}
		var partition any
		if spec := v.specs[e.SpecID]; !spec.IsUnpartitioned() {
			partition = v.partition(e.SpecID, e.File.Partition())
		}
		for _, path := range slices.Sorted(maps.Keys(masks)) {
			for it := masks[path].Iterator(); it.HasNext(); {
				rows.Rows = append(rows.Rows, []any{
					path, it.Next(), nil, partition, e.SpecID, e.File.FilePath(), value(e.File.ContentOffset()), value(e.File.ContentSizeInBytes()),
				})
			}
		}
	}
	return rows, nil
}

// live streams the live entries of the current snapshot's manifests of a content.
func (v *View) live(ctx context.Context, of func(iceberg.ManifestContent) bool) iter.Seq2[lake.Entry, error] {
	return func(yield func(lake.Entry, error) bool) {
		for _, m := range v.manifests {
			if !of(m.ManifestContent()) {
				continue
			}
			for e, err := range lake.Entries(ctx, v.store, m, lake.EntryOptions{Memo: &v.memo}) {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

func bytesOrNil(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}
