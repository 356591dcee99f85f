package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"firn/internal/edge"
	"firn/internal/local"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/telemetry"
)

// globals are the flags of every command.
type globals struct {
	Catalog    string   `help:"Configured catalog to use." placeholder:"NAME"`
	Properties []string `short:"P" name:"property" help:"Catalog property; may be repeated." placeholder:"KEY=VALUE" sep:"none"`
	Config     string   `help:"Configuration file (firn.yaml), or its location (s3://...): a deployment's is the stack's output Config." placeholder:"FILE"`
	LogFormat  string   `enum:"text,json" default:"text" help:"Format of log lines on stderr."`
	Verbose    bool     `short:"v" help:"Log every step."`
	Now        string   `help:"Compute ages as if it were this time (RFC 3339); only with a dry run." placeholder:"TIMESTAMP"`
}

// commands are the verbs.
type commands struct {
	globals

	Call     callCommand     `cmd:"" help:"Run one maintenance procedure of Spark's on one table."`
	SQL      sqlCommand      `cmd:"" name:"sql" help:"Run statements written for Spark: CALL, EXPLAIN CALL, ALTER TABLE."`
	Run      runCommand      `cmd:"" help:"Run the chain of jobs on one table through the state machine."`
	Inspect  inspectCommand  `cmd:"" help:"Look before you clean: a table's health, and which job it asks for."`
	Explain  explainCommand  `cmd:"" help:"Show the effective policy and what is due, with reasons."`
	Register registerCommand `cmd:"" help:"Make an existing metadata file a table of the catalog."`
	Demo     demoCommand     `cmd:"" help:"Make a lake on this machine, let it decay, and heal it."`
	Verify   verifyCommand   `cmd:"" help:"Prove that a rewrite changed no row."`
	Restore  restoreCommand  `cmd:"" help:"Undo the deletions of a run, as far as the bucket kept versions."`
	Policy   policyCommand   `cmd:"" help:"Import policies."`
	Replay   replayCommand   `cmd:"" help:"Show what a policy would have done on a table's history."`
	Serve    serveCommand    `cmd:"" help:"Run the local twin: queue, functions, state machine, web page."`
}

// app is what commands share.
type app struct {
	process

	ctx     context.Context //nolint:containedctx // kong calls commands without one
	args    []string
	globals globals
	now     func() time.Time
	// json says that stdout gets exactly one JSON object; printed that it got it.
	json    bool
	printed bool

	clients *edge.Clients
	// state is where the command was told to look for runs and decisions; "" is where the configuration says.
	state string
	// asked is the table that the command names, for suggestions.
	asked maintenance.TableID
	// causes are why calls of functions failed in the current run.
	causes []string
}

// checkNow replaces the clock when --now is given, which may only change what is shown.
func (a *app) checkNow(test bool, command string) error {
	if a.globals.Now == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, a.globals.Now)
	if err != nil {
		return &usageError{fmt.Errorf("read --now: %w", err)}
	}
	if !test && !strings.HasPrefix(command, "inspect") && !strings.HasPrefix(command, "explain") && !strings.HasPrefix(command, "replay") && !slices.Contains(a.args, "--dry-run") {
		return &usageError{fmt.Errorf("use --now only with --dry-run")}
	}
	a.now = func() time.Time { return at }
	return nil
}

// settings reads firn.yaml (if any) and fills in where a laptop keeps its work and state.
func (a *app) settings() (edge.Settings, error) {
	var settings edge.Settings
	path := a.globals.Config
	if path == "" {
		dir, err := a.workDir()
		if err != nil {
			return settings, err
		}
		if _, err := os.Stat(filepath.Join(dir, "firn.yaml")); err == nil {
			path = filepath.Join(dir, "firn.yaml")
		}
	}
	if path != "" {
		text, err := a.configuration(path)
		if err != nil {
			return settings, &usageError{fmt.Errorf("read configuration: %w", err)}
		}
		if settings, err = edge.ParseSettings(text); err != nil {
			return settings, &usageError{fmt.Errorf("%s: %w", path, err)}
		}
	}
	if err := settings.SpillFrom(edge.Environment(a.environ)); err != nil {
		return settings, &usageError{err}
	}
	dir, err := a.stateDir()
	if err != nil {
		return settings, err
	}
	if settings.WorkLocation == "" {
		settings.WorkLocation = "file://" + filepath.Join(dir, "work")
	}
	if settings.StateLocation == "" {
		settings.StateLocation = filepath.Join(dir, "state.db")
	}
	if a.state != "" {
		settings.StateLocation = a.state
	}
	if a.globals.Catalog != "" {
		settings.Catalog = a.globals.Catalog
	}
	return settings, nil
}

// configuration reads the text of firn.yaml from a file or a store.
func (a *app) configuration(path string) ([]byte, error) {
	if strings.Contains(path, "://") {
		return edge.FetchSettings(a.ctx, path, a.stores)
	}
	return os.ReadFile(kong.ExpandPath(path))
}

// workDir is the working directory, where firn.yaml and .pyiceberg.yaml may lie.
func (a *app) workDir() (string, error) {
	if a.dir != "" {
		return a.dir, nil
	}
	return os.Getwd()
}

// stateDir is where a laptop keeps what outlives a command: FIRN_HOME, else the user's state folder.
func (a *app) stateDir() (string, error) {
	env := edge.Environment(a.environ)
	dir := env["FIRN_HOME"]
	if dir == "" && env["XDG_STATE_HOME"] != "" {
		dir = filepath.Join(env["XDG_STATE_HOME"], "firn")
	}
	if dir == "" {
		if env["HOME"] == "" {
			return "", &usageError{errors.New("find the folder for work and state: set FIRN_HOME or HOME")}
		}
		dir = filepath.Join(env["HOME"], ".local", "state", "firn")
	}
	return filepath.Abs(dir)
}

// history is what is known of earlier runs, for commands that only look: they work where nothing can be written.
func (a *app) history() state.Store {
	none := state.New(state.NewMemory())
	if settings := a.clients.Settings(); settings.StateLocation != "memory:" && !settings.SharedState() {
		if _, err := os.Stat(settings.StateLocation); errors.Is(err, fs.ErrNotExist) {
			return none
		}
	}
	st, err := a.clients.State(a.ctx)
	if err != nil {
		a.logger().Warn("earlier runs are not looked at", "error", err.Error())
		return none
	}
	return st
}

// open returns the clients, opened once.
func (a *app) open() (*edge.Clients, error) {
	if a.clients != nil {
		return a.clients, nil
	}
	settings, err := a.settings()
	if err != nil {
		return nil, err
	}
	dir, err := a.workDir()
	if err != nil {
		return nil, err
	}
	config, err := settings.CatalogConfig(edge.Environment(a.environ)["HOME"], dir, a.environ, a.globals.Properties)
	if err != nil {
		return nil, &usageError{err}
	}
	a.clients = edge.NewClients(config, settings, a.stores)
	return a.clients, nil
}

func (a *app) close() error {
	if a.clients == nil {
		return nil
	}
	return a.clients.Close()
}

// table parses a table's name; a first part that names the catalog in use may be given, as in Spark.
func (a *app) table(name string) (maintenance.TableID, error) {
	clients, err := a.open()
	if err != nil {
		return maintenance.TableID{}, err
	}
	id, err := maintenance.ParseTableID(clients.DefaultCatalog(), name)
	if err != nil {
		return id, &usageError{err}
	}
	if levels := id.Namespace.Levels(); len(levels) > 1 && levels[0] == id.Catalog {
		id.Namespace = maintenance.NewNamespace(levels[1:]...)
	}
	return id, a.ask(id)
}

// ask notes the table that the command is about and opens its catalog; one that is not configured is a fault of the command line.
func (a *app) ask(id maintenance.TableID) error {
	a.asked = id
	if _, err := a.clients.Lake(a.ctx, id.Catalog); err != nil {
		return &usageError{err}
	}
	return nil
}

// logger writes to stderr: warnings, and every step with --verbose.
func (a *app) logger() *slog.Logger {
	level := slog.LevelWarn
	if a.globals.Verbose {
		level = slog.LevelInfo
	}
	return telemetry.NewLogger(a.stderr, a.globals.LogFormat == "json", level)
}

// runner returns the local host of the state machine, which tells its progress.
func (a *app) runner() (*local.Runner, error) {
	return a.host(local.Options{Observe: a.progress()})
}

// host returns the local host of the state machine with the options that differ from command to command.
func (a *app) host(opts local.Options) (*local.Runner, error) {
	clients, err := a.open()
	if err != nil {
		return nil, err
	}
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	opts.LockDir, opts.Now, opts.Log = filepath.Join(dir, "locks"), a.now, a.logger()
	return local.NewRunner(a.ctx, clients, opts)
}
