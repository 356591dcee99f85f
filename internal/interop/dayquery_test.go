//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"testing"

	"firn/internal/icebergtest"
)

// dayPlan is what planning a query for one partition took.
type dayPlan struct {
	Opens      int     `json:"opens"`
	CPUSeconds float64 `json:"cpu_seconds"`
}

// plan lets PyIceberg plan a query for one partition.
func (w *world) plan(t *testing.T, table string) (got dayPlan) {
	t.Helper()
	properties := maps.Clone(w.properties)
	properties["py-io-impl"] = "pyiceberg.io.pyarrow.PyArrowFileIO"
	input, err := json.Marshal(map[string]any{"catalog": properties, "table": table, "column": "c0", "value": 50})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Getenv("FIRN_PYTHON"), "dayquery.py")
	cmd.Env = []string{"HOME=" + w.home, "PATH=" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1"}
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
	output, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(output, &got)
	}
	if err != nil {
		t.Fatalf("run dayquery.py: %v\n%s", err, stderr.String())
	}
	return got
}

// TestOneDayQuery: 900 manifests become at most six, and PyIceberg, which opened nearly all of them for a query of one partition, opens one or two.
// The files' own bounds are made up and rule them out. How much processor time that saves is told, and not asked for: it depends on the machine.
func TestOneDayQuery(t *testing.T) {
	w := newWorld(t)
	tbl := icebergtest.NewLocalWorld(t).Scattered(900, 10)
	w.must(t, "register", "--table", "db.t", "--metadata-location", tbl.Pointer().MetadataLocation)
	before := w.plan(t, "db.t")
	w.must(t, "sql", "ALTER TABLE db.t SET TBLPROPERTIES ('commit.manifest.target-size-bytes' = '240000')")
	w.must(t, "call", "rewrite_manifests", "--table", "db.t")
	after := w.plan(t, "db.t")
	t.Logf("before: %d opens, %.2f s; after: %d opens, %.3f s: %.0f times as fast", before.Opens, before.CPUSeconds, after.Opens, after.CPUSeconds,
		before.CPUSeconds/after.CPUSeconds)
	// One open is the manifest list's.
	if after.Opens < 2 || after.Opens > 3 || before.Opens < 20*(after.Opens-1) {
		t.Errorf("%d files are opened, %d before", after.Opens, before.Opens)
	}
}

func (w *world) must(t *testing.T, args ...string) {
	t.Helper()
	if got := w.firn(args...); got.code != 0 {
		t.Fatalf("firn %q: %s", args, got)
	}
}
