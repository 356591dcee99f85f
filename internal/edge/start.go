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

// Process is what a function's main is given.
type Process struct {
	*Clients
	// Now is the clock, Log writes JSON lines to stderr.
	Now func() time.Time
	Log *slog.Logger
}

// Start reads the environment once, builds the function, and serves invocations until the process ends. A fault of the configuration ends it with
// status 1 and one line on stderr.
func Start(build func(ctx context.Context, p Process) (Raw, error)) {
	if err := start(context.Background(), os.Environ(), build); err != nil {
		fmt.Fprintln(os.Stderr, "firn:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, environ []string, build func(context.Context, Process) (Raw, error)) error {
	settings, err := LambdaSettings(ctx, environ)
	if err != nil {
		return err
	}
	config, err := settings.CatalogConfig("", "", environ, nil)
	if err != nil {
		return err
	}
	clients := NewClients(config, settings, nil)
	fn, err := build(ctx, Process{Clients: clients, Now: time.Now, Log: telemetry.NewLogger(os.Stderr, true, slog.LevelInfo)})
	if err != nil {
		return err
	}
	lambda.Start(Lambda(fn))
	return nil
}
