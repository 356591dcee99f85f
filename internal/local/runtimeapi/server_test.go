package runtimeapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"firn/internal/local/runtimeapi"
	"firn/internal/workflow"
)

// program is the path of the built test function.
var program string // built once by TestMain

// helperEnv makes the test binary a host that starts one process, prints its ID and waits to be killed.
const helperEnv = "FIRN_RUNTIMEAPI_HELPER"

func TestMain(m *testing.M) {
	if path := os.Getenv(helperEnv); path != "" {
		os.Exit(helper(path))
	}
	os.Exit(buildAndRun(m))
}

func helper(path string) int {
	s := runtimeapi.New(runtimeapi.Options{Now: time.Now})
	err := s.Add(runtimeapi.Function{Name: "f", Bootstrap: path, MemoryMB: 128, Timeout: time.Minute})
	if err == nil {
		var out json.RawMessage
		out, err = s.Invoke(context.Background(), "f", json.RawMessage(`{"do":"pid"}`))
		fmt.Println(string(out))
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	time.Sleep(time.Hour)
	return 0
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "firn-bootstrap-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", program, "./testdata/bootstrap")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build test function: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// logs collects what processes write.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) add(function, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, function+": "+line)
}

func (l *logs) contain(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool { return strings.Contains(line, s) })
}

func serve(t *testing.T, change func(*runtimeapi.Function)) (*runtimeapi.Server, *logs) {
	t.Helper()
	l := &logs{}
	s := runtimeapi.New(runtimeapi.Options{Now: time.Now, Log: l.add, Env: map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}})
	t.Cleanup(s.Close)
	f := runtimeapi.Function{Name: "f", Bootstrap: program, MemoryMB: 256, Timeout: time.Minute}
	if change != nil {
		change(&f)
	}
	if err := s.Add(f); err != nil {
		t.Fatal(err)
	}
	return s, l
}

func invoke(t *testing.T, s *runtimeapi.Server, payload string) (string, *workflow.TaskError) {
	t.Helper()
	out, err := s.Invoke(t.Context(), "f", json.RawMessage(payload))
	var named *workflow.TaskError
	if err != nil && !errors.As(err, &named) {
		t.Fatalf("got %v, want a TaskError", err)
	}
	return string(out), named
}

func TestAnswerAndWarmReuse(t *testing.T) {
	s, _ := serve(t, nil)
	pid, err := invoke(t, s, `{"do":"pid"}`)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, err := invoke(t, s, `{"do":"pid"}`); err != nil || again != pid {
			t.Fatalf("got process %s (%v), want %s", again, err, pid)
		}
	}
	if out, err := invoke(t, s, `{"do":"echo","value":{"a":[1,"ü <&>"],"id":9007199254740993}}`); err != nil || out != `{"a":[1,"ü <&>"],"id":9007199254740993}` {
		t.Fatalf("got %s %v", out, err)
	}
	if got := s.Stats("f"); got.ColdStarts != 1 || got.Invocations != 22 || got.Running != 1 {
		t.Fatalf("got %+v", got)
	}
	if out, err := s.Invoke(t.Context(), "arn:aws:lambda:us-east-1:000000000000:function:f", json.RawMessage(`{"do":"pid"}`)); err != nil || string(out) != pid {
		t.Fatalf("by ARN: %s %v", out, err)
	}
}

// TestErrorTypes is the table of error names that a function written with aws-lambda-go reports. The last column says whether the process
// survives.
func TestErrorTypes(t *testing.T) {
	s, _ := serve(t, nil)
	for _, c := range []struct {
		do, name, cause string
		survives        bool
	}{
		{"pointer", "CommitConflict", `"errorMessage":"branch main moved"`, true},
		{"value", "BadPlan", `"errorMessage":"bad plan"`, true},
		{"wrapped", "wrapError", `"errorMessage":"wrap: branch main moved"`, true},
		{"joined", "joinError", `"errorMessage":"branch main moved\nbad plan"`, true},
		{"plain", "errorString", `"errorMessage":"plain"`, true},
		{"embedded", "Throttled", `"errorMessage":"slow down"`, true},
		{"named", "Firn.Transient", `"errorMessage":"try again"`, true},
		{"panic", "string", `"errorMessage":"boom"`, false},
		{"exit", "Runtime.ExitError", `Runtime exited with error: exit status 3`, false},
		{"die", "Runtime.ExitError", `signal: killed`, false},
	} {
		before := s.Stats("f").ColdStarts
		if _, err := invoke(t, s, `{"do":"pid"}`); err != nil {
			t.Fatal(err)
		}
		_, err := invoke(t, s, `{"do":"`+c.do+`"}`)
		if err == nil || err.Name != c.name || !strings.Contains(err.Cause, c.cause) {
			t.Errorf("%s: got %v, want %s with %s", c.do, err, c.name, c.cause)
		}
		if !json.Valid([]byte(err.Cause)) {
			t.Errorf("%s: cause is no JSON: %s", c.do, err.Cause)
		}
		if c.do == "panic" && !strings.Contains(err.Cause, `"stackTrace"`) {
			t.Errorf("panic has no stack: %s", err.Cause)
		}
		if _, err := invoke(t, s, `{"do":"pid"}`); err != nil {
			t.Fatal(err)
		}
		after := s.Stats("f").ColdStarts
		if before > 0 && (after == before) != c.survives {
			t.Errorf("%s: %d cold starts before, %d after, survives %v", c.do, before, after, c.survives)
		}
	}
}

func TestTimeoutKills(t *testing.T) {
	s, _ := serve(t, func(f *runtimeapi.Function) { f.Timeout = time.Second })
	_, err := invoke(t, s, `{"do":"sleep","ms":3600000}`)
	if err == nil || err.Name != "Sandbox.Timedout" || !strings.Contains(err.Cause, "Task timed out after 1.00 seconds") {
		t.Fatalf("got %v", err)
	}
	if _, err := invoke(t, s, `{"do":"pid"}`); err != nil {
		t.Fatalf("after a timeout: %v", err)
	}
	if got := s.Stats("f"); got.ColdStarts != 2 {
		t.Fatalf("got %+v", got)
	}
}

func TestInvocationContext(t *testing.T) {
	s, _ := serve(t, nil)
	out, err := invoke(t, s, `{"do":"context"}`)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		ARN, Request, Name string
		LeftMS             int64 `json:"left_ms"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.ARN != "arn:aws:lambda:us-east-1:000000000000:function:f" || got.Request == "" || got.Name != "f" || got.LeftMS <= 0 || got.LeftMS > 60_000 {
		t.Fatalf("got %+v", got)
	}
}

func TestEnvironmentIsLambdasAndNothingElse(t *testing.T) {
	t.Setenv("FIRN_LEAK", "from the host")
	s, _ := serve(t, func(f *runtimeapi.Function) {
		f.Env = map[string]string{"FIRN_CONFIG": "x=y"}
		f.AccessKeyID = "role-plan"
	})
	out, taskErr := invoke(t, s, `{"do":"env"}`)
	if taskErr != nil {
		t.Fatal(taskErr)
	}
	var list []string
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, item := range list {
		name, value, _ := strings.Cut(item, "=")
		got[name] = value
	}
	for name, want := range map[string]string{
		"AWS_LAMBDA_FUNCTION_NAME": "f", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256", "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST", "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "role-plan", "_HANDLER": "bootstrap", "LAMBDA_TASK_ROOT": filepath.Dir(program), "FIRN_CONFIG": "x=y",
		"AWS_EXECUTION_ENV": "AWS_Lambda_provided.al2023", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/f",
	} {
		if got[name] != want {
			t.Errorf("%s=%q, want %q", name, got[name], want)
		}
	}
	if _, leaked := got["FIRN_LEAK"]; leaked {
		t.Error("the host's environment leaked into the function")
	}
	if _, leaked := got["HOME"]; leaked {
		t.Error("HOME leaked into the function")
	}
	if temp := got["TMPDIR"]; temp == "" {
		t.Error("no TMPDIR")
	} else if s.Close(); exists(temp) {
		t.Errorf("%s was left behind", temp)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestPayloadLimits(t *testing.T) {
	s, l := serve(t, nil)
	if out, err := invoke(t, s, fmt.Sprintf(`{"do":"size","size":%d}`, runtimeapi.MaxPayloadBytes-2)); err != nil || len(out) != runtimeapi.MaxPayloadBytes {
		t.Fatalf("6 MB: %d bytes, %v", len(out), err)
	}
	if _, err := invoke(t, s, fmt.Sprintf(`{"do":"size","size":%d}`, 7<<20)); err == nil || err.Name != "Function.ResponseSizeTooLarge" {
		t.Fatalf("7 MB: got %v", err)
	}
	if _, err := invoke(t, s, `{"do":"pid"}`); err != nil {
		t.Fatal(err)
	}
	if !l.contain("413") {
		t.Error("the process did not hear of 413")
	}
	if _, err := invoke(t, s, `{"do":"echo","value":"`+strings.Repeat("x", runtimeapi.MaxPayloadBytes)+`"}`); err == nil || err.Name != "Lambda.RequestTooLargeException" {
		t.Fatalf("big request: got %v", err)
	}
}

func TestParallelInvocationsHaveTheirOwnProcesses(t *testing.T) {
	s, _ := serve(t, nil)
	var mu sync.Mutex
	pids := map[string]bool{}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			out, err := s.Invoke(t.Context(), "f", json.RawMessage(`{"do":"sleep","ms":300}`))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			pids[string(out)] = true
		})
	}
	group.Wait()
	if got := s.Stats("f"); len(pids) < 2 || got.ColdStarts != len(pids) {
		t.Fatalf("%d processes answered, %+v", len(pids), got)
	}
}

func TestReservedConcurrencyThrottles(t *testing.T) {
	s, _ := serve(t, func(f *runtimeapi.Function) { f.ReservedConcurrency = 1 })
	if _, err := invoke(t, s, `{"do":"pid"}`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Invoke(t.Context(), "f", json.RawMessage(`{"do":"sleep","ms":500}`))
		done <- err
	}()
	for s.Stats("f").Idle > 0 || s.Stats("f").Invocations < 2 {
		time.Sleep(time.Millisecond)
	}
	if _, err := invoke(t, s, `{"do":"pid"}`); err == nil || err.Name != "Lambda.TooManyRequestsException" {
		t.Fatalf("got %v", err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestInitFailures(t *testing.T) {
	s, _ := serve(t, func(f *runtimeapi.Function) { f.Env = map[string]string{"TEST_INIT": "exit"} })
	if _, err := invoke(t, s, `{"do":"pid"}`); err == nil || err.Name != "Runtime.ExitError" || !strings.Contains(err.Cause, "exit status 7") {
		t.Fatalf("got %v", err)
	}
	if got := s.Stats("f"); got.Running != 0 {
		t.Fatalf("got %+v", got)
	}
	script := filepath.Join(t.TempDir(), "bootstrap")
	if err := os.WriteFile(script, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(runtimeapi.Function{Name: "broken", Bootstrap: script, MemoryMB: 128, Timeout: time.Second}); err != nil {
		t.Fatal(err)
	}
	var named *workflow.TaskError
	if _, err := s.Invoke(t.Context(), "broken", json.RawMessage(`{}`)); !errors.As(err, &named) || named.Name != "Runtime.InvalidEntrypoint" {
		t.Fatalf("got %v", err)
	}
	if _, err := s.Invoke(t.Context(), "absent", json.RawMessage(`{}`)); !errors.As(err, &named) || named.Name != "Lambda.ResourceNotFoundException" {
		t.Fatalf("got %v", err)
	}
}

func TestKillWhileIdleAndAtWork(t *testing.T) {
	s, _ := serve(t, nil)
	first, err := invoke(t, s, `{"do":"pid"}`)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Kill("f"); n != 1 {
		t.Fatalf("killed %d", n)
	}
	second, err := invoke(t, s, `{"do":"pid"}`)
	if err != nil || second == first {
		t.Fatalf("killed while idle: got %s %v", second, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Invoke(t.Context(), "f", json.RawMessage(`{"do":"sleep","ms":3600000}`))
		done <- err
	}()
	for s.Stats("f").Invocations < 3 {
		time.Sleep(time.Millisecond)
	}
	s.Kill("f")
	var named *workflow.TaskError
	if err := <-done; !errors.As(err, &named) || named.Name != "Runtime.ExitError" {
		t.Fatalf("killed at work: got %v", err)
	}
}

func TestEndOfContextKillsTheProcess(t *testing.T) {
	s, _ := serve(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Invoke(ctx, "f", json.RawMessage(`{"do":"sleep","ms":3600000}`))
		done <- err
	}()
	for s.Stats("f").Invocations < 1 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	for s.Stats("f").Running > 0 {
		time.Sleep(time.Millisecond)
	}
}

func TestCloseLeavesNoProcess(t *testing.T) {
	goodbye := filepath.Join(t.TempDir(), "goodbye")
	s, _ := serve(t, func(f *runtimeapi.Function) { f.Env = map[string]string{"TEST_SIGTERM_FILE": goodbye} })
	out, taskErr := invoke(t, s, `{"do":"pid"}`)
	if taskErr != nil {
		t.Fatal(taskErr)
	}
	var pid int
	if err := json.Unmarshal([]byte(out), &pid); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("process %d: %v", pid, err)
	}
	if text, err := os.ReadFile(goodbye); err != nil || string(text) != "goodbye" {
		t.Fatalf("the process got no SIGTERM: %q %v", text, err)
	}
	if _, err := invoke(t, s, `{"do":"pid"}`); err == nil {
		t.Fatal("invoked after Close")
	}
	s.Close()
}

func TestAddRefusesWhatLambdaRefuses(t *testing.T) {
	s, _ := serve(t, nil)
	err := s.Add(runtimeapi.Function{
		Name: "f f", Bootstrap: filepath.Dir(program), MemoryMB: 64, Timeout: 16 * time.Minute,
		Env: map[string]string{"AWS_REGION": "x", "1X": "y", "BIG": strings.Repeat("x", 5000)},
	})
	for _, want := range []string{"name must", "timeout 16m0s", "memory 64", "AWS_REGION is reserved", `"1X" has no valid name`, "at most 4096", "not executable"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := s.Add(runtimeapi.Function{Name: "f", Bootstrap: program, MemoryMB: 128, Timeout: time.Second}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkWarmInvoke(b *testing.B) {
	s := runtimeapi.New(runtimeapi.Options{Now: time.Now})
	defer s.Close()
	if err := s.Add(runtimeapi.Function{Name: "f", Bootstrap: program, MemoryMB: 128, Timeout: time.Minute}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Invoke(b.Context(), "f", json.RawMessage(`{"do":"pid"}`)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestProcessesDieWithTheirHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a process with its parent")
	}
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), helperEnv+"="+program)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, err = fmt.Fscan(out, &pid)
	if killErr := errors.Join(host.Process.Kill(), err); killErr != nil {
		t.Fatal(killErr)
	}
	_ = host.Wait()
	for range 500 {
		if state := processState(pid); state == "" || state == "Z" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("process %d outlives its host in state %s", pid, processState(pid))
}

// processState reads the letter after the command's name in /proc; empty when the process is gone. Nobody may reap it here.
func processState(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return after[:1]
}
