package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

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
		signal.Stop(signals)
		cancel()
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}
