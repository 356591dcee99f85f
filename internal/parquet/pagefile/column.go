package pagefile

import (
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/encoding"
	"firn/internal/parquet/layout"
)

// order is how a leaf's values compare in statistics. Parts of a variant and geometries have none.
func order(leaf *layout.Leaf) encoding.Order {
	_, decimal := leaf.Type.(iceberg.DecimalType)
	_, geometry := leaf.Type.(iceberg.GeometryType)
	switch {
	case leaf.Part || geometry:
		return encoding.Undefined
	case leaf.Kind == layout.Int32 || leaf.Kind == layout.Int64:
		return encoding.Signed
	case leaf.Kind == layout.Float || leaf.Kind == layout.Double:
		return encoding.Floating
	case decimal:
		return encoding.BigDecimal
	}
	return encoding.Bytewise
}

func isText(leaf *layout.Leaf) bool {
	_, text := leaf.Type.(iceberg.StringType)
	return text
}
