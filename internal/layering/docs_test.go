package layering

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"firn/internal/edge"
	"firn/internal/policy"
)

// page reads a document by its path from the module's root.
func page(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatalf("read document: %v", err)
	}
	return string(data)
}

// rows are the cells of a page's tables.
func rows(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	return out
}

// TestArchitectureShowsTheImportTable compares the table for people with the one that is enforced.
func TestArchitectureShowsTheImportTable(t *testing.T) {
	t.Parallel()
	layers, imports := map[string][]string{}, map[string]string{}
	for _, row := range rows(page(t, "docs/architecture.md")) {
		if len(row) == 4 && len(row[0]) == 1 && strings.Contains("01234", row[0]) {
			name := strings.Trim(row[1], "`")
			layers["layer "+row[0]] = append(layers["layer "+row[0]], name)
			imports[name] = row[3]
		}
	}
	for _, r := range rooms() {
		pure, may := false, map[string]bool{}
		for word := range strings.SplitSeq(imports[r.name], ", ") {
			switch {
			case word == "pure":
				pure = true
			case layers[word] != nil:
				for _, name := range layers[word] {
					may[name] = true
				}
			default:
				may[word] = true
			}
		}
		shown, enforced := slices.Sorted(maps.Keys(may)), slices.Sorted(slices.Values(r.may))
		if pure != r.pure || !slices.Equal(shown, slices.Compact(enforced)) {
			t.Errorf("docs/architecture.md shows for room %s: %v, pure %t; enforced are %v, pure %t", r.name, shown, pure, enforced, r.pure)
		}
		delete(imports, r.name)
	}
	for name := range imports {
		t.Errorf("docs/architecture.md shows the room %s, which is in no layering table", name)
	}
}

var link = regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)

// TestLinksLeadSomewhere follows every link from one document to a file of the project.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages, err := exec.Command("git", "-C", "../..", "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Skipf("git does not list the documents: %v", err)
	}
	for name := range strings.FieldsSeq(string(pages)) {
		for _, m := range link.FindAllStringSubmatch(page(t, name), -1) {
			if m[1] == "" || strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat("../../" + path.Join(path.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
		}
	}
}

// TestEveryDecisionIsListed keeps the list of decisions complete.
func TestEveryDecisionIsListed(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("../../docs/adr")
	if err != nil {
		t.Fatal(err)
	}
	text := page(t, "docs/architecture.md")
	for _, f := range files {
		if !strings.Contains(text, "adr/"+f.Name()) {
			t.Errorf("docs/architecture.md does not list the decision %s", f.Name())
		}
	}
}

// TestDependenciesAreListed compares docs/dependencies.md with the modules that our packages import, tests included.
func TestDependenciesAreListed(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	modules, _, _ := strings.Cut(page(t, "docs/dependencies.md"), "\n## Judges of other languages") // Those are no Go modules.
	for _, row := range rows(modules) {
		if name := strings.Trim(row[0], "`"); strings.Contains(name, ".") {
			listed[name] = true
		}
	}
	required := regexp.MustCompile(`(?m)^\t(\S+) v`).FindAllStringSubmatch(page(t, "go.mod"), -1)
	imported := map[string]bool{}
	for _, p := range list(t, "./...") {
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			module := ""
			for _, m := range required {
				if (imp == m[1] || strings.HasPrefix(imp, m[1]+"/")) && len(m[1]) > len(module) {
					module = m[1]
				}
			}
			if module != "" {
				imported[module] = true
			}
		}
	}
	for name := range imported {
		if !listed[name] {
			t.Errorf("%s is imported and has no line in docs/dependencies.md", name)
		}
	}
	for name := range listed {
		if !imported[name] {
			t.Errorf("docs/dependencies.md lists %s, which nothing imports", name)
		}
	}
}

// TestExampleConfigurationIsUnderstood reads the firn.yaml that operators copy.
func TestExampleConfigurationIsUnderstood(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(page(t, "docs/operations.md"), "```yaml\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/operations.md has no example")
	}
	settings, err := edge.ParseSettings([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Parse(settings.Policy); err != nil {
		t.Error(err)
	}
}

var namedTest = regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`")

// TestCasesNameTestsThatExist holds docs/cases.md: each of the 105 cases has one line, and a test that it names is there.
func TestCasesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	const cases = 105
	text, seen := page(t, "docs/cases.md"), map[string]bool{}
	for _, row := range rows(text) {
		if len(row) == 4 && row[0] != "Case" {
			if seen[row[0]] {
				t.Errorf("case %s has two lines", row[0])
			}
			seen[row[0]] = true
		}
	}
	if len(seen) != cases {
		t.Errorf("docs/cases.md has %d cases: want %d", len(seen), cases)
	}
	sources := map[string]string{}
	for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
		if _, read := sources[m[1]]; !read {
			files, err := filepath.Glob("../" + m[1] + "/*_test.go")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				data, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				sources[m[1]] += string(data)
			}
		}
		if !strings.Contains(sources[m[1]], "func "+m[2]+"(") {
			t.Errorf("docs/cases.md names %s.%s, which does not exist", m[1], m[2])
		}
	}
}
