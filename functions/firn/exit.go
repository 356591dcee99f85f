package main

import (
	"context"
	"errors"
	"fmt"

	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/lake/catalogs"
	"firn/internal/local"
	"firn/internal/maintenance"
	"firn/internal/store"
)

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

// notBuiltError is a verb or flag that is not built yet.
type notBuiltError struct{ what string }

func (e *notBuiltError) Error() string { return e.what + " is not built yet" }

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
	var notBuilt *notBuiltError
	var busy *local.BusyError
	switch {
	case errors.As(err, &outcome):
		return outcomeStatus(outcome.outcome)
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &notBuilt):
		return exitRefused
	case errors.As(err, &busy):
		return exitConflict
	case errors.Is(err, context.Canceled):
		return exitOther
	}
	// The table's own files are missing, or its name is taken: no repetition helps.
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, catalogs.ErrExists) {
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

// Verbs that are part of the interface and not built yet: each says so and ends with the status of a refusal.

type (
	restoreCommand struct {
		RunID string `name:"run" required:"" placeholder:"ID"`
	}
	replayCommand struct {
		Table  string `required:"" placeholder:"NS.T"`
		Since  string `required:"" placeholder:"30d"`
		Policy string `placeholder:"FILE"`
		JSON   bool   `name:"json"`
	}
)

// Run refuses.
func (*restoreCommand) Run(*app) error { return &notBuiltError{"firn restore"} }

// Run refuses.
func (*replayCommand) Run(*app) error { return &notBuiltError{"firn replay"} }
