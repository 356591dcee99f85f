//go:build interop

package interop

import (
	"slices"
	"strings"
	"testing"

	"firn/internal/icebergtest"
)

// refusals are the tables with files that Firn must not rewrite: the reason it gives, and what PyIceberg says when it reads them.
func refusals() map[string][2]string {
	return map[string][2]string{
		"encrypted_file": {"encrypt", "no decryption found"},
		"fmt_avro":       {"format AVRO", "Unsupported file format: FileFormat.AVRO"},
		"fmt_orc":        {"format ORC", ""},
	}
}

// TestRefusedTablesStayAsTheyWere asks for a rewrite that Firn cannot do rightly.
func TestRefusedTablesStayAsTheyWere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"fmt_avro", "fmt_orc"} {
		expected, words := w.add(name), refusals()[name]
		got := w.firn("call", "rewrite_data_files", "--table", "db."+name, "--option", "rewrite-all=true", "--json")
		object := got.object(t)
		if text, _ := object["reason"].(string); got.code != 3 || object["outcome"] != "refused" || !strings.Contains(text, words[0]) {
			t.Errorf("%s: exit status %d, %s: want 3, refused, and a reason with %q", name, got.code, got, words[0])
		}
		v := w.judge(job{Do: "files", Table: "db." + name})[0]
		if v.MetadataLocation != expected.MetadataFile || len(v.Live) != len(expected.Live.DataFiles) {
			t.Errorf("%s: the table is at %s with %d files: want %s", name, v.MetadataLocation, len(v.Live), expected.MetadataFile)
		}
		checkReadError(t, v, words[1])
	}
}

// TestEncryptedFileIsLeftAlone rewrites the plain files beside it.
func TestEncryptedFileIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := "encrypted_file"
	expected, words := w.add(name), refusals()[name]
	notes, _ := w.call("rewrite_data_files", name, "--option", "rewrite-all=true")["notes"].([]any)
	if len(notes) != 1 || !strings.Contains(notes[0].(string), words[0]) {
		t.Errorf("notes %v: want one that says %q", notes, words[0])
	}
	v := w.judge(job{Do: "files", Table: "db." + name})[0]
	at := slices.IndexFunc(expected.Live.DataFiles, func(e icebergtest.ExpectedEntry) bool { return strings.Contains(e.Path, "encrypted-") })
	encrypted := expected.Live.DataFiles[at]
	want := -encrypted.RecordCount
	for _, e := range expected.Live.DataFiles {
		want += e.RecordCount
	}
	if len(v.Live) != 2 || v.Live[encrypted.Path] != encrypted.RecordCount {
		t.Errorf("live files %v: want the encrypted one and one other", v.Live)
	}
	for path, n := range v.Live {
		if path != encrypted.Path && n != want {
			t.Errorf("the new file has %d rows: want %d", n, want)
		}
	}
	checkReadError(t, v, words[1])
}

func checkReadError(t *testing.T, v verdict, want string) {
	t.Helper()
	if !strings.Contains(v.ReadError, want) || want == "" && v.ReadError != "" {
		t.Errorf("%s: PyIceberg says %q: want %q (%s)", v.Table, v.ReadError, want, v.Error)
	}
}
