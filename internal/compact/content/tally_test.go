package content_test

import (
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/content"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// TestTallyShowsEveryChange: a value that is lost, changed, doubled, or that moved to another place of a nested row changes the tally; the order
// of rows does not.
func TestTallyShowsEveryChange(t *testing.T) {
	t.Parallel()
	l, err := layout.New(iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "l", Type: &iceberg.ListType{ElementID: 2, Element: iceberg.PrimitiveTypes.Int64}}), false)
	if err != nil {
		t.Fatal(err)
	}
	leaf := l.Leaves[0]
	sum := func(def, rep []int16, values ...int64) content.Tally {
		b := &column.Batch{Levels: len(def), Def: def, Rep: rep}
		b.Int64 = values
		for _, r := range rep {
			if r == 0 {
				b.Rows++
			}
		}
		var out content.Tally
		out.Add(leaf, b, []column.Run{{To: int64(b.Rows)}})
		return out
	}
	// Rows: [1, 2], [null], null.
	base := sum([]int16{3, 3, 2, 0}, []int16{0, 1, 0, 0}, 1, 2)
	if same := sum([]int16{0, 3, 3, 2}, []int16{0, 0, 1, 0}, 1, 2); same != base {
		t.Error("the order of rows shows")
	}
	for name, other := range map[string]content.Tally{
		"lost":         sum([]int16{3, 2, 0}, []int16{0, 0, 0}, 1),
		"changed":      sum([]int16{3, 3, 2, 0}, []int16{0, 1, 0, 0}, 1, 3),
		"moved":        sum([]int16{3, 3, 2, 0}, []int16{0, 0, 1, 0}, 1, 2),
		"null to none": sum([]int16{3, 3, 1, 0}, []int16{0, 1, 0, 0}, 1, 2),
		"doubled":      sum([]int16{3, 3, 3, 2, 0}, []int16{0, 1, 1, 0, 0}, 1, 2, 2),
	} {
		if other == base {
			t.Errorf("%s: the tally is the same", name)
		}
	}
}
