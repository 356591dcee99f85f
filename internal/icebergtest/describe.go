package icebergtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/lake/manifest"
	"firn/internal/store"
)

// parseType reads a type as metadata files spell it: "long", "decimal(9,2)", "fixed[3]".
func parseType(text string) (iceberg.Type, error) {
	var s iceberg.Schema
	doc := fmt.Sprintf(`{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"x","required":false,"type":%q}]}`, text)
	if err := json.Unmarshal([]byte(doc), &s); err != nil {
		return nil, fmt.Errorf("type %q: %w", text, err)
	}
	return s.Field(0).Type, nil
}

func parseSchema(columns []string) (*iceberg.Schema, error) {
	var fields []iceberg.NestedField
	for i, column := range columns {
		words := strings.Fields(column)
		if len(words) < 2 || len(words) > 3 || len(words) == 3 && words[2] != "required" {
			return nil, fmt.Errorf("column %q: want \"name type\" or \"name type required\"", column)
		}
		typ, err := parseType(words[1])
		if err != nil {
			return nil, err
		}
		fields = append(fields, iceberg.NestedField{ID: i + 1, Name: words[0], Type: typ, Required: len(words) == 3})
	}
	return iceberg.NewSchema(0, fields...), nil
}

var callForm = regexp.MustCompile(`^(\w+)\((?:(\d+), *)?(\w+)\)$`)

func parseSpec(schema *iceberg.Schema, fields []string) (*iceberg.PartitionSpec, error) {
	var parts []iceberg.PartitionField
	for i, text := range fields {
		column, name, transform := text, text, "identity"
		if m := callForm.FindStringSubmatch(text); m != nil {
			column, transform = m[3], m[1]
			name = column + "_" + strings.Replace(m[1], "truncate", "trunc", 1)
			if m[2] != "" {
				transform += "[" + m[2] + "]"
			}
		}
		source, ok := schema.FindFieldByName(column)
		if !ok {
			return nil, fmt.Errorf("partition field %q: no such column", text)
		}
		t, err := iceberg.ParseTransform(transform)
		if err != nil {
			return nil, fmt.Errorf("partition field %q: %w", text, err)
		}
		parts = append(parts, iceberg.PartitionField{SourceIDs: []int{source.ID}, FieldID: 1000 + i, Name: name, Transform: t})
	}
	spec := iceberg.NewPartitionSpec(parts...)
	return &spec, nil
}

// SchemaEdit changes a schema; see Table.Evolve.
type SchemaEdit func(fields []iceberg.NestedField, nextID int) ([]iceberg.NestedField, error)

// Evolve makes a new current schema by top-level edits, in order. Columns keep their IDs.
func (t *Table) Evolve(edits ...SchemaEdit) {
	t.w.tb.Helper()
	t.Update(func(b *table.MetadataBuilder) error {
		fields, next := b.CurrentSchema().Fields(), b.LastColumnID()+1
		for _, edit := range edits {
			var err error
			if fields, err = edit(fields, next); err != nil {
				return err
			}
			for _, f := range fields {
				next = max(next, f.ID+1)
			}
		}
		if err := b.AddSchema(iceberg.NewSchemaWithIdentifiers(-1, b.CurrentSchema().IdentifierFieldIDs, fields...)); err != nil {
			return err
		}
		return b.SetCurrentSchemaID(-1)
	})
}

// AddColumn adds an optional column at the end.
func AddColumn(name, typ string) SchemaEdit {
	return func(fields []iceberg.NestedField, nextID int) ([]iceberg.NestedField, error) {
		parsed, err := parseType(typ)
		return append(fields, iceberg.NestedField{ID: nextID, Name: name, Type: parsed}), err
	}
}

// RenameColumn gives a column another name.
func RenameColumn(name, to string) SchemaEdit {
	return editColumn(name, func(f *iceberg.NestedField) error { f.Name = to; return nil })
}

// PromoteColumn gives a column a wider type.
func PromoteColumn(name, typ string) SchemaEdit {
	return editColumn(name, func(f *iceberg.NestedField) (err error) { f.Type, err = parseType(typ); return err })
}

// DropColumn drops a column.
func DropColumn(name string) SchemaEdit {
	return func(fields []iceberg.NestedField, _ int) ([]iceberg.NestedField, error) {
		var kept []iceberg.NestedField
		for _, f := range fields {
			if f.Name != name {
				kept = append(kept, f)
			}
		}
		if len(kept) == len(fields) {
			return nil, fmt.Errorf("no column %q", name)
		}
		return kept, nil
	}
}

func editColumn(name string, edit func(*iceberg.NestedField) error) SchemaEdit {
	return func(fields []iceberg.NestedField, _ int) ([]iceberg.NestedField, error) {
		for i := range fields {
			if fields[i].Name == name {
				return fields, edit(&fields[i])
			}
		}
		return nil, fmt.Errorf("no column %q", name)
	}
}

// scatteredColumns is the number of columns of a scattered table.
const scatteredColumns = 16

// Scattered makes a table whose snapshot has manifests of entries each, with statistics on 16 columns and the partitions in no order. The data files
// do not exist.
func (w *World) Scattered(manifests, entries int) *Table {
	w.tb.Helper()
	const id = 77
	var names []string
	for i := range scatteredColumns {
		names = append(names, fmt.Sprintf("c%d long", i))
	}
	tbl := w.NewTable("db.t", Columns(names...), Partitioned("c0"))
	meta := tbl.State().Metadata
	layout, err := manifest.NewLayout(2, meta.PartitionSpec(), meta.CurrentSchema())
	w.check(err)
	var list bytes.Buffer
	lines, err := iceberg.NewManifestListWriterV2(&list, id, 1, nil)
	w.check(err)
	for i := range manifests {
		location := store.Join(meta.Location(), "metadata", fmt.Sprintf("in-%d.avro", i))
		m, err := layout.NewWriter(iceberg.ManifestContentData, id, location)
		w.check(err)
		for j := range entries {
			w.check(m.Add(w.scatteredFile(meta, i*entries+j), nil))
		}
		data, line, err := m.Close(location)
		w.check(err)
		w.check(errors.Join(w.Store.Put(context.Background(), location, data, store.WriteOptions{}), lines.AddManifests([]iceberg.ManifestFile{line})))
	}
	at := store.Join(meta.Location(), "metadata", "snap-77.avro")
	w.check(lines.Close())
	w.check(w.Store.Put(context.Background(), at, list.Bytes(), store.WriteOptions{}))
	tbl.Update(func(b *table.MetadataBuilder) error {
		schema := meta.CurrentSchema().ID
		snap := &table.Snapshot{
			SnapshotID: id, SequenceNumber: 1, TimestampMs: w.Clock.Now().UnixMilli(), ManifestList: at, SchemaID: &schema,
			Summary: &table.Summary{Operation: table.OpAppend, Properties: iceberg.Properties{"total-data-files": fmt.Sprint(manifests * entries)}},
		}
		if err := b.AddSnapshot(snap); err != nil {
			return err
		}
		return b.SetSnapshotRef(table.MainBranch, id, table.BranchRef)
	})
	return tbl
}

// scatteredFile is the n-th file: 200 MB in one of 365 partitions.
func (w *World) scatteredFile(meta table.Metadata, n int) iceberg.DataFile {
	w.tb.Helper()
	b, err := iceberg.NewDataFileBuilder(meta.PartitionSpec(), iceberg.EntryContentData, store.Join(meta.Location(), "data", fmt.Sprintf("%08d.parquet", n)),
		iceberg.ParquetFile, map[int]any{1000: int64(n * 37 % 365)}, nil, nil, 1000, 200<<20)
	w.check(err)
	counts, bounds := map[int]int64{}, map[int][]byte{}
	for c := 1; c <= scatteredColumns; c++ {
		counts[c], bounds[c] = int64(1000+n), binary.LittleEndian.AppendUint64(nil, uint64(n*n*c))
	}
	return b.ColumnSizes(counts).ValueCounts(counts).NullValueCounts(counts).LowerBoundValues(bounds).UpperBoundValues(bounds).Build()
}
