//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firn/internal/contract"
	"firn/internal/local/runtimeapi"
	"firn/internal/workflow"
)

var emulated = flag.Bool("emulated", false, "run the programs for arm64 under an emulator: make e2e-arm64")

// TestEmulated: the programs for arm64 that would be deployed start and answer, under an emulator of that machine. What the state machine calls gets a payload of
// an unknown version and must say so by the error's name: then its wiring, its clients and its decoding ran. The two others are given nothing to do.
func TestEmulated(t *testing.T) {
	if !*emulated {
		t.Skip("make e2e-arm64 runs it")
	}
	emulator := ""
	for _, name := range []string{"qemu-aarch64-static", "qemu-aarch64"} {
		if path, err := exec.LookPath(name); err == nil {
			emulator = path
		}
	}
	if emulator == "" {
		const reason = "the programs for arm64 were not run: no qemu-aarch64 here (package qemu-user-static)"
		if os.Getenv("STRICT") == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	d := deploy(t, document(t))
	logs := &logs{}
	server := runtimeapi.New(runtimeapi.Options{Now: time.Now, Region: region, AccountID: account, Log: logs.add, Env: map[string]string{
		"AWS_ENDPOINT_URL": d.URL(), "AWS_EC2_METADATA_DISABLED": "true", "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1",
	}})
	t.Cleanup(server.Close)
	for _, fn := range d.Stack().Functions {
		verb := strings.TrimPrefix(fn.Description, "Firn: ")
		program, err := filepath.Abs(filepath.Join(root, "dist", "arm64", verb, "bootstrap"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(program); err != nil {
			t.Fatalf("%v: make build makes it", err)
		}
		script := filepath.Join(t.TempDir(), "bootstrap")
		if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nexec %s %s\n", emulator, program), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := server.Add(runtimeapi.Function{
			Name: verb, Bootstrap: script, Env: fn.Environment.Variables, MemoryMB: fn.MemorySize, Timeout: time.Minute, AccessKeyID: fn.Role[strings.LastIndex(fn.Role, "/")+1:],
		}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		answer, err := server.Invoke(context.Background(), verb, json.RawMessage(`{"v":99,"run":{"table":{"catalog":"glue","namespace":["db"],"name":"t"}}}`))
		t.Logf("%s: %s after %s, %s %v", verb, emulator, time.Since(start).Round(time.Millisecond), bytes.TrimSpace(answer), err)
		var failure *workflow.TaskError
		switch verb {
		case contract.FunctionEvaluate, contract.FunctionSchedule: // a batch without messages, a tick that finds no table
			if err != nil {
				t.Errorf("%s: %v\n%s", verb, err, logs.text())
			}
		default:
			if !errors.As(err, &failure) || failure.Name != contract.ErrorUnsupportedVersion {
				t.Errorf("%s: %v\n%s", verb, err, logs.text())
			}
		}
	}
}
