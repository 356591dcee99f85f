//go:build stress

package stress

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// maintainer runs the real binary on a table without pause.
type maintainer struct {
	scene *scene

	mu      sync.Mutex
	running *exec.Cmd
	killed  map[*exec.Cmd]bool

	calls, kills int
	ended        map[string]int
	took         map[string]time.Duration
}

// reset forgets the last command.
func (m *maintainer) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.killed = nil, map[*exec.Cmd]bool{}
}

// retention is how long snapshots are kept: longer than a checkpoint's reader needs.
const retention = 60 * time.Second

// cycle runs each job of the chain, the data files most often.
func (m *maintainer) cycle(n int) {
	table := m.scene.table
	m.call("rewrite_data_files", "--option", "min-input-files=4", "--option", "delete-file-threshold=8", "--option", "partial-progress.enabled=true",
		"--option", "partial-progress.max-commits=2", "--table", table)
	switch n % 4 {
	case 1:
		m.call("rewrite_position_delete_files", "--option", "min-input-files=2", "--table", table)
	case 2:
		m.call("rewrite_manifests", "--table", table)
	case 3:
		older := time.Now().UTC().Add(-retention).Format("2006-01-02 15:04:05")
		m.call("expire_snapshots", "--older-than", older, "--retain-last", "3", "--table", table)
	}
}

// run goes on until the time is over.
func (m *maintainer) run() {
	for n := 0; !m.scene.clock.over(); n++ {
		m.cycle(n)
	}
}

// call runs one procedure. What ends neither well nor with a conflict nor killed is a fault.
func (m *maintainer) call(procedure string, args ...string) {
	cmd := m.scene.lake.firn(append([]string{"call", procedure, "--json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	started := time.Now()
	if err := m.start(cmd); err != nil {
		m.scene.fault("start %s: %v", procedure, err)
		return
	}
	_ = cmd.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = nil
	m.calls++
	m.took[procedure] += time.Since(started)
	end := "killed"
	if !m.killed[cmd] {
		var answer struct{ Outcome string }
		_ = json.Unmarshal(stdout.Bytes(), &answer)
		end = answer.Outcome
		if code := cmd.ProcessState.ExitCode(); code != 0 && code != 4 {
			m.scene.fault("%s %s ended with %d: %s%s", procedure, strings.Join(args, " "), code, stdout.String(), last(stderr.String(), 1500))
		}
	}
	m.ended[procedure+" "+end]++
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }

// start starts a command so that it can be killed.
func (m *maintainer) start(cmd *exec.Cmd) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = cmd
	return cmd.Start()
}

// kill ends the running command as a power cut does; false when none runs.
func (m *maintainer) kill() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running == nil || m.running.Process == nil {
		return false
	}
	if m.running.Process.Kill() != nil {
		return false
	}
	m.killed[m.running] = true
	m.kills++
	return true
}

// killer kills at random, every interval on average.
func (m *maintainer) killer(interval time.Duration) {
	for !m.scene.clock.over() {
		time.Sleep(time.Duration(rand.Float64() * 2 * float64(interval)))
		for !m.scene.clock.over() && !m.kill() {
			time.Sleep(time.Millisecond)
		}
	}
}
