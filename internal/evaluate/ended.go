package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"firn/internal/contract"
	"firn/internal/event"
	"firn/internal/maintenance"
	"firn/internal/state"
)

// settleEnded acts on the end of an execution: one that ended without report (timed out, aborted, or report itself failed) gets its place in history,
// and its lease is freed, so that the look that follows finds the table due again. What the run left in the lake is settled by the next one.
//
// The event decides nothing but when to look here: run, request and token are the lease's own, and a lease that another run holds stays untouched. An
// event that lies can free a lease too early, which costs work and no data: the lease only saves work.
func (f *Function) settleEnded(ctx context.Context, id maintenance.TableID, n event.Notice) error {
	lease, held, err := f.deps.State.Current(ctx, id)
	if err != nil || !held || lease.RunID != n.RunID {
		return err // report has freed it, or somebody took over
	}
	if err := f.remember(ctx, lease, n.Status); err != nil {
		return fmt.Errorf("remember run %s, which ended without report: %w", lease.RunID, err)
	}
	if _, err := f.deps.State.Release(ctx, id, lease.Token); err != nil && !errors.Is(err, state.ErrLeaseLost) {
		return fmt.Errorf("free lease of run %s: %w", lease.RunID, err)
	}
	if err := f.leave(ctx, id); err != nil {
		return fmt.Errorf("give back the place of run %s: %w", lease.RunID, err)
	}
	f.deps.Log.WarnContext(ctx, contract.LogUnreported, "run_id", lease.RunID, "table", id.String(), "status", n.Status)
	return nil
}

// remember writes the run's history from its lease, unless report has written it and failed only to free the lease.
func (f *Function) remember(ctx context.Context, lease state.Lease, status string) error {
	if _, found, err := f.deps.State.FindRun(ctx, lease.RunID); err != nil || found {
		return err
	}
	var input maintenance.ExecutionInput
	if err := json.Unmarshal(lease.Input, &input); err != nil {
		return fmt.Errorf("decode execution input of run %s: %w", lease.RunID, err)
	}
	now := f.deps.Now()
	taken := lease.ExpiresAt.Add(-state.LeaseTTL) // or renewed: the last sign of life
	return f.deps.State.SaveRun(ctx, state.RunRecord{
		Run: input.Run, Request: input.Request, StartedMS: min(taken.UnixMilli(), now.UnixMilli()), EndedMS: now.UnixMilli(),
		Report: maintenance.ReportOutput{
			V: contract.PayloadVersion, Run: input.Run, Outcome: maintenance.Failed, Jobs: []maintenance.JobOutcome{},
			Error: "States." + status, Reason: "the execution ended as " + status + " without report",
		},
	})
}
