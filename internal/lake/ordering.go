package lake

import (
	"encoding/json"
	"fmt"

	"firn/internal/decide"
	"firn/internal/decide/ordering"
	"firn/internal/decide/where"
	"firn/internal/maintenance"
)

// WhereSchema describes the table's columns and specs to a condition.
func (t *Table) WhereSchema() (where.Schema, error) {
	schema, err := json.Marshal(t.Metadata.CurrentSchema())
	if err != nil {
		return where.Schema{}, fmt.Errorf("encode schema: %w", err)
	}
	var specs []json.RawMessage
	for _, spec := range t.Metadata.PartitionSpecs() {
		data, err := json.Marshal(&spec)
		if err != nil {
			return where.Schema{}, fmt.Errorf("encode partition spec: %w", err)
		}
		specs = append(specs, data)
	}
	return where.SchemaFromJSON(schema, specs)
}

// Ordering resolves the argument sort_order of rewrite_data_files, and the table's own sort order: see ordering.Resolve.
func (t *Table) Ordering(opts decide.DataFilesOptions, text string) (*maintenance.Ordering, error) {
	schema, err := t.WhereSchema()
	if err != nil {
		return nil, err
	}
	var orders []json.RawMessage
	for _, o := range t.Metadata.SortOrders() {
		data, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("encode sort order: %w", err)
		}
		orders = append(orders, data)
	}
	return ordering.Resolve(opts, text, ordering.NewTable(schema, opts.CurrentSpecID, orders, t.Metadata.DefaultSortOrder()))
}
