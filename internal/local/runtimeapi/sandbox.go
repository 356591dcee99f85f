package runtimeapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"firn/internal/workflow"
)

// invocation is one payload on its way through a process.
type invocation struct {
	id, arn string
	payload []byte
	// deadline is set when the process gets the payload.
	deadline time.Time
	done     chan answer
	over     chan struct{} // closed when the process asks for the next one
}

// answer is how an invocation ended.
type answer struct {
	payload json.RawMessage
	err     error
	// neverStarted says that the process died before it got the payload.
	neverStarted bool
}

// sandbox is one process with its server.
type sandbox struct {
	server *Server
	pool   *pool
	number int
	work   chan *invocation
	ready  chan struct{} // closed at the first request for an invocation
	exited chan struct{} // closed when the process ended; status is set before
	status error

	mu        sync.Mutex
	process   *os.Process
	current   *invocation
	initError *workflow.TaskError
	asked     bool // the process asked for an invocation at least once
	sigterm   bool // the process registered an extension, so it gets SIGTERM before SIGKILL
	doomed    bool // kill or stop was called, maybe before the process existed
	dead      bool
}

func newSandbox(s *Server, p *pool, number int) *sandbox {
	return &sandbox{
		server: s, pool: p, number: number,
		work: make(chan *invocation), ready: make(chan struct{}), exited: make(chan struct{}),
	}
}

// start starts the process and waits until it asks for work.
func (b *sandbox) start(ctx context.Context) error {
	if err := b.launch(); err != nil {
		b.server.release(b, false)
		b.server.boxes.Done()
		return &workflow.TaskError{Name: "Runtime.InvalidEntrypoint", Cause: err.Error()}
	}
	limit := time.NewTimer(initTimeout)
	defer limit.Stop()
	select {
	case <-b.ready:
		return nil
	case <-b.exited:
		return b.exitError("", b.initFailure)
	case <-limit.C:
		b.kill()
		return timedOut("", initTimeout)
	case <-ctx.Done():
		b.kill()
		return ctx.Err()
	}
}

// launch starts the listener, the server and the process.
func (b *sandbox) launch() error {
	root, err := filepath.Abs(filepath.Dir(b.pool.function.Bootstrap))
	if err != nil {
		return fmt.Errorf("find bootstrap: %w", err)
	}
	temp, err := os.MkdirTemp("", "firn-lambda-")
	if err != nil {
		return fmt.Errorf("make temporary folder: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(fmt.Errorf("listen for the process: %w", err), os.RemoveAll(temp))
	}
	output, input, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("make pipe: %w", err), listener.Close(), os.RemoveAll(temp))
	}
	cmd := &exec.Cmd{
		Path: filepath.Join(root, filepath.Base(b.pool.function.Bootstrap)), Args: []string{"bootstrap"}, Dir: root,
		Env: b.environment(listener.Addr().String(), root, temp), Stdout: input, Stderr: input, SysProcAttr: processAttributes(),
	}
	started := make(chan error)
	b.server.spawn <- func() { started <- cmd.Start() }
	if err := errors.Join(<-started, input.Close()); err != nil {
		return errors.Join(fmt.Errorf("start bootstrap: %w", err), output.Close(), listener.Close(), os.RemoveAll(temp))
	}
	b.mu.Lock()
	b.process = cmd.Process
	if b.doomed {
		killGroup(b.process)
	}
	b.mu.Unlock()
	web := &http.Server{Handler: b.routes(), ReadHeaderTimeout: initTimeout}
	go func() { _ = web.Serve(listener) }()
	go b.copyLog(output)
	go b.wait(cmd, web, temp)
	return nil
}

// wait reaps the process and cleans up after it.
func (b *sandbox) wait(cmd *exec.Cmd, web *http.Server, temp string) {
	defer b.server.boxes.Done()
	b.status = cmd.Wait()
	killGroup(cmd.Process) // children that it left behind
	b.mu.Lock()
	b.dead = true
	b.mu.Unlock()
	b.server.release(b, false)
	time.Sleep(exitGrace) // what the process posted last may still be in the server's hands
	close(b.exited)
	if err := errors.Join(web.Close(), os.RemoveAll(temp)); err != nil {
		b.server.options.Log(b.pool.function.Name, "clean up: "+err.Error())
	}
}

// copyLog hands on what the process writes, line by line. Lines over 64 KB are cut.
func (b *sandbox) copyLog(output io.ReadCloser) {
	r := bufio.NewReaderSize(output, 64<<10)
	for {
		line, _, err := r.ReadLine()
		if len(line) > 0 {
			b.server.options.Log(b.pool.function.Name, string(line))
		}
		if err != nil {
			_ = output.Close()
			return
		}
	}
}

// kill ends the process and its children at once.
func (b *sandbox) kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doomed = true
	if b.process != nil && !b.dead {
		killGroup(b.process)
	}
}

// stop ends the process, gently if it asked for that, and waits.
func (b *sandbox) stop() {
	b.mu.Lock()
	gentle := b.sigterm && b.process != nil && !b.dead
	if gentle {
		terminateGroup(b.process)
	}
	b.mu.Unlock()
	if gentle {
		limit := time.NewTimer(stopGrace)
		defer limit.Stop()
		select {
		case <-b.exited:
		case <-limit.C:
		}
	}
	b.kill()
}

// invoke hands an invocation to the idle process and waits for its end.
func (b *sandbox) invoke(ctx context.Context, inv *invocation) answer {
	select {
	case b.work <- inv:
	case <-b.exited:
		return answer{neverStarted: true}
	case <-ctx.Done():
		b.kill() // nobody else may get it: it is neither idle nor at work
		return answer{err: ctx.Err()}
	}
	limit := time.NewTimer(b.pool.function.Timeout)
	defer limit.Stop()
	select {
	case a := <-inv.done:
		b.settleDown(ctx, inv, limit.C)
		return a
	case <-b.exited:
		return answer{err: b.exitError(inv.id, inv.answered)}
	case <-limit.C:
		b.kill()
		return answer{err: timedOut(inv.id, b.pool.function.Timeout)}
	case <-ctx.Done():
		b.kill()
		return answer{err: ctx.Err()}
	}
}

// settleDown waits until the process is idle again or dead: an invocation is over only then, and its time counts until then.
func (b *sandbox) settleDown(ctx context.Context, inv *invocation, limit <-chan time.Time) {
	select {
	case <-inv.over:
	case <-b.exited:
	case <-limit:
		b.kill()
	case <-ctx.Done():
		b.kill()
	}
}

// answered returns the error that was posted before the process died.
func (inv *invocation) answered() error {
	select {
	case a := <-inv.done:
		return a.err
	default:
		return nil
	}
}

func (b *sandbox) initFailure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.initError == nil {
		return nil
	}
	return b.initError
}

// exitError names the death of a process: by what it posted before, else Runtime.ExitError.
func (b *sandbox) exitError(id string, posted func() error) error {
	if err := posted(); err != nil {
		return err
	}
	reason := "Runtime exited without providing a reason"
	if b.status != nil {
		reason = "Runtime exited with error: " + b.status.Error()
	}
	return functionError(workflow.ErrorRuntimeExit, fmt.Sprintf("RequestId: %s Error: %s", id, reason))
}

func timedOut(id string, after time.Duration) error {
	return functionError(workflow.ErrorSandboxTimedout, fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds", id, after.Seconds()))
}

// functionError makes an error with the document that Lambda gives as its cause.
func functionError(name, message string) *workflow.TaskError {
	text, err := json.Marshal(errorDocument{Message: message, Type: name})
	if err != nil {
		return &workflow.TaskError{Name: name, Cause: message}
	}
	return &workflow.TaskError{Name: name, Cause: string(text)}
}
