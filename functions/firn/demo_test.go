package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDemoPrintsBeforeAndAfter(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "lake")
	b := newBench(t)
	got := b.firn("demo", "--keep", "--dir", dir, "--days", "8", "--commits", "2", "--rows", "300")
	if got.code != exitDone || !strings.Contains(got.stdout, "the rows are the same") || !strings.Contains(got.stdout, "average data file") {
		t.Fatalf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if again := b.firn("demo", "--dir", dir); again.code != exitUsage || !strings.Contains(again.stderr, "not empty") {
		t.Errorf("in a folder that is not empty: exit %d, %s", again.code, again.stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "firn.yaml")); err != nil {
		t.Error(err)
	}
}
