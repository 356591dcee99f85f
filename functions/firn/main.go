// Command firn is the operator's command line and the local host of the state machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/lake/catalogs"
	"firn/internal/local"
	"firn/internal/maintenance"
	"firn/internal/store"
)

func main() {
	edge.BoundMemory(edge.Environment(os.Environ()))
	ctx, stop := interruptible(context.Background(), os.Stderr)
	code := run(ctx, os.Args[1:], process{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()})
	stop()
	os.Exit(code)
}

// process is what the command line has of the process that it runs in.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	// dir is the working directory; "" asks the operating system.
	dir string
	// stores replaces stores by scheme (tests: memory, faults).
	stores map[string]store.Full
}

// exitCall carries an exit status out of the parser (--help).
type exitCall int

// run parses the arguments, runs the command, and returns the exit status.
func run(ctx context.Context, args []string, proc process) (code int) {
	defer func() {
		if fault := recover(); fault != nil {
			exit, called := fault.(exitCall)
			if !called {
				panic(fault)
			}
			code = int(exit)
		}
	}()
	var cli commands
	app := &app{ctx: ctx, process: proc, args: args, now: time.Now}
	parser, err := kong.New(&cli, kong.Name("firn"), kong.Description("Keep Apache Iceberg tables healthy without a cluster."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Exit(func(code int) { panic(exitCall(code)) }), kong.Writers(proc.stdout, proc.stderr))
	if err != nil {
		fmt.Fprintln(proc.stderr, "firn:", err)
		return exitOther
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		app.json = slices.Contains(args, "--json")
		return app.fail(&usageError{err})
	}
	app.globals, app.json = cli.globals, asksJSON(command)
	if err := app.checkNow(edge.Environment(proc.environ)[contract.EnvTest] == "1", command.Command()); err != nil {
		return app.fail(err)
	}
	code = app.fail(command.Run(app))
	if err := app.close(); err != nil {
		fmt.Fprintln(proc.stderr, "firn: close:", err)
		code = max(code, exitOther)
	}
	return code
}

// asksJSON reports whether the command was given --json.
func asksJSON(command *kong.Context) bool {
	for _, flag := range command.Flags() {
		if flag.Name == "json" {
			value, is := command.FlagValue(flag).(bool)
			return is && value
		}
	}
	return false
}

// sameSignal is the time within which a second signal is the first one again: a terminal and a program around us may both send it.
const sameSignal = 500 * time.Millisecond

// interruptible returns a context that the first SIGINT or SIGTERM cancels: the current group is given up, its outputs are aborted, and the run is
// closed as after any failure. A second one ends the process at once; what it leaves, the next run on the table closes.
func interruptible(parent context.Context, out io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
		case <-done:
			return
		}
		fmt.Fprintln(out, "firn: interrupted: giving up the current work and closing the run; once more ends at once")
		cancel()
		time.Sleep(sameSignal)
		signal.Stop(signals)
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}

// Exit statuses; they are part of the interface.
const (
	exitDone     = 0
	exitOther    = 1
	exitUsage    = 2
	exitRefused  = 3
	exitConflict = 4
	exitUnknown  = 5
)

// usageError is a fault of the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// outcomeError carries a run's outcome to the exit status; the outcome itself was printed.
type outcomeError struct {
	outcome maintenance.Outcome
	reason  string
}

func (e *outcomeError) Error() string { return fmt.Sprintf("%s: %s", e.outcome, e.reason) }

// fail prints an error and returns the exit status.
func (a *app) fail(err error) int {
	if err == nil {
		return exitDone
	}
	code, text := status(err), err.Error()
	if hint := a.hint(err); hint != "" {
		text += ": " + hint
	}
	fmt.Fprintln(a.stderr, "firn:", text)
	if a.json && !a.printed {
		object := map[string]any{"outcome": outcomeWord(code), "reason": text}
		if code == exitUsage {
			object = map[string]any{"error": "usage", "reason": text} // nothing was asked of a table, so there is no outcome
		}
		if err := a.printJSON(object); err != nil {
			fmt.Fprintln(a.stderr, "firn:", err)
		}
	}
	return code
}

func status(err error) int {
	var usage *usageError
	var outcome *outcomeError
	var busy *local.BusyError
	switch {
	case errors.As(err, &outcome):
		return outcomeStatus(outcome.outcome)
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &busy):
		return exitConflict
	case errors.Is(err, context.Canceled):
		return exitOther
	}
	// The table's own files are missing, or its name is taken: no repetition helps.
	// The same holds of a no of AWS.
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, catalogs.ErrExists) || edge.Denied(err) {
		return exitRefused
	}
	switch edge.Name(err) {
	case contract.ErrorRefused, contract.ErrorBadInput:
		return exitRefused
	case contract.ErrorConflict, contract.ErrorLeaseLost:
		return exitConflict
	case contract.ErrorCommitStateUnknown:
		return exitUnknown
	}
	return exitOther
}

func outcomeStatus(o maintenance.Outcome) int {
	switch o {
	case maintenance.Committed, maintenance.NothingToDo, maintenance.DryRun:
		return exitDone
	case maintenance.Refused:
		return exitRefused
	case maintenance.Conflict:
		return exitConflict
	case maintenance.Unknown:
		return exitUnknown
	}
	return exitOther
}

// outcomeWord is the outcome that an exit status stands for, for commands that end before a run has one.
func outcomeWord(code int) maintenance.Outcome {
	switch code {
	case exitRefused:
		return maintenance.Refused
	case exitConflict:
		return maintenance.Conflict
	case exitUnknown:
		return maintenance.Unknown
	}
	return maintenance.Failed
}
