package demo

import "testing"

// TestSpellingsOfDifferentRowsDiffer guards the digest: values must not run into each other, and null is not the empty text.
func TestSpellingsOfDifferentRowsDiffer(t *testing.T) {
	t.Parallel()
	text := func(s string) value { return value{isText: true, text: s} }
	rows := [][]value{
		{text("ab"), text("c")},
		{text("a"), text("bc")},
		{text(""), text("abc")},
		{{null: true}, text("abc")},
		{text("abc"), {null: true}},
		{{number: 1}, {number: 2}},
		{{number: 2}, {number: 1}},
		{{isFloat: true, float: 1}, {number: 2}},
	}
	seen := map[string]int{}
	for i, r := range rows {
		var spelling []byte
		for _, v := range r {
			spelling = v.appendTo(spelling)
		}
		if before, twice := seen[string(spelling)]; twice {
			t.Errorf("rows %d and %d have one spelling", before, i)
		}
		seen[string(spelling)] = i
	}
}
