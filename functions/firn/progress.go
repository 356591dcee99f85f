package main

import (
	"fmt"
	"os"

	"github.com/mattn/go-isatty"

	"firn/internal/workflow"
)

// progress returns an observer that tells what a run is doing: one line a state on a terminal or with --verbose, nothing else.
func (a *app) progress() func(workflow.Event) {
	stderr, isFile := a.stderr.(*os.File)
	terminal := isFile && isatty.IsTerminal(stderr.Fd())
	if !terminal && !a.globals.Verbose {
		return nil
	}
	return func(e workflow.Event) {
		switch {
		case e.Progress != nil:
			fmt.Fprintf(a.stderr, "%s: %d of %d done, %d failed\n", e.State, e.Progress.Succeeded+e.Progress.Failed, e.Progress.Total, e.Progress.Failed)
		case e.Type == "TaskStateEntered":
			fmt.Fprintf(a.stderr, "%s\n", e.State)
		case e.Error != "":
			fmt.Fprintf(a.stderr, "%s: %s: %s\n", e.State, e.Error, e.Cause)
		}
	}
}
