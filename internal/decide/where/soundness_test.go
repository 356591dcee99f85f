package where_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
	"pgregory.net/rapid"

	"firn/internal/decide/where"
)

// row is a row with an int, a string, a date and a timestamp, each nil or a value.
type row struct {
	i  *int64
	s  *string
	d  *int64 // days
	ts *int64 // microseconds
}

// truth is SQL's third value beside true and false: nil.
type truth = *bool

func of(b bool) truth { return &b }

func not(a truth) truth {
	if a == nil {
		return nil
	}
	return of(!*a)
}

func both(a, b truth) truth {
	switch {
	case a != nil && !*a, b != nil && !*b:
		return of(false)
	case a == nil || b == nil:
		return nil
	}
	return of(true)
}

// condition is a condition as text and as what it means for a row.
type condition struct {
	text string
	eval func(row) truth
}

func genCondition(t *rapid.T, depth int) condition {
	if depth > 0 {
		switch rapid.IntRange(0, 4).Draw(t, "node") {
		case 0:
			a := genCondition(t, depth-1)
			return condition{"NOT (" + a.text + ")", func(r row) truth { return not(a.eval(r)) }}
		case 1:
			a, b := genCondition(t, depth-1), genCondition(t, depth-1)
			return condition{"(" + a.text + ") AND (" + b.text + ")", func(r row) truth { return both(a.eval(r), b.eval(r)) }}
		case 2:
			a, b := genCondition(t, depth-1), genCondition(t, depth-1)
			return condition{"(" + a.text + ") OR (" + b.text + ")", func(r row) truth { return not(both(not(a.eval(r)), not(b.eval(r)))) }}
		}
	}
	switch rapid.IntRange(0, 3).Draw(t, "column") {
	case 0:
		v := rapid.Int64Range(-30, 30).Draw(t, "i")
		return leafOn(t, "i", func(r row) *int64 { return r.i }, v, fmt.Sprint)
	case 1:
		v := rapid.Int64Range(-400, 400).Draw(t, "d")
		return leafOn(t, "d", func(r row) *int64 { return r.d }, v, func(a ...any) string {
			return "DATE '" + time.Unix(a[0].(int64)*86400, 0).UTC().Format("2006-01-02") + "'"
		})
	case 2:
		v := genMicros(t)
		return leafOn(t, "ts", func(r row) *int64 { return r.ts }, v, func(a ...any) string {
			return "TIMESTAMP '" + time.UnixMicro(a[0].(int64)).UTC().Format("2006-01-02 15:04:05.999999") + "'"
		})
	}
	v := genText(t)
	if rapid.Bool().Draw(t, "prefix") {
		return prefixed(v)
	}
	return leafOn(t, "s", func(r row) *string { return r.s }, v, func(a ...any) string { return "'" + a[0].(string) + "'" })
}

func prefixed(v string) condition {
	return condition{"startswith(s, '" + v + "')", func(r row) truth {
		if r.s == nil {
			return nil
		}
		return of(strings.HasPrefix(*r.s, v))
	}}
}

func leafOn[T int64 | string](t *rapid.T, name string, get func(row) *T, v T, print func(...any) string) condition {
	compare := func(test func(T) bool) func(row) truth {
		return func(r row) truth {
			if x := get(r); x != nil {
				return of(test(*x))
			}
			return nil
		}
	}
	text := name + " %s " + print(v)
	switch op := rapid.SampledFrom([]string{"=", "!=", "<", "<=", ">", ">=", "is null", "in", "<=>"}).Draw(t, "op"); op {
	case "is null":
		return condition{name + " IS NULL", func(r row) truth { return of(get(r) == nil) }}
	case "in":
		return condition{name + " IN (" + print(v) + ", " + print(v) + ")", compare(func(x T) bool { return x == v })}
	case "<=>":
		return condition{fmt.Sprintf(text, op), func(r row) truth { return of(get(r) != nil && *get(r) == v) }}
	case "=":
		return condition{fmt.Sprintf(text, op), compare(func(x T) bool { return x == v })}
	case "!=":
		return condition{fmt.Sprintf(text, op), compare(func(x T) bool { return x != v })}
	case "<":
		return condition{fmt.Sprintf(text, op), compare(func(x T) bool { return x < v })}
	case "<=":
		return condition{fmt.Sprintf(text, op), compare(func(x T) bool { return x <= v })}
	case ">":
		return condition{fmt.Sprintf(text, op), compare(func(x T) bool { return x > v })}
	default:
		return condition{fmt.Sprintf(text, op), compare(func(x T) bool { return x >= v })}
	}
}

func genText(t *rapid.T) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune("aüz東")), 0, 5, -1).Draw(t, "s")
}

func genMicros(t *rapid.T) int64 {
	return rapid.Int64Range(-400*24, 400*24).Draw(t, "hours")*3_600_000_000 + rapid.SampledFrom([]int64{-1, 0, 0, 1, 1_800_000_000}).Draw(t, "micros")
}

func genRow(t *rapid.T) row {
	var r row
	if rapid.IntRange(0, 5).Draw(t, "i?") > 0 {
		v := rapid.Int64Range(-30, 30).Draw(t, "i")
		r.i = &v
	}
	if rapid.IntRange(0, 5).Draw(t, "s?") > 0 {
		v := genText(t)
		r.s = &v
	}
	if rapid.IntRange(0, 5).Draw(t, "d?") > 0 {
		v := rapid.Int64Range(-400, 400).Draw(t, "d")
		r.d = &v
	}
	if rapid.IntRange(0, 5).Draw(t, "ts?") > 0 {
		v := genMicros(t)
		r.ts = &v
	}
	return r
}

// partitionOf transforms a row's source with iceberg-go, an implementation of its own.
func partitionOf(spec int, r row) any {
	lit := iceberg.Optional[iceberg.Literal]{}
	set := func(l iceberg.Literal) { lit = iceberg.Optional[iceberg.Literal]{Valid: true, Val: l} }
	source := map[int]string{1: "s", 2: "i", 3: "s", 4: "i", 5: "ts", 6: "d", 7: "ts", 8: "ts", 9: "i", 11: "s", 12: "d"}[spec]
	switch {
	case source == "i" && r.i != nil:
		set(iceberg.NewLiteral(int32(*r.i)))
	case source == "s" && r.s != nil:
		set(iceberg.NewLiteral(*r.s))
	case source == "d" && r.d != nil:
		set(iceberg.NewLiteral(iceberg.Date(*r.d)))
	case source == "ts" && r.ts != nil:
		set(iceberg.NewLiteral(iceberg.Timestamp(*r.ts)))
	}
	transform := map[int]iceberg.Transform{
		1: iceberg.IdentityTransform{}, 2: iceberg.BucketTransform{NumBuckets: 4}, 3: iceberg.TruncateTransform{Width: 3},
		4: iceberg.TruncateTransform{Width: 10}, 5: iceberg.YearTransform{}, 6: iceberg.MonthTransform{}, 7: iceberg.DayTransform{},
		8: iceberg.HourTransform{}, 9: iceberg.VoidTransform{}, 11: iceberg.BucketTransform{NumBuckets: 8}, 12: iceberg.IdentityTransform{},
	}[spec]
	out := transform.Apply(lit)
	if !out.Valid {
		return nil
	}
	return out.Val.Any()
}

// describe makes the file's statistics; string bounds are cut at two characters, the upper one raised, as writers do.
func describe(rows []row) where.File {
	f := where.File{
		RecordCount: int64(len(rows)), ValueCounts: map[int]int64{}, NullCounts: map[int]int64{}, LowerBounds: map[int][]byte{}, UpperBounds: map[int][]byte{},
	}
	whole(&f, 1, rows, func(r row) *int64 { return r.i }, func(n int64) []byte { return i32(int32(n)) })
	whole(&f, 4, rows, func(r row) *int64 { return r.d }, func(n int64) []byte { return i32(int32(n)) })
	whole(&f, 5, rows, func(r row) *int64 { return r.ts }, i64)
	lower, upper, nulls := "", "", int64(0)
	first := true
	for _, r := range rows {
		if r.s == nil {
			nulls++
			continue
		}
		if first || *r.s < lower {
			lower = *r.s
		}
		if first || *r.s > upper {
			upper = *r.s
		}
		first = false
	}
	f.ValueCounts[3], f.NullCounts[3] = int64(len(rows)), nulls
	if !first {
		f.LowerBounds[3] = []byte(string([]rune(lower)[:min(2, utf8.RuneCountInString(lower))]))
		if r := []rune(upper); len(r) > 2 {
			r[1]++
			upper = string(r[:2])
		}
		f.UpperBounds[3] = []byte(upper)
	}
	return f
}

func whole(f *where.File, id int, rows []row, get func(row) *int64, encode func(int64) []byte) {
	var lower, upper *int64
	nulls := int64(0)
	for _, r := range rows {
		v := get(r)
		if v == nil {
			nulls++
			continue
		}
		if lower == nil || *v < *lower {
			lower = v
		}
		if upper == nil || *v > *upper {
			upper = v
		}
	}
	f.ValueCounts[id], f.NullCounts[id] = int64(len(rows)), nulls
	if lower != nil {
		f.LowerBounds[id], f.UpperBounds[id] = encode(*lower), encode(*upper)
	}
}

// TestSoundness: a file that holds a matching row may match, whatever condition, partition transform and values. And something is left out.
func TestSoundness(t *testing.T) {
	t.Parallel()
	s := schema(t)
	tried, pruned := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := genCondition(t, 3)
		w, err := where.Parse(c.text, s, someday())
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		spec := rapid.SampledFrom([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12}).Draw(t, "spec")
		rows := []row{genRow(t)}
		partition := partitionOf(spec, rows[0])
		for range rapid.IntRange(0, 6).Draw(t, "rows") {
			if r := genRow(t); partitionOf(spec, r) == partition {
				rows = append(rows, r)
			}
		}
		f := describe(rows)
		f.SpecID = spec
		f.Partition = func(int) (where.Value, bool) { return where.ValueOf(partition) }
		may := w.MayMatch(f)
		tried++
		if !may {
			pruned++
		}
		for _, r := range rows {
			if match := c.eval(r); match != nil && *match && !may {
				t.Fatalf("%s leaves out a file of spec %d, partition %v, with a matching row %s", c.text, spec, partition, show(r))
			}
		}
	})
	if pruned*20 < tried {
		t.Errorf("%d of %d files were left out: conditions do nothing", pruned, tried)
	}
}

func show(r row) string {
	p := func(v any) string {
		switch v := v.(type) {
		case *int64:
			if v != nil {
				return fmt.Sprint(*v)
			}
		case *string:
			if v != nil {
				return fmt.Sprintf("%q", *v)
			}
		}
		return "null"
	}
	return "i=" + p(r.i) + " s=" + p(r.s) + " d=" + p(r.d) + " ts=" + p(r.ts)
}

// FuzzParse: no text makes binding or evaluation panic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"i = 1 and s like 'a%'", "dec in (1.5, 2) or not ts < '2024'", "st.a <=> null", "d between '2024-01-01' and date '2025-01-01'", "u = 'x'"} {
		f.Add(seed)
	}
	s := schema(f)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := where.Parse(text, s, someday())
		if err != nil {
			return
		}
		file := describe([]row{{}})
		for spec := range 13 {
			file.SpecID = spec
			for _, v := range []where.Value{where.Null(), where.Whole(1), where.Text("a"), where.Float(1)} {
				file.Partition = func(int) (where.Value, bool) { return v, true }
				w.MayMatch(file)
			}
		}
	})
}
