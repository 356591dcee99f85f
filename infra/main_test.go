package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaultsBeforeSynthesis: what is wrong with the settings or with this machine is said by the app's first steps, and nothing is written: no template,
// no firn.yaml, no function is built.
func TestFaultsBeforeSynthesis(t *testing.T) {
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	good := `"warehouse":"s3://lake/warehouse","tables":"db.*"`
	for name, c := range map[string]struct {
		context, node string
		faults        []string
	}{
		"warehouse without prefix": {`{"warehouse":"s3://lake","tables":"db.*"}`, "v22.0.0", []string{"warehouse=s3://lake: a whole bucket is too much"}},
		"overlapping warehouses":   {`{"warehouse":"s3://lake/a,s3://lake/a/b","tables":"db.*"}`, "v22.0.0", []string{"s3://lake/a and s3://lake/a/b overlap"}},
		"unknown source":           {`{` + good + `,"sources":"kinesis"}`, "v22.0.0", []string{`unknown source "kinesis"`}},
		"several":                  {`{"mode":"on","colour":"blue"}`, "v22.0.0", []string{"warehouse is missing", "tables is missing", "mode=on", "colour: unknown setting"}},
		"Node too old":             {`{` + good + `}`, "v18.0.0", []string{"node is version 18.0.0"}},
	} {
		dir := t.TempDir()
		if err := os.Symlink(program, filepath.Join(dir, "go")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "node"), []byte("#!/bin/sh\necho "+c.node+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, "cdk.out")
		t.Setenv("PATH", dir)
		t.Setenv("CDK_CONTEXT_JSON", c.context)
		t.Setenv("CDK_OUTDIR", out)
		config, _ := os.Stat("../dist/firn.yaml")
		err := run()
		for _, fault := range c.faults {
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: error %v, want %q", name, err, fault)
			}
		}
		if err != nil && len(strings.Split(err.Error(), "\n")) != len(c.faults) {
			t.Errorf("%s: want a line a fault: %v", name, err)
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Errorf("%s: something was synthesised: %v", name, err)
		}
		if now, _ := os.Stat("../dist/firn.yaml"); now != nil && (config == nil || !now.ModTime().Equal(config.ModTime())) {
			t.Errorf("%s: firn.yaml was written", name)
		}
	}
}
