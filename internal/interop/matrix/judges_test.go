//go:build interop

// Package matrix holds the page engines against every way of writing Parquet that they may meet: files of arrow-go, pyarrow, DuckDB and parquet-java in each
// encoding, codec and page version are merged in each way, and DuckDB, pyarrow and parquet-java must find in the outputs what they find in the inputs.
package matrix

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"firn/internal/icebergtest"
)

// request is what a judge is asked: see judge.py.
type request struct {
	Do       string   `json:"do"`
	By       string   `json:"by"`
	From     []string `json:"from,omitempty"`
	To       []string `json:"to,omitempty"`
	Encoding string   `json:"encoding,omitempty"`
	Version  int      `json:"version,omitempty"`
	Codec    string   `json:"codec,omitempty"`
	Files    []string `json:"files,omitempty"`
	Kept     bool     `json:"kept,omitempty"`
	Found    bool     `json:"found,omitempty"`
}

// facts are what a reader finds in files.
type facts struct {
	Error      string            `json:"error"`
	Rows       int               `json:"rows"`
	Order      string            `json:"order"`
	Descending bool              `json:"descending"`
	Digests    map[string]string `json:"digests"`
	Columns    map[string]counts `json:"columns"`
}

// counts are the facts of a column without repetition.
type counts struct {
	Present, Nulls int
	Min, Max       string
	MinHits        int   `json:"min_hits"`
	MaxHits        int   `json:"max_hits"`
	Found          []int `json:"found"`
}

// judge is a process that answers requests, one at a time.
type judge struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
}

// ask sends a request and waits for the answer.
func (j *judge) ask(r request) (facts, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line, err := json.Marshal(r)
	if err != nil {
		return facts{}, err
	}
	if _, err := j.in.Write(append(line, '\n')); err != nil {
		return facts{}, err
	}
	answer, err := j.out.ReadBytes('\n')
	if err != nil {
		return facts{}, fmt.Errorf("the judge is gone: %w", err)
	}
	var f facts
	if err := json.Unmarshal(answer, &f); err != nil {
		return f, fmt.Errorf("%w in %s", err, answer)
	}
	if f.Error != "" {
		return f, fmt.Errorf("%s: %s", r.By, f.Error)
	}
	return f, nil
}

func start(t *testing.T, name string, args ...string) *judge {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return &judge{in: in, out: bufio.NewReaderSize(out, 1<<20)}
}

// judges starts a process a language; pyarrow and DuckDB share one. A missing one skips the test, under STRICT=1 it fails.
func judges(t *testing.T) map[string]*judge {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("STRICT") == "1" {
		missing = t.Fatalf
	}
	python := os.Getenv("FIRN_PYTHON")
	if python == "" {
		missing("FIRN_PYTHON is not set: run make interop")
	}
	home := filepath.Join(icebergtest.Root(t), ".java")
	if _, err := os.Stat(filepath.Join(home, "ok")); err != nil {
		missing("the Java judges are not set up: run make java")
	}
	java := "java"
	if at := os.Getenv("JAVA_HOME"); at != "" {
		java = filepath.Join(at, "bin", "java")
	}
	py := start(t, python, "judge.py")
	return map[string]*judge{
		"pyarrow": py, "duckdb": py,
		"java": start(t, java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(home, "classes")+":"+filepath.Join(home, "lib", "*"),
			"firn.parquet.Judge"),
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
