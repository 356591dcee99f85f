// Command evaluate is the Lambda function that looks at tables which events name, and starts runs.
package main

import (
	"context"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/evaluate"
	"firn/internal/event"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/telemetry"
)

func main() {
	edge.Serve(build)
}

func build(ctx context.Context, p edge.Process) (lambda.Handler, error) {
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
	var later func(context.Context, []byte, time.Duration) error
	if url := env[contract.EnvQueueURL]; url != "" {
		queue, err := edge.NewQueue(ctx, url)
		if err != nil {
			return nil, err
		}
		later = queue.SendLater
	}
	settings, metrics := p.Settings(), telemetry.NewEMF(os.Stdout, contract.FunctionEvaluate)
	fn := evaluate.New(evaluate.Deps{
		Catalog:        p.Reader,
		DefaultCatalog: p.DefaultCatalog(), Catalogs: p.CatalogNames(), State: state, Authority: p.Authority(), Starter: machine, Policy: document,
		Events: event.NewRules(env[contract.EnvEventAccounts]), Refuse: refuse, Now: p.Now, Log: p.Log,
		LookInterval: evaluate.DefaultLookInterval, Later: later, ObserveOnly: env[contract.EnvObserveOnly] == "true",
		Metrics: metrics, Cure: edge.Cure,
		Caps: evaluate.Caps{Runs: settings.MaxConcurrentRuns, PerNamespace: settings.MaxConcurrentRunsPerNamespace},
		Drift: func(at time.Time, table maintenance.TableID, partitions int64) error {
			return metrics.Emit(at, table, "", telemetry.Counts(map[string]int64{contract.MetricLedgerDrift: partitions}))
		},
	})
	return lambda.NewHandler(func(ctx context.Context, batch events.SQSEvent) (events.SQSEventResponse, error) {
		return fn.Handle(ctx, batch)
	}), nil
}
