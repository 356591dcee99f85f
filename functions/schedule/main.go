// Command schedule is the Lambda function that finds tables which events missed, and puts a notice for each on the queue.
package main

import (
	"context"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/schedule"
)

// every is how long a table may go without a look: an hour, so that triggers that count days are at most that late.
const every = time.Hour

// spread is the time over which the notices of a walk arrive: the longest delay of SQS is 15 minutes.
const spread = 10 * time.Minute

func main() {
	edge.Serve(func(ctx context.Context, p edge.Process) (lambda.Handler, error) {
		state, err := p.State(ctx)
		if err != nil {
			return nil, err
		}
		queue, err := edge.NewQueue(ctx, edge.Environment(os.Environ())[contract.EnvQueueURL])
		if err != nil {
			return nil, err
		}
		fn := schedule.New(schedule.Deps{
			Catalog:  p.Reader,
			Catalogs: p.CatalogNames(), State: state, Authority: p.Authority(), Queue: queue, Every: every, Later: queue.SendLater, Spread: spread, Now: p.Now, Log: p.Log,
		})
		return lambda.NewHandler(fn.Handle), nil
	})
}
