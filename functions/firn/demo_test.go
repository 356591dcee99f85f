package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// outcome is what one command line ended with.
type outcome struct {
	code           int
	stdout, stderr string
}

// firn runs one command line in this process, with a state folder of its own unless the environment names one.
func firn(t *testing.T, environ []string, args ...string) outcome {
	t.Helper()
	return firnWith(context.Background(), t, environ, args...)
}

func firnWith(ctx context.Context, t *testing.T, environ []string, args ...string) outcome {
	t.Helper()
	if !strings.Contains(strings.Join(environ, "\n"), "FIRN_HOME=") {
		environ = append([]string{"FIRN_HOME=" + filepath.Join(t.TempDir(), "home")}, environ...)
	}
	var out, errs bytes.Buffer
	code := run(ctx, args, process{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, environ: environ})
	return outcome{code, out.String(), errs.String()}
}

func TestDemoPrintsBeforeAndAfter(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "lake")
	got := firn(t, nil, "demo", "--keep", "--dir", dir, "--days", "8", "--commits", "2", "--rows", "300")
	if got.code != exitDone || !strings.Contains(got.stdout, "the rows are the same") || !strings.Contains(got.stdout, "average data file") {
		t.Fatalf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if again := firn(t, nil, "demo", "--dir", dir); again.code != exitUsage || !strings.Contains(again.stderr, "not empty") {
		t.Errorf("in a folder that is not empty: exit %d, %s", again.code, again.stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "firn.yaml")); err != nil {
		t.Error(err)
	}
}
