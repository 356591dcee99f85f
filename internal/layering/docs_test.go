package layering

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"firn/internal/policy"
)

var update = flag.Bool("update", false, "rewrite golden files")

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
	for _, name := range strings.Fields(string(pages)) {
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
	for _, row := range rows(page(t, "docs/dependencies.md")) {
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

// TestGoldenPolicyReference makes docs/policy.md of the policy's keys.
func TestGoldenPolicyReference(t *testing.T) {
	t.Parallel()
	const name = "../../docs/policy.md"
	before, _, found := strings.Cut(page(t, "docs/policy.md"), policyMark)
	if !found {
		t.Fatalf("docs/policy.md lacks the line %q", strings.TrimSpace(policyMark))
	}
	want := before + policyMark + policyTables()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if page(t, "docs/policy.md") != want {
		t.Error("docs/policy.md is not what the policy's keys say: go test ./internal/layering -run Golden -update")
	}
}

const policyMark = "<!-- below: made by go test ./internal/layering -run Golden -update -->\n"

func policyTables() string {
	var b strings.Builder
	job := "-"
	for _, k := range policy.Keys() {
		if string(k.Job) != job {
			job = string(k.Job)
			title := "The table"
			if job != "" {
				title = "`" + job + "`"
			}
			b.WriteString("\n## " + title + "\n\n| Key | Kind | Default | Also set by | What it does |\n|---|---|---|---|---|\n")
		}
		b.WriteString("| `" + k.Name + "` | " + kindText(k) + " | " + defaultText(k) + " | " + nameText(k) + " | " + k.Note + " |\n")
	}
	return b.String()
}

func kindText(k policy.Key) string {
	if len(k.Values) > 0 {
		return strings.Join(k.Values, ", ")
	}
	return string(k.Kind)
}

func defaultText(k policy.Key) string {
	text := "-"
	if k.Default != "" {
		text = "`" + k.Default + "`"
	}
	if k.Glue != "" {
		text += " (glue: `" + k.Glue + "`)"
	}
	return text
}

func nameText(k policy.Key) string {
	var names []string
	if k.Option != "" {
		names = append(names, "option `"+k.Option+"`")
	}
	if k.Argument != "" {
		names = append(names, "argument `"+k.Argument+"`")
	}
	if k.Property != "" {
		names = append(names, "property `"+k.Property+"`")
	}
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ", ")
}
