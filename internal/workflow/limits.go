package workflow

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"firn/internal/workflow/asl"
)

// Limits of AWS, enforced at run time.
const (
	// MaxStateBytes is the size of a state's input, output and result.
	MaxStateBytes = 262_144
	// MaxPayloadBytes is the size of a function's answer.
	MaxPayloadBytes = 6 << 20
	// MaxEvents is the number of events in an execution's history.
	MaxEvents = 25_000
	// MaxVariableBytes is the size of one variable, MaxVariablesBytes of all of an execution's scope.
	MaxVariableBytes  = 262_144
	MaxVariablesBytes = 10 << 20
	// MaxExecutionNameLength is the length of an execution's name in characters.
	MaxExecutionNameLength = 80
)

// Error names of Lambda that hosts report.
const (
	ErrorSandboxTimedout  = "Sandbox.Timedout"
	ErrorRuntimeExit      = "Runtime.ExitError"
	ErrorResponseTooLarge = "Function.ResponseSizeTooLarge"
	ErrorUnknown          = "Lambda.Unknown"
	ErrorTooManyRequests  = "Lambda.TooManyRequestsException"
	ErrorServiceException = "Lambda.ServiceException"
	ErrorNotFound         = "Lambda.ResourceNotFoundException"
	ErrorAWSLambda        = "Lambda.AWSLambdaException"
)

// TaskError is an error with the name that Retry and Catch match.
type TaskError struct {
	// Name is the error name: a reserved one such as States.Timeout, or the errorType that a function reported.
	Name string
	// Cause says why; for an error of a function it is the function's error document in JSON.
	Cause string
}

// Error returns name and cause.
func (e *TaskError) Error() string {
	if e.Cause == "" {
		return e.Name
	}
	return e.Name + ": " + e.Cause
}

func taskErrorf(name, format string, args ...any) *TaskError {
	return &TaskError{Name: name, Cause: fmt.Sprintf(format, args...)}
}

// checkSize enforces MaxStateBytes.
func checkSize(what, state string, n int) error {
	if n <= MaxStateBytes {
		return nil
	}
	return taskErrorf(asl.ErrorDataLimit, "%s of state %s has %d bytes, at most %d are allowed", what, state, n, MaxStateBytes)
}

// CheckName refuses what AWS refuses as the name of an execution.
func CheckName(name string) error {
	const forbidden = " \t\r\n<>{}[]?*\"#%\\^|~`$&,;:/"
	switch {
	case name == "":
		return fmt.Errorf("execution name is empty: %w", ErrInvalidName)
	case !utf8.ValidString(name) || utf8.RuneCountInString(name) > MaxExecutionNameLength:
		return fmt.Errorf("execution name %q must have at most %d characters: %w", name, MaxExecutionNameLength, ErrInvalidName)
	case strings.ContainsAny(name, forbidden) || strings.ContainsFunc(name, isControl):
		return fmt.Errorf("execution name %q has a character that is not allowed: %w", name, ErrInvalidName)
	default:
		return nil
	}
}

func isControl(r rune) bool { return r < 0x20 || (r >= 0x7f && r <= 0x9f) }

// matches says whether a list of ErrorEquals matches an error. States.ALL does not match States.DataLimitExceeded, and nothing matches
// States.Runtime. States.TaskFailed matches everything but States.Timeout, with the same exceptions.
func matches(names []string, e *TaskError) bool {
	if e.Name == asl.ErrorRuntime {
		return false
	}
	for _, name := range names {
		switch {
		case name == e.Name:
			return true
		case name == asl.ErrorAll && e.Name != asl.ErrorDataLimit:
			return true
		case name == asl.ErrorTaskFailed && e.Name != asl.ErrorDataLimit && e.Name != asl.ErrorTimeout:
			return true
		}
	}
	return false
}
