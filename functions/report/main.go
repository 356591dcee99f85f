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
		queue, err := edge.NewQueue(ctx, edge.Environment(os.Environ())[contract.EnvQueueURL])
		if err != nil {
			return nil, err
		}
		return edge.Handler(report.New(report.Deps{
			Notifier: report.Queue{Sender: queue},
			Work:     work, WorkLocation: p.Settings().WorkLocation, State: state, Metrics: telemetry.NewEMF(os.Stdout, contract.FunctionReport),
			Now: p.Now, Log: p.Log,
		}).Handle), nil
	})
}
