package sparksql_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"firn/internal/maintenance"
	"firn/internal/sparksql"
)

// TestStatements runs testdata/statements: "parse" prints what was understood, a call bound to its procedure.
func TestStatements(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/statements", func(_ *testing.T, d *datadriven.TestData) string {
		statements, err := sparksql.Parse(d.Input)
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		for _, s := range statements {
			b.WriteString(describe(s) + "\n")
		}
		return b.String()
	})
}

func describe(s sparksql.Statement) string {
	switch s := s.(type) {
	case *sparksql.Call:
		b, err := s.Bind()
		if err != nil {
			return err.Error()
		}
		text := fmt.Sprintf("catalog=%q %s table=%q", s.Catalog, b.Request.Job, b.Table)
		for _, k := range slices.Sorted(maps.Keys(b.Request.Args)) {
			text += fmt.Sprintf(" %s=%q", k, b.Request.Args[k])
		}
		for _, k := range slices.Sorted(maps.Keys(b.Request.Options)) {
			text += fmt.Sprintf(" option %s=%q", k, b.Request.Options[k])
		}
		for _, id := range b.Request.SnapshotIDs {
			text += " id " + id
		}
		return text
	case *sparksql.SetProperties:
		return fmt.Sprintf("set %q %q", s.Table, s.Properties)
	case *sparksql.UnsetProperties:
		return fmt.Sprintf("unset %q %q if exists %v", s.Table, s.Keys, s.IfExists)
	case *sparksql.SetWriteOrder:
		return fmt.Sprintf("write %q order %q distribution %q", s.Table, s.Order, s.Distribution)
	case *sparksql.SetIdentifierFields:
		return fmt.Sprintf("identifier fields %q %v drop %v", s.Table, s.Fields, s.Drop)
	case *sparksql.SetRef:
		text := fmt.Sprintf("set ref %q %q tag %v create %v replace %v if not exists %v", s.Table, s.Name, s.Tag, s.Create, s.Replace, s.IfNotExists)
		return text + number(" snapshot", s.SnapshotID) + number(" max-ref-age-ms", s.MaxRefAgeMS) + number(" max-snapshot-age-ms", s.MaxSnapshotAgeMS) +
			number(" min-snapshots-to-keep", s.MinSnapshotsToKeep)
	case *sparksql.DropRef:
		return fmt.Sprintf("drop ref %q %q tag %v if exists %v", s.Table, s.Name, s.Tag, s.IfExists)
	}
	return fmt.Sprintf("%T", s)
}

// number prints what is given.
func number(name string, n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s %d", name, *n)
}

// TestPredicates runs testdata/predicates: one condition a line, its normal form or its error.
func TestPredicates(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/predicates", func(_ *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			p, err := sparksql.ParsePredicate(strings.TrimSuffix(line, "\n"))
			if err != nil {
				fmt.Fprintln(&b, err)
				continue
			}
			fmt.Fprintln(&b, p)
		}
		return b.String()
	})
}

// TestReferenceCalls parses every statement that the reference runs gave to Spark, in one text, and binds the calls of the five jobs.
func TestReferenceCalls(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/reference-calls.sql")
	if err != nil {
		t.Fatal(err)
	}
	statements, err := sparksql.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	bound := 0
	for _, s := range statements {
		c, ok := s.(*sparksql.Call)
		if !ok || strings.HasPrefix(c.Procedure, "compute_") {
			continue
		}
		b, err := c.Bind()
		if err != nil {
			t.Errorf("%s: %v", c.Source(), err)
			continue
		}
		bound++
		if c.Catalog != "ref" || len(b.Table) != 2 || b.Table[0] != "db" {
			t.Errorf("%s: catalog %q, table %q", c.Source(), c.Catalog, b.Table)
		}
		if !strings.HasPrefix(c.Source(), "CALL ref.system."+string(b.Request.Job)+"(") || !strings.HasSuffix(c.Source(), ")") {
			t.Errorf("source is %q", c.Source())
		}
		if w := b.Request.Args["where"]; w != "" && w != "isnan(d)" {
			if _, err := sparksql.ParsePredicate(w); err != nil {
				t.Errorf("where %q: %v", w, err)
			}
		}
	}
	if bound < 300 {
		t.Errorf("%d calls bound: want all of the reference", bound)
	}
}

func TestTimestamps(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2024-01-02 03:04:05":              "2024-01-02T03:04:05Z",
		"2024-01-02T03:04:05.123456":       "2024-01-02T03:04:05.123456Z",
		"2024-01-02 03:04:05.123456789":    "2024-01-02T03:04:05.123456789Z",
		"2024-01-02":                       "2024-01-02T00:00:00Z",
		"2024-1-2 3:4:5":                   "2024-01-02T03:04:05Z",
		"2024":                             "2024-01-01T00:00:00Z",
		"2024-02":                          "2024-02-01T00:00:00Z",
		"2024-01-02 03:04:05Z":             "2024-01-02T03:04:05Z",
		"2024-01-02 03:04:05 UTC":          "2024-01-02T03:04:05Z",
		"2024-01-02 03:04:05+02:00":        "2024-01-02T01:04:05Z",
		"2024-01-02 03:04:05 GMT-01:30":    "2024-01-02T04:34:05Z",
		"2024-01-02 03:04:05+2":            "2024-01-02T01:04:05Z",
		" 2024-01-02 03:04 ":               "2024-01-02T03:04:00Z",
		"2024-02-30":                       "error",
		"2024-13-01":                       "error",
		"2024-01-02 25:00:00":              "error",
		"2024-01-02 03:04:05 Europe/Paris": "error",
		"2024-01-02 03:04:05+19:00":        "error",
		"24-01-02":                         "error",
		"":                                 "error",
		"yesterday":                        "error",
		"1700000000000":                    "error",
	} {
		got, err := sparksql.ParseTimestamp(text)
		shown := "error"
		if err == nil {
			shown = got.Format("2006-01-02T15:04:05.999999999Z07:00")
		}
		if shown != want {
			t.Errorf("%q is %s (%v): want %s", text, shown, err, want)
		}
	}
	if d, err := sparksql.ParseDate("2024-05-06 10:00:00"); err != nil || d.Format("2006-01-02") != "2024-05-06" {
		t.Errorf("date %v, %v", d, err)
	}
}

// FuzzParse: no text makes the parser panic or hang; an error is a *SyntaxError; a statement's source parses to the same again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"CALL c.system.expire_snapshots(table => 'a.b', older_than => TIMESTAMP '2024-01-01 00:00:00', snapshot_ids => array(1L, -2))",
		"ALTER TABLE t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY bucket(4, a) DESC, b", "ALTER TABLE t CREATE OR REPLACE TAG `a-b` AS OF VERSION 3 RETAIN 2 HOURS",
		"alter table t drop identifier fields a.b, c", "OPTIMIZE t WHERE a = 'x'", "call c.system.expire_snapshots('a.b', date_sub(current_date(), 3))",
		"explain call system.rewrite_data_files('a.b', 'binpack', null, map('x', 1.5e3BD)) ; -- end",
		"ALTER TABLE `a b`.t SET TBLPROPERTIES ('k' = 'v''s', k2 = 10)", "alter table t unset tblproperties if exists (a.b-c)",
		"/* a /* b */ c */ call system.x(date'2024-01-01', \"q\"\"q\", r'\\n', '\\u0041')", "SELECT * FROM db.t.files",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		statements, err := sparksql.Parse(text)
		checkSyntaxError(t, err)
		for _, s := range statements {
			again, err := sparksql.Parse(s.Source())
			if err != nil || len(again) != 1 || describe(again[0]) != describe(s) && !strings.Contains(describe(s), "column") {
				t.Fatalf("source %q of %q parses to %v, %v", s.Source(), text, again, err)
			}
			if c, ok := s.(*sparksql.Call); ok {
				_, err := c.Bind()
				checkSyntaxError(t, err)
			}
		}
	})
}

// FuzzPredicate: no text makes the parser panic; the normal form of a condition parses to itself.
func FuzzPredicate(f *testing.F) {
	for _, seed := range []string{
		"a = 1 AND (b < 'x' OR NOT c IN (1, 2L))", "a.b.`c d` BETWEEN -1.5 AND 2", "ts >= timestamp'2024-01-01 00:00:00' and s like 'a\\%b%'",
		"not not a is not null", "isnan(d)", "1 < a", "((a)) = ((1))", "startswith(s, 'x') or flag or true or null",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := sparksql.ParsePredicate(text)
		checkSyntaxError(t, err)
		if err == nil && p.String() == "" {
			t.Fatalf("%q parses to nothing", text)
		}
	})
}

func checkSyntaxError(t *testing.T, err error) {
	t.Helper()
	var syntax *sparksql.SyntaxError
	if err != nil && (!errors.As(err, &syntax) || syntax.Line < 1 || syntax.Column < 1 || syntax.Problem == "") {
		t.Fatalf("error %v has no position", err)
	}
}

// TestEveryJobHasASignature binds a call with nothing but the table for each job of the chain.
func TestEveryJobHasASignature(t *testing.T) {
	t.Parallel()
	for _, job := range maintenance.Chain() {
		statements, err := sparksql.Parse("CALL system." + string(job) + "('db.t')")
		if err != nil {
			t.Fatal(err)
		}
		b, err := statements[0].(*sparksql.Call).Bind()
		if err != nil || b.Request.Job != job || len(b.Request.Args) != 0 {
			t.Errorf("%s: %v, %v", job, b, err)
		}
	}
}
