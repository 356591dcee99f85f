package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/edge"
	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// Writer is a small streaming writer, such as lakes are full of: each batch is a commit of its own with a tiny file a day partition, deletes are
// merge-on-read, and when it dies its files stay where they are. It shares nothing with Firn's rewriting but the committer.
type Writer struct {
	store     store.ReadWriter
	committer committer.Committer
	table     *lake.Table
	now       func() time.Time
	rng       *rand.Rand
	nextID    int64
	// recent are data files that deletes may still hit, the oldest first.
	recent []dataFile
}

type dataFile struct {
	path      string
	partition map[int]any
	rows      int
	// deleted are positions that were deleted.
	deleted map[int64]bool
}

const (
	// recentFiles bounds how far back deletes reach.
	recentFiles = 40
	// tasks is the writer's parallelism: each task writes a file of its own. A task takes at least minTaskRows.
	tasks       = 3
	minTaskRows = 100
)

// newWriter makes the table and a writer of it.
func newWriter(ctx context.Context, l edge.Lake, id maintenance.TableID, location string, now func() time.Time) (*Writer, error) {
	c, err := committer.New(l.Catalog, l.Store, committer.Options{Now: now})
	if err != nil {
		return nil, err
	}
	props := iceberg.Properties{
		table.PropertyFormatVersion: "2", "write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read", "write.parquet.compression-codec": "zstd",
		"write.metadata.previous-versions-max": "20",
	}
	meta, err := table.NewMetadata(schema(), spec(), table.UnsortedSortOrder, location, props)
	if err != nil {
		return nil, fmt.Errorf("make metadata: %w", err)
	}
	data, err := dated(meta, now())
	if err != nil {
		return nil, err
	}
	first := store.Join(location, "metadata", fmt.Sprintf("%05d-%s.metadata.json", 0, uuid.New()))
	if err := l.Store.Put(ctx, first, data, store.WriteOptions{IfAbsent: true}); err != nil {
		return nil, fmt.Errorf("write metadata: %w", err)
	}
	if err := register(ctx, l, id, first); err != nil {
		return nil, err
	}
	w := &Writer{store: l.Store, committer: c, now: now, rng: rand.New(rand.NewPCG(1, 2)), nextID: 1} //nolint:gosec // the same rows each time
	w.table, err = c.Head(ctx, id)
	return w, err
}

// dated spells metadata with the lake's time as its last update; the library takes the wall clock's.
func dated(meta table.Metadata, at time.Time) ([]byte, error) {
	data, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("decode metadata: %w", err)
	}
	fields["last-updated-ms"] = strconv.AppendInt(nil, at.UnixMilli(), 10)
	return json.Marshal(fields)
}

// batch is one commit: how many rows, and how many of earlier rows to delete. Late says that some rows belong to the day before.
type batch struct {
	rows    int
	late    bool
	deletes int
}

// write commits one batch and returns its snapshot.
func (w *Writer) write(ctx context.Context, b batch) (*table.Snapshot, error) {
	files, err := w.writeRows(ctx, b)
	if err != nil {
		return nil, err
	}
	added := slices.Clone(files)
	if b.deletes > 0 && len(w.recent) > 0 {
		f, err := w.deleteRows(ctx, b.deletes)
		if err != nil {
			return nil, err
		}
		added = append(added, f)
	}
	snap, err := w.commit(ctx, added)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		w.recent = append(w.recent, dataFile{path: f.FilePath(), partition: f.Partition(), rows: int(f.Count()), deleted: map[int64]bool{}})
	}
	w.recent = w.recent[max(0, len(w.recent)-recentFiles):]
	return snap, nil
}

// crash writes a batch's data files and dies before the commit: their paths.
func (w *Writer) crash(ctx context.Context, rows int) ([]string, error) {
	files, err := w.writeRows(ctx, batch{rows: rows})
	paths := make([]string, 0, len(files))
	for _, f := range files {
		paths = append(paths, f.FilePath())
	}
	return paths, err
}

// writeRows writes one data file a day and task.
func (w *Writer) writeRows(ctx context.Context, b batch) ([]iceberg.DataFile, error) {
	now := w.now()
	midnight := now.Truncate(24 * time.Hour)
	span := max(min(now.Sub(midnight), time.Hour), time.Minute)
	rows := makeRows(w.rng, w.nextID, b.rows, now, span)
	if b.late {
		rows = append(rows, makeRows(w.rng, w.nextID+int64(b.rows), b.rows/5, midnight, 6*time.Hour)...)
	}
	w.nextID += int64(len(rows))
	byDay := map[int64][]row{}
	for _, r := range rows {
		day := r.at.Unix() / (24 * 60 * 60)
		byDay[day] = append(byDay[day], r)
	}
	var files []iceberg.DataFile
	for _, day := range slices.Sorted(maps.Keys(byDay)) {
		rows := byDay[day]
		for part := range slices.Chunk(rows, max((len(rows)+tasks-1)/tasks, minTaskRows)) {
			f, err := w.dataFile(ctx, part)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	return files, nil
}

// dataFile writes rows of one day.
func (w *Writer) dataFile(ctx context.Context, rows []row) (iceberg.DataFile, error) {
	rec, err := record(w.table.Metadata.CurrentSchema(), rows)
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	return w.file(ctx, rec, fileArgs{schema: w.table.Metadata.CurrentSchema(), partition: partitionOf(rows[0].at)})
}

// deleteRows deletes rows of one recent file by position, as a small correction does.
func (w *Writer) deleteRows(ctx context.Context, count int) (iceberg.DataFile, error) {
	target := &w.recent[w.rng.IntN(len(w.recent))]
	var positions []int64
	for range count {
		if p := w.rng.Int64N(int64(target.rows)); !target.deleted[p] {
			target.deleted[p] = true
			positions = append(positions, p)
		}
	}
	if len(positions) == 0 {
		positions = []int64{0}
	}
	slices.Sort(positions)
	rec, err := deletes(target.path, positions)
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	return w.file(ctx, rec, fileArgs{
		schema: iceberg.PositionalDeleteSchema, partition: target.partition, content: iceberg.EntryContentPosDeletes,
		props: iceberg.Properties{"write.metadata.metrics.column.file_path": "full"},
	})
}

type fileArgs struct {
	schema    *iceberg.Schema
	partition map[int]any
	content   iceberg.ManifestEntryContent
	props     iceberg.Properties
}

// file writes a Parquet file and describes it.
func (w *Writer) file(ctx context.Context, rec arrow.RecordBatch, a fileArgs) (iceberg.DataFile, error) {
	data, footer, err := encode(rec)
	if err != nil {
		return nil, err
	}
	partitions := w.table.Metadata.PartitionSpec()
	path := store.Join(w.table.Metadata.Location(), "data", dayFolder(a.partition), uuid.NewString()+".parquet")
	if err := w.store.Put(ctx, path, data, store.WriteOptions{IfAbsent: true}); err != nil {
		return nil, fmt.Errorf("write data file: %w", err)
	}
	f, err := table.DataFileFromMetadata(table.DataFileArgs{
		Schema: a.schema, Spec: partitions, Format: iceberg.ParquetFile, Metadata: footer, FilePath: path, FileSize: int64(len(data)),
		Content: a.content, PartitionValues: a.partition, Properties: a.props, FormatVersion: w.table.Metadata.Version(),
	})
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", path, err)
	}
	return f, nil
}

// partitionOf is the partition tuple of a time.
func partitionOf(at time.Time) map[int]any {
	lit := iceberg.NewLiteral(iceberg.Timestamp(at.UnixMicro()))
	day := iceberg.DayTransform{}.Apply(iceberg.Optional[iceberg.Literal]{Val: lit, Valid: true})
	return map[int]any{1000: day.Val.Any()}
}

// dayFolder is the folder of a partition's files.
func dayFolder(partition map[int]any) string {
	return fmt.Sprintf("event_day=%s", partition[1000].(iceberg.Date).ToTime().Format(time.DateOnly))
}
