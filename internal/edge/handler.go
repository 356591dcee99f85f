// Package edge is the border between a host and the functions: it reads the environment and the configuration once, opens clients, decodes
// payloads strictly, and gives every error the name that the state machine matches. It decides nothing.
package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-lambda-go/lambda/messages"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/peek"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/store"
)

// Error is an error with its name, as a host reports it.
type Error struct {
	// Name is one of the contract's error names.
	Name string
	// Message is the text for people: what, where, what to do.
	Message string
}

// Error prints name and message.
func (e *Error) Error() string { return e.Name + ": " + e.Message }

// Raw is a function as hosts call it: JSON in, JSON out. Its errors are *Error.
type Raw func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error)

// Handler makes a Raw function of a typed one. A payload with unknown fields or of another version never reaches it.
func Handler[In, Out any](fn func(context.Context, In) (Out, error)) Raw {
	return func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := decode(payload, &in); err != nil {
			return nil, err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, &Error{Name: Name(err), Message: err.Error()}
		}
		data, err := json.Marshal(out)
		if err != nil {
			return nil, &Error{Name: contract.ErrorInternal, Message: fmt.Sprintf("encode answer: %v", err)}
		}
		return data, nil
	}
}

// Lambda adapts a Raw function to the Lambda runtime, which takes an error's type from the error's own Go type unless it is this one.
func Lambda(fn Raw) func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error) {
		out, err := fn(ctx, payload)
		var named *Error
		switch {
		case err == nil:
			return out, nil
		case errors.As(err, &named):
			return nil, messages.InvokeResponse_Error{Type: named.Name, Message: named.Message}
		default:
			return nil, messages.InvokeResponse_Error{Type: contract.ErrorInternal, Message: err.Error()}
		}
	}
}

// decode reads a versioned payload strictly.
func decode(payload json.RawMessage, in any) error {
	var head struct {
		V *int `json:"v"`
	}
	if err := json.Unmarshal(payload, &head); err != nil {
		return &Error{Name: contract.ErrorBadInput, Message: fmt.Sprintf("decode payload: %v", err)}
	}
	switch {
	case head.V == nil:
		return &Error{Name: contract.ErrorBadInput, Message: `decode payload: field "v" is missing`}
	case *head.V != contract.PayloadVersion:
		return &Error{
			Name:    contract.ErrorUnsupportedVersion,
			Message: fmt.Sprintf("payload has version %d, this code knows %d: deploy the version that started the run", *head.V, contract.PayloadVersion),
		}
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(in); err != nil {
		return &Error{Name: contract.ErrorBadInput, Message: fmt.Sprintf("decode payload: %v", err)}
	}
	return nil
}

// Name finds the name of an error: the one that a room gave it, else the one of the port's class that it wraps.
func Name(err error) string {
	if named, ok := errors.AsType[*maintenance.NamedError](err); ok {
		return named.Name
	}
	for _, class := range classes() {
		if errors.Is(err, class.err) {
			return class.name
		}
	}
	return contract.ErrorInternal
}

type class struct {
	err  error
	name string
}

// classes lists the ports' classes. What may pass by itself comes last: an error that is both is not repeated.
func classes() []class {
	return []class{
		{handoff.ErrVersion, contract.ErrorUnsupportedVersion},
		{state.ErrLeaseLost, contract.ErrorLeaseLost},
		{state.ErrLeaseHeld, contract.ErrorLeaseLost},
		{catalogs.ErrConflict, contract.ErrorConflict},
		{catalogs.ErrRefused, contract.ErrorRefused},
		{catalogs.ErrNoSuchTable, contract.ErrorRefused},
		{catalogs.ErrPermission, contract.ErrorRefused},
		{catalogs.ErrNotIceberg, contract.ErrorRefused},
		{peek.ErrUnsupported, contract.ErrorRefused},
		{peek.ErrTableFault, contract.ErrorRefused},
		{store.ErrPermission, contract.ErrorRefused},
		{store.ErrArchived, contract.ErrorRefused},
		{store.ErrTransient, contract.ErrorTransient},
		{state.ErrTransient, contract.ErrorTransient},
		{state.ErrConditionFailed, contract.ErrorTransient},
		{catalogs.ErrTransient, contract.ErrorTransient},
	}
}
