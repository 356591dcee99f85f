// Command report is the Lambda function that ends a run: outcome, history, metrics, and the lease.
package main

import (
	"context"
	"os"

	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/report"
	"firn/internal/telemetry"
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
		env := edge.Environment(os.Environ())
		queue, err := edge.NewQueue(ctx, env[contract.EnvQueueURL])
		if err != nil {
			return nil, err
		}
		var outcomes report.Publisher
		if name := env[contract.EnvEventBus]; name != "" {
			if outcomes, err = edge.NewEventBus(ctx, name); err != nil {
				return nil, err
			}
		}
		return edge.Handler(report.New(report.Deps{
			Notifier: report.Queue{Sender: queue}, Events: outcomes,
			Work: work, WorkLocation: p.Settings().WorkLocation, State: state, Metrics: telemetry.NewEMF(os.Stdout, contract.FunctionReport),
			Now: p.Now, Log: p.Log,
		}).Handle), nil
	})
}
