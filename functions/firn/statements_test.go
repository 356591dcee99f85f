package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"firn/internal/icebergtest"
)

// pasted is one text of testdata/statements.sql.
type pasted struct {
	text, answer string
	runs         bool
}

// pastedStatements reads the file: blank lines part texts, headings choose the section.
func pastedStatements(t *testing.T) []pasted {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(icebergtest.Root(t), "testdata", "statements.sql"))
	if err != nil {
		t.Fatal(err)
	}
	var out []pasted
	runs, section := false, 0
	for block := range strings.SplitSeq(string(data), "\n\n") {
		block = strings.TrimSpace(block)
		if heading, found := strings.CutPrefix(block, "-- Section: "); found {
			runs = heading == "statements that run"
			section++
			continue
		}
		var lines []string
		p := pasted{runs: runs}
		for line := range strings.Lines(block) {
			if answer, found := strings.CutPrefix(line, "-- answer: "); found {
				p.answer = strings.TrimSpace(answer)
				continue
			}
			lines = append(lines, line)
		}
		if p.text = strings.Join(lines, ""); section > 0 && regexp.MustCompile(`(?m)^[^-]`).MatchString(p.text) {
			out = append(out, p)
		}
	}
	return out
}

// TestStatementsOfGuides pastes every text of testdata/statements.sql into firn sql, each on a table of its own.
func TestStatementsOfGuides(t *testing.T) {
	t.Parallel()
	var ran, answered int
	looked := newBench(t)
	for i, p := range pastedStatements(t) {
		if !p.runs { // a text that is refused reaches no table
			answered++
			got := looked.firn("sql", "--json", p.text)
			if got.code != exitUsage || p.answer == "" || !strings.Contains(got.stderr, p.answer) {
				t.Errorf("%s\nexit %d: %s\nwant the answer %s", p.text, got.code, got.stderr, p.answer)
			}
			continue
		}
		ran++
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			b, w, ids := guideTable(t, p.text)
			text := strings.NewReplacer("1234", ids[0], "4567", ids[1]).Replace(p.text)
			before := w.Rows().Count
			got := b.firn("sql", "--json", text)
			if got.code != exitDone {
				t.Errorf("%s\nexit %d: %s%s", text, got.code, got.stdout, got.stderr)
			}
			table, st := b.load("db.sample")
			after, err := icebergtest.ReadRows(context.Background(), st, table, nil)
			if err != nil || after.Count != before {
				t.Errorf("%s\nrows %v, before %v (%v)", text, after.Count, before, err)
			}
		})
	}
	if ran < 70 || answered < 25 {
		t.Errorf("%d statements run, %d are answered: the file is not read whole", ran, answered)
	}
}

// guideTable makes db.sample in a catalog of the name that the text has, and returns the IDs of two of its snapshots.
func guideTable(t *testing.T, text string) (*bench, *icebergtest.Table, [2]string) {
	t.Helper()
	b := newBench(t)
	catalog := "default_catalog"
	for _, expression := range []string{"(?i)CALL `?([a-z_-]+)`?\\.system", `(?i)(?:TABLE|from) ([a-z_]+)\.db\.sample`} {
		if m := regexp.MustCompile(expression).FindStringSubmatch(text); m != nil && m[1] != "spark_catalog" {
			catalog = m[1]
			break
		}
	}
	b.config(fmt.Sprintf("catalog: %s\ncatalogs:\n  %s:\n    type: sql\n    uri: sqlite:///%s\n", catalog, catalog, filepath.Join(b.proc.dir, "catalog.db")))
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.sample", icebergtest.Columns("id long required", "data string", "category string required", "ts timestamptz"),
		icebergtest.Partitioned("category"), icebergtest.Property("read.split.target-size", "134217728"))
	var ids [2]string
	for i := range 4 {
		at := time.Date(2026, 11, 1, i, 0, 0, 0, time.UTC).UnixMicro()
		commit := tbl.Commit(icebergtest.Append(
			icebergtest.Row{2 * i, "a" + strconv.Itoa(i), "foo", at}, icebergtest.Row{2*i + 1, nil, "bar", at}))
		if i < 2 {
			ids[i] = strconv.FormatInt(commit.Snapshot.SnapshotID, 10)
		}
		if i == 2 {
			tbl.Commit(icebergtest.DeletePositions(commit.DataFiles[0], 0))
		}
	}
	b.proc.stores["s3"] = w.Store
	b.must("register", "--table", "db.sample", "--metadata-location", tbl.Pointer().MetadataLocation)
	return b, tbl, ids
}
