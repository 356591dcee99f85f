//go:build bench

// Package enginebench measures what a rewrite costs beside what others need for the same bytes: processor seconds, wall time, memory and size of
// the result, every contestant in a process of its own, interleaved. It needs FIRN_PYTHON, an interpreter with tools/requirements.txt installed,
// and FIRN_BIN, the program.
//
// BENCH_HOME keeps inputs and figures: a later run makes no input twice, adds its figures to those that are there, and prints medians of all.
// BENCH_SHARE sets the share of the full inputs, BENCH_ROUNDS the rounds of this run (0 only makes inputs), BENCH_ONLY a part of the workloads' names.
package enginebench

import (
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
	busy := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return figure{CPU: busy.Seconds(), Wall: time.Since(start).Seconds(), RSS: float64(usage.Maxrss<<10) / 1e6}
}

// TestBench measures, and prints the figures as Markdown.
func TestBench(t *testing.T) {
	python, firn, home := os.Getenv("FIRN_PYTHON"), os.Getenv("FIRN_BIN"), os.Getenv("BENCH_HOME")
	if python == "" || firn == "" || home == "" {
		t.Fatal("FIRN_PYTHON, FIRN_BIN or BENCH_HOME is not set: run make bench-engine")
	}
	share, rounds := number(t, "BENCH_SHARE", 0.25), int(number(t, "BENCH_ROUNDS", 3))
	r := openResults(t, home)
	for _, w := range workloads() {
		if !strings.Contains(w.name, os.Getenv("BENCH_ONLY")) {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			b := &bench{T: t, workload: w, python: python, firn: firn, folder: filepath.Join(home, w.inputs), files: max(2, int(float64(w.files)*share)), results: r}
			b.prepare(rounds > 0)
			for range rounds {
				for _, c := range w.contestants {
					r.add(t, b.contest(c))
				}
			}
		})
	}
	r.print()
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
	files                     int
	lake                      *place
	input                     float64
	facts                     string
	results                   *results
}

// prepare makes the inputs and, with run, what the contestants need.
func (b *bench) prepare(measure bool) {
	b.Helper()
	run(b.T, exec.Command(b.python, "generate.py", b.inputs, b.folder, strconv.Itoa(b.files)))
	if !measure {
		return
	}
	b.out, b.lake, b.input = b.TempDir(), newPlace(b.T, b), b.sizeOf(b.parts("data"))
	if !b.results.checked(b.name, b.contestants[0]) {
		b.facts = b.duckdb("facts", b.folder, strconv.Itoa(b.files), b.deletesFolder())
	}
}

func (b *bench) deletesFolder() string {
	if b.deletes == "" {
		return ""
	}
	return "deletes-" + b.deletes
}

// parts are the first files of a folder.
func (b *bench) parts(kind string) []string {
	b.Helper()
	names, err := filepath.Glob(filepath.Join(b.folder, kind, "part-*.parquet"))
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(names)
	return names[:b.files]
}

// duckdb asks DuckDB.
func (b *bench) duckdb(args ...string) string {
	b.Helper()
	out, err := exec.Command(b.python, append([]string{"duckdb_peer.py"}, args...)...).CombinedOutput()
	if err != nil {
		b.Fatalf("ask DuckDB: %v\n%s", err, out)
	}
	return string(out)
}

// contest runs one contestant; the first result of each has to have the rows of the input.
func (b *bench) contest(name string) figure {
	b.Helper()
	out := filepath.Join(b.out, "out")
	if err := os.Mkdir(out, 0o700); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(out) }()
	var f figure
	glob := filepath.Join(out, "*.parquet")
	who, how, _ := strings.Cut(name, ", ")
	switch who {
	case "firn":
		b.lake.reset(how != "no level")
		f = run(b.T, inOneCore(b.lake.rewrite(), how))
		glob = b.lake.outputs()
		defer b.lake.clear()
	case "duckdb":
		cmd := exec.Command(b.python, "duckdb_peer.py", "merge", b.folder, strconv.Itoa(b.files), b.deletesFolder(), filepath.Join(out, "out.parquet"), b.codec,
			strconv.Itoa(zstdLevel), b.order)
		cmd.Env = append(os.Environ(), preload()...)
		f = run(b.T, cmd)
	default:
		f = run(b.T, inOneCore(b.self(who, how, out), how))
	}
	f.Workload, f.Contestant, f.Input, f.Bytes = b.name, name, b.input, b.sizeOf(matches(b.T, glob))
	if (who == "engine" || who == "firn") && !b.results.checked(b.name, name) {
		f.Checked = b.check(name, glob)
	}
	if b.scans && (name == "engine" || name == "duckdb") {
		s := figure{Workload: b.name, Contestant: name + ", scan", Input: b.input}
		var err error
		if s.CPU, err = strconv.ParseFloat(strings.TrimSpace(b.duckdb("scan", glob)), 64); err != nil {
			b.Fatal(err)
		}
		b.results.add(b.T, s)
	}
	return f
}

// check compares the rows of a result with those of the input.
func (b *bench) check(name, glob string) bool {
	b.Helper()
	if b.facts == "" {
		b.facts = b.duckdb("facts", b.folder, strconv.Itoa(b.files), b.deletesFolder())
	}
	if got := b.duckdb("facts", glob); got != b.facts {
		b.Errorf("%s has other rows:\n%s\nwant\n%s", name, got, b.facts)
		return false
	}
	return true
}

// self is this binary as a contestant.
func (b *bench) self(who, how, out string) *exec.Cmd {
	b.Helper()
	path, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	if who != "engine" {
		out = filepath.Join(out, "out.parquet")
	}
	cmd := exec.Command(path, "-test.run=^$")
	cmd.Env = append(os.Environ(), contestant+"="+who, "BENCH_WORKLOAD="+b.name, "BENCH_DATA="+filepath.Join(b.folder, "data"), "BENCH_FILES="+strconv.Itoa(b.files),
		"BENCH_OUT="+out)
	if how == "no level" {
		cmd.Env = append(cmd.Env, "BENCH_NO_LEVEL=1")
	}
	return cmd
}

// inOneCore lets Go use one processor where the contestant's name says so.
func inOneCore(cmd *exec.Cmd, how string) *exec.Cmd {
	if how == "one core" {
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	return cmd
}

// preload is jemalloc where it is installed: DuckDB needs less with it.
func preload() []string {
	if libs, err := filepath.Glob("/usr/lib/*-linux-gnu/libjemalloc.so.2"); err == nil && len(libs) > 0 {
		return []string{"LD_PRELOAD=" + libs[0]}
	}
	return nil
}

func matches(t *testing.T, glob string) []string {
	t.Helper()
	names, err := filepath.Glob(glob)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func (b *bench) sizeOf(names []string) (n float64) {
	b.Helper()
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			b.Fatal(err)
		}
		n += float64(info.Size())
	}
	return n
}
