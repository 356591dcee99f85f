// Command firn is the operator's command line and the local host of the state machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"firn/internal/contract"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run parses the arguments, runs the command, and returns the exit status.
func run(ctx context.Context, args []string) int {
	var cli commands
	app := &app{ctx: ctx, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), now: time.Now}
	parser, err := kong.New(&cli, kong.Name("firn"), kong.Description("Keep Apache Iceberg tables healthy without a cluster."),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Exit(os.Exit), kong.Writers(os.Stdout, os.Stderr))
	if err != nil {
		fmt.Fprintln(os.Stderr, "firn:", err)
		return exitOther
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		return app.fail(&usageError{err})
	}
	app.globals = cli.globals
	if err := app.checkNow(os.Getenv(contract.EnvTest) == "1", command.Command()); err != nil {
		return app.fail(err)
	}
	err = command.Run(app)
	if closeErr := app.close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	return app.fail(err)
}
