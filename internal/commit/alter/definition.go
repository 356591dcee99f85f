package alter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/decide"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// WriteOrder is WRITE ORDERED BY and its kin.
type WriteOrder struct {
	// Order is the sort order in Spark's syntax, "" for none.
	Order string
	// Distribution is the value for write.distribution-mode, "" to leave it.
	Distribution string
}

func (w WriteOrder) change(head *lake.Table) ([]table.Requirement, []table.Update, error) {
	updates, err := w.order(head)
	if err != nil {
		return nil, nil, err
	}
	const mode = "write.distribution-mode"
	if w.Distribution != "" && head.Metadata.Properties()[mode] != w.Distribution {
		updates = append(updates, table.NewSetPropertiesUpdate(iceberg.Properties{mode: w.Distribution}))
	}
	requirements := []table.Requirement{
		table.AssertCurrentSchemaID(head.Metadata.CurrentSchema().ID), table.AssertDefaultSortOrderID(head.Metadata.DefaultSortOrder()),
	}
	return requirements, updates, nil
}

// order makes the order the current one; an order that the table had before gets its ID again.
func (w WriteOrder) order(head *lake.Table) ([]table.Update, error) {
	id, order := table.UnsortedSortOrderID, table.UnsortedSortOrder
	if w.Order != "" {
		o, err := head.Ordering(decide.DataFilesOptions{Strategy: decide.Sort}, w.Order)
		if err != nil {
			return nil, err
		}
		if o.Curve != maintenance.NoCurve {
			return nil, fmt.Errorf("a table cannot be ordered by %s: give it to rewrite_data_files", o.Curve)
		}
		if id = o.SortOrderID; id == 0 {
			return addOrder(head, o.Fields)
		}
	}
	if id == head.Metadata.DefaultSortOrder() {
		return nil, nil
	}
	if known := slices.ContainsFunc(head.Metadata.SortOrders(), func(o table.SortOrder) bool { return o.OrderID() == id }); !known {
		return []table.Update{table.NewAddSortOrderUpdate(&order), table.NewSetDefaultSortOrderUpdate(lastAdded)}, nil
	}
	return []table.Update{table.NewSetDefaultSortOrderUpdate(id)}, nil
}

// lastAdded stands for what the same change added.
const lastAdded = -1

func addOrder(head *lake.Table, fields []maintenance.OrderingField) ([]table.Update, error) {
	sorted := make([]table.SortField, len(fields))
	next := 1
	for _, o := range head.Metadata.SortOrders() {
		next = max(next, o.OrderID()+1)
	}
	for i, f := range fields {
		transform, err := iceberg.ParseTransform(f.Transform)
		if err != nil {
			return nil, err
		}
		sorted[i] = table.SortField{SourceIDs: []int{f.SourceID}, Transform: transform, Direction: table.SortASC, NullOrder: table.NullsFirst}
		if f.Descending {
			sorted[i].Direction = table.SortDESC
		}
		if f.NullsLast {
			sorted[i].NullOrder = table.NullsLast
		}
	}
	order, err := table.NewSortOrder(next, sorted)
	if err != nil {
		return nil, err
	}
	return []table.Update{table.NewAddSortOrderUpdate(&order), table.NewSetDefaultSortOrderUpdate(lastAdded)}, nil
}

// IdentifierFields is SET or DROP IDENTIFIER FIELDS.
type IdentifierFields struct {
	// Names are column paths.
	Names []string
	Drop  bool
}

func (f IdentifierFields) change(head *lake.Table) ([]table.Requirement, []table.Update, error) {
	schema := head.Metadata.CurrentSchema()
	named := make([]int, len(f.Names))
	for i, name := range f.Names {
		field, found := schema.FindFieldByName(name)
		switch {
		case !found:
			return nil, nil, fmt.Errorf("identifier field %s is not in the schema", name)
		case f.Drop && !slices.Contains(schema.IdentifierFieldIDs, field.ID):
			return nil, nil, fmt.Errorf("%s is not an identifier field", name)
		}
		if err := identifies(schema, name, field); err != nil && !f.Drop {
			return nil, nil, err
		}
		named[i] = field.ID
	}
	ids := named
	if f.Drop {
		ids = slices.DeleteFunc(slices.Clone(schema.IdentifierFieldIDs), func(id int) bool { return slices.Contains(named, id) })
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if have := slices.Sorted(slices.Values(schema.IdentifierFieldIDs)); slices.Equal(have, ids) {
		return nil, nil, nil
	}
	next := 0
	for _, s := range head.Metadata.Schemas() {
		next = max(next, s.ID+1)
	}
	requirements := []table.Requirement{
		table.AssertCurrentSchemaID(schema.ID), table.AssertLastAssignedFieldID(head.Metadata.LastColumnID()),
	}
	return requirements, []table.Update{
		table.NewAddSchemaUpdate(iceberg.NewSchemaWithIdentifiers(next, ids, schema.Fields()...)), table.NewSetCurrentSchemaUpdate(lastAdded),
	}, nil
}

// identifies is the specification's rule: a required primitive that is no floating-point number, in required structs only.
func identifies(schema *iceberg.Schema, name string, field iceberg.NestedField) error {
	_, primitive := field.Type.(iceberg.PrimitiveType)
	switch {
	case !primitive || field.Type.Equals(iceberg.PrimitiveTypes.Float32) || field.Type.Equals(iceberg.PrimitiveTypes.Float64):
		return fmt.Errorf("column %s of type %s cannot identify rows", name, field.Type)
	case !field.Required:
		return fmt.Errorf("column %s cannot identify rows: it is not required", name)
	}
	for at := strings.LastIndexByte(name, '.'); at > 0; at = strings.LastIndexByte(name[:at], '.') {
		parent, found := schema.FindFieldByName(name[:at])
		if _, nested := parent.Type.(*iceberg.StructType); !found || !nested || !parent.Required {
			return fmt.Errorf("column %s cannot identify rows: %s is no required struct", name, name[:at])
		}
	}
	return nil
}

// errMain keeps rows out of reach.
var errMain = errors.New("branch main holds the table's rows: it is moved and dropped by the engine that writes it")
