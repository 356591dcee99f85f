package lake

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/iceberg-go"

	"firn/internal/decide"
	"firn/internal/maintenance"
)

// PlannedDelete is a live position delete file or deletion vector in the terms of decide.PositionDeletes. Dangling is left to the caller.
func (t *Table) PlannedDelete(e Entry) (decide.PositionDelete, error) {
	spec := t.Metadata.PartitionSpecByID(e.SpecID)
	if spec == nil {
		return decide.PositionDelete{}, fmt.Errorf("%s has unknown partition spec %d: %w", e, e.SpecID, ErrTableFault)
	}
	key, err := PartitionKey(*spec, e.File.Partition())
	if err != nil {
		return decide.PositionDelete{}, fmt.Errorf("%s: %w", e, err)
	}
	packing, err := packingKey(*spec, e.File.Partition())
	if err != nil {
		return decide.PositionDelete{}, fmt.Errorf("%s: %w", e, err)
	}
	d := decide.PositionDelete{
		FileStats: maintenance.FileStats{
			Path: e.File.FilePath(), SizeBytes: DeleteSizeBytes(e.File), RecordCount: e.File.Count(), SpecID: e.SpecID, Partition: key,
			DataSequence: e.DataSequence,
		},
		PackingKey: packing, Vector: IsDeletionVector(e.File),
	}
	switch offset := e.File.ContentOffset(); {
	case !d.Vector:
		d.Unsupported = unsupported(e.File)
	case offset != nil:
		d.Path += "#" + strconv.FormatInt(*offset, 10)
	}
	if path, scoped := FileScoped(e.File); scoped {
		d.Target = SameFile(path)
	}
	return d, nil
}

// DeleteSizeBytes is the size of a delete file as Spark counts it: of a deletion vector its blob, not the Puffin file around it.
func DeleteSizeBytes(f iceberg.DataFile) int64 {
	if size := f.ContentSizeInBytes(); IsDeletionVector(f) && size != nil {
		return *size
	}
	return f.FileSizeBytes()
}

// packingKey spells a partition over the fields of all specs of a table, as Java coerces it: fields that are null or that the spec lacks are left
// out, so that tuples of different specs may be equal.
func packingKey(spec iceberg.PartitionSpec, partition map[int]any) (string, error) {
	var fields []iceberg.PartitionField
	values := map[int]any{}
	for _, field := range spec.Fields() {
		if _, void := field.Transform.(iceberg.VoidTransform); !void && partition[field.FieldID] != nil {
			fields = append(fields, field)
			values[field.FieldID] = partition[field.FieldID]
		}
	}
	slices.SortFunc(fields, func(a, b iceberg.PartitionField) int { return cmp.Compare(a.FieldID, b.FieldID) })
	return PartitionKey(iceberg.NewPartitionSpecID(spec.ID(), fields...), values)
}
