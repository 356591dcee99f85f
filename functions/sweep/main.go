// Command sweep is the Lambda function that proves files unreachable and deletes them. It cannot commit.
package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	"firn/internal/edge"
	"firn/internal/lake/catalogs"
	"firn/internal/store"
	"firn/internal/sweep"
)

func main() {
	edge.Start(func(_ context.Context, p edge.Process) (edge.Raw, error) {
		work, err := p.Work()
		if err != nil {
			return nil, err
		}
		return edge.Handler(sweep.New(sweep.Deps{
			Catalog: func(ctx context.Context, name string) (catalogs.Catalog, store.Full, error) {
				l, err := p.Lake(ctx, name)
				return l.Catalog, l.Store, err
			},
			Work: work, WorkLocation: p.Settings().WorkLocation, Grace: p.Grace, Now: p.Now, Sleep: sleep,
			NewAttempt: uuid.NewString, Log: p.Log,
		}).Handle), nil
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
