//go:build interop

package interop

import (
	"strconv"
	"testing"

	"firn/internal/icebergtest"
)

// appended is the ID of the row that PyIceberg appends; above all others.
const appended = 1 << 50

// TestWritersTakeTurns: Firn rewrites, PyIceberg appends and deletes by copy-on-write, Firn rewrites again. PyIceberg must read after Firn
// what it read before, and what it had written.
func TestWritersTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tables := []struct {
		name, deleted string
		rows          int64
	}{
		{"small_v1", "id < 70", 70},
		{"part_identity", "id < 25", 25},
		{"evolve", "id >= 30 and id < 40", 10},
		{"pos_file", "id >= 300 and id < 310", 8},
	}
	var write, read []job
	before := map[string]icebergtest.Expected{}
	for _, c := range tables {
		before[c.name] = w.add(c.name)
		w.call("rewrite_data_files", c.name, "--option", "rewrite-all=true")
		name := "db." + c.name
		write = append(write,
			job{Do: "append", Table: name, Where: "id = 50", Set: map[string]any{"id": appended}},
			job{Do: "delete", Table: name, Where: c.deleted})
		read = append(read, job{Do: "read", Table: name, Raw: true})
	}
	written := w.judge(append(write, read...)...)
	for i, c := range tables {
		if v := written[2*i]; v.Error != "" {
			t.Fatalf("PyIceberg appends to %s: %s", c.name, v.Error)
		}
		if v := written[2*i+1]; v.Error != "" || v.Rows != c.rows {
			t.Fatalf("PyIceberg deletes %d rows of %s: %s: want %d", v.Rows, c.name, v.Error, c.rows)
		}
		got := w.call("rewrite_data_files", c.name, "--option", "rewrite-all=true")
		if got["outcome"] != "committed" {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for i, v := range w.judge(read...) {
		c, theirs := tables[i], written[2*len(tables)+i]
		if v.Error != "" || theirs.Error != "" {
			t.Errorf("PyIceberg reads %s: %s; before the second rewrite: %s", c.name, v.Error, theirs.Error)
			continue
		}
		want := before[c.name].Rows.Count + 1 - c.rows
		if theirs.Facts.Count != want || v.Facts.Count != want || v.Facts.Digest != theirs.Facts.Digest || v.MetadataLocation == theirs.MetadataLocation {
			t.Errorf("%s: %d rows with digest %s at %s, PyIceberg left %d with %s: want %d", c.name, v.Facts.Count, v.Facts.Digest, v.MetadataLocation,
				theirs.Facts.Count, theirs.Facts.Digest, want)
		}
		if facts := v.Facts.Columns["id"]; facts.Max != strconv.Itoa(appended) {
			t.Errorf("%s: largest id %s: want the appended one", c.name, facts.Max)
		}
	}
}
