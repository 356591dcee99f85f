// Command compact is the Lambda function that rewrites one file group. It reaches no catalog and cannot delete.
package main

import (
	"context"
	"os"

	"firn/internal/compact"
	"firn/internal/compact/sorted"
	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/maintenance"
	"firn/internal/telemetry"
)

func main() {
	edge.Start(func(_ context.Context, p edge.Process) (edge.Raw, error) {
		return p.Entrusted(edge.Handler(func(ctx context.Context, in maintenance.CompactItem) (maintenance.CompactOutput, error) {
			tables, err := p.Tables(in.Run.Table.Catalog)
			if err != nil {
				return maintenance.CompactOutput{}, err
			}
			settings := p.Settings()
			return compact.New(compact.Deps{
				Store: tables, WorkLocation: settings.WorkLocation, Log: p.Log, Metrics: telemetry.NewEMF(os.Stdout, contract.FunctionCompact), Now: p.Now,
				Spill: sorted.Spill{Dir: settings.SpillDir, LimitBytes: settings.SpillLimitBytes},
			}).Handle(ctx, in)
		})), nil
	})
}
