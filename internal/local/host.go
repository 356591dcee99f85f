// Package local runs the state machine on this machine: the functions in one process, called with JSON as Lambda would, or as built programs
// behind a Runtime API server (package runtimeapi). The command line, the demo and the tests are its users.
package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"firn/internal/edge"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/workflow"
)

// Host lets an execution reach functions in this process and objects of the work location.
type Host struct {
	// Functions are the functions by name.
	Functions map[string]edge.Raw
	// Work is the store of the work location, Scheme the location's scheme.
	Work   store.ReadWriter
	Scheme string

	calls inFlight
}

// Invoke implements workflow.Host. The payload and the answer pass as JSON, so that wire types are exercised.
func (h *Host) Invoke(ctx context.Context, call workflow.Invocation) (json.RawMessage, error) {
	fn, found := h.Functions[call.Function]
	if !found {
		return nil, &workflow.TaskError{Name: "Lambda.ResourceNotFoundException", Cause: "no function " + call.Function}
	}
	if !h.calls.enter() {
		return nil, fmt.Errorf("invoke %s: the run is being closed: %w", call.Function, context.Canceled)
	}
	defer h.calls.leave()
	if uninterrupted(call.Function) {
		ctx = context.WithoutCancel(ctx)
	}
	out, err := fn(ctx, call.Payload)
	if named, ok := errors.AsType[*edge.Error](err); ok {
		cause, encodeErr := json.Marshal(map[string]string{"errorType": named.Name, "errorMessage": named.Message})
		if encodeErr != nil {
			return nil, encodeErr
		}
		return nil, &workflow.TaskError{Name: named.Name, Cause: string(cause)}
	}
	return out, err
}

// ReadObject implements workflow.Host.
func (h *Host) ReadObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	data, err := h.Work.Get(ctx, h.location(bucket, key))
	if err != nil {
		return nil, fmt.Errorf("read items: %w", err)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// WriteObject implements workflow.Host.
func (h *Host) WriteObject(ctx context.Context, bucket, key string, body []byte) error {
	return h.Work.Put(ctx, h.location(bucket, key), body, store.WriteOptions{})
}

func (h *Host) location(bucket, key string) string {
	return handoff.Location(h.Scheme, maintenance.Object{Bucket: bucket, Key: key})
}
