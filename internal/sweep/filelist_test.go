package sweep_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/store/inventory"
)

// write puts an object beside the table.
func (r *room) write(location, text string) {
	r.t.Helper()
	r.must(r.world.Store.Put(context.Background(), location, []byte(text), store.WriteOptions{}))
}

// orphansOf runs remove_orphan_files with a list of files instead of a listing, as plan cuts it.
func (r *room) orphansOf(list string, more ...string) handoff.SweepSummary {
	r.t.Helper()
	r.newRun()
	args := map[string]string{"file_list_view": list}
	for i := 0; i < len(more); i += 2 {
		args[more[i]] = more[i+1]
	}
	parts, err := inventory.Parts(context.Background(), r.world.Store, list)
	r.must(err)
	var items []maintenance.SweepItem
	for _, p := range parts {
		items = append(items, maintenance.SweepItem{Prefix: "s3://world/db/t/", Location: p.Location})
	}
	r.planListing(args, false, items...)
	s, err := r.sweepOrphans()
	r.must(err)
	return s
}

// listAll is a list with every object of the table, each as old as it is told to be.
func (r *room) listAll(prefix string, age time.Duration) string {
	lines := "size,last_modified,file_path\n"
	for _, l := range r.objects("") {
		lines += fmt.Sprintf(",%s,\"%s\"\n", r.now.Add(-age).UTC().Format("2006-01-02 15:04:05"), strings.Replace(l, "s3://world", prefix, 1))
	}
	return lines
}

// TestListOfFiles: only orphans of the list go, whatever else it names; nothing outside of the list does; and what is younger than the list says stays.
func TestListOfFiles(t *testing.T) {
	t.Parallel()
	r, _ := simple(t)
	orphan, young, sibling := "s3://world/db/t/data/a b+%2F.parquet", "s3://world/db/t/data/young.parquet", "s3://world/db/t_2/data/x.parquet"
	r.put(orphan, 10)
	r.put(young, 0.5)
	r.put(sibling, 10)
	r.write("s3://world/lists/l.csv", r.listAll("s3://world", 10*24*time.Hour))
	unlisted := "s3://world/db/t/data/unlisted.parquet"
	r.put(unlisted, 10)
	before := r.objects("")
	s := r.orphansOf("s3://world/lists/l.csv")
	if s.Deleted != 1 || s.KeptCount != 1 || !strings.Contains(fmt.Sprint(s.Kept), "written again") {
		t.Errorf("%+v: want one deleted, and the young one kept", s)
	}
	r.gone(before, orphan)
	// A list says when files were written, and the horizon holds by it.
	r.write("s3://world/lists/young.csv", r.listAll("s3://world", time.Hour))
	if s = r.orphansOf("s3://world/lists/young.csv"); s.Outcome != maintenance.NothingToDo {
		t.Errorf("%+v", s)
	}
	// No file of the table in it: nothing to do, and it is said.
	r.write("s3://world/lists/other.jsonl", `{"file_path": "s3://world/db/other/x", "last_modified": "2020-01-01T00:00:00Z"}`)
	if s = r.orphansOf("s3://world/lists/other.jsonl"); s.Outcome != maintenance.NothingToDo || !strings.Contains(fmt.Sprint(s.Warnings), "names no file under") {
		t.Errorf("%+v", s)
	}
	r.gone(before, orphan)
}

// TestListInAnotherBucket: a list in another scheme or bucket is an error and not an empty result; with equal_authorities it finds what it means.
func TestListInAnotherBucket(t *testing.T) {
	t.Parallel()
	r, _ := simple(t)
	r.put("s3://world/db/t/data/orphan.parquet", 10)
	before := r.objects("")
	for at, prefix := range map[string]string{"s3://world/lists/alias.csv": "s3://alias", "s3://world/lists/gs.csv": "gs://world"} {
		r.write(at, r.listAll(prefix, 10*24*time.Hour))
		for _, mode := range []string{"ERROR", "DELETE"} {
			s := r.orphansOf(at, "prefix_mismatch_mode", mode)
			if s.Outcome != maintenance.Refused || !strings.Contains(s.Reason, "against s3://world/db/t") {
				t.Errorf("%s, %s: %+v", prefix, mode, s)
			}
		}
		if s := r.orphansOf(at, "prefix_mismatch_mode", "IGNORE"); s.Outcome != maintenance.NothingToDo || len(s.Warnings) != 1 {
			t.Errorf("%s, IGNORE: %+v", prefix, s)
		}
	}
	r.gone(before)
	if s := r.orphansOf("s3://world/lists/alias.csv", "equal_authorities", `{"alias": "world"}`); s.Deleted != 1 {
		t.Errorf("%+v", s)
	}
	r.gone(before, "s3://world/db/t/data/orphan.parquet")
}

// TestInventory: an S3 Inventory is a listing. Keys are encoded as in URLs, old versions and delete markers are no files, and a file that is not what the
// manifest says ends the job.
func TestInventory(t *testing.T) {
	t.Parallel()
	r, _ := simple(t)
	orphan := "s3://world/db/t/data/a b+%2Fé.parquet"
	r.put(orphan, 10)
	r.put("s3://world/db/t/data/old version.parquet", 10)
	before := r.objects("")
	var rows bytes.Buffer
	for _, l := range before {
		latest := "true"
		if strings.Contains(l, "old version") {
			latest = "false"
		}
		info, err := r.world.Store.Head(context.Background(), l)
		r.must(err)
		size := fmt.Sprint(info.SizeBytes)
		fmt.Fprintf(&rows, "\"world\",\"%s\",\"v1\",\"%s\",\"false\",\"%s\",\"%s\"\n", encoded(strings.TrimPrefix(l, "s3://world/")), latest, size,
			r.now.Add(-9*24*time.Hour).UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	manifest := func(format, sum string, data []byte) string {
		r.write("s3://lists/world/all/data/f1.csv.gz", string(data))
		text, err := json.Marshal(map[string]any{
			"sourceBucket": "world", "destinationBucket": "arn:aws:s3:::lists", "version": "2016-11-30", "fileFormat": format,
			"fileSchema": "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate",
			"files":      []any{map[string]any{"key": "world/all/data/f1.csv.gz", "size": len(data), "MD5checksum": sum}},
		})
		r.must(err)
		r.write("s3://lists/world/all/2026-11-29T01-00Z/manifest.json", string(text))
		return "s3://lists/world/all/2026-11-29T01-00Z/manifest.json"
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(rows.Bytes())
	r.must(err)
	r.must(z.Close())
	sum := md5.Sum(packed.Bytes())
	if s := r.orphansOf(manifest("CSV", strings.Repeat("0", 32), packed.Bytes())); s.Outcome != maintenance.Refused || !strings.Contains(s.Reason, "MD5") {
		t.Errorf("another sum: %+v", s)
	}
	if s := r.orphansOf(manifest("CSV", "", packed.Bytes()[:packed.Len()/2])); s.Outcome != maintenance.Refused {
		t.Errorf("half a file: %+v", s)
	}
	if _, err := inventory.Parts(context.Background(), r.world.Store, manifest("ORC", "", nil)); err == nil || !strings.Contains(err.Error(), "ORC") {
		t.Errorf("ORC: %v", err)
	}
	r.gone(before)
	if s := r.orphansOf(manifest("CSV", hex.EncodeToString(sum[:]), packed.Bytes())); s.Deleted != 1 {
		t.Errorf("%+v", s)
	}
	r.gone(before, orphan)
}

// encoded spells a key as S3 Inventory does in CSV.
func encoded(key string) string {
	var out strings.Builder
	for _, c := range []byte(key) {
		if c == '/' || c == '.' || c == '-' || c == '_' || c == '=' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}
