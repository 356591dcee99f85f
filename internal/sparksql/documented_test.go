package sparksql

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"firn/internal/maintenance"
)

// TestArgumentsAreDocumented holds the tables of arguments in docs/compatibility.md against the signatures: every argument has a line, in Spark's order.
func TestArgumentsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	argument := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]+ \\| [^|]+ \\|$")
	for _, job := range []maintenance.Job{
		maintenance.RewritePositionDeleteFiles, maintenance.RewriteManifests, maintenance.ExpireSnapshots, maintenance.RemoveOrphanFiles,
	} {
		_, section, _ := strings.Cut(string(text), "\n## "+string(job)+"\n")
		section, _, found := strings.Cut(section, "\n### Differences\n")
		if !found {
			t.Errorf("%s has no section of its arguments", job)
			continue
		}
		var want, got []string
		for _, p := range procedures()[job] {
			want = append(want, p.name)
		}
		for _, line := range argument.FindAllStringSubmatch(section, -1) {
			got = append(got, line[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: docs/compatibility.md has the arguments %v, the signature %v", job, got, want)
		}
	}
}
