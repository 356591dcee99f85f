package sparksql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"firn/internal/sparksql"
)

func TestSortOrder(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"id":                      "id asc first",
		"id desc":                 "id desc last",
		"id DESC NULLS FIRST":     "id desc first",
		"a.b ASC NULLS LAST, c":   "a.b asc last; c asc first",
		"c nulls last":            "c asc last",
		"`odd name`.x desc":       "odd name.x desc last",
		"bucket(16, id), days(t)": "bucket(id 16) asc first; days(t) asc first",
		"truncate(s, 4) desc":     "truncate(s 4) desc last",
		"zorder(a, b.c)":          "zorder(a b.c) asc first",
		"ZORDER (a)":              "zorder(a) asc first",
		"asc desc":                "asc desc last", // A column may be named like a keyword.
	} {
		terms, err := sparksql.ParseSortOrder(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var out []string
		for _, term := range terms {
			var names []string
			for _, c := range term.Columns {
				names = append(names, c.String())
			}
			s := strings.Join(names, " ")
			if term.Width >= 0 {
				s += fmt.Sprint(" ", term.Width)
			}
			if term.Function != "" {
				s = term.Function + "(" + s + ")"
			}
			out = append(out, s+map[bool]string{false: " asc", true: " desc"}[term.Descending]+map[bool]string{false: " first", true: " last"}[term.NullsLast])
		}
		if got := strings.Join(out, "; "); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "a,", "a b", "a nulls", "a nulls maybe", "bucket(16, 4, a)", "zorder(a", "zorder(", "a desc asc", "1", "a;", "'a'", "f(-1, a)"} {
		var syntax *sparksql.SyntaxError
		if terms, err := sparksql.ParseSortOrder(text); !errors.As(err, &syntax) {
			t.Errorf("%q: %v, %v: want a syntax error", text, terms, err)
		}
	}
}
