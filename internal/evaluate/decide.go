package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/state"
)

// runHistory bounds how many runs are read to count those of a day.
const runHistory = 100

// decide asks what is due, keeps the decision, and starts a run.
func (f *Function) decide(ctx context.Context, v *view, head state.Head, shards []state.Shard) error {
	input, err := f.input(ctx, v, head, shards)
	if err != nil {
		return err
	}
	record := state.Decision{Table: v.id, AtMS: input.NowMS, SnapshotID: head.SnapshotID, Action: "none"}
	request := maintenance.Request{Automatic: true, Trigger: "event"}
	for _, d := range decide.Due(input, v.policy) {
		record.Reasons = append(record.Reasons, fmt.Sprintf("%s: %t: %s", d.Job, d.Due, d.Reason))
		if d.Due {
			record.Due = append(record.Due, d.Job)
			request.Jobs = append(request.Jobs, v.policy.Request(d.Job))
		}
	}
	switch {
	case len(record.Due) == 0:
	case v.policy.Mode() != policy.Maintain:
		record.Action = "observe"
	default:
		if record.Action, record.RunID, err = f.start(ctx, v, head, request); err != nil {
			return err
		}
	}
	f.deps.Log.InfoContext(ctx, "decision", "table", v.id.String(), "action", record.Action, "due", record.Due, "run_id", record.RunID)
	return f.deps.State.SaveDecision(ctx, record)
}

// input gathers what Due looks at.
func (f *Function) input(ctx context.Context, v *view, head state.Head, shards []state.Shard) (decide.DueInput, error) {
	now := f.deps.Now()
	in := decide.DueInput{
		NowMS: now.UnixMilli(), Commits: head.Commits, Snapshots: head.Snapshots, SmallManifests: head.SmallManifests, FirstSeenMS: head.FirstSeenMS,
		Jobs: map[maintenance.Job]decide.JobFacts{},
	}
	for job, s := range head.Jobs {
		in.Jobs[job] = decide.JobFacts{LastRunMS: s.LastRunMS, LastOutcome: s.LastOutcome}
	}
	for _, s := range shards {
		for _, p := range s.Partitions {
			in.Partitions = append(in.Partitions, decide.PartitionFacts{
				Name: p.Partition, DataFiles: p.DataFiles, SmallFiles: p.SmallFiles, PositionDeleteFiles: p.PositionDeleteFiles,
				EqualityDeleteFiles: p.EqualityDeleteFiles, DeletedRows: p.DeletedRows, Rows: p.DataRows, LastWriteMS: p.LastWriteMS,
			})
		}
	}
	runs, err := f.deps.State.Runs(ctx, v.id, runHistory)
	if err != nil {
		return in, err
	}
	for _, r := range runs {
		if r.Request.Automatic && now.Sub(time.UnixMilli(r.StartedMS)) < 24*time.Hour {
			in.RunsToday++
		}
	}
	return in, nil
}

// start takes the lease and starts the run. A crash between the two is repaired by the next look, which finds a lease in phase starting and starts
// the same name with the same bytes.
func (f *Function) start(ctx context.Context, v *view, head state.Head, request maintenance.Request) (string, maintenance.RunID, error) {
	lease, err := f.deps.State.Acquire(ctx, v.id, f.deps.Now(), state.LeaseTTL, func(token int64) (maintenance.RunID, []byte) {
		run := maintenance.Run{
			RunID: maintenance.UniqueRunID(v.meta.TableUUID, head.SnapshotID, token, f.deps.NewNonce()),
			Table: v.id, TableUUID: v.meta.TableUUID, Token: token,
		}
		data, err := json.Marshal(maintenance.ExecutionInput{V: contract.PayloadVersion, Run: run, Request: request})
		if err != nil {
			panic(fmt.Sprintf("encode execution input: %v", err)) // plain data always encodes
		}
		return run.RunID, data
	})
	if errors.Is(err, state.ErrLeaseHeld) {
		_, err := f.deps.State.MarkPending(ctx, v.id)
		return "pending", "", err
	}
	if err != nil {
		return "", "", err
	}
	if err := f.deps.Starter.Start(ctx, string(lease.RunID), lease.Input); err != nil {
		return "", "", fmt.Errorf("start run %s: %w", lease.RunID, err)
	}
	return "start", lease.RunID, nil
}
