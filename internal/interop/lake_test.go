//go:build interop

// Package interop lets other engines judge what Firn wrote: the real binary maintains tables in an S3 server through a SQLite catalog, and
// PyIceberg and DuckDB, in a process of their own, read them. It needs FIRN_PYTHON, an interpreter with tools/requirements.txt installed.
package interop

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/icebergtest"
	"firn/internal/store"
	"firn/internal/store/storetest"
)

const bucket = "firn-ref"

// world is a lake that Firn and the judges share.
type world struct {
	t          *testing.T
	server     *storetest.S3Server
	properties map[string]string
	home       string
}

// newWorld starts an S3 server and makes an empty catalog.
func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv("FIRN_PYTHON") == "" {
		if os.Getenv("STRICT") == "1" {
			t.Fatal("FIRN_PYTHON is not set: run make interop")
		}
		t.Skip("FIRN_PYTHON is not set: run make interop")
	}
	w := &world{t: t, server: storetest.NewS3Server(t, bucket), home: t.TempDir()}
	w.properties = map[string]string{"type": "sql", "uri": "sqlite:///" + filepath.Join(w.home, "catalog.db"), "warehouse": "s3://" + bucket + "/warehouse"}
	maps.Copy(w.properties, w.server.Properties)
	return w
}

// add serves a reference table's objects and registers it as db.<name> with the real binary.
func (w *world) add(name string) icebergtest.Expected {
	w.t.Helper()
	dir, expected := icebergtest.ReferenceDir(w.t, name)
	for _, o := range expected.Objects {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(o.Key)))
		if err != nil {
			w.t.Fatal(err)
		}
		w.server.Seed(w.t, bucket, o.Key, data, time.UnixMilli(o.LastModifiedMS))
	}
	if err := os.RemoveAll(dir); err != nil {
		w.t.Fatal(err)
	}
	if got := w.firn("register", "--table", "db."+name, "--metadata-location", expected.MetadataFile); got.code != 0 {
		w.t.Fatalf("register %s: %s", name, got)
	}
	return expected
}

// result is what the binary answered.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) String() string {
	return strings.TrimSpace(r.stdout + r.stderr)
}

// object decodes the one JSON object on stdout.
func (r result) object(t *testing.T) map[string]any {
	t.Helper()
	var object map[string]any
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil {
		t.Fatalf("decode %q: %v (stderr %s)", r.stdout, err, r.stderr)
	}
	return object
}

// firn runs bin/firn with the world's catalog.
func (w *world) firn(args ...string) result {
	w.t.Helper()
	for _, key := range slices.Sorted(maps.Keys(w.properties)) {
		args = append(args, "-P", key+"="+w.properties[key])
	}
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(icebergtest.Root(w.t), "bin", "firn"), args...)
	cmd.Dir, cmd.Env = w.home, []string{"HOME=" + w.home, "FIRN_HOME=" + w.home, "PATH=" + os.Getenv("PATH")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("run bin/firn (make bin/firn makes it): %v", err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// call runs a procedure that must end well.
func (w *world) call(procedure, table string, args ...string) map[string]any {
	w.t.Helper()
	got := w.firn(append([]string{"call", procedure, "--table", "db." + table, "--json"}, args...)...)
	if got.code != 0 {
		w.t.Fatalf("%s of %s ended with %d: %s", procedure, table, got.code, got)
	}
	return got.object(w.t)
}

// job is one piece of work for judge.py.
type job struct {
	Do    string         `json:"do"`
	Table string         `json:"table"`
	Where string         `json:"where,omitempty"`
	Set   map[string]any `json:"set,omitempty"`
	Raw   bool           `json:"raw,omitempty"`
}

// verdict is judge.py's answer to a job.
type verdict struct {
	Table            string               `json:"table"`
	Error            string               `json:"error"`
	MetadataLocation string               `json:"metadata_location"`
	Rows             int64                `json:"rows"`
	Facts            *icebergtest.Content `json:"facts"`
	Files            *icebergtest.Content `json:"files"`
	Live             map[string]int64     `json:"live"`
	ReadError        string               `json:"read_error"`

	Snapshots map[string]icebergtest.RowCount `json:"snapshots"`

	DataFiles   int `json:"data_files"`
	DeleteFiles int `json:"delete_files"`
	Found       map[string]*struct {
		Error     string `json:"error"`
		Want, Got int64
	} `json:"found"`
	DuckDB struct {
		Count   int64
		Columns map[string]duckColumn
	} `json:"duckdb"`
}

// duckColumn is what DuckDB finds in a column. Hits are rows that equal the smallest and the largest value: found by a filter, and counted.
type duckColumn struct {
	icebergtest.ColumnFacts
	Present, FilteredNulls int64
	Hits                   [][2]int64
}

// judge runs the jobs in one Python process.
func (w *world) judge(jobs ...job) []verdict {
	w.t.Helper()
	input, err := json.Marshal(map[string]any{"catalog": w.properties, "jobs": jobs})
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), os.Getenv("FIRN_PYTHON"), "judge.py")
	cmd.Env = []string{"HOME=" + w.home, "PATH=" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1", "AWS_EC2_METADATA_DISABLED=true", "AWS_REQUEST_CHECKSUM_CALCULATION=WHEN_REQUIRED"}
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
	output, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("run judge.py: %v\n%s", err, stderr.String())
	}
	var verdicts []verdict
	for line := range bytes.Lines(output) {
		var v verdict
		if err := json.Unmarshal(line, &v); err != nil {
			w.t.Fatalf("decode %q: %v", line, err)
		}
		verdicts = append(verdicts, v)
	}
	if len(verdicts) != len(jobs) {
		w.t.Fatalf("judge.py answered %d of %d jobs\n%s", len(verdicts), len(jobs), stderr.String())
	}
	return verdicts
}

// keys lists what the bucket holds.
func (w *world) keys() []string {
	w.t.Helper()
	st, err := store.New(store.Config{Properties: w.properties})
	if err != nil {
		w.t.Fatal(err)
	}
	var keys []string
	for info, err := range st.List(w.t.Context(), "s3://"+bucket+"/", store.ListOptions{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		keys = append(keys, strings.TrimPrefix(info.Location, "s3://"+bucket+"/"))
	}
	return keys
}

// read judges one table's rows without DuckDB.
func (w *world) read(table string) icebergtest.Content {
	w.t.Helper()
	v := w.judge(job{Do: "read", Table: "db." + table, Raw: true})[0]
	if v.Error != "" {
		w.t.Fatalf("PyIceberg reads %s: %s", table, v.Error)
	}
	return *v.Facts
}
