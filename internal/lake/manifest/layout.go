package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/avro"
)

// Layout is the form in which entries of one partition spec are written: that of the specification for a format version. It is immutable.
type Layout struct {
	version int
	spec    iceberg.PartitionSpec
	schema  *iceberg.Schema
	slots   []slot
	parts   []part
	// entry is the schema, types are those of the partition fields in the table.
	entry *avro.Type
	memo  *Memo
}

// Lent is the layout with a Memo whose buffers its writers borrow.
func (l *Layout) Lent(memo *Memo) *Layout {
	lent := *l
	lent.memo = memo
	return &lent
}

// NewLayout describes manifests of a format version and partition spec. The schema must hold the spec's source columns.
func NewLayout(version int, spec iceberg.PartitionSpec, schema *iceberg.Schema) (*Layout, error) {
	l := &Layout{version: version, spec: spec, schema: schema, slots: slotsOf(version)}
	if l.slots == nil {
		return nil, fmt.Errorf("manifests of format version %d: %w", version, ErrUnsupported)
	}
	var tuple []avro.Field
	for _, f := range spec.PartitionType(schema).FieldList {
		t, err := typeOf(f.Type)
		if err != nil {
			return nil, fmt.Errorf("partition field %s of spec %d: %w", f.Name, spec.ID(), err)
		}
		l.parts = append(l.parts, part{id: f.ID, t: t})
		tuple = append(tuple, avro.Field{Name: f.Name, ID: f.ID, Type: t})
	}
	var file []avro.Field
	for _, s := range l.slots {
		t := formOf(s)
		if s == partition {
			t = avro.NewRecord("r102", tuple...)
		}
		file = append(file, avro.Field{Name: nameOf(s), ID: idOf(s), Type: t})
	}
	long := avro.Scalar(avro.Long)
	fields := []avro.Field{{Name: nameOf(status), ID: idOf(status), Type: avro.Scalar(avro.Int)}}
	if version == 1 {
		fields = append(fields, avro.Field{Name: nameOf(snapshotID), ID: idOf(snapshotID), Type: long})
	} else {
		for _, s := range []slot{snapshotID, sequence, fileSequence} {
			fields = append(fields, avro.Field{Name: nameOf(s), ID: idOf(s), Type: avro.NewOptional(long)})
		}
	}
	fields = append(fields, avro.Field{Name: nameOf(dataFile), ID: idOf(dataFile), Type: avro.NewRecord("r2", file...)})
	l.entry = avro.NewRecord("manifest_entry", fields...)
	return l, nil
}

// slotsOf are the fields of a file in a format version. Readers go by field ID; the tuple stands last, as iceberg-go writes it. Version 2 has
// referenced_data_file, as Java writes it.
func slotsOf(version int) []slot {
	stats := []slot{columnSizes, valueCounts, nullCounts, nanCounts, lowerBounds, upperBounds, keyMetadata, splitOffsets}
	switch version {
	case 1:
		return slices.Concat([]slot{filePath, fileFormat, recordCount, fileSize, blockSize}, stats, []slot{sortOrderID, partition})
	case 2:
		return slices.Concat([]slot{content, filePath, fileFormat, recordCount, fileSize}, stats,
			[]slot{equalityIDs, sortOrderID, referencedFile, partition})
	case 3:
		return slices.Concat([]slot{content, filePath, fileFormat, recordCount, fileSize}, stats,
			[]slot{equalityIDs, sortOrderID, firstRowID, referencedFile, contentOffset, contentSize, partition})
	}
	return nil
}

// formOf is the type of a field of a file (specification, "Manifests").
func formOf(s slot) *avro.Type {
	switch s { //nolint:exhaustive // an entry's own fields are no file's
	case content:
		return avro.Scalar(avro.Int)
	case filePath, fileFormat:
		return avro.Scalar(avro.String)
	case recordCount, fileSize, blockSize:
		return avro.Scalar(avro.Long)
	case sortOrderID:
		return avro.NewOptional(avro.Scalar(avro.Int))
	case firstRowID, contentOffset, contentSize:
		return avro.NewOptional(avro.Scalar(avro.Long))
	case referencedFile:
		return avro.NewOptional(avro.Scalar(avro.String))
	case keyMetadata:
		return avro.NewOptional(avro.Scalar(avro.Bytes))
	case splitOffsets:
		return avro.NewOptional(avro.NewList(avro.Scalar(avro.Long), 133))
	case equalityIDs:
		return avro.NewOptional(avro.NewList(avro.Scalar(avro.Int), 136))
	case columnSizes:
		return pairsOf(117, 118, avro.Long)
	case valueCounts:
		return pairsOf(119, 120, avro.Long)
	case nullCounts:
		return pairsOf(121, 122, avro.Long)
	case nanCounts:
		return pairsOf(138, 139, avro.Long)
	case lowerBounds:
		return pairsOf(126, 127, avro.Bytes)
	case upperBounds:
		return pairsOf(129, 130, avro.Bytes)
	}
	return nil
}

func pairsOf(key, value int, kind avro.Kind) *avro.Type {
	return avro.NewOptional(avro.NewPairs(fmt.Sprintf("k%d_v%d", key, value), avro.Field{Name: "key", ID: key, Type: avro.Scalar(avro.Int)},
		avro.Field{Name: "value", ID: value, Type: avro.Scalar(kind)}))
}

// typeOf is the Avro type of a partition field (specification, "Avro").
func typeOf(t iceberg.Type) (*avro.Type, error) {
	if _, unknown := t.(iceberg.UnknownType); unknown {
		return avro.Scalar(avro.Null), nil
	}
	value := valueOf(t)
	if value == nil {
		return nil, fmt.Errorf("type %s cannot be a partition's: %w", t, ErrUnsupported)
	}
	return avro.NewOptional(value), nil
}

func valueOf(t iceberg.Type) *avro.Type {
	switch t := t.(type) {
	case iceberg.BooleanType:
		return avro.Scalar(avro.Boolean)
	case iceberg.Int32Type:
		return avro.Scalar(avro.Int)
	case iceberg.Int64Type:
		return avro.Scalar(avro.Long)
	case iceberg.Float32Type:
		return avro.Scalar(avro.Float)
	case iceberg.Float64Type:
		return avro.Scalar(avro.Double)
	case iceberg.StringType:
		return avro.Scalar(avro.String)
	case iceberg.BinaryType:
		return avro.Scalar(avro.Bytes)
	case iceberg.DateType:
		return avro.Whole(avro.Int, "date")
	case iceberg.TimeType:
		return avro.Whole(avro.Long, "time-micros")
	case iceberg.TimestampType:
		return avro.Instant("timestamp-micros", false)
	case iceberg.TimestampTzType:
		return avro.Instant("timestamp-micros", true)
	case iceberg.TimestampNsType:
		return avro.Instant("timestamp-nanos", false)
	case iceberg.TimestampTzNsType:
		return avro.Instant("timestamp-nanos", true)
	case iceberg.UUIDType:
		return avro.NewFixed("uuid_fixed", 16, "uuid")
	case iceberg.FixedType:
		return avro.NewFixed(fmt.Sprintf("fixed_%d", t.Len()), t.Len(), "")
	case iceberg.DecimalType:
		return avro.NewDecimal(decimalBytes(t.Precision()), t.Precision(), t.Scale())
	}
	return nil
}

// decimalBytes is the least number of bytes that hold every decimal of a precision.
func decimalBytes(precision int) int {
	bits := float64(precision)*3.321928094887362 + 1 // log2(10), and the sign
	return int(bits/8) + 1
}

// header are the values of a manifest's header.
func (l *Layout) header(content iceberg.ManifestContent) (map[string][]byte, error) {
	schema, err := json.Marshal(l.schema)
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	fields := []iceberg.PartitionField{}
	for _, f := range l.spec.Fields() {
		fields = append(fields, f)
	}
	spec, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode partition spec: %w", err)
	}
	entry, err := l.entry.Schema()
	if err != nil {
		return nil, fmt.Errorf("encode Avro schema: %w", err)
	}
	return map[string][]byte{
		"schema":            schema,
		"schema-id":         []byte(strconv.Itoa(l.schema.ID)),
		"partition-spec":    spec,
		"partition-spec-id": []byte(strconv.Itoa(l.spec.ID())),
		"format-version":    []byte(strconv.Itoa(l.version)),
		"content":           []byte(content.String()),
		"avro.schema":       entry,
	}, nil
}
