//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"firn/internal/contract"
	"firn/internal/icebergtest"
	"firn/internal/local/runtimeapi"
	"firn/internal/workflow"
)

var latency = flag.Bool("latency", false, "measure starts, calls and the time from an event to the commit: make e2e-latency")

// TestLatency measures on this machine: the start and a call of each function, and the time from a commit's event until its small files are compacted, for 22 MB in
// 5 and in 50 files, cold and warm (the debounce is left out). It prints tables for docs/scale.md and fails where a limit is passed.
func TestLatency(t *testing.T) {
	if !*latency {
		t.Skip("make e2e-latency measures")
	}
	t.Run("functions", callTimes)
	for _, files := range []int{5, 50} {
		t.Run(fmt.Sprint(files, " files"), func(t *testing.T) { eventToCommit(t, files) })
	}
}

// callTimes measures the time until a new process asks for work, and a call that is refused at once: what a call costs beside the work.
func callTimes(t *testing.T) {
	d := deploy(t, document(t))
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("| function | start and first call, ms | second call, ms |")
	for _, fn := range d.Stack().Functions {
		verb := strings.TrimPrefix(fn.Description, "Firn: ")
		var cold, warm []time.Duration
		for range 9 {
			server := runtimeapi.New(runtimeapi.Options{Now: time.Now, Region: region, AccountID: account, Env: map[string]string{
				"AWS_ENDPOINT_URL": d.URL(), "AWS_EC2_METADATA_DISABLED": "true",
			}})
			if err := server.Add(runtimeapi.Function{
				Name: verb, Bootstrap: filepath.Join(bin, verb), Env: fn.Environment.Variables, MemoryMB: fn.MemorySize, Timeout: time.Minute,
				AccessKeyID: fn.Role[strings.LastIndex(fn.Role, "/")+1:],
			}); err != nil {
				t.Fatal(err)
			}
			for _, into := range []*[]time.Duration{&cold, &warm} {
				start := time.Now()
				_, _ = server.Invoke(context.Background(), verb, json.RawMessage(`{"v":99}`)) // refused, or nothing to do
				*into = append(*into, time.Since(start))
			}
			server.Close()
		}
		slices.Sort(cold)
		slices.Sort(warm)
		t.Logf("| %s | %.0f | %.1f |", verb, cold[4].Seconds()*1000, warm[4].Seconds()*1000)
		// Functions that need no code of tables start in less than 60 ms.
		if light := verb == contract.FunctionEvaluate || verb == contract.FunctionSchedule || verb == contract.FunctionReport; light && cold[0] > 60*time.Millisecond {
			t.Errorf("%s needs %s for its start and first call", verb, cold[0])
		}
	}
}

// eventToCommit lets one table be compacted by new processes, and another one by the same.
func eventToCommit(t *testing.T, files int) {
	d := deploy(t, document(t))
	var mu sync.Mutex
	var committed time.Time
	d.faults.set(func(f *faults) {
		f.observe = func(e workflow.Event) {
			if e.State == "Commit" && e.Type == "TaskSucceeded" {
				mu.Lock()
				defer mu.Unlock()
				committed = time.Now()
			}
		}
	})
	for _, run := range []struct {
		name string
		most time.Duration
	}{{"cold", 6 * time.Second}, {"warm", 3 * time.Second}} {
		tbl := d.table(run.name, icebergtest.Property("firn.rewrite_data_files.trigger.small-files", "5"))
		draw := rand.New(rand.NewPCG(uint64(files), 1))
		for f := range files {
			rows := make([]icebergtest.Row, 1_400_000/files)
			for i := range rows {
				rows[i] = icebergtest.Row{draw.Int64(), "g00", draw.Float64()}
			}
			rows[0][0] = int64(f)
			tbl.commit(icebergtest.Append(rows...))
		}
		start := time.Now()
		d.TableChanged("db", run.name)
		d.settle()
		mu.Lock()
		took := committed.Sub(start)
		mu.Unlock()
		size := tbl.State().Metadata.CurrentSnapshot().Summary.Properties["total-files-size"]
		t.Logf("%d files, %s bytes, %s: %.2f s from event to commit, %d data files are left", files, size, run.name, took.Seconds(), tbl.dataFiles())
		if tbl.dataFiles() != 1 || took <= 0 || took > run.most {
			t.Errorf("%s: %d files are left after %s, at most %s may pass", run.name, tbl.dataFiles(), took, run.most)
		}
	}
}
