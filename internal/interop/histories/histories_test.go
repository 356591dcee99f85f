//go:build interop

// Package histories plays random histories of operations on tables that Spark, PyIceberg, Iceberg's library and Firn share, by a SQL and a REST catalog, in
// local files and in an S3 server: they write, Firn maintains, they read. After each step the rows that an engine other than Firn finds must be those of a
// model, and Iceberg's own readers must accept all that the metadata names. A seed replays exactly.
package histories

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/icebergtest"
)

var (
	seedsFlag = flag.String("seeds", "1-3", "seeds to play: one, or first-last")
	stepsFlag = flag.Int("steps", 15, "steps of a history")
	doneFlag  = flag.String("done", "", "file of seeds that are done: they are not played again")
	paceFlag  = flag.String("pause", "", "wait between steps while this file exists")
)

// history is one seed's table.
type history struct {
	t        *testing.T
	lake     *lake
	m        *model
	tally    *tally
	table    string
	location string
	head     map[string]int // what Iceberg's library counts
	log      []string
	orphans  int
	able     map[string]bool // readers that read the table rightly before the step
	lineage  map[string][2]*int64
}

// tally counts, by job, the steps and those that changed something.
type tally struct {
	Steps, Changed map[string]int
}

func (c *tally) count(job string, changed bool) {
	c.Steps[job]++
	if changed {
		c.Changed[job]++
	}
}

// done is a line of the file of seeds that are done.
type done struct {
	Seed    uint64  `json:"seed"`
	Steps   int     `json:"steps"`
	Seconds float64 `json:"seconds"`
	Tally   tally   `json:"tally"`
}

// TestHistories plays the seeds, and asserts that over ten or more of them each job changed something in a fifth of its steps.
func TestHistories(t *testing.T) {
	var first, last uint64
	if n, err := fmt.Sscanf(*seedsFlag, "%d-%d", &first, &last); err != nil && n == 0 {
		t.Fatalf("read -seeds %q: %v", *seedsFlag, err)
	} else if n == 1 {
		last = first
	}
	total := tally{map[string]int{}, map[string]int{}}
	played := finished(t, &total)
	l := newLake(t)
	for seed := first; seed <= last; seed++ {
		if played[seed] {
			continue
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			start := time.Now()
			c := tally{map[string]int{}, map[string]int{}}
			play(t, l, seed, &c)
			total.add(c)
			record(t, done{seed, *stepsFlag, time.Since(start).Seconds(), c})
		})
	}
	for _, job := range slices.Sorted(maps.Keys(procedures())) {
		t.Logf("%s changed something in %d of %d steps", job, total.Changed[job], total.Steps[job])
		if last-first >= 9 && *stepsFlag >= 15 && !t.Failed() && 5*total.Changed[job] < total.Steps[job] {
			t.Errorf("%s changed something in fewer than a fifth of its steps", job)
		}
	}
}

func (c *tally) add(other tally) {
	for job, n := range other.Steps {
		c.Steps[job] += n
		c.Changed[job] += other.Changed[job]
	}
}

// finished reads the seeds that were played with as many steps.
func finished(t *testing.T, total *tally) map[uint64]bool {
	played := map[uint64]bool{}
	data, err := os.ReadFile(*doneFlag)
	if err != nil {
		return played
	}
	for line := range strings.Lines(string(data)) {
		var d done
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("read %s: %v", *doneFlag, err)
		}
		if d.Steps == *stepsFlag && !played[d.Seed] {
			played[d.Seed] = true
			total.add(d.Tally)
		}
	}
	return played
}

func record(t *testing.T, d done) {
	if *doneFlag == "" || t.Failed() {
		return
	}
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(*doneFlag, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(data, '\n')); err != nil {
		t.Fatal(err)
	}
}

// play makes a table and plays its history.
func play(t *testing.T, l *lake, seed uint64, c *tally) {
	h := &history{t: t, lake: l, tally: c, m: newModel(rand.New(rand.NewPCG(seed, 1))), table: fmt.Sprintf("db.h%d", seed), able: map[string]bool{}}
	h.create(seed)
	h.judge("create", "")
	for step := 1; step <= *stepsFlag; step++ {
		for *paceFlag != "" && exists(*paceFlag) {
			time.Sleep(time.Second)
		}
		firn := step > 3 && h.m.rng.IntN(2) == 0
		var name, did string
		switch {
		case step == 1:
			name, did = "spark insert", h.insert()
		case firn:
			name, did = "firn", h.maintain()
		default:
			for did == "" {
				name, did = h.write()
			}
		}
		h.log = append(h.log, fmt.Sprintf("%3d %s: %s", step, name, did))
		if testing.Verbose() {
			t.Log(h.log[len(h.log)-1])
		}
		h.judge(name, did)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// choose draws by weight.
func (h *history) choose(from []choice) string {
	sum := 0
	for _, c := range from {
		sum += c.weight
	}
	at := h.m.rng.IntN(sum)
	for _, c := range from {
		if at -= c.weight; at < 0 {
			return c.name
		}
	}
	return from[0].name
}

func (h *history) write() (name, did string) {
	var from []choice
	all := writers()
	for _, w := range all {
		from = append(from, choice{w.name, w.weight})
	}
	name = h.choose(from)
	return name, all[slices.IndexFunc(all, func(w writer) bool { return w.name == name })].run(h)
}

// create makes the table with Spark.
func (h *history) create(seed uint64) {
	h.location = "file://" + filepath.Join(h.lake.home, "tables", fmt.Sprint("h", seed))
	if h.m.rng.IntN(2) == 0 {
		h.location = fmt.Sprintf("s3://%s/tables/h%d", bucket, seed)
	}
	h.m.version = 2 + h.m.rng.IntN(2)
	var columns, spec []string
	for _, c := range h.m.columns {
		columns = append(columns, c.name+" "+c.sqlType())
	}
	properties := map[string]string{"format-version": fmt.Sprint(h.m.version), "write.distribution-mode": "none"}
	for range 3 {
		p := one(h, propertyList()...)
		properties[p[0]] = one(h, p[1:]...)
	}
	for _, mode := range []string{"write.delete.mode", "write.update.mode", "write.merge.mode"} {
		properties[mode] = one(h, "merge-on-read", "merge-on-read", "copy-on-write")
	}
	partitioned := ""
	if h.m.rng.IntN(3) > 0 {
		field := h.m.partitionField()
		h.m.fields = append(h.m.fields, h.stable(field))
		spec = append(spec, field)
		partitioned = " PARTITIONED BY (" + strings.Join(spec, ", ") + ")"
	}
	var props []string
	for k, v := range properties {
		props = append(props, fmt.Sprintf("'%s' = '%s'", k, v))
	}
	slices.Sort(props)
	h.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
	text := h.sql("CREATE TABLE lake.%s (%s) USING iceberg%s LOCATION '%s' TBLPROPERTIES (%s)", h.table, strings.Join(columns, ", "), partitioned, h.location,
		strings.Join(props, ", "))
	h.log = append(h.log, text)
	if testing.Verbose() {
		h.t.Log(text)
	}
}

// fail ends the history with its log.
func (h *history) fail(text string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("%s\nhistory:\n%s", fmt.Sprintf(text, args...), strings.Join(h.log, "\n"))
}

// difference describes how contents differ, "" when they do not.
func difference(got, want icebergtest.Content) string {
	var faults []string
	if got.Count != want.Count || got.Digest != want.Digest {
		faults = append(faults, fmt.Sprintf("%d rows with digest %s: want %d with %s", got.Count, got.Digest, want.Count, want.Digest))
	}
	for name, w := range want.Columns {
		if g, ok := got.Columns[name]; !ok || g != w {
			faults = append(faults, fmt.Sprintf("column %s has %+v: want %+v", name, g, w))
		}
	}
	if len(faults) == 0 {
		return ""
	}
	shown := 0
	for _, side := range []struct {
		sign string
		a, b []string
	}{{"lost ", want.Rows, got.Rows}, {"extra", got.Rows, want.Rows}} {
		for _, r := range side.a {
			if _, ok := slices.BinarySearch(side.b, r); !ok && shown < 10 {
				faults = append(faults, side.sign+" "+r)
				shown++
			}
		}
	}
	return strings.Join(faults, "\n")
}
