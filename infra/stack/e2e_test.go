package stack_test

import (
	"os"
	"strings"
	"testing"
)

// deployed are the settings of the deployment that `make e2e` runs on one machine: every source, a topic, another account's bucket, and mode maintain.
func deployed() map[string]string {
	return with("warehouse", "s3://lake/warehouse,s3://partner/tables", "warehouse.roles", "partner=arn:aws:iam::999988887777:role/firn-{function}", "mode", "maintain", "sources", "glue,s3,cloudtrail", "topics", "arn:aws:sns:eu-west-1:111122223333:commits", "accounts", "111122223333",
		"config", "infra/testdata/e2e/policy.yaml", "secrets", "arn:aws:secretsmanager:eu-west-1:111122223333:secret:service-AbCdEf", "compact.concurrency", "8", "compact.parallel", "4", "sweep.parallel", "2", "queue.batch", "100")
}

// TestDeployment keeps the template and the firn.yaml that `make e2e` reads: they are what is synthesised, with assets under the names of what is in them.
func TestDeployment(t *testing.T) {
	tp := synth(t, deployed())
	same(t, "../testdata/e2e/firn.yaml", tp.config)
	same(t, "../testdata/e2e/template.json", tp.committed())
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
