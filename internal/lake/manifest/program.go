package manifest

import (
	"encoding/json"
	"fmt"

	"firn/internal/lake/avro"
)

// slot is a field of an entry or of its file that this package knows.
type slot uint8

const (
	unknown slot = iota
	status
	snapshotID
	sequence
	fileSequence
	dataFile
	content
	filePath
	fileFormat
	recordCount
	fileSize
	sortOrderID
	firstRowID
	referencedFile
	contentOffset
	contentSize
	blockSize
	// The fields from here on are kept as bytes.
	partition
	columnSizes
	valueCounts
	nullCounts
	nanCounts
	distinctCounts
	lowerBounds
	upperBounds
	keyMetadata
	splitOffsets
	equalityIDs
	slots
)

// kept is the number of fields that are kept as bytes.
const kept = slots - partition

// idOf is the field ID of a slot (specification, "Manifests").
func idOf(s slot) int {
	return [slots]int{
		unknown: avro.NoID, status: 0, snapshotID: 1, sequence: 3, fileSequence: 4, dataFile: 2, content: 134, filePath: 100, fileFormat: 101,
		recordCount: 103, fileSize: 104, sortOrderID: 140, firstRowID: 142, referencedFile: 143, contentOffset: 144, contentSize: 145, blockSize: 105, partition: 102,
		columnSizes: 108, valueCounts: 109, nullCounts: 110, nanCounts: 137, distinctCounts: 111, lowerBounds: 125, upperBounds: 128,
		keyMetadata: 131, splitOffsets: 132, equalityIDs: 135,
	}[s]
}

func nameOf(s slot) string {
	return [slots]string{
		unknown: "", status: "status", snapshotID: "snapshot_id", sequence: "sequence_number", fileSequence: "file_sequence_number",
		dataFile: "data_file", content: "content", filePath: "file_path", fileFormat: "file_format", recordCount: "record_count",
		fileSize: "file_size_in_bytes", sortOrderID: "sort_order_id", firstRowID: "first_row_id", referencedFile: "referenced_data_file",
		contentOffset: "content_offset", contentSize: "content_size_in_bytes", blockSize: "block_size_in_bytes", partition: "partition", columnSizes: "column_sizes",
		valueCounts: "value_counts", nullCounts: "null_value_counts", nanCounts: "nan_value_counts", distinctCounts: "distinct_counts",
		lowerBounds: "lower_bounds", upperBounds: "upper_bounds", keyMetadata: "key_metadata", splitOffsets: "split_offsets",
		equalityIDs: "equality_ids",
	}[s]
}

// slotOf finds a field by its ID or, when its writer gave none, by its name.
func slotOf(id int, name string) slot {
	for s := status; s < slots; s++ {
		if id == idOf(s) || id == avro.NoID && name == nameOf(s) {
			return s
		}
	}
	return unknown
}

// op reads or skips one field.
type op struct {
	slot slot
	t    *avro.Type
}

// program reads the entries of a schema.
type program struct {
	entry, file []op
	// types are those of the kept fields, nil where the schema lacks one; verbatim are fields whose bytes our own schema has too.
	types    [kept]*avro.Type
	verbatim [kept]bool
	parts    []part
	// list is set for the schema of a manifest list, and nothing else then.
	list *list
}

// part is a field of the partition tuple.
type part struct {
	id int
	t  *avro.Type
	// days tells that a number counts days whatever the schema says (specification: day transforms).
	days bool
}

// specField is a field in a manifest's own partition-spec.
type specField struct {
	Name      string `json:"name"`
	ID        int    `json:"field-id"`
	Transform string `json:"transform"`
}

// compile makes the program of a manifest's schema. spec is the JSON of its partition fields.
func compile(schema, spec []byte) (*program, error) {
	root, err := avro.ParseSchema(schema)
	if err != nil {
		return nil, err
	}
	var fields []specField
	if len(spec) > 0 {
		// A spec that cannot be read is none: most of what it says stands in the schema too.
		if err := json.Unmarshal(spec, &fields); err != nil {
			fields = nil
		}
	}
	return compileType(root, fields)
}

func compileType(root *avro.Type, fields []specField) (*program, error) {
	p := &program{}
	if root.Kind != avro.Record {
		return nil, fmt.Errorf("the schema is a %s: %w", root.Kind, ErrTableFault)
	}
	var file *avro.Type
	for _, f := range root.Fields {
		s := slotOf(f.ID, f.Name)
		if s > dataFile {
			s = unknown
		}
		if s == dataFile {
			file = f.Type
		}
		p.entry = append(p.entry, op{s, f.Type})
	}
	if file == nil || file.Kind != avro.Record {
		return nil, fmt.Errorf("the schema has no record data_file: %w", ErrTableFault)
	}
	var met [slots]bool
	for _, f := range file.Fields {
		s := slotOf(f.ID, f.Name)
		if s <= dataFile {
			s = unknown
		}
		p.file = append(p.file, op{s, f.Type})
		met[s] = true
		if !readable(s, f.Type) {
			return nil, fmt.Errorf("field %s is of a type that it cannot have: %w", f.Name, ErrTableFault)
		}
		if s >= partition {
			p.types[s-partition] = f.Type
			p.verbatim[s-partition] = sameForm(s, f.Type)
		}
	}
	for _, s := range []slot{filePath, fileFormat, recordCount, fileSize, partition} {
		if !met[s] {
			return nil, fmt.Errorf("the schema lacks field %d of a file: %w", idOf(s), ErrTableFault)
		}
	}
	return p, p.partition(fields)
}

// partition finds the fields of the partition tuple.
func (p *program) partition(fields []specField) error {
	t := p.types[0]
	if t == nil {
		return nil
	}
	if t.Kind != avro.Record {
		return fmt.Errorf("the partition is a %s: %w", t.Kind, ErrTableFault)
	}
	for _, f := range t.Fields {
		at := part{id: f.ID, t: f.Type}
		for _, known := range fields {
			if at.id == avro.NoID && known.Name == f.Name {
				at.id = known.ID
			}
			if at.id == known.ID && known.Transform == "day" {
				at.days = true
			}
		}
		if at.id == avro.NoID {
			return fmt.Errorf("partition field %s has no field ID: %w", f.Name, ErrTableFault)
		}
		p.parts = append(p.parts, at)
	}
	return nil
}

// sameForm reports whether values of t are encoded as our own schema encodes the field.
func sameForm(s slot, t *avro.Type) bool {
	value, nullFirst := t.Optional()
	if !nullFirst {
		return false
	}
	switch s { //nolint:exhaustive // the others are not copied
	case columnSizes, valueCounts, nullCounts, nanCounts:
		return isList(value, avro.Long)
	case lowerBounds, upperBounds:
		return isList(value, avro.Bytes)
	case keyMetadata:
		return value.Kind == avro.Bytes
	case splitOffsets, equalityIDs:
		return value.Kind == avro.Array && isWhole(value.Items)
	}
	return false
}

// isList reports whether t is Iceberg's form of a map from field IDs: a list of pairs.
func isList(t *avro.Type, value avro.Kind) bool {
	if t.Kind != avro.Array || t.Items.Kind != avro.Record || len(t.Items.Fields) != 2 {
		return false
	}
	key, item := t.Items.Fields[0], t.Items.Fields[1]
	if !isWhole(key.Type) || key.Name != "key" {
		return false
	}
	if value == avro.Long {
		return isWhole(item.Type)
	}
	return item.Type.Kind == value
}

// readable reports whether a field that is kept as bytes has a type from which its values can be read.
func readable(s slot, t *avro.Type) bool {
	branches := []*avro.Type{t}
	if t.Kind == avro.Union {
		branches = t.Branches
	}
	for _, b := range branches {
		ok := true
		switch s { //nolint:exhaustive // the others are checked when they are read
		case columnSizes, valueCounts, nullCounts, nanCounts, distinctCounts:
			ok = hasPairs(b, func(k avro.Kind) bool { return k == avro.Int || k == avro.Long })
		case lowerBounds, upperBounds:
			ok = hasPairs(b, func(k avro.Kind) bool { return k == avro.Bytes || k == avro.String })
		case keyMetadata:
			ok = b.Kind == avro.Bytes
		case splitOffsets, equalityIDs:
			ok = b.Kind == avro.Array && isWhole(b.Items)
		}
		if !ok && b.Kind != avro.Null {
			return false
		}
	}
	return true
}

// hasPairs reports whether t is a list of records with a key and a value.
func hasPairs(t *avro.Type, value func(avro.Kind) bool) bool {
	if t.Kind != avro.Array || t.Items.Kind != avro.Record {
		return false
	}
	keys, values := 0, 0
	for _, f := range t.Items.Fields {
		switch {
		case f.Name == "key" && isWhole(f.Type) && values == 0:
			keys++
		case f.Name == "value" && value(f.Type.Kind):
			values++
		case f.Name == "key", f.Name == "value":
			return false
		}
	}
	return keys == 1 && values == 1
}

func isWhole(t *avro.Type) bool { return t.Kind == avro.Int || t.Kind == avro.Long }
