package deletes

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"

	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
)

// KeySchema finds the columns of equality deletes over all schemas that a table ever had: a delete may name a column that was dropped since,
// and old data files still carry it.
type KeySchema struct {
	// Schemas are the table's, oldest first; the newest that has a column gives its type.
	Schemas []*iceberg.Schema
	// Names is the table's name mapping.
	Names iceberg.NameMapping
	// Defaults are the initial defaults by field ID, over all schemas.
	Defaults map[int]json.RawMessage
}

// target builds what key columns are read as: the columns of the IDs, nested as in the table, every node optional. All files of one set of IDs
// are read with one target, so that promoted types compare in the wider type.
func (k *KeySchema) target(ids []int) (*projection.Target, error) {
	var fields []iceberg.NestedField
	for _, id := range slices.Sorted(slices.Values(ids)) {
		chain, err := k.find(id)
		if err != nil {
			return nil, err
		}
		fields = merge(fields, chain)
	}
	l, err := layout.New(iceberg.NewSchema(0, fields...), false)
	if err != nil {
		return nil, fmt.Errorf("read equality columns %v: %w: %w", ids, err, ErrUnusable)
	}
	if len(l.Leaves) != len(ids) {
		return nil, fmt.Errorf("equality columns %v are no primitive columns: %w", ids, ErrUnusable)
	}
	return &projection.Target{Layout: l, Names: k.Names, Defaults: k.Defaults}, nil
}

// find returns the fields from the root to a column, each struct cut down to the next one.
func (k *KeySchema) find(id int) (iceberg.NestedField, error) {
	for _, s := range slices.Backward(k.Schemas) {
		if f, ok := chain(s.Fields(), id); ok {
			return f, nil
		}
	}
	return iceberg.NestedField{}, fmt.Errorf("equality column %d is in no schema of the table outside of lists and maps: %w", id, ErrUnusable)
}

func chain(fields []iceberg.NestedField, id int) (iceberg.NestedField, bool) {
	for _, f := range fields {
		f.Required = false
		if f.ID == id {
			_, primitive := f.Type.(iceberg.PrimitiveType)
			return f, primitive
		}
		if st, ok := f.Type.(*iceberg.StructType); ok {
			if inner, ok := chain(st.FieldList, id); ok {
				f.Type = &iceberg.StructType{FieldList: []iceberg.NestedField{inner}}
				return f, true
			}
		}
	}
	return iceberg.NestedField{}, false
}

// merge adds a chain to fields; chains that start in the same structs share them.
func merge(fields []iceberg.NestedField, f iceberg.NestedField) []iceberg.NestedField {
	for i, have := range fields {
		if have.ID != f.ID {
			continue
		}
		a, isStruct := have.Type.(*iceberg.StructType)
		b, both := f.Type.(*iceberg.StructType)
		if isStruct && both {
			fields[i].Type = &iceberg.StructType{FieldList: merge(slices.Clone(a.FieldList), b.FieldList[0])}
		}
		return fields
	}
	return append(fields, f)
}
