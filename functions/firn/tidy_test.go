package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"firn/internal/maintenance"
)

// TestOldWorkIsCleared: the next run clears away the work of this machine's old runs, unfinished writes included; what is young, unsettled, or of
// another machine stays.
func TestOldWorkIsCleared(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ref := b.reference("small_v2")
	work := filepath.Join(b.proc.dir, "home", "work")
	run := func() string {
		object := b.object(b.must("call", "rewrite_manifests", "--table", "db.small_v2", "--json"))
		return filepath.Join(work, "runs", object["run_id"].(string))
	}
	old, unsettled, young := run(), run(), run()
	foreign := filepath.Join(work, "runs", string(maintenance.NewRunID("another machine", 1, 1)))
	mark := filepath.Join(work, "unsettled", ref.Table(t).Metadata.TableUUID().String(), filepath.Base(unsettled)+".json")
	for _, path := range []string{filepath.Join(old, "rewrite_manifests", ".firn-tmp-0123456789abcdef-x"), filepath.Join(foreign, "x"), mark} {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{old, unsettled, foreign} {
		at := time.Now().Add(-31 * 24 * time.Hour)
		if err := os.Chtimes(folder, at, at); err != nil {
			t.Fatal(err)
		}
	}
	b.must("call", "rewrite_manifests", "--table", "db.small_v2", "--dry-run")
	if _, err := os.Stat(old); err != nil {
		t.Errorf("a dry run cleared away work: %v", err)
	}
	run()
	for folder, stays := range map[string]bool{old: false, unsettled: true, young: true, foreign: true} {
		if _, err := os.Stat(folder); (err == nil) != stays {
			t.Errorf("%s: %v, stays: %v", folder, err, stays)
		}
	}
}
