package local

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"firn/internal/commit"
	"firn/internal/compact"
	"firn/internal/compact/sorted"
	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/plan"
	"firn/internal/report"
	"firn/internal/state"
	"firn/internal/store"
	"firn/internal/sweep"
	"firn/internal/telemetry"
	"firn/internal/workflow"
)

// Options are what a runner may be given beside its clients.
type Options struct {
	// LockDir holds the lock files of runs.
	LockDir string
	Now     func() time.Time
	// Observe gets history events; nil for none.
	Observe func(workflow.Event)
	Log     *slog.Logger
	// Notifier gets tables that are due again; nil for nobody.
	Notifier report.Notifier
}

// NewRunner wires the five functions of the state machine in this process, each with the powers of its role and no more.
func NewRunner(ctx context.Context, clients *edge.Clients, opts Options) (*Runner, error) {
	work, err := clients.Work()
	if err != nil {
		return nil, err
	}
	st, err := clients.State(ctx)
	if err != nil {
		return nil, err
	}
	w := wiring{clients: clients, work: work, location: clients.Settings().WorkLocation, opts: opts}
	said := newAnswers(work, w.location)
	functions := map[string]edge.Raw{
		contract.FunctionPlan: edge.Handler(plan.New(plan.Deps{
			Catalog: clients.Reader, Work: work, WorkLocation: w.location, Leases: st, Now: opts.Now, NewAttempt: uuid.NewString, Log: opts.Log,
			SortGroupBytes: clients.Settings().SortGroupBytes(),
		}).Handle),
		contract.FunctionCompact: w.compact(),
		contract.FunctionCommit:  said.commit(w.commit()),
		contract.FunctionSweep:   w.sweep(),
		contract.FunctionReport: said.report(report.New(report.Deps{
			Work: work, WorkLocation: w.location, State: st, Metrics: telemetry.Discard{}, Notifier: opts.Notifier, Now: opts.Now, Log: opts.Log,
		})),
	}
	for name, fn := range functions {
		if name != contract.FunctionReport { // which frees the lease of a run that was refused
			functions[name] = clients.Entrusted(fn)
		}
	}
	return &Runner{
		Clients: clients, Functions: functions, LockDir: opts.LockDir, SharedState: clients.Settings().SharedState(), Now: opts.Now,
		Observe: opts.Observe, Log: opts.Log, answers: said,
	}, nil
}

type wiring struct {
	clients  *edge.Clients
	work     store.Full
	location string
	opts     Options
}

// compact opens the table's store by the run's table; it gets no catalog and no power to delete.
func (w wiring) compact() edge.Raw {
	return edge.Handler(func(ctx context.Context, in maintenance.CompactItem) (maintenance.CompactOutput, error) {
		tables, err := w.clients.Tables(in.Run.Table.Catalog)
		if err != nil {
			return maintenance.CompactOutput{}, err
		}
		settings := w.clients.Settings()
		return compact.New(compact.Deps{
			Store: tables, WorkLocation: w.location, Log: w.opts.Log,
			Spill: sorted.Spill{Dir: settings.SpillDir, LimitBytes: settings.SpillLimitBytes},
		}).Handle(ctx, in)
	})
}

func (w wiring) commit() *commit.Function {
	return &commit.Function{
		Open: func(ctx context.Context, id maintenance.TableID) (commit.Port, error) {
			l, err := w.clients.Lake(ctx, id.Catalog)
			if err != nil {
				return commit.Port{}, err
			}
			c, err := committer.New(l.Catalog, l.Store, committer.Options{Now: w.opts.Now})
			return commit.Port{Committer: c, Store: l.Store}, err
		},
		Work: w.work, WorkLocation: w.location, Now: w.opts.Now,
		RenewLease: func(ctx context.Context, run maintenance.Run) error {
			st, err := w.clients.State(ctx)
			if err != nil {
				return err
			}
			return st.Renew(ctx, run.Table, run.Token, w.opts.Now(), state.LeaseTTL)
		},
	}
}

func (w wiring) sweep() edge.Raw {
	return edge.Handler(sweep.New(sweep.Deps{
		Catalog: w.clients.Remover,
		Work:    w.work, WorkLocation: w.location, Grace: w.clients.Grace, Now: w.opts.Now, NewAttempt: uuid.NewString, Log: w.opts.Log,
	}).Handle)
}
