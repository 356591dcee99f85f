//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"firn/internal/icebergtest"
)

// TestReferenceTablesReadTheSame rewrites every table that Spark wrote and lets PyIceberg and DuckDB say whether the rows are the same.
func TestReferenceTablesReadTheSame(t *testing.T) {
	t.Parallel()
	readTheSame(t, icebergtest.ReferenceNames(t), func(icebergtest.Expected) []string { return nil })
}

// TestSortedTablesReadTheSame does so for tables with every type, nested columns, deletes and an evolved schema, with rows ordered by up to three columns of the first level, the second one descending.
func TestSortedTablesReadTheSame(t *testing.T) {
	t.Parallel()
	names := []string{"types_v2", "types_v3", "types_uuid_fixed", "types_time", "types_ns_v3", "nested", "evolve", "dv", "strings_bounds", "part_day", "small_v3", "pages"}
	readTheSame(t, names, func(e icebergtest.Expected) []string {
		var terms []string
		for _, name := range slices.Sorted(maps.Keys(e.Columns)) {
			if !strings.Contains(name, ".") && e.Columns[name].Min != nil && len(terms) < 3 {
				terms = append(terms, "`"+name+"`"+[]string{"", " DESC NULLS FIRST", " NULLS LAST"}[len(terms)])
			}
		}
		if terms == nil {
			return nil
		}
		return []string{"--sort-order", strings.Join(terms, ", ")}
	})
}

// readTheSame rewrites tables, with more arguments for each, and compares what the judges read with what Spark and Java recorded.
func readTheSame(t *testing.T, names []string, arguments func(icebergtest.Expected) []string) {
	t.Helper()
	w := newWorld(t)
	expected := map[string]icebergtest.Expected{}
	var jobs []job
	for _, name := range names {
		if _, refused := refusals()[name]; refused {
			continue
		}
		expected[name] = w.add(name)
		call := []string{"call", "rewrite_data_files", "--table", "db." + name, "--option", "rewrite-all=true", "--json"}
		got := w.firn(append(call, arguments(expected[name])...)...)
		if got.code != 0 {
			t.Errorf("%s: exit status %d: %s", name, got.code, got)
			continue
		}
		want := expected[name].Counts["data_files"]
		if n := fmt.Sprint(got.object(t)["rewritten_data_files_count"]); n != fmt.Sprint(want) {
			t.Errorf("%s: rewrote %s data files, the table has %d: %s", name, n, want, got)
		}
		jobs = append(jobs, job{Do: "read", Table: "db." + name})
	}
	for _, v := range w.judge(jobs...) {
		t.Run(v.Table, func(t *testing.T) { check(t, v, expected[v.Table[len("db."):]]) })
	}
}

// misread are tables of which PyIceberg returns other rows than Spark and Java, before a rewrite and after it, with the digest of what it returns.
func misread() map[string]string {
	return map[string]string{
		"db.nested": "7fb659360891cb6d", // a null list of structs and a null map to structs come back empty
	}
}

// unfilterable are columns on which PyIceberg cannot evaluate a condition, with its words.
func unfilterable() map[string]string {
	return map[string]string{
		"db.types_ns_v3.tns":  "TypeError: Cannot convert LongLiteral into timestamp_ns",
		"db.types_ns_v3.tzns": "TypeError: Cannot convert LongLiteral into timestamptz_ns",
	}
}

// coarse are columns whose values DuckDB cuts: it has no timestamp with time zone of nanoseconds.
func coarse() map[string]bool { return map[string]bool{"db.types_ns_v3.tzns": true} }

// check compares both judges' facts with what Spark and Java recorded before the rewrite.
func check(t *testing.T, v verdict, want icebergtest.Expected) {
	if v.Error != "" {
		t.Fatalf("PyIceberg: %s", v.Error)
	}
	rows := want.Rows.RowCount
	if digest, known := misread()[v.Table]; known {
		rows.Digest = digest
	}
	for _, fault := range v.Facts.Check(rows, want.Columns) {
		t.Errorf("PyIceberg: %s", fault)
	}
	if v.Files != nil {
		for _, fault := range v.Files.Check(want.Rows.RowCount, want.Columns) {
			t.Errorf("Arrow: %s", fault)
		}
	}
	if v.MetadataLocation == want.MetadataFile && want.Counts["data_files"] > 0 {
		t.Errorf("the table was not rewritten: PyIceberg still reads %s", v.MetadataLocation)
	}
	if v.DeleteFiles != 0 {
		t.Errorf("%d delete files still apply after a rewrite of all files", v.DeleteFiles)
	}
	for name, f := range v.Found {
		switch reason := unfilterable()[v.Table+"."+name]; {
		case f == nil:
		case f.Error != reason:
			t.Errorf("PyIceberg filters column %s: %q: want %q", name, f.Error, reason)
		case f.Got != f.Want:
			t.Errorf("PyIceberg finds %d rows with the smallest or largest %s: want %d", f.Got, name, f.Want)
		}
	}
	if v.DuckDB.Count != want.Rows.Count {
		t.Errorf("DuckDB counts %d rows: want %d", v.DuckDB.Count, want.Rows.Count)
	}
	if v.DataFiles > 0 {
		checkDuckDB(t, v, want)
	}
}

func checkDuckDB(t *testing.T, v verdict, want icebergtest.Expected) {
	content := icebergtest.Content{Count: want.Rows.Count, Digest: want.Rows.Digest, Columns: map[string]icebergtest.ColumnFacts{}}
	columns := map[string]icebergtest.ExpectedColumn{}
	for _, name := range slices.Sorted(maps.Keys(v.DuckDB.Columns)) {
		c, w := v.DuckDB.Columns[name], want.Columns[name]
		if coarse()[v.Table+"."+name] {
			c.Min, c.Max, w.Min, w.Max = "", "", nil, nil
		}
		c.Min, c.Max = anyZero(c.Min, w.Min), anyZero(c.Max, w.Max) // Both zeros are one value for DuckDB.
		content.Columns[name], columns[name] = c.ColumnFacts, w
		if c.Present != want.Columns[name].NonNull || c.FilteredNulls != want.Columns[name].Nulls {
			t.Errorf("DuckDB: column %s has %d values and finds %d nulls: want %+v", name, c.Present, c.FilteredNulls, want.Columns[name])
		}
		for i, hits := range c.Hits {
			if hits[0] != hits[1] || hits[0] == 0 {
				t.Errorf("DuckDB: a filter on bound %d of column %s finds %d rows, counting finds %d", i, name, hits[0], hits[1])
			}
		}
	}
	for _, fault := range content.Check(want.Rows.RowCount, columns) {
		t.Errorf("DuckDB: %s", fault)
	}
}

// anyZero returns the zero that is wanted for either zero of a float or double.
func anyZero(text string, want json.RawMessage) string {
	zero := func(s string) bool {
		digits := strings.TrimPrefix(strings.Trim(s, `"`), "0x")
		return (len(digits) == 8 || len(digits) == 16) && strings.Trim(digits[1:], "0") == "" && (digits[0] == '8' || digits[0] == '0')
	}
	if zero(text) && zero(string(want)) {
		return string(want)
	}
	return text
}
