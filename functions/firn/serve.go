package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"firn/internal/edge"
	"firn/internal/local"
	"firn/internal/local/serve"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/report"
)

// envServeToken names the bearer token that messages over HTTP must carry.
const envServeToken = "FIRN_SERVE_TOKEN" //nolint:gosec // the name of a variable

// serveCommand runs the local twin until it is interrupted.
type serveCommand struct {
	Every     time.Duration `default:"30s" help:"Compare all tables' pointers this often." placeholder:"30s"`
	HTTP      string        `name:"http" default:"127.0.0.1:8642" help:"Listen here for the web page and POST /events; \"off\" for nowhere. Addresses other than loopback need FIRN_SERVE_TOKEN." placeholder:"ADDR"`
	Window    time.Duration `default:"5s" help:"Let events wait this long for others." placeholder:"5s"`
	Reconcile time.Duration `default:"1h" help:"Look at each table at least this often." placeholder:"1h"`
	Runs      int           `default:"1" help:"Runs at work at once." placeholder:"N"`
	Maintain  bool          `help:"Run what is due on tables whose policy says maintain; without it nothing is changed."`
}

// Run serves.
func (c *serveCommand) Run(a *app) error {
	clients, err := a.open()
	if err != nil {
		return err
	}
	document, err := policy.Parse(clients.Settings().Policy)
	if err != nil {
		return &usageError{err}
	}
	server, err := serve.New(a.ctx, serve.Deps{
		Clients: clients, Policy: document, Now: a.now, Log: a.logger(),
		NewRunner: func(_ context.Context, notifier report.Notifier) (*local.Runner, error) {
			return a.host(local.Options{Notifier: notifier})
		},
		Health: func(ctx context.Context, id maintenance.TableID, out io.Writer) error {
			look, err := a.lookAt(ctx, id)
			if err != nil {
				return err
			}
			health, err := look.view.Health(ctx, look.policy, look.past)
			if err != nil {
				return err
			}
			return look.view.WriteHTML(ctx, out, health)
		},
	}, serve.Options{
		Poll: c.Every, Reconcile: c.Reconcile, Window: c.Window, Runs: c.Runs, Maintain: c.Maintain,
		Token: edge.Environment(a.environ)[envServeToken],
	})
	if err != nil {
		return &usageError{err}
	}
	listener, err := c.listen(a)
	if err != nil {
		return err
	}
	if err := server.Run(a.ctx, listener); errors.Is(err, serve.ErrNeedsToken) {
		return &usageError{fmt.Errorf("%w: set %s", err, envServeToken)}
	} else if err != nil {
		return err
	}
	return nil
}

// listen opens the port and says where the page is.
func (c *serveCommand) listen(a *app) (net.Listener, error) {
	doing := "observing only; --maintain lets due jobs run"
	if c.Maintain {
		doing = "maintaining the tables whose policy says so"
	}
	if c.HTTP == "off" {
		_, err := fmt.Fprintf(a.stdout, "serving without a page; %s\n", doing)
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(a.ctx, "tcp", c.HTTP)
	if err != nil {
		return nil, &usageError{fmt.Errorf("listen on %s: %w", c.HTTP, err)}
	}
	_, err = fmt.Fprintf(a.stdout, "serving http://%s; %s\n", listener.Addr(), doing)
	return listener, err
}
