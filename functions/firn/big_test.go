package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"firn/internal/icebergtest"
)

// asProgram in the environment makes the test binary the program, so that a test can look at a process of its own. It names the file that the
// program leaves its status in.
const asProgram = "FIRN_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	at := os.Getenv(asProgram)
	if at == "" {
		os.Exit(m.Run())
	}
	code := run(context.Background(), os.Args[1:], process{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()})
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		err = os.WriteFile(at, status, 0o600)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(code)
}

// program runs the command line as a process of its own. It answers with the process's peak memory in bytes as well, which the process tells itself:
// what the system tells of an ended process is never less than its parent's, since it began as a copy of that.
func (b *bench) program(args ...string) (got outcome, used *os.ProcessState, peak int64) {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.proc.dir, &out, &errs
	at := filepath.Join(b.t.TempDir(), "status")
	cmd.Env = append(os.Environ(), append(b.proc.environ, asProgram+"="+at)...)
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	status, err := os.ReadFile(at)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, errs.String())
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscanf(rest, "%d kB", &peak); err != nil {
		b.t.Fatalf("read the process's status: %v", err)
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), errs.String()}, cmd.ProcessState, peak << 10
}

// TestSeedFigure128FilesOf4MB compacts 128 files of 4 MB into one, in at most 200 MB of memory.
func TestSeedFigure128FilesOf4MB(t *testing.T) {
	if os.Getenv("FIRN_BIG") == "" {
		t.Skip("writes 1 GB: set FIRN_BIG=1")
	}
	b := newBench(t)
	w := icebergtest.NewLocalWorld(t)
	table := w.NewTable("db.big", icebergtest.Columns("id long required", "payload binary"))
	rng := rand.New(rand.NewPCG(1, 2))
	const files, rowsPerFile, rowBytes = 128, 1000, 4096
	for f := range files {
		rows := make([]icebergtest.Row, rowsPerFile)
		for i := range rows {
			payload := make([]byte, rowBytes)
			for at := 0; at < rowBytes; at += 8 {
				n := rng.Uint64()
				for k := range 8 {
					payload[at+k] = byte(n >> (8 * k))
				}
			}
			rows[i] = icebergtest.Row{f*rowsPerFile + i, payload}
		}
		table.Commit(icebergtest.Append(rows...))
	}
	b.must("register", "--table", "db.big", "--metadata-location", table.Pointer().MetadataLocation)
	got, state, peak := b.program("call", "rewrite_data_files", "--table", "db.big", "--json")
	if got.code != exitDone {
		t.Fatalf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	object := b.object(got)
	if object["rewritten_data_files_count"] != json.Number("128") || object["added_data_files_count"] != json.Number("1") {
		t.Errorf("result %v", object)
	}
	const most = 200 << 20
	t.Logf("%s: %v of CPU, peak memory %d MB", filepath.Base(b.proc.dir), state.UserTime()+state.SystemTime(), peak>>20)
	if peak > most {
		t.Errorf("peak memory %d MB: want at most %d", peak>>20, most>>20)
	}
}
