package workflow

import (
	"encoding/json"
	"sync"
	"time"

	"firn/internal/workflow/asl"
)

// Event is one event of an execution's history. Types are those of AWS (TaskStateEntered, LambdaFunctionFailed are written as
// TaskStateEntered, TaskFailed, ...), and MapRunProgress, which is ours and does not count.
type Event struct {
	// ExecutionARN is the execution's, or the child's of a DISTRIBUTED Map.
	ExecutionARN string
	// ID counts from 1 within the execution; MapRunProgress has 0.
	ID   int
	Type string
	At   time.Time
	// State is the state's name; empty for events of the execution.
	State string
	// Data is the input of an entered state or a scheduled task, and the output of what ended.
	Data json.RawMessage
	// Error and Cause are set by failures.
	Error, Cause string
	// Progress is set by MapRunProgress and the end of a Map run.
	Progress *Progress
}

// Progress counts the items of a Map run.
type Progress struct {
	Total, Succeeded, Failed, Aborted int
}

// history counts the events of one execution and hands them on.
type history struct {
	mu      sync.Mutex
	count   int
	arn     string
	clock   Clock
	observe func(Event)
}

// add records an event. When the history is full the execution must end: the last place is kept for the event that says so.
func (h *history) add(e Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count >= MaxEvents-1 {
		return taskErrorf(asl.ErrorRuntime, "The execution reached the maximum number of history events (%d).", MaxEvents)
	}
	h.emit(e)
	return nil
}

// end records the event that ends the execution.
func (h *history) end(e Event) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.emit(e)
	return h.count
}

// tell hands on an event that is not part of the history.
func (h *history) tell(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.ExecutionARN, e.At = h.arn, h.clock.Now()
	h.observe(e)
}

func (h *history) emit(e Event) {
	h.count++
	e.ID, e.ExecutionARN, e.At = h.count, h.arn, h.clock.Now()
	h.observe(e)
}

// serial makes an observer that is called by one goroutine at a time.
func serial(observe func(Event)) func(Event) {
	if observe == nil {
		return func(Event) {}
	}
	var mu sync.Mutex
	return func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		observe(e)
	}
}
