package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/store"
	"firn/internal/store/storetest"
)

const lakeBucket = "firn-ref"

// oddOrphans are orphans whose keys some layer would decode, cut or normalise.
func oddOrphans() []string {
	return []string{"a b.parquet", "plus+plus.parquet", "100%.parquet", "11%2F12.parquet", "hash#tag?x=1.parquet", "ümläut-日本-😀.parquet", "quote'\"<&>.parquet"}
}

// versioned puts a reference table into an S3 bucket that keeps versions.
func (b *bench) versioned(name string) (*storetest.S3Server, *icebergtest.Ref) {
	b.t.Helper()
	ref := icebergtest.Reference(b.t, name)
	server := storetest.NewS3Server(b.t, lakeBucket)
	server.KeepVersions(lakeBucket)
	for info, err := range ref.Store.List(context.Background(), "s3://"+lakeBucket+"/", store.ListOptions{}) {
		if err != nil {
			b.t.Fatal(err)
		}
		data, err := ref.Store.Get(context.Background(), info.Location)
		if err != nil {
			b.t.Fatal(err)
		}
		server.Seed(b.t, lakeBucket, strings.TrimPrefix(info.Location, "s3://"+lakeBucket+"/"), data, info.ModifiedAt)
	}
	remote, err := store.NewS3(store.Config{Properties: server.Properties})
	if err != nil {
		b.t.Fatal(err)
	}
	b.proc.stores["s3"] = remote
	b.must("register", "--table", "db."+name, "--metadata-location", ref.Expected.MetadataFile)
	return server, ref
}

// files are the objects of the bucket with what they hold and when they were written.
func (b *bench) files() map[string]string {
	b.t.Helper()
	out := map[string]string{}
	for info, err := range b.proc.stores["s3"].List(context.Background(), "s3://"+lakeBucket+"/", store.ListOptions{}) {
		if err != nil {
			b.t.Fatal(err)
		}
		data, err := b.proc.stores["s3"].Get(context.Background(), info.Location)
		if err != nil {
			b.t.Fatal(err)
		}
		out[info.Location] = fmt.Sprintf("%x %d", sha256.Sum256(data), info.ModifiedAt.Unix())
	}
	return out
}

// missing are the objects of before that are not as they were.
func missing(before, now map[string]string) []string {
	var out []string
	for location, want := range before {
		if now[location] != want {
			out = append(out, location)
		}
	}
	return out
}

func (b *bench) counts(what string, object map[string]any, outcome string, want map[string]int) {
	b.t.Helper()
	if object["outcome"] != outcome {
		b.t.Errorf("%s: outcome %v (%v): want %s", what, object["outcome"], object["reason"], outcome)
	}
	for _, name := range []string{"restored", "restorable", "present", "gone_for_good", "refused"} {
		if got := fmt.Sprint(object[name]); got != fmt.Sprint(want[name]) {
			b.t.Errorf("%s: %s is %s: want %d", what, name, got, want[name])
		}
	}
}

// TestRestoreOrphans: what remove_orphan_files deleted comes back byte by byte, under any name, also when the first attempt is interrupted; what somebody
// wrote again, deleted later or removed for good stays as it is, and the status says so.
func TestRestoreOrphans(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server, ref := b.versioned("orphans")
	var restores atomic.Int64
	interrupt := make(chan struct{}, 1)
	server.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete && r.URL.Query().Has("versionId") && restores.Add(1) == 3 {
			interrupt <- struct{}{}
			<-r.Context().Done()
			return true
		}
		return false
	}
	folder := strings.TrimPrefix(ref.Expected.Location, "s3://"+lakeBucket+"/") + "/data/"
	long := time.Now().Add(-40 * 24 * time.Hour)
	for _, name := range oddOrphans() {
		server.Seed(t, lakeBucket, folder+name, []byte("content of "+name), long)
	}
	before := b.files()
	swept := b.object(b.must("call", "remove_orphan_files", "--table", "db.orphans", "--json"))
	run, gone := swept["run_id"].(string), missing(before, b.files())
	if len(gone) < len(oddOrphans())+2 || fmt.Sprint(swept["deleted_files_count"]) != fmt.Sprint(len(gone)) {
		t.Fatalf("%d objects are gone, the run says %v", len(gone), swept["deleted_files_count"])
	}

	afterSweep := b.files()
	dry := b.object(b.must("restore", "--run", run, "--dry-run", "--json"))
	b.counts("dry run", dry, "restored", map[string]int{"restorable": len(gone)})
	if next := fmt.Sprint(dry["next"]); !strings.Contains(next, "gc.enabled") || !strings.Contains(next, "before you restore") {
		t.Errorf("next %s", next)
	}
	if now := b.files(); !maps.Equal(now, afterSweep) {
		t.Error("a dry run changed the bucket")
	}

	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-interrupt
		cancel()
	}()
	if got := b.firnIn(ctx, "restore", "--run", run); got.code != exitOther || !strings.Contains(got.stdout, "say it again") {
		t.Errorf("interrupted: exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	list := filepath.Join(b.proc.dir, "list.jsonl")
	again := b.must("restore", "--run", run, "--list", list).stdout
	if left := missing(before, b.files()); len(left) != 0 || !strings.Contains(again, "restored") || !strings.Contains(again, "SET TBLPROPERTIES ('gc.enabled' = 'false')") {
		t.Errorf("not back: %v\n%s", left, again)
	}
	if text, err := os.ReadFile(list); err != nil || strings.Count(string(text), "\n") != len(gone) {
		t.Errorf("the list: %v\n%s", err, text)
	}
	b.counts("once more", b.object(b.must("restore", "--run", run, "--json")), "nothing_to_do", map[string]int{"present": len(gone)})

	b.onlyTheRunsDeletions(server, folder, before)
}

// onlyTheRunsDeletions sweeps again and changes objects before the deletions are undone.
func (b *bench) onlyTheRunsDeletions(server *storetest.S3Server, folder string, before map[string]string) {
	b.t.Helper()
	swept := b.object(b.must("call", "remove_orphan_files", "--table", "db.orphans", "--json"))
	gone := missing(before, b.files())
	at := func(i int) string { return "s3://" + lakeBucket + "/" + folder + oddOrphans()[i] }
	if err := b.proc.stores["s3"].Put(context.Background(), at(0), []byte("anew"), store.WriteOptions{}); err != nil {
		b.t.Fatal(err)
	}
	server.DeleteAt(b.t, lakeBucket, folder+oddOrphans()[1], time.Now().Add(5*time.Hour))
	server.LoseVersions(lakeBucket, folder+oddOrphans()[2])
	got := b.firn("restore", "--run", swept["run_id"].(string), "--json")
	if got.code != exitRefused {
		b.t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	b.counts("partly", b.object(got), "refused", map[string]int{"restored": len(gone) - 3, "present": 1, "refused": 1, "gone_for_good": 1})
	for _, says := range []string{"which was not this run", "only the delete marker is left"} {
		if !strings.Contains(got.stdout, says) {
			b.t.Errorf("%q is not said in %s", says, got.stdout)
		}
	}
	if data, err := b.proc.stores["s3"].Get(context.Background(), at(0)); err != nil || string(data) != "anew" {
		b.t.Errorf("what was written again: %q, %v", data, err)
	}
	if left := missing(before, b.files()); len(left) != 3 {
		b.t.Errorf("not back: %v", left)
	}
}

// TestRestoreExpiredSnapshots: after an expiry was undone, the metadata file that restore names makes a table in which the old snapshots have their rows.
func TestRestoreExpiredSnapshots(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.versioned("snaps40")
	old, st := b.load("db.snaps40")
	oldest := old.Metadata.Snapshots()[0].SnapshotID
	rows := func(at *lake.Table) icebergtest.Content {
		t.Helper()
		content, err := icebergtest.ReadRows(t.Context(), st, at, &oldest)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	want, before := rows(old), b.files()
	expired := b.object(b.must("call", "expire_snapshots", "--table", "db.snaps40", "--older-than", "2026-11-30 00:00:00", "--retain-last", "1", "--json"))
	gone := missing(before, b.files())
	if fmt.Sprint(expired["deleted_data_files_count"]) == "0" || len(gone) < 50 {
		t.Fatalf("the expiry deleted %d objects: %v", len(gone), expired)
	}
	b.must("sql", "ALTER TABLE db.snaps40 SET TBLPROPERTIES ('gc.enabled' = 'false')")
	got := b.object(b.must("restore", "--run", expired["run_id"].(string), "--json"))
	b.counts("restore", got, "restored", map[string]int{"restored": len(gone)})
	if left := missing(before, b.files()); len(left) != 0 {
		t.Errorf("not back: %v", left)
	}
	next := fmt.Sprint(got["next"])
	_, location, found := strings.Cut(next, "--metadata-location ")
	if !found || !strings.Contains(next, "leave gc.enabled at false") || !strings.Contains(next, "register --table ref.db.snaps40_restored") {
		t.Fatalf("next: %s", next)
	}
	b.must("register", "--table", "ref.db.snaps40_restored", "--metadata-location", strings.Fields(location)[0])
	restored, _ := b.load("db.snaps40_restored")
	if have := rows(restored); !reflect.DeepEqual(have, want) {
		t.Errorf("rows of snapshot %d: %d with digest %s: want %d with %s", oldest, have.Count, have.Digest, want.Count, want.Digest)
	}
	swept := b.firn("call", "remove_orphan_files", "--table", "db.snaps40")
	if left := missing(before, b.files()); swept.code != exitRefused || len(left) != 0 {
		t.Errorf("an orphan removal after it: exit %d, gone %v", swept.code, left)
	}
}

// TestRestoreWhereNothingWasKept: storage without versions keeps nothing, an active run is left alone, and a run that deleted nothing has nothing to undo.
func TestRestoreWhereNothingWasKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("orphans")
	swept := b.object(b.must("call", "remove_orphan_files", "--table", "db.orphans", "--json"))
	run := swept["run_id"].(string)
	got := b.firn("restore", "--run", run)
	if got.code != exitRefused || !strings.Contains(got.stdout, "storage keeps nothing of it") || !strings.Contains(got.stderr, "gone for good") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	looked := b.object(b.must("call", "remove_orphan_files", "--table", "db.orphans", "--dry-run", "--json"))
	b.counts("a dry run's run", b.object(b.must("restore", "--run", looked["run_id"].(string), "--json")), "nothing_to_do", nil)

	a := &app{process: b.proc, ctx: t.Context(), now: time.Now}
	id, err := a.table("db.orphans")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.close() }()
	st, err := a.clients.State(t.Context())
	if err == nil {
		_, err = st.Acquire(t.Context(), id, time.Now(), state.LeaseTTL, func(int64) (maintenance.RunID, []byte) { return maintenance.RunID(run), nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := b.firn("restore", "--run", run); got.code != exitRefused || !strings.Contains(got.stderr, "is active") {
		t.Errorf("an active run: exit %d, %s", got.code, got.stderr)
	}
	if err := os.RemoveAll(filepath.Join(b.proc.dir, "home", "work")); err != nil {
		t.Fatal(err)
	}
	if got := b.firn("restore", "--run", run); got.code != exitRefused || !strings.Contains(got.stderr, "deletion manifests are gone") {
		t.Errorf("a run whose work is gone: exit %d, %s", got.code, got.stderr)
	}
}
