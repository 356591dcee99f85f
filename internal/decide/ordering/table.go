package ordering

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"firn/internal/decide"
	"firn/internal/decide/where"
	"firn/internal/maintenance"
)

// transforms are the names that Spark's extensions take for functions of one column.
func transforms() []string {
	return []string{
		"identity", "bucket", "truncate", "year", "years", "month", "months", "day", "days", "date", "hour", "hours", "date_hour", "zorder",
		"hilbert",
	}
}

// transformOf maps a function to the transform's name in metadata; sized ones have a number.
func transformOf(function string) (name string, sized bool) {
	switch function {
	case "", "identity":
		return "identity", false
	case "bucket", "truncate":
		return function, true
	case "year", "years", "month", "months", "day", "days", "hour", "hours":
		return strings.TrimSuffix(function, "s"), false
	case "date":
		return "day", false
	case "date_hour":
		return "hour", false
	}
	return "", false
}

// applies is the table of transforms and source types of the Iceberg specification.
func applies(transform string, kind where.TypeKind) bool {
	timestamp := kind == where.TypeTimestamp || kind == where.TypeTimestampNS
	switch transform {
	case "identity":
		return true
	case "bucket":
		return kind != where.TypeBoolean && kind != where.TypeFloat && kind != where.TypeDouble
	case "truncate":
		return slices.Contains([]where.TypeKind{where.TypeInt, where.TypeLong, where.TypeDecimal, where.TypeString, where.TypeBinary}, kind)
	case "hour":
		return timestamp
	default:
		return timestamp || kind == where.TypeDate
	}
}

// metadataOrder is a sort order as table metadata has it.
type metadataOrder struct {
	ID     int             `json:"order-id"`
	Fields []metadataField `json:"fields"`
}

type metadataField struct {
	SourceID  int    `json:"source-id"`
	SourceIDs []int  `json:"source-ids"`
	Transform string `json:"transform"`
	Direction string `json:"direction"`
	NullOrder string `json:"null-order"`
}

// fields translates an order of the table.
func (o metadataOrder) fields(t Table) ([]maintenance.OrderingField, error) {
	var out []maintenance.OrderingField
	for _, f := range o.Fields {
		source := f.SourceID
		if len(f.SourceIDs) == 1 {
			source = f.SourceIDs[0]
		}
		name, _, _ := strings.Cut(f.Transform, "[")
		i := slices.IndexFunc(t.Columns, func(c where.Column) bool { return c.FieldID == source })
		switch canonical, _ := transformOf(name); {
		case len(f.SourceIDs) > 1 || canonical != name:
			return nil, fmt.Errorf("the transform %s is not known: %w", f.Transform, decide.ErrRefused)
		case i < 0:
			return nil, fmt.Errorf("column %d is not in the schema: %w", source, decide.ErrRefused)
		case t.Columns[i].Type.Kind == where.TypeNested || !applies(name, t.Columns[i].Type.Kind):
			return nil, fmt.Errorf("%s does not apply to column %s: %w", f.Transform, t.Columns[i].Name(), decide.ErrRefused)
		}
		out = append(out, maintenance.OrderingField{
			SourceID: source, Transform: f.Transform, Descending: f.Direction == "desc", NullsLast: f.NullOrder == "nulls-last",
		})
	}
	return out, nil
}

// orders reads the table's orders.
func (t Table) orders() ([]metadataOrder, error) {
	var out []metadataOrder
	for _, raw := range t.SortOrders {
		var o metadataOrder
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, fmt.Errorf("read a sort order of the table: %w: %w", err, decide.ErrRefused)
		}
		out = append(out, o)
	}
	return out, nil
}

// own is the table's current order, nil when it is unsorted.
func (t Table) own() (*maintenance.Ordering, error) {
	orders, err := t.orders()
	if err != nil {
		return nil, err
	}
	for _, o := range orders {
		if o.ID != t.SortOrderID || len(o.Fields) == 0 {
			continue
		}
		fields, err := o.fields(t)
		if err != nil {
			return nil, err
		}
		return &maintenance.Ordering{Fields: fields, SortOrderID: o.ID}, nil
	}
	return nil, nil
}

// same is the ID of the table's order that has exactly these fields, 0 when there is none.
func (t Table) same(fields []maintenance.OrderingField) int {
	orders, err := t.orders()
	if err != nil {
		return 0
	}
	for _, o := range orders {
		if own, err := o.fields(t); err == nil && len(own) > 0 && slices.Equal(own, fields) {
			return o.ID
		}
	}
	return 0
}
