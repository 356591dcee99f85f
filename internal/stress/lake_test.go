//go:build stress

package stress

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// lake is a catalog with its processes: the Java server (catalog, writer, reader), PyIceberg's appender, and where Firn keeps its work.
type lake struct {
	t       *testing.T
	home    string
	java    string // address of the server's commands
	catalog map[string]string
	// database reaches the same tables without the server.
	database map[string]string
	py       *lines
}

// startLake starts the processes and makes an empty lake in a SQLite database, which clients reach as kind says: sqlite or rest.
func startLake(t *testing.T, kind string) *lake {
	t.Helper()
	l := &lake{t: t, home: t.TempDir()}
	dir := root(t)
	database, warehouse := filepath.Join(l.home, "catalog.db"), "file://"+filepath.Join(l.home, "warehouse")
	classes := os.Getenv("FIRN_JAVA_CLASSES")
	if classes == "" {
		classes = filepath.Join(dir, ".java", "classes")
	}
	server := exec.Command("java", "-Xmx384m", "-XX:+UseSerialGC", "-Dsun.net.httpserver.idleInterval=3600",
		"-cp", classes+":"+filepath.Join(dir, ".java", "lib", "*"), "firn.interop.LakeServer",
		"name=default", "uri=jdbc:sqlite:"+database+"?busy_timeout=60000", "warehouse="+warehouse, "jdbc.schema-version=V1")
	out := startLines(t, server)
	ready, err := out.line()
	port, found := strings.CutPrefix(strings.TrimSpace(string(ready)), "ready ")
	if err != nil || !found {
		t.Fatalf("start the Java server (make java sets it up): %q: %v", ready, err)
	}
	l.java = "http://127.0.0.1:" + port
	l.catalog = map[string]string{"type": "sql", "uri": "sqlite:///" + database, "warehouse": warehouse}
	l.database = l.catalog
	if kind == "rest" {
		l.catalog = map[string]string{"type": "rest", "uri": l.java, "warehouse": warehouse}
	}
	python := exec.Command(os.Getenv("FIRN_PYTHON"), filepath.Join(dir, "internal", "stress", "appender.py"))
	l.py = startLines(t, python)
	forPython := maps.Clone(l.catalog)
	if kind != "rest" {
		forPython["uri"] += "?timeout=60"
	}
	if err := l.py.ask(map[string]any{"catalog": forPython}, &struct{}{}); err != nil {
		t.Fatalf("start PyIceberg's appender: %v", err)
	}
	return l
}

// root is the folder of the checkout.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// binary is the program under stress.
func binary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("FIRN_BIN"); path != "" {
		return path
	}
	return filepath.Join(root(t), "bin", "firn")
}

// lines is a process that answers a line with a line.
type lines struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
}

// startLines starts a process that ends with the test, since its standard input does.
func startLines(t *testing.T, cmd *exec.Cmd) *lines {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &lines{in: in, out: bufio.NewReader(out)}
}

func (p *lines) line() ([]byte, error) { return p.out.ReadBytes('\n') }

// ask sends a request and decodes the answer; an answer with an error is one.
func (p *lines) ask(request, answer any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(data, '\n')); err != nil {
		return err
	}
	text, err := p.line()
	if err != nil {
		return err
	}
	return decodeAnswer(text, answer)
}

// do runs a command of the Java server.
func (l *lake) do(command map[string]any, answer any) error {
	body, err := json.Marshal(command)
	if err != nil {
		return err
	}
	response, err := http.Post(l.java+"/do", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return decodeAnswer(text, answer)
}

func decodeAnswer(text []byte, answer any) error {
	var fault struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(text, &fault); err != nil {
		return fmt.Errorf("decode %q: %w", text[:min(len(text), 200)], err)
	}
	if fault.Error != "" {
		return errors.New(fault.Error)
	}
	return json.Unmarshal(text, answer)
}

// readRow is a row as an engine read it.
type readRow struct {
	ID, Group, Version int64
	Pad                string
}

// UnmarshalJSON reads the array of a row.
func (r *readRow) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&r.ID, &r.Group, &r.Version, &r.Pad})
}

// health is what Iceberg's library counts in a table.
type health struct {
	SnapshotID      int64                        `json:"snapshot_id,string"`
	DataFiles       map[string]int               `json:"data_files"`
	PhysicalRows    int64                        `json:"physical_rows"`
	PositionDeletes int                          `json:"position_deletes"`
	EqualityDeletes int                          `json:"equality_deletes"`
	Manifests       int                          `json:"manifests"`
	Snapshots       map[string]map[string]string `json:"snapshots"`
}

// most is the number of data files of the fullest partition.
func (h health) most() int {
	return slices.Max(append(slices.Collect(maps.Values(h.DataFiles)), 0))
}

// firn makes a command of the real binary.
//
// Behind a REST catalog the files of an expiry wait for 15 minutes, which is longer than a run, at whose end nothing may be left over: expiries reach the
// server's database themselves.
func (l *lake) firn(args ...string) *exec.Cmd {
	catalog := l.catalog
	if slices.Contains(args, "expire_snapshots") {
		catalog = l.database
	}
	for _, key := range slices.Sorted(maps.Keys(catalog)) {
		args = append(args, "-P", key+"="+catalog[key])
	}
	cmd := exec.Command(binary(l.t), args...)
	cmd.Dir, cmd.Env = l.home, []string{"HOME=" + l.home, "FIRN_HOME=" + filepath.Join(l.home, "firn"), "FIRN_TEST=1", "PATH=" + os.Getenv("PATH")}
	return cmd
}

// load is the machine's load, as the kernel tells it.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}

// clock tells how long the run lasts.
type clock struct {
	started time.Time
	ends    time.Time
}

func (c clock) over() bool { return time.Now().After(c.ends) }
