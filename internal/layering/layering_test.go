// Package layering enforces the import table of docs/architecture.md: rooms import downwards only, dangerous dependencies stay where they are
// allowed, and functions that only look never link iceberg-go's table package.
package layering

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// goPackage is the part of `go list -json` that the rules read.
type goPackage struct {
	ImportPath string
	GoFiles    []string
	// IgnoredGoFiles are left out on this system.
	IgnoredGoFiles []string
	Imports        []string
	TestImports    []string
	XTestImports   []string
	Deps           []string
}

// room says what a room may import of this module, beside itself and its own sub-packages.
type room struct {
	name string
	may  []string
	// pure rooms import only the standard library and rooms of this module.
	pure bool
}

const module = "firn/internal/"

var layer0 = []string{"contract", "maintenance"}

// rooms is the table of docs/architecture.md. A sub-package belongs to its room unless it has a line of its own.
func rooms() []room {
	decideRooms := []string{"contract", "maintenance", "policy", "decide", "event", "sparksql"}
	reach := []string{"authority", "lake", "store", "state", "handoff", "telemetry", "edge", "parquet", "deletes"}
	do := append(slices.Concat(layer0, decideRooms), reach...)
	return []room{
		{name: "contract", pure: true},
		{name: "maintenance", pure: true},
		{name: "policy", may: layer0},
		{name: "sparksql", may: layer0},
		{name: "decide", may: []string{"contract", "maintenance", "policy", "sparksql"}, pure: true},
		{name: "event", may: layer0},
		{name: "store", may: layer0},
		{name: "state", may: layer0},
		{name: "handoff", may: append([]string{"store"}, layer0...)},
		{name: "telemetry", may: layer0},
		{name: "authority", may: append([]string{"policy", "lake", "store"}, layer0...)},
		{name: "edge", may: append([]string{"authority", "telemetry", "handoff", "lake", "policy", "state", "store"}, layer0...)},
		{name: "lake", may: append([]string{"store", "handoff"}, decideRooms...)},
		{name: "parquet", may: append([]string{"store"}, layer0...)},
		{name: "deletes", may: append([]string{"store", "parquet"}, layer0...)},
		{name: "evaluate", may: do},
		{name: "schedule", may: do},
		{name: "plan", may: do},
		{name: "compact", may: do},
		{name: "commit", may: do},
		{name: "sweep", may: do},
		{name: "report", may: do},
		{name: "verify", may: do},
		{name: "restore", may: do},
		{name: "workflow", may: layer0},
	}
}

// freeRooms may import everything: hosts, and support for tests.
func freeRooms() []string {
	return []string{"local", "icebergtest", "simulation", "layering", "interop", "enginebench", "stress"}
}

func TestRoomsImportDownwardsOnly(t *testing.T) {
	t.Parallel()
	for _, fault := range edgeFaults(list(t, "./..."), rooms()) {
		t.Error(fault)
	}
}

// TestWrongEdgeIsFound shows that the check can fail: a package of the pure core that reaches a store.
func TestWrongEdgeIsFound(t *testing.T) {
	t.Parallel()
	wrong := []goPackage{
		{ImportPath: module + "decide", Imports: []string{"fmt", module + "store"}},
		{ImportPath: module + "policy", Imports: []string{module + "decide"}},
		{ImportPath: module + "maintenance", Imports: []string{"github.com/apache/iceberg-go"}},
		{ImportPath: module + "stray"},
	}
	if got := edgeFaults(wrong, rooms()); len(got) != 4 {
		t.Errorf("faults %q: want one for each of the four packages", got)
	}
}

func TestLookingFunctionsDoNotLinkTable(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "./functions/...", "./internal/evaluate", "./internal/schedule", "./internal/report") {
		if !looks(p.ImportPath) {
			continue
		}
		for _, dep := range p.Deps {
			if dep == "github.com/apache/iceberg-go/table" || strings.HasPrefix(dep, "github.com/apache/iceberg-go/table/") {
				t.Errorf("%s links %s: its initialiser costs every cold start 126 ms and 32 MB", p.ImportPath, dep)
			}
		}
	}
}

// TestDeployedFunctionsHaveNoSQLite: a database in a file of one machine is of no use on Lambda, and costs each function 2 MB zipped and its share of init.
func TestDeployedFunctionsHaveNoSQLite(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "-tags=nosqlite", "./functions/evaluate", "./functions/schedule", "./functions/plan", "./functions/compact", "./functions/commit",
		"./functions/sweep", "./functions/report") {
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, "modernc.org/") {
				t.Errorf("%s links %s in spite of the tag nosqlite", p.ImportPath, dep)
			}
		}
	}
}

// TestDangerousPowers keeps committing and deleting in one room each.
func TestDangerousPowers(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "./internal/...", "./functions/...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasSuffix(name, "test") {
			continue // conformance suites and test support
		}
		for _, imp := range p.Imports {
			if imp == module+"lake/committer" && !slices.Contains([]string{"commit", "local", "simulation"}, top(name)) && name != "lake/committer" &&
				!strings.HasPrefix(p.ImportPath, "firn/functions/commit") && !strings.HasPrefix(p.ImportPath, "firn/functions/firn") {
				t.Errorf("%s imports the committer: only commit commits", p.ImportPath)
			}
			if strings.HasPrefix(imp, "github.com/aws/aws-cdk-go") {
				t.Errorf("%s imports the CDK: only infra does", p.ImportPath)
			}
		}
	}
}

// TestPackagesAreSmall bounds a package by its number of files, tests aside: what needs more has a second concept in it.
func TestPackagesAreSmall(t *testing.T) {
	t.Parallel()
	const most = 12
	for _, p := range list(t, "./...") {
		if n := len(p.GoFiles) + len(p.IgnoredGoFiles); n > most {
			t.Errorf("%s has %d files: at most %d", p.ImportPath, n, most)
		}
	}
}

func looks(path string) bool {
	for _, f := range []string{"evaluate", "schedule", "report"} {
		if path == "firn/functions/"+f || path == module+f {
			return true
		}
	}
	return false
}

// edgeFaults returns one line for every import that the table does not allow.
func edgeFaults(packages []goPackage, table []room) []string {
	var faults []string
	for _, p := range packages {
		name, inside := strings.CutPrefix(p.ImportPath, module)
		if !inside || slices.Contains(freeRooms(), top(name)) {
			continue
		}
		i := slices.IndexFunc(table, func(r room) bool { return r.name == top(name) })
		if i < 0 {
			faults = append(faults, p.ImportPath+" is in no room of the layering table")
			continue
		}
		if strings.HasSuffix(name, "test") && strings.Contains(name, "/") {
			continue // conformance suites
		}
		for _, imp := range p.Imports {
			if fault := edgeFault(p.ImportPath, imp, table[i]); fault != "" {
				faults = append(faults, fault)
			}
		}
	}
	return faults
}

func edgeFault(from, imp string, r room) string {
	if strings.HasPrefix(imp, "firn/functions/") {
		return from + " imports " + imp + ": programs import rooms, never the other way round"
	}
	name, inside := strings.CutPrefix(imp, module)
	switch {
	case inside && top(name) != r.name && !slices.Contains(r.may, top(name)):
		return from + " imports " + imp + ": not allowed for room " + r.name
	case !inside && r.pure && strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
		return from + " imports " + imp + ": pure rooms use the standard library only"
	}
	return ""
}

func top(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

// list runs go list at the module's root.
func list(t *testing.T, patterns ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-deps=false", "-json=ImportPath,GoFiles,IgnoredGoFiles,Imports,TestImports,XTestImports,Deps"}, patterns...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		packages = append(packages, p)
	}
}
