package where_test

import (
	"testing"

	"firn/internal/decide/where"
)

// TestSystemFunctions: a condition on what a transform makes of a column is asked of partitions of that very transform, and of bounds where the transform keeps
// the order.
func TestSystemFunctions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		spec int
		part where.Value
		want bool
	}{
		{"system.bucket(4, i) = 1", 2, where.Whole(1), true},
		{"lake.system.bucket(4, i) = 1", 2, where.Whole(2), false},
		{"lake.system.bucket(4, i) != 1", 2, where.Whole(1), false},
		{"lake.system.bucket(4, i) IN (0, 3)", 2, where.Whole(1), false},
		{"lake.system.bucket(8, i) = 1", 2, where.Whole(2), true}, // another transform says nothing
		{"NOT system.bucket(4, i) < 2", 2, where.Whole(1), false},
		{"system.bucket(4, i) IS NULL", 2, where.Whole(1), false},
		{"system.bucket(4, i) IS NULL", 2, where.Null(), true},
		{"system.truncate(3, s) = 'abc'", 3, where.Text("abd"), false},
		{"system.truncate(3, s) LIKE 'ab%'", 3, where.Text("abd"), true},
		{"system.days(ts) = DATE '1970-01-11'", 7, where.Whole(10), true},
		{"system.days(ts) > '1970-01-11'", 7, where.Whole(10), false},
		{"system.years(ts) = 54", 5, where.Whole(54), true},
		{"system.hours(ts) BETWEEN 1 AND 2", 8, where.Whole(3), false},
		{"system.hours(ts) BETWEEN 1 AND 2", 0, where.Null(), true}, // unpartitioned
	} {
		f := where.File{RecordCount: 5, SpecID: c.spec, Partition: func(id int) (where.Value, bool) { return c.part, id == 1000 }}
		if got := parse(t, c.text).MayMatch(f); got != c.want {
			t.Errorf("%s in partition %v of spec %d: %v", c.text, c.part, c.spec, got)
		}
	}
	day := int64(86_400_000_000)
	for text, want := range map[string]bool{
		"system.days(ts) = DATE '1970-01-04'": true, "system.days(ts) = DATE '1970-01-06'": false, "system.days(ts) >= '1970-01-05'": true,
		"system.days(ts) < '1970-01-03'": false, "system.months(ts) = 0": true, "system.years(ts) > 0": false, "system.bucket(4, ts) = 1": true,
	} {
		if got := parse(t, text).MayMatch(bounded(5, i64(2*day+1), i64(4*day+5))); got != want {
			t.Errorf("%s over three days: %v", text, got)
		}
	}
	for _, text := range []string{
		"system.bucket(0, i) = 1", "system.bucket(i) = 1", "system.days(i) = 1", "system.hours(d) = 1", "system.truncate(2, d) = '2020-01-01'", "system.bucket(4, f) = 1",
		"other.bucket(4, i) = 1", "system.iceberg_version() = '1'", "system.bucket(4, nosuch) = 1", "system.bucket(4, i) = 'x'", "system.bucket(4, i)",
	} {
		if _, err := where.Parse(text, schema(t), someday()); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
