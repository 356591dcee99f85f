package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"

	"firn/internal/lake"
	"firn/internal/lake/peek"
)

// The field IDs that the specification reserves.
const (
	fieldPath        = 2147483546
	fieldPos         = 2147483545
	fieldRowID       = 2147483540
	fieldLastUpdated = 2147483539
	fieldID          = 1
)

// record is one row of a file: texts by field ID; null is absent.
type record map[int]string

// place is one live row: where it is, and its lineage.
type place struct {
	rec         record
	path        string
	pos         int64
	rowID       int64
	lastUpdated int64
}

// snapshotView is a snapshot read by the specification's rules, with nothing of the product but the decoding of manifests.
type snapshotView struct {
	manifests []iceberg.ManifestFile
	data      []lake.Entry
	deletes   []lake.Entry
	// rows are the live rows by ID; masked are the positions that position deletes took from each data file.
	rows   map[int64]place
	masked map[string][]int64
	// files are all locations that the snapshot needs, its manifest list included.
	files []string
}

// reader reads snapshots. Every file is read once: files never change.
type reader struct {
	s       *Sim
	views   map[string]*snapshotView
	entries map[string][]lake.Entry
	records map[string][]record
	vectors map[string][]int64
}

func newReader(s *Sim) *reader {
	return &reader{
		s: s, views: map[string]*snapshotView{}, entries: map[string][]lake.Entry{}, records: map[string][]record{}, vectors: map[string][]int64{},
	}
}

// view reads a snapshot. The error is a broken invariant: an unreadable file, a row or a path twice.
func (r *reader) view(t *lake.Table, snap *table.Snapshot) (*snapshotView, error) {
	if snap == nil {
		return &snapshotView{rows: map[int64]place{}}, nil
	}
	if v, ok := r.views[snap.ManifestList]; ok {
		return v, nil
	}
	v := &snapshotView{rows: map[int64]place{}, masked: map[string][]int64{}, files: []string{snap.ManifestList}}
	var err error
	if v.manifests, err = peek.ManifestListWith(context.Background(), r.s.world.Store, snap.ManifestList, r.s.world.Memo); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, m := range v.manifests {
		if seen[m.FilePath()] {
			return nil, fmt.Errorf("manifest %s is twice in snapshot %d", short(m.FilePath()), snap.SnapshotID)
		}
		seen[m.FilePath()] = true
		entries, err := r.manifest(m)
		if err != nil {
			return nil, err
		}
		v.files = append(v.files, m.FilePath())
		for _, e := range entries {
			key := e.File.FilePath()
			if at := e.File.ContentOffset(); at != nil {
				key += "@" + strconv.FormatInt(*at, 10)
			}
			if seen[key] {
				return nil, fmt.Errorf("%s is twice in snapshot %d", short(key), snap.SnapshotID)
			}
			seen[key] = true
			v.files = append(v.files, e.File.FilePath())
			if e.File.ContentType() == iceberg.EntryContentData {
				v.data = append(v.data, e)
				continue
			}
			v.deletes = append(v.deletes, e)
			if lake.IsDeletionVector(e.File) {
				if key = "vector of " + *e.File.ReferencedDataFile(); seen[key] {
					return nil, fmt.Errorf("%s has two deletion vectors in snapshot %d", short(*e.File.ReferencedDataFile()), snap.SnapshotID)
				}
				seen[key] = true
			}
		}
	}
	for _, e := range v.data {
		if err := r.readFile(t, v, e); err != nil {
			return nil, err
		}
	}
	r.views[snap.ManifestList] = v
	return v, nil
}

func (r *reader) manifest(m iceberg.ManifestFile) ([]lake.Entry, error) {
	if e, ok := r.entries[m.FilePath()]; ok {
		return e, nil
	}
	var out []lake.Entry
	for e, err := range lake.Entries(context.Background(), r.s.world.Store, m, lake.EntryOptions{WithoutStats: true, Memo: r.s.world.Memo}) {
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	r.entries[m.FilePath()] = out
	return out, nil
}

// readFile adds the live rows of a data file.
func (r *reader) readFile(t *lake.Table, v *snapshotView, e lake.Entry) error {
	path := e.File.FilePath()
	rows, err := r.file(path)
	if err != nil {
		return err
	}
	if int64(len(rows)) != e.File.Count() {
		return fmt.Errorf("%s has %d rows, its entry says %d", short(path), len(rows), e.File.Count())
	}
	gone := make([]bool, len(rows))
	for _, d := range v.deletes {
		if err := r.apply(t, v, e, d, gone); err != nil {
			return err
		}
	}
	for pos, row := range rows {
		if gone[pos] {
			continue
		}
		id, err := strconv.ParseInt(row[fieldID], 10, 64)
		if err != nil {
			return fmt.Errorf("%s row %d has no ID: %w", short(path), pos, err)
		}
		if other, twice := v.rows[id]; twice {
			return fmt.Errorf("row %d is twice: in %s at %d and in %s at %d", id, short(other.path), other.pos, short(path), pos)
		}
		v.rows[id] = place{
			rec: row, path: path, pos: int64(pos), lastUpdated: number(row, fieldLastUpdated, e.DataSequence),
			rowID: number(row, fieldRowID, deref(e.FirstRowID)+int64(pos)),
		}
	}
	return nil
}

func deref(n *int64) int64 {
	if n == nil {
		return -1_000_000
	}
	return *n
}

func number(row record, field int, otherwise int64) int64 {
	n, err := strconv.ParseInt(row[field], 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// rowText spells the values of a row that are not null.
func rowText(columns []iceberg.NestedField, row record) string {
	var b strings.Builder
	for _, f := range columns {
		if value, ok := row[f.ID]; ok {
			fmt.Fprintf(&b, "%d=%s ", f.ID, value)
		}
	}
	return b.String()
}

// sameValues compares two records in the columns.
func sameValues(columns []iceberg.NestedField, a, b record) bool {
	for _, f := range columns {
		x, hasX := a[f.ID]
		if y, hasY := b[f.ID]; x != y || hasX != hasY {
			return false
		}
	}
	return true
}

// visible is a record without the columns that are not shown.
func visible(columns []iceberg.NestedField, rec record) record {
	out := record{}
	for _, f := range columns {
		if value, ok := rec[f.ID]; ok {
			out[f.ID] = value
		}
	}
	return out
}

// apply marks the rows of a data file that a delete file deletes.
func (r *reader) apply(t *lake.Table, v *snapshotView, e, d lake.Entry, gone []bool) error {
	path := e.File.FilePath()
	if lake.IsDeletionVector(d.File) {
		if *d.File.ReferencedDataFile() != path || d.DataSequence < e.DataSequence {
			return nil
		}
		positions, err := r.vector(d)
		for _, pos := range positions {
			gone[pos] = true
		}
		return err
	}
	spec := t.Metadata.PartitionSpecByID(d.SpecID)
	same := d.SpecID == e.SpecID && maps.Equal(d.File.Partition(), e.File.Partition())
	rows, err := r.file(d.File.FilePath())
	if err != nil {
		return err
	}
	if d.File.ContentType() == iceberg.EntryContentPosDeletes {
		for _, row := range rows {
			if pos := number(row, fieldPos, -1); row[fieldPath] == path && same && d.DataSequence >= e.DataSequence {
				gone[pos] = true
				v.masked[path] = append(v.masked[path], pos)
			}
		}
		return nil
	}
	if d.DataSequence <= e.DataSequence || !same && !spec.IsUnpartitioned() {
		return nil
	}
	data, err := r.file(path)
	for pos, row := range data {
		gone[pos] = gone[pos] || slices.ContainsFunc(rows, func(del record) bool {
			return !slices.ContainsFunc(d.File.EqualityFieldIDs(), func(id int) bool { return del[id] != row[id] })
		})
	}
	return err
}

func (r *reader) vector(d lake.Entry) ([]int64, error) {
	key := fmt.Sprintf("%s@%d", d.File.FilePath(), *d.File.ContentOffset())
	if v, ok := r.vectors[key]; ok {
		return v, nil
	}
	bitmap, err := dv.ReadDV(lake.FileIO(context.Background(), r.s.world.Store), d.File)
	if err != nil {
		return nil, err
	}
	var positions []int64
	for pos := range bitmap.Positions() {
		positions = append(positions, int64(pos))
	}
	r.vectors[key] = positions
	return positions, nil
}

// file reads the rows of a Parquet file with arrow-go.
func (r *reader) file(path string) ([]record, error) {
	if rows, ok := r.records[path]; ok {
		return rows, nil
	}
	data, err := r.s.world.Store.Get(context.Background(), path)
	if err != nil {
		return nil, err
	}
	rows, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", short(path), err)
	}
	r.records[path] = rows
	return rows, nil
}

func decode(data []byte) ([]record, error) {
	pf, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	defer func() { _ = pf.Close() }()
	var rows []record
	for g := range pf.NumRowGroups() {
		group := make([]record, pf.RowGroup(g).NumRows())
		for i := range group {
			group[i] = record{}
		}
		for c := range pf.MetaData().Schema.NumColumns() {
			if err := decodeColumn(pf, g, c, group); err != nil {
				return nil, fmt.Errorf("column %s: %w", pf.MetaData().Schema.Column(c).Name(), err)
			}
		}
		rows = append(rows, group...)
	}
	return rows, nil
}

// decodeColumn adds the values of one flat column that are not null.
func decodeColumn(pf *file.Reader, group, col int, rows []record) error {
	descr := pf.MetaData().Schema.Column(col)
	id := int(descr.SchemaNode().FieldID())
	if id < 0 {
		return errors.New("it has no field ID")
	}
	chunk, err := pf.RowGroup(group).Column(col)
	if err != nil {
		return err
	}
	top := descr.MaxDefinitionLevel()
	switch r := chunk.(type) {
	case *file.Int32ColumnChunkReader:
		return texts(r, top, rows, id, func(v int32) string { return strconv.Itoa(int(v)) })
	case *file.Int64ColumnChunkReader:
		return texts(r, top, rows, id, func(v int64) string { return strconv.FormatInt(v, 10) })
	case *file.ByteArrayColumnChunkReader:
		return texts(r, top, rows, id, func(v parquet.ByteArray) string { return string(v) })
	}
	return fmt.Errorf("values of type %s", descr.PhysicalType())
}

// chunkReader is what arrow-go's readers of columns have in common.
type chunkReader[T any] interface {
	ReadBatch(size int64, values []T, def, rep []int16) (levels int64, read int, err error)
}

func texts[T any](r chunkReader[T], top int16, rows []record, id int, text func(T) string) error {
	values, def := make([]T, len(rows)), make([]int16, len(rows))
	for len(rows) > 0 {
		levels, _, err := r.ReadBatch(int64(len(rows)), values, def, nil)
		if err != nil || levels == 0 {
			return errors.Join(errors.New("it ends too early"), err)
		}
		at := 0
		for i := range int(levels) {
			if top == 0 || def[i] == top {
				rows[i][id] = text(values[at])
				at++
			}
		}
		rows = rows[levels:]
	}
	return nil
}
