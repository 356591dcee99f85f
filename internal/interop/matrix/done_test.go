//go:build interop

package matrix

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var doneFile = flag.String("done", "", "file of the ways of writing that are done: they are not merged again")

// tally counts what was compared.
type tally struct {
	// Cells are counted by writer, Compared by reader, Tiers are bytes by way of merging and tier.
	Cells    map[string]int   `json:"cells"`
	Compared map[string]int   `json:"compared"`
	Tiers    map[string]int64 `json:"tiers"`
	Seconds  float64          `json:"seconds"`
}

func newTally() tally {
	return tally{Cells: map[string]int{}, Compared: map[string]int{}, Tiers: map[string]int64{}}
}

func (c *tally) add(other tally) {
	for k, n := range other.Cells {
		c.Cells[k] += n
	}
	for k, n := range other.Compared {
		c.Compared[k] += n
	}
	for k, n := range other.Tiers {
		c.Tiers[k] += n
	}
	c.Seconds += other.Seconds
}

func (c *tally) log(t *testing.T) {
	t.Helper()
	sum := 0
	for _, n := range c.Cells {
		sum += n
	}
	t.Logf("%d cells in %.0f s; by writer: %v; outputs compared by reader: %v", sum, c.Seconds, c.Cells, c.Compared)
	for _, k := range slices.Sorted(maps.Keys(c.Tiers)) {
		t.Logf("%-30s %10d bytes", k, c.Tiers[k])
	}
}

// done is a line of the file of what is done: a way of writing whose merges were all right.
type done struct {
	Variant string `json:"variant"`
	Tally   tally  `json:"tally"`
}

// finished reads the ways of writing that were right before, and counts them.
func finished(t *testing.T, total *tally) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	data, err := os.ReadFile(*doneFile)
	if err != nil && *doneFile != "" && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var d done
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("read %s: %v", *doneFile, err)
		}
		if !known[d.Variant] {
			known[d.Variant] = true
			total.add(d.Tally)
		}
	}
	return known
}

// record remembers a way of writing whose merges were all right.
func record(t *testing.T, d done) {
	t.Helper()
	if *doneFile == "" || t.Failed() {
		return
	}
	data, err := json.Marshal(d)
	must(t, err)
	f, err := os.OpenFile(*doneFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(t, err)
	_, err = f.Write(append(data, '\n'))
	must(t, errors.Join(err, f.Close()))
}
