package catalogs_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestNoTablePackage guards cold starts: functions that only look link this package and must not link iceberg-go's table or catalog packages.
func TestNoTablePackage(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(path, "github.com/apache/iceberg-go") {
			t.Errorf("links %s", path)
		}
	}
}
