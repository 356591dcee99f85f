//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// scan reads tables with DuckDB's Iceberg extension. It is skipped where make spark did not set that up.
func (w *world) scan(t *testing.T, tables ...string) []verdict {
	t.Helper()
	python := os.Getenv("FIRN_HISTORIES_PYTHON")
	if _, err := os.Stat(python); err != nil {
		if os.Getenv("STRICT") == "1" {
			t.Fatal("DuckDB's Iceberg extension is not set up: run make spark")
		}
		t.Skip("DuckDB's Iceberg extension is not set up: run make spark")
	}
	input, err := json.Marshal(map[string]any{"catalog": w.properties, "tables": tables})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "scan.py")
	cmd.Env = []string{"HOME=" + w.home, "PATH=" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1", "AWS_EC2_METADATA_DISABLED=true"}
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("run scan.py: %v\n%s", err, stderr.String())
	}
	var verdicts []verdict
	for line := range bytes.Lines(output) {
		var v verdict
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("decode %q: %v", line, err)
		}
		verdicts = append(verdicts, v)
	}
	if len(verdicts) != len(tables) {
		t.Fatalf("scan.py answered for %d of %d tables\n%s", len(verdicts), len(tables), stderr.String())
	}
	return verdicts
}
