// Command plan is the Lambda function that decides what a run does next.
package main

import (
	"context"

	"github.com/google/uuid"

	"firn/internal/edge"
	"firn/internal/plan"
)

func main() {
	edge.Start(func(ctx context.Context, p edge.Process) (edge.Raw, error) {
		work, err := p.Work()
		if err != nil {
			return nil, err
		}
		state, err := p.State(ctx)
		if err != nil {
			return nil, err
		}
		return p.Entrusted(edge.Handler(plan.New(plan.Deps{
			Catalog: p.Reader,
			Work:    work, WorkLocation: p.Settings().WorkLocation, Leases: state, Now: p.Now, NewAttempt: uuid.NewString, Log: p.Log,
			SortGroupBytes: p.Settings().SortGroupBytes(),
		}).Handle)), nil
	})
}
