// Command sweep is the Lambda function that proves files unreachable and deletes them. It cannot commit.
package main

import (
	"context"

	"github.com/google/uuid"

	"firn/internal/edge"
	"firn/internal/sweep"
)

func main() {
	edge.Start(func(_ context.Context, p edge.Process) (edge.Raw, error) {
		work, err := p.Work()
		if err != nil {
			return nil, err
		}
		return p.Entrusted(edge.Handler(sweep.New(sweep.Deps{
			Catalog: p.Remover,
			Work:    work, WorkLocation: p.Settings().WorkLocation, Grace: p.Grace, Now: p.Now,
			NewAttempt: uuid.NewString, Log: p.Log,
		}).Handle)), nil
	})
}
