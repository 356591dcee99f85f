package artifact_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"firn/infra/artifact"
	"firn/internal/contract"
)

// TestCheckNode: a Node that is missing, too old or broken is said in one line, with the version that is wanted.
func TestCheckNode(t *testing.T) {
	for name, c := range map[string]struct{ says, fault string }{
		"missing": {"", "node is not on the PATH"},
		"old":     {"v18.20.4", "node is version 18.20.4: the CDK needs 20 or newer"},
		"no Node": {"hello", "node is version hello"},
		"oldest":  {"v20.0.0", ""},
		"new":     {"v22.23.5", ""},
	} {
		dir := t.TempDir()
		if c.says != "" {
			if err := os.WriteFile(filepath.Join(dir, "node"), []byte("#!/bin/sh\necho "+c.says+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		err := artifact.CheckNode()
		if (err == nil) != (c.fault == "") || err != nil && (!strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: error %v, want %q", name, err, c.fault)
		}
	}
}

// TestCheck: packages that Lambda would not take are named before anything is synthesised, all of them, with size and limit.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sizes := map[string]int64{contract.FunctionPlan: 250 << 20, contract.FunctionCompact: 250<<20 + 1, contract.FunctionReport: 1 << 30}
	for _, name := range contract.Functions() {
		if name == contract.FunctionSweep {
			continue // not built
		}
		path := filepath.Join(dir, name, "bootstrap")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("code"), 0o600); err != nil {
			t.Fatal(err)
		}
		if size := sizes[name]; size > 0 {
			if err := os.Truncate(path, size); err != nil { // without taking space
				t.Fatal(err)
			}
		}
	}
	err := artifact.Check(dir)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"function compact has 262144001 bytes, Lambda takes 262144000", "function report has 1073741824 bytes", "function sweep is not built",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 3 {
		t.Errorf("%d faults: %v", len(lines), err)
	}
}
