package icebergtest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/lake"
	"firn/internal/store"
)

// fileArgs describe one Parquet file.
type fileArgs struct {
	schema    *iceberg.Schema
	spec      iceberg.PartitionSpec
	partition map[int]any
	rows      []Row
	content   iceberg.ManifestEntryContent
	equality  []int
	props     iceberg.Properties
}

// writeFile writes a Parquet file and describes it as a data file, with the statistics that iceberg-go takes from the footer.
func (c *commit) writeFile(a fileArgs) (iceberg.DataFile, error) {
	codec := compress.Codecs.Zstd
	if c.base.Metadata.Properties()["write.parquet.compression-codec"] == "uncompressed" {
		codec = compress.Codecs.Uncompressed
	}
	data, footer, err := encodeParquet(a.schema, a.rows, codec)
	if err != nil {
		return nil, err
	}
	path := c.newPath("parquet")
	if err := c.t.w.Store.Put(context.Background(), path, data, store.WriteOptions{IfAbsent: true}); err != nil {
		return nil, err
	}
	return table.DataFileFromMetadata(table.DataFileArgs{
		Schema: a.schema, Spec: a.spec, Format: iceberg.ParquetFile, Metadata: footer, FilePath: path, FileSize: int64(len(data)),
		Content: a.content, PartitionValues: a.partition, Properties: a.props, EqualityFieldIDs: a.equality,
		FormatVersion: c.base.Metadata.Version(),
	})
}

func encodeParquet(schema *iceberg.Schema, rows []Row, codec compress.Compression) ([]byte, *metadata.FileMetaData, error) {
	arrowSchema, err := table.SchemaToArrowSchema(schema, nil, true, false)
	if err != nil {
		return nil, nil, err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrowSchema)
	defer b.Release()
	typ := schema.AsStruct()
	for _, row := range rows {
		values := normalStruct(&typ, row).([]any)
		for i, f := range schema.Fields() {
			appendArrow(b.Field(i), f.Type, values[i])
		}
	}
	record := b.NewRecordBatch()
	defer record.Release()
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(arrowSchema, &out, parquet.NewWriterProperties(parquet.WithCompression(codec)),
		pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, nil, err
	}
	if err := w.Write(record); err != nil {
		return nil, nil, err
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	footer, err := w.FileMetadata()
	return out.Bytes(), footer, err
}

// part is the rows of one partition.
type part struct {
	tuple map[int]any
	rows  []Row
}

// split groups rows by partition in order of appearance.
func split(spec iceberg.PartitionSpec, schema *iceberg.Schema, rows []Row) ([]*part, error) {
	var parts []*part
	byKey := map[string]*part{}
	for _, row := range rows {
		tuple := map[int]any{}
		for i := range spec.NumFields() {
			field := spec.Field(i)
			value, err := transform(schema, row, field)
			if err != nil {
				return nil, err
			}
			tuple[field.FieldID] = value
		}
		key, err := lake.PartitionKey(spec, tuple)
		if err != nil {
			return nil, err
		}
		p, ok := byKey[key]
		if !ok {
			p = &part{tuple: tuple}
			byKey[key] = p
			parts = append(parts, p)
		}
		p.rows = append(p.rows, row)
	}
	return parts, nil
}

func transform(schema *iceberg.Schema, row Row, field iceberg.PartitionField) (any, error) {
	for i, f := range schema.Fields() {
		if f.ID != field.SourceID() {
			continue
		}
		value := normal(f.Type, row[i])
		if value == nil {
			return nil, nil
		}
		lit, err := literal(f.Type, value)
		if err != nil {
			return nil, err
		}
		out := field.Transform.Apply(iceberg.Optional[iceberg.Literal]{Val: lit, Valid: true})
		if !out.Valid {
			return nil, nil
		}
		return out.Val.Any(), nil
	}
	if _, void := field.Transform.(iceberg.VoidTransform); void {
		return nil, nil
	}
	return nil, fmt.Errorf("rows lack column %d, the source of partition field %s", field.SourceID(), field.Name)
}

func literal(typ iceberg.Type, value any) (iceberg.Literal, error) {
	switch v := value.(type) {
	case bool:
		return iceberg.NewLiteral(v), nil
	case float32:
		return iceberg.NewLiteral(v), nil
	case float64:
		return iceberg.NewLiteral(v), nil
	case string:
		return iceberg.NewLiteral(v), nil
	case []byte:
		return iceberg.NewLiteral(v), nil
	case uuid.UUID:
		return iceberg.NewLiteral(v), nil
	case iceberg.Decimal:
		return iceberg.NewLiteral(v), nil
	case int64:
		switch typ.(type) {
		case iceberg.Int32Type:
			return iceberg.NewLiteral(int32(v)), nil
		case iceberg.DateType:
			return iceberg.NewLiteral(iceberg.Date(v)), nil
		case iceberg.TimeType:
			return iceberg.NewLiteral(iceberg.Time(v)), nil
		case iceberg.TimestampType, iceberg.TimestampTzType:
			return iceberg.NewLiteral(iceberg.Timestamp(v)), nil
		case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
			return iceberg.NewLiteral(iceberg.TimestampNano(v)), nil
		}
		return iceberg.NewLiteral(v), nil
	}
	return nil, fmt.Errorf("value %v of type %T cannot be partitioned by", value, value)
}
