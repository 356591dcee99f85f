// Package runtimeapi runs built Lambda functions (provided.al2023 "bootstrap" programs) as processes of this machine, behind a server of
// the Lambda Runtime API for each process.
//
// What it keeps of Lambda: one invocation at a time in a process; warm reuse, most recent first; cold start when none is idle; Lambda's
// environment and nothing else; a kill at the timeout (Sandbox.Timedout) with the handler's context ended at the same moment;
// Runtime.ExitError for a process that died; an error that was posted before death is the one that counts; 6 MB for payload and answer;
// error types as the function reported them.
//
// What it does not keep: memory is told to the function and not enforced; idle processes are not frozen; /tmp is a folder of the process
// (TMPDIR); there is no asynchronous invocation.
//
// No process outlives the server: Close kills them, and on Linux the kernel kills them when this process dies.
package runtimeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"firn/internal/workflow"
)

// Limits of Lambda.
const (
	// MaxTimeout is the longest timeout of a function.
	MaxTimeout = 15 * time.Minute
	// MaxEnvironmentBytes is the size of a function's variables, names and values together.
	MaxEnvironmentBytes = 4 << 10
	// MinMemoryMB and MaxMemoryMB bound a function's memory.
	MinMemoryMB = 128
	MaxMemoryMB = 10_240
	// MaxPayloadBytes is the size of a payload and of an answer.
	MaxPayloadBytes = workflow.MaxPayloadBytes
)

const (
	// initTimeout is how long a process may take until it asks for its first invocation.
	initTimeout = 10 * time.Second
	// maxDeadBoxes is how many processes that died while idle one invocation puts up with: more than a test ever kills at once.
	maxDeadBoxes = 1000
	// exitGrace is how long an error that a dying process posted may still be on its way.
	exitGrace = 20 * time.Millisecond
	// stopGrace is how long a process that asked for SIGTERM may take after it.
	stopGrace = 500 * time.Millisecond
)

// Function is a function as the template describes it.
type Function struct {
	Name string
	// Bootstrap is the path of the program.
	Bootstrap string
	// Env are the function's own variables.
	Env map[string]string
	// MemoryMB and Timeout are the function's limits.
	MemoryMB int
	Timeout  time.Duration
	// ReservedConcurrency, when not 0, is the number of processes at which Invoke answers Lambda.TooManyRequestsException.
	ReservedConcurrency int
	// AccessKeyID stands for the function's role: it is the AWS_ACCESS_KEY_ID that the process gets.
	AccessKeyID string
}

// Options are what all functions share.
type Options struct {
	// Now is the clock of deadlines, such as time.Now.
	Now func() time.Time
	// Region and AccountID go into the environment and ARNs; empty means us-east-1 and 000000000000.
	Region, AccountID string
	// Env is given to every process beside Lambda's own variables, for what only a local host needs (endpoints, a closed proxy).
	Env map[string]string
	// Log gets each line that a process writes; nil drops them. It is called by many goroutines at once.
	Log func(function, line string)
}

// Stats counts what happened to a function.
type Stats struct {
	// ColdStarts is the number of processes started, Invocations the number of payloads handed to them.
	ColdStarts, Invocations int
	// Running is the number of processes, Idle those that wait for work.
	Running, Idle int
}

// Server owns the processes of all functions.
type Server struct {
	options Options
	spawn   chan func()

	mu        sync.Mutex
	functions map[string]*pool
	requests  int
	closed    bool
	boxes     sync.WaitGroup
}

// pool is a function with its processes; fields below function are guarded by Server.mu.
type pool struct {
	function    Function
	idle        []*sandbox
	all         map[*sandbox]bool
	coldStarts  int
	invocations int
}

// New returns a server without functions. Close must be called.
func New(o Options) *Server {
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	if o.AccountID == "" {
		o.AccountID = "000000000000"
	}
	if o.Log == nil {
		o.Log = func(string, string) {}
	}
	s := &Server{options: o, spawn: make(chan func()), functions: map[string]*pool{}}
	go func() {
		// The kernel kills children when the thread that started them ends, so one thread starts them all and lives as long as the server.
		runtime.LockOSThread()
		for start := range s.spawn {
			start()
		}
	}()
	return s
}

// Add adds a function, or reports everything about it that Lambda would refuse.
func (s *Server) Add(f Function) error {
	var problems []string
	if f.Name == "" || len(f.Name) > 64 || strings.ContainsFunc(f.Name, notNameRune) {
		problems = append(problems, "name must have 1 to 64 letters, digits, - or _")
	}
	if f.Timeout < time.Second || f.Timeout > MaxTimeout {
		problems = append(problems, fmt.Sprintf("timeout %s is outside 1s to %s", f.Timeout, MaxTimeout))
	}
	if f.MemoryMB < MinMemoryMB || f.MemoryMB > MaxMemoryMB {
		problems = append(problems, fmt.Sprintf("memory %d MB is outside %d to %d", f.MemoryMB, MinMemoryMB, MaxMemoryMB))
	}
	problems = append(problems, checkEnv(f.Env)...)
	switch info, err := os.Stat(f.Bootstrap); {
	case err != nil:
		problems = append(problems, err.Error())
	case info.IsDir() || info.Mode().Perm()&0o111 == 0:
		problems = append(problems, f.Bootstrap+" is not executable")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.functions[f.Name]; twice {
		problems = append(problems, "name is used twice")
	}
	if len(problems) > 0 {
		return fmt.Errorf("add function %q: %s", f.Name, strings.Join(problems, "; "))
	}
	f.Env = maps.Clone(f.Env)
	s.functions[f.Name] = &pool{function: f, all: map[*sandbox]bool{}}
	return nil
}

func notNameRune(c rune) bool {
	return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}

// Names lists the functions in order.
func (s *Server) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.functions))
}

// Stats counts what happened to a function; an unknown one has zeros.
func (s *Server) Stats(name string) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.functions[name]
	if !ok {
		return Stats{}
	}
	return Stats{ColdStarts: p.coldStarts, Invocations: p.invocations, Running: len(p.all), Idle: len(p.idle)}
}

// Invoke hands a payload to a process of the function, given by name or ARN, and returns its answer. Errors have the names that a state
// machine sees: they are *workflow.TaskError, except when ctx ended, which kills the process. Invoke returns when the process is idle again
// or dead, so that calls one after the other share a process.
func (s *Server) Invoke(ctx context.Context, function string, payload json.RawMessage) (json.RawMessage, error) {
	name := function[strings.LastIndex(function, ":")+1:]
	if len(payload) > MaxPayloadBytes {
		return nil, &workflow.TaskError{Name: "Lambda.RequestTooLargeException", Cause: fmt.Sprintf("payload has %d bytes, at most %d are allowed", len(payload), MaxPayloadBytes)}
	}
	for range maxDeadBoxes {
		box, err := s.acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		a := box.invoke(ctx, s.newInvocation(name, payload))
		if a.neverStarted {
			continue // it died while idle; Lambda takes another one
		}
		return a.payload, a.err
	}
	return nil, functionError(workflow.ErrorRuntimeExit, "every process of the function died before it took the payload")
}

func (s *Server) newInvocation(name string, payload []byte) *invocation {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	return &invocation{
		id:      fmt.Sprintf("00000000-0000-4000-8000-%012x", s.requests),
		arn:     fmt.Sprintf("arn:aws:lambda:%s:%s:function:%s", s.options.Region, s.options.AccountID, name),
		payload: payload,
		done:    make(chan answer, 1),
		over:    make(chan struct{}),
	}
}

// acquire takes an idle process or starts one.
func (s *Server) acquire(ctx context.Context, name string) (*sandbox, error) {
	s.mu.Lock()
	p, ok := s.functions[name]
	switch {
	case !ok || s.closed:
		s.mu.Unlock()
		return nil, &workflow.TaskError{Name: workflow.ErrorNotFound, Cause: "Function not found: " + name}
	case len(p.idle) > 0:
		box := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		s.mu.Unlock()
		return box, nil
	case p.function.ReservedConcurrency > 0 && len(p.all) >= p.function.ReservedConcurrency:
		s.mu.Unlock()
		return nil, &workflow.TaskError{Name: workflow.ErrorTooManyRequests, Cause: "Rate Exceeded: " + name}
	}
	p.coldStarts++
	box := newSandbox(s, p, p.coldStarts)
	p.all[box] = true
	s.boxes.Add(1)
	s.mu.Unlock()
	if err := box.start(ctx); err != nil {
		return nil, err
	}
	return box, nil
}

// retire keeps an idle process from being handed out again.
func (s *Server) retire(box *sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	box.pool.idle = slices.DeleteFunc(box.pool.idle, func(b *sandbox) bool { return b == box })
}

// release makes a process idle, or forgets it.
func (s *Server) release(box *sandbox, alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := box.pool
	if alive {
		p.idle = append(p.idle, box)
		return
	}
	p.idle = slices.DeleteFunc(p.idle, func(b *sandbox) bool { return b == box })
	delete(p.all, box)
}

// Kill ends all processes of a function at once, idle or not, and returns their number: a fault to test with.
func (s *Server) Kill(name string) int {
	boxes := s.sandboxes(name)
	for _, box := range boxes {
		s.retire(box)
		box.kill()
	}
	return len(boxes)
}

func (s *Server) sandboxes(name string) []*sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*sandbox
	for _, p := range s.functions {
		if p.function.Name != name && name != "" {
			continue
		}
		out = slices.AppendSeq(out, maps.Keys(p.all))
	}
	return out
}

// Close ends all processes, those that asked for it with SIGTERM first, and waits for them. Invocations that run get Runtime.ExitError.
func (s *Server) Close() {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	var stopping sync.WaitGroup
	for _, box := range s.sandboxes("") {
		stopping.Go(box.stop)
	}
	stopping.Wait()
	s.boxes.Wait()
	if !again {
		close(s.spawn)
	}
}
