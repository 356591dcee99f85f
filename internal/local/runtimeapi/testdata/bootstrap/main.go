// Command bootstrap is a function that does what its payload says, for the tests of the Runtime API server.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// CommitConflict is an error reported by pointer, BadPlan one by value.
type (
	CommitConflict struct{ Branch string }
	BadPlan        struct{}
	Throttled      struct{ error }
)

func (e *CommitConflict) Error() string { return "branch " + e.Branch + " moved" }
func (e BadPlan) Error() string         { return "bad plan" }

type input struct {
	Do    string          `json:"do"`
	Value json.RawMessage `json:"value"`
	Size  int             `json:"size"`
	MS    int             `json:"ms"`
}

func handle(ctx context.Context, in input) (any, error) {
	switch in.Do {
	case "echo":
		return in.Value, nil
	case "pid":
		return os.Getpid(), nil
	case "env":
		return os.Environ(), nil
	case "context":
		return describe(ctx)
	case "size":
		return strings.Repeat("x", in.Size), nil
	case "sleep":
		time.Sleep(time.Duration(in.MS) * time.Millisecond)
		return os.Getpid(), nil
	default:
		return nil, fail(in)
	}
}

func describe(ctx context.Context) (any, error) {
	lc, ok := lambdacontext.FromContext(ctx)
	if !ok {
		return nil, errors.New("no context")
	}
	deadline, _ := ctx.Deadline()
	return map[string]any{"arn": lc.InvokedFunctionArn, "request": lc.AwsRequestID, "left_ms": time.Until(deadline).Milliseconds(), "name": lambdacontext.FunctionName}, nil
}

func fail(in input) error {
	switch in.Do {
	case "pointer":
		return &CommitConflict{Branch: "main"}
	case "value":
		return BadPlan{}
	case "wrapped":
		return fmt.Errorf("wrap: %w", &CommitConflict{Branch: "main"})
	case "joined":
		return errors.Join(&CommitConflict{Branch: "main"}, BadPlan{})
	case "plain":
		return errors.New("plain")
	case "embedded":
		return Throttled{errors.New("slow down")}
	case "named":
		return messages.InvokeResponse_Error{Type: "Firn.Transient", Message: "try again"}
	case "panic":
		panic("boom")
	case "exit":
		os.Exit(3)
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	}
	return fmt.Errorf("unknown: %s", in.Do)
}

func main() {
	if os.Getenv("TEST_INIT") == "exit" {
		os.Exit(7)
	}
	if path := os.Getenv("TEST_SIGTERM_FILE"); path != "" {
		lambda.StartWithOptions(handle, lambda.WithEnableSIGTERM(func() {
			_ = os.WriteFile(path, []byte("goodbye"), 0o600)
			os.Exit(0)
		}))
		return
	}
	lambda.Start(handle)
}
