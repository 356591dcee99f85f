//go:build bench

package enginebench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// figure is one measured run: seconds, bytes, and megabytes of memory at its peak.
type figure struct {
	Workload   string  `json:"workload"`
	Contestant string  `json:"contestant"`
	CPU        float64 `json:"cpu"`
	Wall       float64 `json:"wall"`
	RSS        float64 `json:"rss_mb"`
	Bytes      float64 `json:"bytes"`
	Input      float64 `json:"input_bytes"`
	Checked    bool    `json:"checked,omitempty"`
}

// results are the figures of all runs since the file was begun.
type results struct {
	path string
	all  []figure
}

func openResults(t *testing.T, home string) *results {
	t.Helper()
	r := &results{path: filepath.Join(home, "results.jsonl")}
	data, err := os.ReadFile(r.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var f figure
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("read %s: %v", r.path, err)
		}
		r.all = append(r.all, f)
	}
	return r
}

func (r *results) add(t *testing.T, f figure) {
	t.Helper()
	r.all = append(r.all, f)
	line, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = out.Write(append(line, '\n'))
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}

// of are the figures of a contestant.
func (r *results) of(workload, contestant string) (out []figure) {
	for _, f := range r.all {
		if f.Workload == workload && f.Contestant == contestant {
			out = append(out, f)
		}
	}
	return out
}

// checked says that a result of the contestant was compared with its input.
func (r *results) checked(workload, contestant string) bool {
	return slices.ContainsFunc(r.of(workload, contestant), func(f figure) bool { return f.Checked })
}

// median is that of a point's figures.
func (r *results) median(p point) (float64, bool) {
	var all []float64
	for _, f := range r.of(p.workload, p.contestant) {
		all = append(all, p.of(f))
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[len(all)/2], true
}

// print writes the figures and the targets as Markdown.
func (r *results) print() {
	fmt.Printf("\n| workload | MB | contestant | runs | CPU s | wall s | MB/CPU s | x DuckDB | RSS MB | out/in |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, w := range workloads() {
		contestants := w.contestants
		if w.scans {
			contestants = append(slices.Clone(contestants), "engine, scan", "duckdb, scan")
		}
		for _, c := range contestants {
			r.printLine(w.name, c)
		}
	}
	fmt.Printf("\n| what | target | measured | |\n|---|---|---|---|\n")
	for _, t := range targets() {
		v, ok := r.median(t.of)
		if t.by.of != nil {
			by, known := r.median(t.by)
			v, ok = v/by, ok && known
		}
		if !ok {
			continue
		}
		verdict, sign := "held", "≥"
		if t.most {
			sign = "≤"
		}
		if v < t.want != t.most && v != t.want {
			verdict = "**missed**"
		}
		fmt.Printf("| %s | %s %g | %.3f | %s |\n", t.what, sign, t.want, v, verdict)
	}
}

func (r *results) printLine(workload, contestant string) {
	at := func(of func(figure) float64) float64 {
		v, _ := r.median(point{workload, contestant, of})
		return v
	}
	n := len(r.of(workload, contestant))
	if n == 0 {
		return
	}
	input := at(func(f figure) float64 { return f.Input }) / 1e6
	fmt.Printf("| %s | %.0f | %s | %d | %.2f | %.2f | ", workload, input, contestant, n, at(cpu), at(wall))
	if strings.HasSuffix(contestant, "scan") {
		fmt.Printf("| | | |\n")
		return
	}
	base, ok := r.median(point{workload, "duckdb", cpu})
	ratio := ""
	if ok {
		ratio = fmt.Sprintf("%.2f", base/at(cpu))
	}
	fmt.Printf("%.0f | %s | %.0f | %.3f |\n", input/at(cpu), ratio, at(rss), at(grown))
}
