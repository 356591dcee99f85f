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
	"firn/internal/event"
	"firn/internal/policy"
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
		env := edge.Environment(os.Environ())
		machine, err := edge.NewStateMachine(ctx, env[contract.EnvStateMachineARN])
		if err != nil {
			return nil, err
		}
		var refuse func(context.Context, events.SQSMessage, error) error
		if url := env[contract.EnvRefusedQueueURL]; url != "" {
			queue, err := edge.NewQueue(ctx, url)
			if err != nil {
				return nil, err
			}
			refuse = queue.Refuse
		}
		fn := evaluate.New(evaluate.Deps{
			Catalog:        p.Reader,
			DefaultCatalog: p.DefaultCatalog(), Catalogs: p.CatalogNames(), State: state, Starter: machine, Policy: document,
			Events: event.NewRules(env[contract.EnvEventAccounts]), Refuse: refuse, Now: p.Now, Log: p.Log,
		})
		return lambda.NewHandler(func(ctx context.Context, batch events.SQSEvent) (events.SQSEventResponse, error) {
			return fn.Handle(ctx, batch)
		}), nil
	})
}
