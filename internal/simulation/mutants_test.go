package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var mutantsFlag = flag.String("mutants", "", "break the rules of these mutants one by one (names by comma, or all) and play the seeds until one fails")

// mutant is a rule that somebody broke.
type mutant struct{ name, file, old, broken string }

// mutants are the rules of the rooms that can lose data whose breach the seeds must notice: the text of a file, found there once, and its replacement.
func mutants() []mutant {
	return []mutant{
		{"a dropped column came back", "commit/view.go", "id <= newest && !had[id]", "id < 0"},
		{"position deletes in an upgraded table", "commit/deletes.go", "case have != pinned.FormatVersion:", "case have < 0:"},
		{"an unsettled batch counts as settled", "sweep/fate.go", "return l.result == nil && slices", "return false && slices"},
		{"what an attempt holds is free", "sweep/fate.go", "|| a.free() {", "|| true {"},
		{"settled when asked, not when it settled itself", "sweep/settle.go", "if e != nil && e.abandoned()", "if e != nil && e.unsettled()"},
		{
			"every attempt is over", "handoff/handoff.go", "func (f *Fate) Moved(head Head) bool {\n\tswitch {",
			"func (f *Fate) Moved(head Head) bool {\n\tswitch {\n\tcase true:\n\t\treturn true",
		},
		{
			"no attempt is ever over", "handoff/handoff.go", "func (f *Fate) Moved(head Head) bool {\n\tswitch {",
			"func (f *Fate) Moved(head Head) bool {\n\tswitch {\n\tcase true:\n\t\treturn false",
		},
		{"a service's head proves the end", "handoff/handoff.go", "return f.SequenceNumber > 0 && head.LastSequenceNumber >= f.SequenceNumber", "return f.AssertedSnapshotID != head.BranchHead"},
		{"commit goes on with a closed log", "commit/fate.go", "return f.Abandoned })", "return f.Abandoned && f.V < 0 })"},
		{"sweep leaves the log open", "sweep/fate.go", "for !l.closed {", "for !l.closed && l.batch < 0 {"},
		{"an attempt that landed is not found", "commit/settle.go", "if n >= 0 {", "if n >= 0 && head == nil {"},
		{
			"an announcement of another execution is taken for one's own", "commit/fate.go",
			"if !first && (written.Abandoned || !same(written, entry)) {", "if !first && written.Abandoned {",
		},
		{"deletes that arrived are forgotten", "commit/view.go", "if len(moved) == 0 {", "if len(moved) >= 0 {"},
		{"another file of its name", "commit/view.go", "now.DataSequence != in.DataSequence || now.SpecID", "now.SpecID"},
		{"outputs get a new sequence number", "commit/batch.go", "SpecID: e.SpecID, DataSequence: g.sequence}", "SpecID: e.SpecID}"},
		{"the proof is not extended", "sweep/proof.go", "if ptr.MetadataLocation == g.checked[i] {", "if ptr.MetadataLocation != \"\" {"},
		{"files of runs are like others", "sweep/orphans.go", "for _, id := range runIDs(name) {", "for _, id := range runIDs(\"\") {"},
		{"metadata after the head is like other files", "sweep/orphans.go", "if isMetadataFile(name) && f", "if isMetadataFile(\"\") && f"},
		{"the grace period of an expiry is over at once", "sweep/settle.go", "UnixMilli() < found.NotBeforeMS", "UnixMilli() < found.NotBeforeMS-1e6"},
		{"files of an expiry are orphans while they wait", "sweep/orphans.go", "err := o.waiting(ctx, o.head, reached.Add); err", "err := ctx.Err(); err"},
		{"an equality delete dangles too early", "lake/produce/dangling.go", "return d.DataSequence <= inScope, nil", "return d.DataSequence <= inScope+1, nil"},
	}
}

// TestMutantsApply keeps the list up to date: each mutant's text is in its file, once.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	for _, m := range mutants() {
		if _, err := m.apply(); err != nil {
			t.Error(err)
		}
	}
}

// apply returns the file with the rule broken.
func (m mutant) apply() (string, error) {
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(m.file)))
	if n := strings.Count(string(text), m.old); err == nil && n != 1 {
		err = fmt.Errorf("%s: its text is %d times in %s", m.name, n, m.file)
	}
	return strings.Replace(string(text), m.old, m.broken, 1), err
}

// TestMutants breaks the rules, each in a build of its own, and wants a seed of the range to fail.
func TestMutants(t *testing.T) {
	if *mutantsFlag == "" {
		t.Skip("takes minutes: make mutants")
	}
	for _, m := range mutants() {
		if *mutantsFlag != "all" && !strings.Contains(","+*mutantsFlag+",", ","+m.name+",") {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			begun, dir := time.Now(), t.TempDir()
			broken, err := m.apply()
			if err != nil {
				t.Fatal(err)
			}
			original, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(m.file)))
			if err != nil {
				t.Fatal(err)
			}
			replacement := filepath.Join(dir, "broken.go")
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string][]byte{replacement: []byte(broken), filepath.Join(dir, "overlay.json"): overlay} {
				if err := os.WriteFile(name, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			binary := filepath.Join(dir, "simulation.test")
			if out, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-c", "-o", binary, ".").
				CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
			out, err := exec.CommandContext(t.Context(), binary, "-test.run", "TestSeeds$", "-seeds", *seedsFlag, "-maxfail", "1", "-kinds=false").CombinedOutput()
			why := regexp.MustCompile(`seed \d+: .*`).FindString(string(out))
			took := time.Since(begun).Round(time.Second)
			if err == nil || why == "" {
				t.Fatalf("survives seeds %s (%s, %v)", *seedsFlag, took, err)
			}
			t.Logf("%s: %s", took, why)
		})
	}
}
