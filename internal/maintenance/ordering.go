package maintenance

// Curve is a space-filling curve by which rows are ordered instead of column after column.
type Curve string

// The curves. NoCurve orders by the first field, equal rows by the second, and so on.
const (
	NoCurve Curve = ""
	ZOrder  Curve = "zorder"
	Hilbert Curve = "hilbert"
)

// Ordering says how the rows of a file group are ordered. Rows that it does not tell apart keep the order of the inputs.
type Ordering struct {
	// Curve orders by all fields at once; fields of a curve have no transform, direction or null order.
	Curve  Curve           `json:"curve,omitempty"`
	Fields []OrderingField `json:"fields"`
	// SortOrderID is the table's sort order that the outputs follow, 0 when they follow none.
	SortOrderID int `json:"sort_order_id,omitempty"`
	// VarLengthContributionBytes is what a string or binary value gives to a curve, MaxOutputSizeBytes the longest key of a z-order.
	VarLengthContributionBytes int `json:"var_length_contribution_bytes,omitempty"`
	MaxOutputSizeBytes         int `json:"max_output_size_bytes,omitempty"`
	// PartSizeBytes cuts the inputs into parts that are ordered each by itself, as the tasks of a bin-pack are; 0 orders the group as a whole.
	PartSizeBytes int64 `json:"part_size_bytes,omitempty"`
}

// OrderingField is one term of an ordering.
type OrderingField struct {
	// SourceID is the field ID of the column, Transform what is applied to it, as metadata spells it ("identity", "bucket[16]", "day").
	SourceID  int    `json:"source_id"`
	Transform string `json:"transform"`
	// Descending and NullsLast are direction and null order; the null order does not turn with the direction.
	Descending bool `json:"descending,omitempty"`
	NullsLast  bool `json:"nulls_last,omitempty"`
}
