// Command evaluate is the Lambda function that looks at tables which events name, and starts runs.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/evaluate"
	"firn/internal/lake/catalogs"
	"firn/internal/policy"
	"firn/internal/store"
)

func main() {
	edge.Serve(func(ctx context.Context, p edge.Process) (lambda.Handler, error) {
		state, err := p.State(ctx)
		if err != nil {
			return nil, err
		}
		document, err := policy.Parse(p.Settings().Policy)
		if err != nil {
			return nil, err
		}
		machine, err := edge.NewStateMachine(ctx, edge.Environment(os.Environ())[contract.EnvStateMachineARN])
		if err != nil {
			return nil, err
		}
		fn := evaluate.New(evaluate.Deps{
			Catalog: func(ctx context.Context, name string) (catalogs.Catalog, store.Reader, error) {
				l, err := p.Lake(ctx, name)
				return l.Catalog, l.Store, err
			},
			DefaultCatalog: p.DefaultCatalog(), State: state, Starter: machine, Policy: document, Now: p.Now, Log: p.Log,
		})
		return lambda.NewHandler(func(ctx context.Context, batch events.SQSEvent) (events.SQSEventResponse, error) {
			return fn.Handle(ctx, batch)
		}), nil
	})
}
