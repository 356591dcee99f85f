package commit

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCounterexamplesExist holds the tests that docs/counterexamples.md names against the code.
func TestCounterexamplesExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.FromSlash("../../docs/counterexamples.md"))
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]string{"commit": ".", "rebase": "rebase", "sweep": "../sweep", "local": "../local", "verify": "../verify", "simulation": "../simulation"}
	code := map[string]string{}
	for room, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			code[room] += string(text)
		}
	}
	named := regexp.MustCompile("`([a-z]+)\\.(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1)
	for _, n := range named {
		if !strings.Contains(code[n[1]], "func "+n[2]+"(t *testing.T)") {
			t.Errorf("%s.%s is named and is not there", n[1], n[2])
		}
	}
	if len(named) < 80 {
		t.Errorf("%d tests are named: want at least 80", len(named))
	}
}
