//go:build bench

// Package enginebench measures what a rewrite costs beside what others need for the same bytes: processor seconds, wall time, memory and size of
// the result, every contestant in a process of its own, interleaved. It needs FIRN_PYTHON, an interpreter with tools/requirements.txt installed,
// and FIRN_BIN, the program. BENCH_SHARE sets the share of the full inputs, BENCH_ROUNDS the rounds, BENCH_ONLY a part of the workloads' names.
package enginebench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// workload is an input and what is done with it.
type workload struct {
	name string
	// inputs is the kind that generate.py makes, files how many of them at full size.
	inputs string
	files  int
	codec  string
	// order sorts, in DuckDB's words; sortOrder in Firn's.
	order, sortOrder string
	// properties are set on the table.
	properties []string
}

func workloads() []workload {
	return []workload{
		{name: "events zstd", inputs: "events-zstd", files: 128, codec: "zstd"},
		{name: "events snappy", inputs: "events-snappy", files: 128, codec: "snappy"},
		{name: "lineitem", inputs: "lineitem", files: 128, codec: "zstd"},
		{name: "lineitem, all dictionary", inputs: "lineitem-dictionary", files: 128, codec: "zstd"},
		{name: "tiny files", inputs: "tiny", files: 1500, codec: "zstd"},
		{name: "1 % random deletes", inputs: "deletes-random", files: 128, codec: "zstd"},
		{name: "1 % clustered deletes", inputs: "deletes-clustered", files: 128, codec: "zstd"},
		{name: "sort", inputs: "events-zstd", files: 350, codec: "zstd", order: "user_id", sortOrder: "user_id"},
		{name: "z-order", inputs: "events-zstd", files: 350, codec: "zstd", order: "user_id, status", sortOrder: "zorder(user_id, status)"},
		{
			name: "big row groups", inputs: "events-zstd", files: 16, codec: "zstd",
			properties: []string{"write.parquet.row-group-size-bytes=4194304"},
		},
	}
}

// figure is one measured run.
type figure struct {
	cpu, wall time.Duration
	rss       int64
	bytes     int64
}

// run measures one process.
func run(t *testing.T, cmd *exec.Cmd) figure {
	t.Helper()
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text.String())
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return figure{cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), wall: time.Since(start), rss: usage.Maxrss << 10}
}

// TestBench prints one Markdown table a workload.
func TestBench(t *testing.T) {
	python, firn := os.Getenv("FIRN_PYTHON"), os.Getenv("FIRN_BIN")
	if python == "" || firn == "" {
		t.Fatal("FIRN_PYTHON or FIRN_BIN is not set: run make bench-engine")
	}
	share, rounds := number(t, "BENCH_SHARE", 0.25), int(number(t, "BENCH_ROUNDS", 3))
	for _, w := range workloads() {
		if !strings.Contains(w.name, os.Getenv("BENCH_ONLY")) {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			b := newBench(t, w, python, firn, max(2, int(float64(w.files)*share)))
			b.measure(rounds)
		})
	}
}

func number(t *testing.T, name string, otherwise float64) float64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return n
}

// bench is a workload with its inputs.
type bench struct {
	*testing.T
	workload
	python, firn, folder, out string
	lake                      *place
	inputBytes                int64
	facts                     string
}

func newBench(t *testing.T, w workload, python, firn string, files int) *bench {
	t.Helper()
	b := &bench{T: t, workload: w, python: python, firn: firn, folder: t.TempDir(), out: t.TempDir()}
	run(t, exec.Command(python, "generate.py", w.inputs, b.folder, strconv.Itoa(files)))
	b.lake = newPlace(t, b)
	b.inputBytes = sizeOf(t, filepath.Join(b.folder, "data", "*.parquet"))
	b.facts = b.ask(filepath.Join(b.folder, "data", "*.parquet"), b.folder)
	return b
}

// ask reads rows, hashes, nulls and bounds with DuckDB.
func (b *bench) ask(args ...string) string {
	b.Helper()
	out, err := exec.Command(b.python, append([]string{"duckdb_peer.py", "facts"}, args...)...).CombinedOutput()
	if err != nil {
		b.Fatalf("read facts: %v\n%s", err, out)
	}
	return string(out)
}

// contestants are run in this order each round.
func (b *bench) contestants() []string {
	if b.order != "" {
		return []string{"firn", "duckdb"}
	}
	return []string{"firn", "duckdb", "arrow-go", "copy", "recode"}
}

func (b *bench) measure(rounds int) {
	all := map[string][]figure{}
	for round := range rounds {
		for _, c := range b.contestants() {
			f := b.contest(c, round == 0)
			all[c] = append(all[c], f)
		}
	}
	fmt.Printf("\n#### %s: %s, %d rounds\n\n| contestant | CPU s | wall s | MB/CPU s | x duckdb | RSS MB | out/in |\n|---|---|---|---|---|---|---|\n",
		b.name, megabytes(b.inputBytes), rounds)
	base := median(all["duckdb"], func(f figure) float64 { return f.cpu.Seconds() })
	for _, c := range b.contestants() {
		cpu := median(all[c], func(f figure) float64 { return f.cpu.Seconds() })
		fmt.Printf("| %s | %.2f | %.2f | %.0f | %.2f | %.0f | %.3f |\n", c, cpu, median(all[c], func(f figure) float64 { return f.wall.Seconds() }),
			float64(b.inputBytes)/1e6/cpu, base/cpu, median(all[c], func(f figure) float64 { return float64(f.rss) / 1e6 }),
			median(all[c], func(f figure) float64 { return float64(f.bytes) / float64(b.inputBytes) }))
	}
}

// contest runs one contestant; with check its result has to have the rows of the input.
func (b *bench) contest(name string, check bool) figure {
	out := filepath.Join(b.out, "out.parquet")
	defer func() { _ = os.RemoveAll(out) }()
	data := filepath.Join(b.folder, "data")
	var f figure
	switch name {
	case "firn":
		b.lake.reset()
		f = run(b.T, b.lake.rewrite())
		out = b.lake.outputs()
		defer b.lake.clear()
	case "duckdb":
		f = run(b.T, exec.Command(b.python, "duckdb_peer.py", "merge", b.folder, out, b.codec, b.order))
	default:
		self, err := os.Executable()
		if err != nil {
			b.Fatal(err)
		}
		cmd := exec.Command(self, "-test.run=^$")
		cmd.Env = append(os.Environ(), contestant+"="+name, "BENCH_DATA="+data, "BENCH_OUT="+out)
		f = run(b.T, cmd)
	}
	f.bytes = sizeOf(b.T, out)
	if name != "recode" && name != "copy" && name != "arrow-go" && check {
		if got := b.ask(out); got != b.facts {
			b.Errorf("%s has other rows:\n%s\nwant\n%s", name, got, b.facts)
		}
	}
	return f
}

func sizeOf(t *testing.T, glob string) (n int64) {
	t.Helper()
	names, err := filepath.Glob(glob)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

func median(figures []figure, of func(figure) float64) float64 {
	var all []float64
	for _, f := range figures {
		all = append(all, of(f))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
