// Command commit is the Lambda function that validates a batch against the table's head and swaps the pointer. It cannot delete.
package main

import (
	"context"

	"firn/internal/commit"
	"firn/internal/edge"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/state"
)

func main() {
	edge.Start(func(ctx context.Context, p edge.Process) (edge.Raw, error) {
		work, err := p.Work()
		if err != nil {
			return nil, err
		}
		leases, err := p.State(ctx)
		if err != nil {
			return nil, err
		}
		fn := &commit.Function{
			Open: func(ctx context.Context, id maintenance.TableID) (commit.Port, error) {
				l, err := p.Lake(ctx, id.Catalog)
				if err != nil {
					return commit.Port{}, err
				}
				c, err := committer.New(l.Catalog, l.Store, committer.Options{Now: p.Now})
				return commit.Port{Committer: c, Store: l.Store}, err
			},
			Work: work, WorkLocation: p.Settings().WorkLocation, Now: p.Now,
			RenewLease: func(ctx context.Context, run maintenance.Run) error {
				return leases.Renew(ctx, run.Table, run.Token, p.Now(), state.LeaseTTL)
			},
		}
		return p.Entrusted(edge.Handler(fn.Handle)), nil
	})
}
