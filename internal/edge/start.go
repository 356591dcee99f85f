package edge

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"firn/internal/telemetry"
)

// Sleep waits in real time, or returns the context's error.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Process is what a function's main is given.
type Process struct {
	*Clients
	// Now is the clock, Log writes JSON lines to stderr.
	Now func() time.Time
	Log *slog.Logger
}

// Start serves a function of the state machine: payloads are versioned and decoded strictly, errors are named. See Serve.
func Start(build func(ctx context.Context, p Process) (Raw, error)) {
	Serve(func(ctx context.Context, p Process) (lambda.Handler, error) {
		fn, err := build(ctx, p)
		if err != nil {
			return nil, err
		}
		return lambda.NewHandler(Lambda(fn)), nil
	})
}

// Serve reads the environment once, builds the handler, and serves invocations until the process ends. A fault of the configuration ends it with
// status 1 and one line on stderr.
func Serve(build func(ctx context.Context, p Process) (lambda.Handler, error)) {
	BoundMemory(Environment(os.Environ()))
	handler, err := prepare(context.Background(), os.Environ(), build)
	if err != nil {
		fmt.Fprintln(os.Stderr, "firn:", err)
		os.Exit(1)
	}
	lambda.Start(handler)
}

func prepare(ctx context.Context, environ []string, build func(context.Context, Process) (lambda.Handler, error)) (lambda.Handler, error) {
	settings, err := LambdaSettings(ctx, environ)
	if err != nil {
		return nil, err
	}
	config, err := settings.CatalogConfig("", "", environ, nil)
	if err != nil {
		return nil, err
	}
	return build(ctx, Process{
		Clients: NewClients(config, settings, nil), Now: time.Now, Log: telemetry.NewLogger(os.Stderr, true, slog.LevelInfo),
	})
}
