package runtimeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"firn/internal/workflow"
)

// errorDocument is the error that a function reports.
type errorDocument struct {
	Message string          `json:"errorMessage"`
	Type    string          `json:"errorType"`
	Stack   json.RawMessage `json:"stackTrace,omitempty"`
}

// drainLimit bounds how much of an answer that is too large is read before the process hears of it.
const drainLimit = 64 << 20

// routes are the six routes of the Runtime and Extensions APIs that a Go function uses.
func (b *sandbox) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", b.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", b.response)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", b.failure)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", b.initFailed)
	mux.HandleFunc("POST /2020-01-01/extension/register", b.register)
	mux.HandleFunc("GET /2020-01-01/extension/event/next", b.extensionNext)
	return mux
}

// next gives the process its next invocation. Asking for it ends the one before.
func (b *sandbox) next(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	before, first := b.current, !b.asked
	b.current, b.asked = nil, true
	b.mu.Unlock()
	if first {
		close(b.ready) // acquire hands it out
	}
	if before != nil {
		b.settle(before, answer{err: functionError(workflow.ErrorUnknown, "the runtime asked for the next invocation without an answer to this one")})
		b.server.release(b, true)
		close(before.over)
	}
	select {
	case inv := <-b.work:
		b.deliver(w, inv)
	case <-b.exited:
	case <-r.Context().Done():
	}
}

func (b *sandbox) deliver(w http.ResponseWriter, inv *invocation) {
	b.server.mu.Lock()
	b.pool.invocations++
	b.server.mu.Unlock()
	b.mu.Lock()
	inv.deadline = b.server.options.Now().Add(b.pool.function.Timeout)
	b.current = inv
	b.mu.Unlock()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Lambda-Runtime-Aws-Request-Id", inv.id)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(inv.deadline.UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", inv.arn)
	h.Set("Lambda-Runtime-Trace-Id", "Root=1-00000000-000000000000000000000000;Sampled=0")
	_, _ = w.Write(inv.payload)
}

// settle ends an invocation once; later answers are ignored.
func (b *sandbox) settle(inv *invocation, a answer) {
	select {
	case inv.done <- a:
	default:
	}
}

// take returns the invocation that a request is about.
func (b *sandbox) take(w http.ResponseWriter, r *http.Request) *invocation {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil || b.current.id != r.PathValue("id") {
		reply(w, http.StatusBadRequest, errorDocument{Message: "Invalid request ID", Type: "InvalidRequestID"})
		return nil
	}
	return b.current
}

func (b *sandbox) response(w http.ResponseWriter, r *http.Request) {
	inv := b.take(w, r)
	if inv == nil {
		return
	}
	body, err := readBody(r)
	if errors.Is(err, errTooLarge) {
		tooLarge := functionError(workflow.ErrorResponseTooLarge, fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", MaxPayloadBytes))
		b.settle(inv, answer{err: tooLarge})
		reply(w, http.StatusRequestEntityTooLarge, errorDocument{Message: "Exceeded maximum allowed payload size", Type: "RequestEntityTooLarge"})
		return
	}
	if err != nil {
		return // the process died while it wrote: its death is the answer
	}
	if name := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); name != "" {
		b.settle(inv, answer{err: functionError(name, "the response broke off")})
	} else {
		b.settle(inv, answer{payload: body})
	}
	reply(w, http.StatusAccepted, map[string]string{"status": "OK"})
}

func (b *sandbox) failure(w http.ResponseWriter, r *http.Request) {
	inv := b.take(w, r)
	if inv == nil {
		return
	}
	body, err := readBody(r)
	if err != nil && !errors.Is(err, errTooLarge) {
		return
	}
	b.settle(inv, answer{err: reportedError(r, body)})
	reply(w, http.StatusAccepted, map[string]string{"status": "OK"})
}

func (b *sandbox) initFailed(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	if err != nil && !errors.Is(err, errTooLarge) {
		return
	}
	b.mu.Lock()
	b.initError = reportedError(r, body)
	b.mu.Unlock()
	reply(w, http.StatusAccepted, map[string]string{"status": "OK"})
}

// reportedError takes the name of an error from the header, or from the document as aws-lambda-go sends it.
func reportedError(r *http.Request, body []byte) *workflow.TaskError {
	var document errorDocument
	name := r.Header.Get("Lambda-Runtime-Function-Error-Type")
	if err := json.Unmarshal(body, &document); err == nil && name == "" {
		name = document.Type
	}
	if name == "" {
		name = workflow.ErrorUnknown
	}
	return &workflow.TaskError{Name: name, Cause: string(body)}
}

var errTooLarge = errors.New("body is too large")

// readBody reads a body of at most MaxPayloadBytes. More is drained, so that the process reads our answer instead of a broken pipe.
func readBody(r *http.Request) ([]byte, error) {
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r.Body, MaxPayloadBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if n <= MaxPayloadBytes {
		return b.Bytes(), nil
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(r.Body, drainLimit)); err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return nil, errTooLarge
}

// register lets aws-lambda-go's SIGTERM support register its extension.
func (b *sandbox) register(w http.ResponseWriter, _ *http.Request) {
	b.mu.Lock()
	b.sigterm = true
	b.mu.Unlock()
	w.Header().Set("Lambda-Extension-Identifier", fmt.Sprintf("local-%d", b.number))
	reply(w, http.StatusOK, map[string]string{
		"functionName": b.pool.function.Name, "functionVersion": "$LATEST", "handler": "bootstrap",
	})
}

// extensionNext blocks: the extension registered for no event.
func (b *sandbox) extensionNext(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-b.exited:
	case <-r.Context().Done():
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
