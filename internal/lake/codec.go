package lake

import (
	"fmt"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/manifest"
)

// FileCodec encodes data and delete files of one partition spec as a manifest entry's Avro bytes, of format version 3 whatever the table's is: it has
// every field of 1 and 2, while a position delete file encoded as version 2 could lose its referenced_data_file. Make one for all files of a spec: what
// was decoded keeps it, and it weighs more than a file.
type FileCodec struct{ transport *manifest.Transport }

// NewFileCodec makes the codec of a spec. The schema must hold the source columns of the spec: take it from SpecSchema.
func NewFileCodec(spec iceberg.PartitionSpec, schema *iceberg.Schema) (*FileCodec, error) {
	if err := checkSources(spec, schema); err != nil {
		return nil, err
	}
	t, err := manifest.NewTransport(spec, schema)
	if err != nil {
		return nil, err
	}
	return &FileCodec{transport: t}, nil
}

// Encode encodes a file. Files that were read without statistics are refused.
func (c *FileCodec) Encode(f iceberg.DataFile) ([]byte, error) {
	return c.Append(nil, f)
}

// Append encodes a file as Encode does, behind dst.
func (c *FileCodec) Append(dst []byte, f iceberg.DataFile) ([]byte, error) {
	data, err := c.transport.Append(dst, f)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", f.FilePath(), err)
	}
	return data, nil
}

// Decode decodes what Encode made, for the same spec and schema.
func (c *FileCodec) Decode(data []byte) (iceberg.DataFile, error) {
	f, err := c.transport.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("decode file: %w", err)
	}
	return f, nil
}

// EncodeFile encodes one file; many are for a FileCodec.
func EncodeFile(f iceberg.DataFile, spec iceberg.PartitionSpec, schema *iceberg.Schema) ([]byte, error) {
	c, err := NewFileCodec(spec, schema)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", f.FilePath(), err)
	}
	return c.Encode(f)
}

// DecodeFile decodes what EncodeFile made, with the same spec and schema; many are for a FileCodec.
func DecodeFile(data []byte, spec iceberg.PartitionSpec, schema *iceberg.Schema) (iceberg.DataFile, error) {
	c, err := NewFileCodec(spec, schema)
	if err != nil {
		return nil, fmt.Errorf("decode file: %w", err)
	}
	return c.Decode(data)
}

// SpecSchema returns a schema that holds all source columns of a spec: the current one, or, when a source column was dropped since, the newest
// that still has them. iceberg-go would silently encode null for a field whose source is missing.
func (t *Table) SpecSchema(spec iceberg.PartitionSpec) (*iceberg.Schema, error) {
	schema, err := SpecSchema(t.Metadata.CurrentSchema(), t.Metadata.Schemas(), spec)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", t.ID, err)
	}
	return schema, nil
}

// SpecSchema is Table.SpecSchema for a state of which only the current schema and the list of all are at hand.
func SpecSchema(current *iceberg.Schema, all []*iceberg.Schema, spec iceberg.PartitionSpec) (*iceberg.Schema, error) {
	if checkSources(spec, current) == nil {
		return current, nil
	}
	var found *iceberg.Schema
	for _, s := range all {
		if checkSources(spec, s) == nil && (found == nil || s.ID > found.ID) {
			found = s
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no schema has all source columns of partition spec %d: %w", spec.ID(), ErrTableFault)
	}
	return found, nil
}

// checkSources reports the first field of the spec, void ones aside, whose source column the schema lacks.
func checkSources(spec iceberg.PartitionSpec, schema *iceberg.Schema) error {
	for i := range spec.NumFields() {
		field := spec.Field(i)
		if _, void := field.Transform.(iceberg.VoidTransform); void {
			continue
		}
		if _, ok := schema.FindFieldByID(field.SourceID()); !ok {
			return fmt.Errorf("schema %d lacks column %d, the source of partition field %s", schema.ID, field.SourceID(), field.Name)
		}
	}
	return nil
}
