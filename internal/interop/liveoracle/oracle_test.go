//go:build interop

// Package liveoracle maintains tables that Spark wrote twice, by Spark's procedures on one copy and by Firn's on another, with the same text, and compares what
// was selected, counted, numbered, left and deleted. Tables and calls are drawn by a seed: specs and their evolution, merge-on-read and equality deletes,
// upgrades, branches, tags, sort orders; options of all five procedures.
package liveoracle

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"firn/internal/icebergtest"
)

var (
	seeds = flag.String("seeds", "", "tables to draw: a number, or the first and last of a range")
	calls = flag.Int("calls", 8, "calls on each table")
)

// finding is a line of oracle.py.
type finding struct {
	Seed        int      `json:"seed"`
	Call        string   `json:"call"`
	Changed     bool     `json:"changed"`
	Spark       string   `json:"spark"`
	Broken      string   `json:"broken"`
	Differences []string `json:"differences"`
	Table       []string `json:"table"`
}

func TestLiveOracle(t *testing.T) {
	first, last, ok := parseSeeds(*seeds)
	if !ok {
		t.Skip("no -seeds: the live oracle runs by make liveoracle")
	}
	root := icebergtest.Root(t)
	home := t.TempDir()
	database, warehouse := filepath.Join(home, "catalog.db"), filepath.Join(home, "warehouse")
	port := startServer(t, root, home, database, warehouse)
	setup, err := json.Marshal(map[string]any{
		"spark_jars": []string{filepath.Join(root, ".java", "spark", "iceberg-spark-runtime.jar"), filepath.Join(root, ".java", "lib", "sqlite-jdbc-3.50.3.0.jar")},
		"server":     fmt.Sprintf("http://127.0.0.1:%d", port), "database": database, "warehouse": warehouse, "firn": filepath.Join(root, "bin", "firn"), "calls": *calls,
	})
	if err != nil {
		t.Fatal(err)
	}
	args := []string{filepath.Join(root, "internal", "interop", "liveoracle", "oracle.py"), string(setup)}
	for seed := first; seed <= last; seed++ {
		args = append(args, strconv.Itoa(seed))
	}
	cmd := exec.Command(os.Getenv("FIRN_HISTORIES_PYTHON"), args...)
	cmd.Dir, cmd.Stderr = home, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the oracle (make spark sets it up): %v", err)
	}
	judge(t, bufio.NewScanner(out))
	if err := cmd.Wait(); err != nil {
		t.Errorf("oracle.py ended: %v", err)
	}
}

func parseSeeds(text string) (first, last int, ok bool) {
	low, high, ranged := strings.Cut(text, "-")
	if !ranged {
		high = low
	}
	first, err1 := strconv.Atoi(low)
	last, err2 := strconv.Atoi(high)
	return first, last, err1 == nil && err2 == nil
}

// judge fails for each difference.
func judge(t *testing.T, lines *bufio.Scanner) {
	t.Helper()
	lines.Buffer(nil, 64<<20)
	compared, changed := 0, 0
	var statements []string
	for lines.Scan() {
		var f finding
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			t.Fatalf("decode %q: %v", lines.Text(), err)
		}
		switch {
		case f.Table != nil:
			statements = f.Table
			continue
		case f.Broken != "":
			t.Errorf("seed %d: %s\n%s", f.Seed, f.Call, f.Broken)
			continue
		}
		if compared++; f.Changed {
			changed++
		}
		if len(f.Differences) > 0 {
			t.Errorf("seed %d: %s\n  %s\nthe table:\n  %s", f.Seed, f.Call, strings.Join(f.Differences, "\n  "), strings.Join(statements, "\n  "))
		}
	}
	t.Logf("%d calls compared, %d of them changed something", compared, changed)
	if changed*3 < compared || compared == 0 {
		t.Errorf("%d of %d calls changed something: the tables or calls are no test", changed, compared)
	}
}

// startServer starts the Java server, which writes equality deletes, and returns its port.
func startServer(t *testing.T, root, home, database, warehouse string) int {
	t.Helper()
	cmd := exec.Command("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx400m", "-cp",
		filepath.Join(root, ".java", "classes")+":"+filepath.Join(root, ".java", "lib", "*"),
		"firn.interop.LakeServer", "name=lake", "uri=jdbc:sqlite:"+database, "warehouse=file://"+warehouse)
	cmd.Dir = home
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the Java server (make java sets it up): %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Logf("the Java server ended: %v", err)
		}
	})
	var port int
	if _, err := fmt.Fscanf(out, "ready %d", &port); err != nil {
		t.Fatalf("start the Java server: %v", err)
	}
	return port
}
