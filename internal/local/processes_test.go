package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/local"
	"firn/internal/local/runtimeapi"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/store"
	"firn/internal/workflow"
	"firn/internal/workflow/definition"
)

// programs builds all functions once for this machine.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs(filepath.Join("..", "..", "bin", "functions"))
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-buildvcs=false", "-o", dir+"/", "./functions/...")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build functions: %w\n%s", err, out)
	}
	return dir, nil
})

// processes is one table in a SQLite catalog with the five functions of the state machine as processes.
type processes struct {
	server  *runtimeapi.Server
	state   state.Store
	catalog *catalogs.SQL
	tbl     *icebergtest.Table
	world   *icebergtest.World
	dir     string
}

func startProcesses(t *testing.T) *processes {
	t.Helper()
	dir := t.TempDir()
	p := &processes{world: icebergtest.NewLocalWorld(t), dir: dir, server: runtimeapi.New(runtimeapi.Options{Now: time.Now})}
	t.Cleanup(p.server.Close)
	p.tbl = p.world.NewTable("db.t", icebergtest.Partitioned("g"))
	for i := range 12 {
		c := p.tbl.Commit(icebergtest.Append(rows(i*4, 4)...))
		if i%4 == 0 {
			p.tbl.Commit(icebergtest.DeletePositions(c.DataFiles[0], 1))
		}
	}
	uri := "sqlite:///" + filepath.Join(dir, "catalog.db")
	var err error
	if p.catalog, err = catalogs.OpenSQL("lake", map[string]string{"uri": uri}); err != nil {
		t.Fatal(err)
	}
	if err := p.catalog.Register(context.Background(), p.tbl.ID, p.tbl.Pointer().MetadataLocation); err != nil {
		t.Fatal(err)
	}
	items, err := state.OpenSQLite(context.Background(), filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	p.state = state.New(items)
	t.Cleanup(func() { _ = p.state.Close(); _ = p.catalog.Close() })
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range contract.Functions() {
		err := p.server.Add(runtimeapi.Function{
			Name: name, Bootstrap: filepath.Join(bin, name), MemoryMB: 512, Timeout: time.Minute,
			Env: map[string]string{
				contract.EnvConfig:        fmt.Sprintf("catalog: lake\ncatalogs: {lake: {type: sql, uri: '%s'}}\n", uri),
				contract.EnvWorkLocation:  "file://" + filepath.Join(dir, "work"),
				contract.EnvStateLocation: filepath.Join(dir, "state.db"),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// run executes one run of rewrite_data_files, and tells what happens to observe.
func (p *processes) run(t *testing.T, observe func(workflow.Event)) workflow.Result {
	t.Helper()
	ctx := context.Background()
	metadata := p.tbl.State().Metadata
	var run maintenance.Run
	lease, err := p.state.Acquire(ctx, p.tbl.ID, time.Now(), time.Hour, func(token int64) (maintenance.RunID, []byte) {
		uuid := metadata.TableUUID().String()
		run = maintenance.Run{RunID: maintenance.NewRunID(uuid, metadata.CurrentSnapshot().SnapshotID, token), Table: p.tbl.ID, TableUUID: uuid, Token: token}
		input, err := json.Marshal(maintenance.ExecutionInput{V: contract.PayloadVersion, Run: run, Request: maintenance.Request{
			Trigger: "run", Jobs: []maintenance.JobRequest{{Job: maintenance.RewriteDataFiles, Options: map[string]string{"rewrite-all": "true"}}},
		}})
		if err != nil {
			t.Error(err)
		}
		return run.RunID, input
	})
	if err != nil {
		t.Fatal(err)
	}
	substitutions := map[string]string{"CompactConcurrency": "2", "SweepConcurrency": "2"}
	functions := map[string]edge.Raw{}
	for _, name := range []string{contract.FunctionPlan, contract.FunctionCompact, contract.FunctionCommit, contract.FunctionSweep, contract.FunctionReport} {
		substitutions[strings.ToUpper(name[:1])+name[1:]+"Function"] = name
		functions[name] = func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error) {
			return p.server.Invoke(ctx, name, payload)
		}
	}
	machine, err := workflow.Load(definition.Maintain, workflow.Options{Substitutions: substitutions})
	if err != nil {
		t.Fatal(err)
	}
	result, err := machine.Run(ctx, workflow.Execution{MachineARN: workflow.LocalMachineARN("maintain"), Name: string(run.RunID), Input: lease.Input},
		workflow.Runtime{
			Host:  &local.Host{Functions: functions, Work: store.NewLocal(), Scheme: "file"},
			Clock: workflow.NewClock(time.Now), Observe: observe, Jitter: func() float64 { return 0 },
		})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// rows reads the table that the catalog points to.
func (p *processes) rows(t *testing.T) icebergtest.Content {
	t.Helper()
	ctx := context.Background()
	ptr, err := p.catalog.Load(ctx, p.tbl.ID)
	if err != nil {
		t.Fatal(err)
	}
	world := p.world.Catalog
	if base, err := world.Load(ctx, p.tbl.ID); err != nil || world.Swap(ctx, p.tbl.ID, base, ptr.MetadataLocation) != nil {
		t.Fatalf("follow the catalog: %v", err)
	}
	return p.tbl.Rows()
}

// TestBuiltFunctionsRunTheStateMachine runs the programs that Lambda would run, as processes behind a Runtime API server.
func TestBuiltFunctionsRunTheStateMachine(t *testing.T) {
	t.Parallel()
	p := startProcesses(t)
	want := p.rows(t)
	result := p.run(t, nil)
	if result.Err() != nil {
		t.Fatal(result.Err())
	}
	var report maintenance.ReportOutput
	if err := json.Unmarshal(result.Output, &report); err != nil || report.Outcome != maintenance.Committed {
		t.Fatalf("report %s, %v", result.Output, err)
	}
	if diff := cmp.Diff(want, p.rows(t)); diff != "" {
		t.Errorf("rows changed:\n%s", diff)
	}
	if files := report.Jobs[0].Columns; files["rewritten_data_files_count"] != 24 || files["added_data_files_count"] != 2 {
		t.Errorf("columns %v, want 24 files in and 2 out", files)
	}
}

// TestKilledProcessesChangeNothingButTime kills the processes of a function while its state runs, in each state in turn.
func TestKilledProcessesChangeNothingButTime(t *testing.T) {
	t.Parallel()
	for state, function := range map[string]string{
		"Plan": "plan", "CompactGroup": "compact", "Commit": "commit", "SweepAbandon": "sweep", "Report": "report",
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			p := startProcesses(t)
			want := p.rows(t)
			var kills atomic.Int32
			result := p.run(t, func(e workflow.Event) {
				if e.State == state && e.Type == "TaskStateEntered" && kills.Add(1) <= 2 {
					go func() {
						for range 20 {
							time.Sleep(10 * time.Millisecond)
							if p.server.Kill(function) > 0 {
								return
							}
						}
					}()
				}
			})
			if diff := cmp.Diff(want, p.rows(t)); diff != "" {
				t.Errorf("rows changed:\n%s", diff)
			}
			if result.Err() != nil {
				t.Errorf("the retries did not save the run: %v", result.Err())
			}
		})
	}
}
