package commit

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

	"firn/internal/icebergtest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestSummaries compares the summaries of typical commits with golden text: every key that we write.
func TestSummaries(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, c := range []struct {
		name  string
		world func() (*fixture, []string)
	}{
		{"v1, three of four files", func() (*fixture, []string) {
			x := newFixture(t, icebergtest.Version(1))
			return x, x.small(4)[:3]
		}},
		{"v2, position and equality deletes", func() (*fixture, []string) {
			x := newFixture(t)
			paths := x.small(3)
			x.table.Commit(icebergtest.DeletePositions(paths[0], 0, 1))
			x.table.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(8)}))
			return x, paths
		}},
		{"v3, vectors", func() (*fixture, []string) {
			x := newFixture(t, icebergtest.Version(3))
			paths := x.small(3)
			x.table.Commit(icebergtest.DeleteVectors(map[string][]int64{paths[0]: {0}, paths[1]: {1}}))
			return x, paths
		}},
	} {
		x, paths := c.world()
		x.pin(false, paths)
		x.compact()
		x.mustCommit(x.rows())
		x.recount()
		if x.head().Summary.Operation != table.OpReplace {
			t.Errorf("%s: operation %s", c.name, x.head().Summary.Operation)
		}
		fmt.Fprintf(&got, "%s\n", c.name)
		s := x.head().Summary.Properties
		for _, key := range slices.Sorted(maps.Keys(s)) {
			value := s[key]
			if strings.HasSuffix(key, "-size") || strings.HasPrefix(key, "firn.") && key != "firn.job" {
				value = "…"
			}
			fmt.Fprintf(&got, "  %s %s\n", key, value)
		}
	}
	const golden = "testdata/summaries.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("summaries (run with -update to accept):\n%s", diff)
	}
}
