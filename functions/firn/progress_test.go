package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/vbauerster/mpb/v8"

	"firn/internal/workflow"
)

// play shows events at their seconds to a progress and returns what it printed.
func play(t *testing.T, p *progress, events map[float64]workflow.Event, order ...float64) string {
	t.Helper()
	var out bytes.Buffer
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	now := start
	p.out, p.now = &out, func() time.Time { return now }
	for _, at := range order {
		now = start.Add(time.Duration(at * float64(time.Second)))
		p.observe(events[at])
	}
	return out.String()
}

func story() map[float64]workflow.Event {
	return map[float64]workflow.Event{
		0:   {ExecutionARN: "run", Type: "ExecutionStarted"},
		0.1: {ExecutionARN: "run", Type: "TaskStateEntered", State: "Plan"},
		2:   {ExecutionARN: "run", Type: "MapRunProgress", State: "Compact", Progress: &workflow.Progress{Total: 9, Succeeded: 1}},
		2.5: {ExecutionARN: "run", Type: "MapRunProgress", State: "Compact", Progress: &workflow.Progress{Total: 9, Succeeded: 2}},
		2.6: {ExecutionARN: "item", Type: "TaskStateEntered", State: "CompactGroup"},
		4:   {ExecutionARN: "run", Type: "MapRunProgress", State: "Compact", Progress: &workflow.Progress{Total: 9, Succeeded: 7, Failed: 1}},
		5:   {ExecutionARN: "run", Type: "MapRunSucceeded", State: "Compact", Progress: &workflow.Progress{Total: 9, Succeeded: 8, Failed: 1}},
		6:   {ExecutionARN: "run", Type: "ExecutionSucceeded"},
	}
}

func TestPlainLinesOnlyForWorkOverASecond(t *testing.T) {
	t.Parallel()
	want := "Compact: 1 of 9 done, 0 failed\nCompact: 8 of 9 done, 1 failed\n"
	if got := play(t, &progress{}, story(), 0, 0.1, 2, 2.5, 2.6, 4, 5, 6); got != want {
		t.Errorf("lines %q, want %q", got, want)
	}
	if got := play(t, &progress{}, story(), 0, 0.1); got != "" {
		t.Errorf("lines %q of short work", got)
	}
}

func TestVerboseTellsEveryState(t *testing.T) {
	t.Parallel()
	if got := play(t, &progress{verbose: true}, story(), 0, 0.1, 2.6); got != "Plan\nCompactGroup\n" {
		t.Errorf("lines %q", got)
	}
}

func TestBarsEnd(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	p := &progress{bars: mpb.New(mpb.WithOutput(&screen), mpb.WithWidth(40))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if got := play(t, p, story(), 0, 0.1, 2, 2.5, 4, 5, 6); got != "" {
			t.Errorf("lines %q beside bars", got)
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("bars did not end")
	}
}
