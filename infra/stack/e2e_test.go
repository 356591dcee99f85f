package stack_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
)

// deployed are the settings of the deployment that `make e2e` runs on one machine: every source, a topic, and mode maintain.
func deployed() map[string]string {
	return with("mode", "maintain", "sources", "glue,s3,cloudtrail", "topics", "arn:aws:sns:eu-west-1:111122223333:commits", "accounts", "111122223333",
		"config", "infra/testdata/e2e/policy.yaml", "secrets", "arn:aws:secretsmanager:eu-west-1:111122223333:secret:service-AbCdEf", "compact.concurrency", "8", "compact.parallel", "4", "sweep.parallel", "2", "queue.batch", "100")
}

// TestDeployment keeps the template and the firn.yaml that `make e2e` reads: they are what is synthesised, with assets under the names of what is in them.
func TestDeployment(t *testing.T) {
	app, made := build(t, deployed())
	var raw map[string]any
	noPanic(t, func() { raw = *assertions.Template_FromStack(made.Stack, nil).ToJSON() })
	data, err := json.MarshalIndent(raw, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(*app.Outdir(), "Firn.assets.json"))
	if err != nil {
		t.Fatal(err)
	}
	var assets struct {
		Files map[string]struct{ Source struct{ Path string } }
	}
	if err := json.Unmarshal(manifest, &assets); err != nil {
		t.Fatal(err)
	}
	const dir = "../testdata/e2e/"
	for hash, asset := range assets.Files {
		path := filepath.Join(*app.Outdir(), asset.Source.Path)
		code, err := os.ReadFile(filepath.Join(path, "bootstrap"))
		switch {
		case err == nil:
			data = bytes.ReplaceAll(data, []byte(hash), []byte("ASSET-"+strings.TrimPrefix(string(code), "code of ")))
		case filepath.Ext(path) == ".yaml":
			data = bytes.ReplaceAll(data, []byte(hash), []byte("ASSET-firn"))
			config, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			same(t, dir+"firn.yaml", config)
		}
	}
	same(t, dir+"template.json", append(normal(data), '\n'))
}

// same holds bytes against a committed file, or writes it.
func same(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) == string(want) {
		return
	}
	a, b := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("what is synthesised differs from %s at line %d (make infra-golden writes it anew):\n- %s\n+ %s", path, i+1, a[i], b[i])
		}
	}
	t.Fatalf("what is synthesised has %d lines, %s has %d", len(b), path, len(a))
}
