package icebergtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
	"firn/internal/store"
)

// ReadRows reads the rows of a snapshot with iceberg-go's scan, deletes applied, in the table's current schema: an engine that shares nothing
// with ours but the metadata. A nil snapshot is the current one. ORC, Avro, encrypted files and variant columns are errors.
func ReadRows(ctx context.Context, st store.Reader, t *lake.Table, snapshot *int64) (Content, error) {
	return read(ctx, st, t, snapshot, false)
}

// ReadLineage is ReadRows with _row_id and _last_updated_sequence_number at the end of each row (format version 3).
func ReadLineage(ctx context.Context, st store.Reader, t *lake.Table, snapshot *int64) (Content, error) {
	return read(ctx, st, t, snapshot, true)
}

// Rows reads the table's current rows; see ReadRows.
func (t *Table) Rows() Content {
	t.w.tb.Helper()
	c, err := ReadRows(context.Background(), t.w.Store, t.State(), nil)
	t.w.check(err)
	return c
}

// RowsAt reads the rows of a snapshot.
func (t *Table) RowsAt(snapshotID int64) Content {
	t.w.tb.Helper()
	c, err := ReadRows(context.Background(), t.w.Store, t.State(), &snapshotID)
	t.w.check(err)
	return c
}

// Lineage reads the current rows with their lineage; see ReadLineage.
func (t *Table) Lineage() Content {
	t.w.tb.Helper()
	c, err := ReadLineage(context.Background(), t.w.Store, t.State(), nil)
	t.w.check(err)
	return c
}

func read(ctx context.Context, st store.Reader, t *lake.Table, snapshot *int64, lineage bool) (_ Content, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("read table %s: %v", t.ID, r)
		}
	}()
	schema := t.Metadata.CurrentSchema()
	if lineage {
		schema = iceberg.NewSchema(schema.ID, append(slices.Clone(schema.Fields()), iceberg.RowID(), iceberg.LastUpdatedSequenceNumber())...)
	}
	d := NewDigester(schema)
	if t.Metadata.CurrentSnapshot() == nil && snapshot == nil {
		return d.Content(), nil
	}
	io := func(ctx context.Context) (iceio.IO, error) { return lake.FileIO(ctx, st), nil }
	opts := []table.ScanOption{table.WithMaxConcurrency(1)}
	if snapshot != nil {
		opts = append(opts, table.WithSnapshotID(*snapshot))
	}
	if lineage {
		opts = append(opts, table.WithRowLineage())
	}
	scan := table.New(table.Identifier{t.ID.Name}, t.Metadata, t.Pointer.MetadataLocation, io, nil).Scan(opts...)
	got, batches, err := scan.ToArrowRecords(ctx)
	if err != nil {
		return Content{}, fmt.Errorf("scan table %s: %w", t.ID, err)
	}
	columns, err := place(schema, got)
	if err != nil {
		return Content{}, err
	}
	for batch, err := range batches {
		if err != nil {
			return Content{}, fmt.Errorf("scan table %s: %w", t.ID, err)
		}
		addBatch(d, schema, columns, batch)
		batch.Release()
	}
	c := d.Content()
	slices.Sort(c.Rows)
	return c, nil
}

// place finds each column of the schema in what the scan returns; a column that an old snapshot's schema lacks is absent (-1).
func place(schema *iceberg.Schema, got *arrow.Schema) ([]int, error) {
	columns := make([]int, schema.NumFields())
	for i, f := range schema.Fields() {
		columns[i] = -1
		for _, at := range got.FieldIndices(f.Name) {
			columns[i] = at
		}
		if columns[i] < 0 && f.Required {
			return nil, fmt.Errorf("the scan lacks required column %s", f.Name)
		}
	}
	return columns, nil
}

func addBatch(d *Digester, schema *iceberg.Schema, columns []int, batch arrow.RecordBatch) {
	fields := schema.Fields()
	for i := range int(batch.NumRows()) {
		row := make(Row, len(fields))
		for c, f := range fields {
			if columns[c] >= 0 {
				row[c] = fromArrow(f.Type, batch.Column(columns[c]), i)
			}
		}
		d.Add(row)
	}
}
