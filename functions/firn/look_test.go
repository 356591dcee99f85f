package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"firn/internal/store"
)

// TestLookingWritesNothing: inspect and explain work where the state folder cannot be made, and make none where it can.
func TestLookingWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("small_v2")
	home := filepath.Join(b.proc.dir, "home")
	taken := filepath.Join(b.proc.dir, "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{home, filepath.Join(taken, "home")} {
		b.proc.environ = []string{"FIRN_HOME=" + folder}
		for _, command := range []string{"inspect", "explain"} {
			if got := b.firn(command, "--table", "db.small_v2", "--json"); got.code != exitDone {
				t.Errorf("%s with FIRN_HOME %s: exit %d: %s", command, folder, got.code, got.stderr)
			}
		}
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("looking made the state folder")
	}
}

// TestRegisterAndRunSayWhy: register has a JSON form, and a run says why it ended as it did, or nothing, but never an empty reason.
func TestRegisterAndRunSayWhy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ref := b.reference("small_v2")
	got := b.object(b.must("register", "--table", "db.second", "--metadata-location", ref.Expected.MetadataFile, "--json"))
	if got["outcome"] != "committed" || got["table"] != "ref.db.second" || got["metadata_location"] != ref.Expected.MetadataFile {
		t.Errorf("%v", got)
	}
	for _, args := range [][]string{{"--dry-run", "--job", "rewrite_data_files"}, {"--job", "expire_snapshots"}} {
		object := b.object(b.firn(append([]string{"run", "--table", "db.small_v2", "--json"}, args...)...))
		if reason, found := object["reason"]; found && reason == "" {
			t.Errorf("run %v: %v", args, object)
		}
	}
	b.proc.stores["s3"] = store.NewFaults(ref.Store, store.Rule{Operation: store.OpGet, Contains: ".avro", Err: store.ErrPermission})
	failed := b.firn("run", "--table", "db.small_v2", "--job", "rewrite_manifests", "--json")
	if reason, _ := b.object(failed)["reason"].(string); !strings.Contains(reason, "permission") {
		t.Errorf("exit %d: %s%s", failed.code, failed.stdout, failed.stderr)
	}
}
