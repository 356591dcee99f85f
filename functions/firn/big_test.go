package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"firn/internal/icebergtest"
)

// asProgram in the environment makes the test binary the program, so that a test can look at a process of its own.
const asProgram = "FIRN_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program runs the command line as a process of its own.
func (b *bench) program(args ...string) (outcome, *os.ProcessState) {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.proc.dir, &out, &errs
	cmd.Env = append(os.Environ(), append(b.proc.environ, asProgram+"=1")...)
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), errs.String()}, cmd.ProcessState
}

// TestSeedFigure128FilesOf4MB compacts 128 files of 4 MB into one, in at most 512 MB of memory.
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
	got, state := b.program("call", "rewrite_data_files", "--table", "db.big", "--json")
	if got.code != exitDone {
		t.Fatalf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	object := b.object(got)
	if object["rewritten_data_files_count"] != json.Number("128") || object["added_data_files_count"] != json.Number("1") {
		t.Errorf("result %v", object)
	}
	usage := state.SysUsage().(*syscall.Rusage)
	t.Logf("%s: %v of CPU, peak memory %d MB", filepath.Base(b.proc.dir), state.UserTime()+state.SystemTime(), usage.Maxrss>>10)
	if usage.Maxrss>>10 > 512 {
		t.Errorf("peak memory %d MB: want at most 512", usage.Maxrss>>10)
	}
}
