// Package serve is the local twin that stays up: the queue, evaluate, schedule, the state machine and a web page in one process, beside any catalog
// and store. What AWS does by events and clocks is done here by three loops:
//
//	every batch window     evaluate gets what waits on the queue
//	every poll             each table's pointer is compared with the last one seen; one that moved is noticed (catalogs without events)
//	every reconcile period schedule walks the catalogs, as EventBridge Scheduler lets it do
//
// The queue lives in memory: a new process notices every table once. Runs that a dead process left are closed before others begin. Without
// Options.Maintain no run is started, whatever the policies say: decisions are kept and shown.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"firn/internal/edge"
	"firn/internal/evaluate"
	"firn/internal/local"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/report"
	"firn/internal/schedule"
	"firn/internal/state"
)

// ErrNeedsToken says that others would reach the page and the door.
var ErrNeedsToken = errors.New("an address that others reach needs a token")

// Options say how often, where, and how far.
type Options struct {
	// Poll is the time between two comparisons of all pointers; Reconcile how long a table may go without a look; Window how long messages wait
	// for others. All are positive.
	Poll, Reconcile, Window time.Duration
	// Runs is how many runs may be at work at once, at least 1.
	Runs int
	// Maintain lets due jobs run where the policy says so. Without it the twin only observes.
	Maintain bool
	// Token is what requests must carry; "" asks for none, which Run allows on loopback addresses only.
	Token string
}

// Deps are what the twin is made of.
type Deps struct {
	Clients *edge.Clients
	// NewRunner makes the host of the state machine; the notifier puts tables back on the queue.
	NewRunner func(ctx context.Context, notifier report.Notifier) (*local.Runner, error)
	Policy    policy.Document
	// Health writes the page that `firn inspect --html` makes of a table.
	Health func(ctx context.Context, id maintenance.TableID, out io.Writer) error
	Now    func() time.Time
	Log    *slog.Logger
}

// Server is the twin.
type Server struct {
	deps     Deps
	opts     Options
	queue    *local.Queue
	state    state.Store
	runner   *local.Runner
	runs     *runs
	evaluate *evaluate.Function
	schedule *schedule.Function
	poller   *poller
	started  time.Time
	// polled is the last comparison of the catalogs, walked the last walk of schedule.
	polled, walked attempt
}

// New wires the twin; nothing runs yet.
func New(ctx context.Context, deps Deps, opts Options) (*Server, error) {
	for name, d := range map[string]time.Duration{"poll": opts.Poll, "reconcile": opts.Reconcile, "window": opts.Window} {
		if d <= 0 {
			return nil, fmt.Errorf("%s is %s: want a positive duration", name, d)
		}
	}
	if opts.Runs < 1 {
		return nil, fmt.Errorf("runs is %d: want at least 1", opts.Runs)
	}
	s := &Server{deps: deps, opts: opts, queue: &local.Queue{}, started: deps.Now()}
	var err error
	if s.runner, err = deps.NewRunner(ctx, report.Queue{Sender: s.queue}); err != nil {
		return nil, err
	}
	if s.state, err = deps.Clients.State(ctx); err != nil {
		return nil, err
	}
	s.runs = newRuns(s.runner.Execute, deps.Log)
	settings := deps.Clients.Settings()
	s.evaluate = evaluate.New(evaluate.Deps{
		Catalog:        deps.Clients.Reader,
		DefaultCatalog: deps.Clients.DefaultCatalog(), Catalogs: deps.Clients.CatalogNames(), State: s.state, Starter: s.runs, Policy: deps.Policy,
		Authority: deps.Clients.Authority(), Caps: evaluate.Caps{Runs: settings.MaxConcurrentRuns, PerNamespace: settings.MaxConcurrentRunsPerNamespace},
		ObserveOnly: !opts.Maintain, Refuse: s.queue.Refuse, Now: deps.Now, Log: deps.Log,
	})
	s.schedule = schedule.New(schedule.Deps{
		Catalog: deps.Clients.Reader, Catalogs: deps.Clients.CatalogNames(), Authority: deps.Clients.Authority(), State: s.state, Queue: s.queue,
		Every: opts.Reconcile, Now: deps.Now, Log: deps.Log,
	})
	s.poller = &poller{
		open: deps.Clients.Reader, catalogs: deps.Clients.CatalogNames(), queue: s.queue, closeDead: s.closeDead, now: deps.Now, seen: map[string]string{},
	}
	return s, nil
}

// Run polls, evaluates and executes runs until the context ends, and serves HTTP on the listener when there is one. A run at work is then interrupted
// and closed, as with an interrupt of `firn run`.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	if listener != nil && s.opts.Token == "" && !loopback(listener.Addr()) {
		return errors.Join(fmt.Errorf("listen on %s: %w", listener.Addr(), ErrNeedsToken), listener.Close())
	}
	group, ctx := errgroup.WithContext(ctx)
	if listener != nil {
		server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10}
		group.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve HTTP on %s: %w", listener.Addr(), err)
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			return server.Close()
		})
	}
	group.Go(func() error { return every(ctx, s.opts.Poll, s.poll) })
	group.Go(func() error { return every(ctx, s.opts.Reconcile, s.walk) })
	group.Go(func() error { return every(ctx, s.opts.Window, s.drain) })
	for range s.opts.Runs {
		group.Go(func() error { return s.runs.work(ctx) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// every calls fn at once and then in intervals until the context ends.
func every(ctx context.Context, interval time.Duration, fn func(context.Context)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		fn(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// poll compares pointers, and delivers again what failed. What it cannot do it tries again the next time.
func (s *Server) poll(ctx context.Context) {
	s.queue.Redeliver()
	err := s.poller.poll(ctx)
	s.polled.note(s.deps.Now(), err)
	if err != nil && ctx.Err() == nil {
		s.deps.Log.ErrorContext(ctx, "poll catalogs", "error", err)
	}
}

func (s *Server) walk(ctx context.Context) {
	_, err := s.schedule.Handle(ctx, nil)
	s.walked.note(s.deps.Now(), err)
	if err != nil && ctx.Err() == nil {
		s.deps.Log.ErrorContext(ctx, "walk catalogs", "error", err)
	}
}

func (s *Server) drain(ctx context.Context) {
	if err := s.queue.Drain(ctx, s.evaluate.Handle); err != nil && ctx.Err() == nil {
		s.deps.Log.ErrorContext(ctx, "evaluate messages", "error", err)
	}
}
