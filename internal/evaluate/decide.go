package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"firn/internal/authority"
	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/peek"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/state"
	"firn/internal/store"
)

// decisionAge is how long decisions that say the same are kept as one record: of a table without commits, which is looked at once an hour, one a day.
const decisionAge = 24 * time.Hour

// verdict is a decision that is to be kept and acted on.
type verdict struct {
	record  state.Decision
	request maintenance.Request
	debt    float64
}

// decide asks what is due, and returns the head with the decision in it. A record with action start asks for a run.
func (f *Function) decide(ctx context.Context, v *view, head state.Head) (state.Head, verdict, error) {
	record := state.Decision{Table: v.id, AtMS: f.deps.Now().UnixMilli(), SnapshotID: head.SnapshotID, Action: "none"}
	out := verdict{request: maintenance.Request{Automatic: true, Trigger: "event"}}
	input := f.input(v, &head)
	due, err := f.due(ctx, v, head, &input)
	if err != nil {
		return head, out, err
	}
	head.NextLookMS = decide.NextByClock(input, v.policy)
	record.Inputs = figures(input)
	for _, d := range due {
		record.Reasons = append(record.Reasons, fmt.Sprintf("%s: %t: %s", d.Job, d.Due, d.Reason))
		if d.Due {
			record.Due = append(record.Due, d.Job)
			out.request.Jobs = append(out.request.Jobs, v.policy.DueRequest(d.Job, d.MinInputFiles, d.Aged))
			out.debt = max(out.debt, d.Debt)
		}
	}
	if len(record.Due) > 0 {
		if record.Skip, err = f.maintainer(ctx, v); err != nil {
			return head, out, err
		}
	}
	switch {
	case record.Skip != "":
		record.Action = "skip"
	case len(record.Due) == 0:
		if head.Decision != nil && head.Decision.Action == actionStart {
			err = f.withdraw(ctx, v.id) // it may still wait for a place
		}
	case v.policy.Mode() != policy.Maintain:
		record.Action = "observe"
	case f.deps.ObserveOnly:
		record.Action = "observe"
		record.Reasons = append(record.Reasons, observesOnly)
	default:
		record.Action = actionStart
	}
	if err != nil {
		return head, out, err
	}
	out.record = record
	head, err = f.keep(ctx, head, record)
	return head, out, err
}

// observesOnly is why nothing is started for a table in mode maintain.
const observesOnly = "run: false: nothing here may start runs (setting mode of a deployment: opt-in or maintain; flag --maintain of firn serve)"

// actionStart is the action of a decision that asks for a run.
const actionStart = "start"

// act starts the run that a verdict asks for, and keeps what came of it.
func (f *Function) act(ctx context.Context, v *view, head state.Head, out verdict) error {
	var err error
	if out.record.Action == actionStart {
		if out.record.Action, out.record.RunID, err = f.start(ctx, v, head, out.request, out.debt); err == nil {
			err = f.deps.State.SaveDecision(ctx, out.record)
		}
	}
	level := slog.LevelInfo
	if head.Decision != nil && head.Decision.Same > 0 {
		level = slog.LevelDebug // said before: the ledger counts it, and a line a look costs more than the look's reads
	}
	f.deps.Log.Log(ctx, level, "decision", "table", v.id.String(), "action", out.record.Action, "due", out.record.Due, "run_id", out.record.RunID,
		"skip", out.record.Skip)
	return err
}

// keep puts the decision into the head, where the last one always is whole, and into history when it says something else than the one before. Decisions
// alike are one record for up to a day, with a count.
func (f *Function) keep(ctx context.Context, head state.Head, d state.Decision) (state.Head, error) {
	if last := head.Decision; last != nil && d.Action != actionStart && last.Alike(d) && d.AtMS-last.AtMS < decisionAge.Milliseconds() {
		d.LastMS, d.Same, d.AtMS = d.AtMS, last.Same+1, last.AtMS
		head.Decision = &d
		return head, nil
	}
	if last := head.Decision; last != nil && last.Same > 0 {
		if err := f.deps.State.SaveDecision(ctx, *last); err != nil {
			return head, err
		}
	}
	head.Decision = &d
	if d.Action == actionStart {
		return head, nil // kept when it is known what came of it
	}
	return head, f.deps.State.SaveDecision(ctx, d)
}

// skip keeps the reason why a table is not looked at: a repetition would end alike, so the notice is done. The same reason is kept once a day.
func (f *Function) skip(ctx context.Context, id maintenance.TableID, why string) error {
	why = maintenance.Shortened(why, maxReason)
	newest, err := f.deps.State.Decisions(ctx, id, 1)
	if err != nil {
		return err
	}
	now := f.deps.Now().UnixMilli()
	if len(newest) > 0 && newest[0].Action == "skip" && newest[0].Skip == why && now-newest[0].AtMS < decisionAge.Milliseconds() {
		return nil
	}
	f.deps.Log.WarnContext(ctx, "skip table", "table", id.String(), "reason", why)
	return f.deps.State.SaveDecision(ctx, state.Decision{Table: id, AtMS: now, Action: "skip", Skip: why})
}

// switchedOff names the setting by which a table is left alone.
func switchedOff(p policy.Policy) string {
	for _, name := range []string{"enabled", "mode"} {
		if s, _ := p.Setting(name); s.Value == "false" || s.Value == string(policy.Off) {
			return fmt.Sprintf("%s is %s (%s)", name, s.Value, s.Source)
		}
	}
	return "mode is off"
}

// maxReason bounds the text of a skip, which quotes what writers put into a table: an item of state may have 400 KB, and a line of log is paid by the byte.
const maxReason = 4096

// refused is the reason of an error that a repetition would meet again; "" for all others.
func refused(err error) string {
	for _, class := range []error{authority.ErrOutside, peek.ErrTableFault, peek.ErrUnsupported, policy.ErrPolicy, catalogs.ErrRefused, catalogs.ErrPermission, store.ErrPermission} {
		if errors.Is(err, class) {
			return err.Error()
		}
	}
	return ""
}

// due decides on the digests of the shards first. Where one trips a trigger, the shard's own partitions are asked: one that trips it takes the digest's
// place, so that the other shards are not read; a shard whose digest tripped by figures of different partitions is put aside. Each partition is asked once
// or twice, however many shards are read.
func (f *Function) due(ctx context.Context, v *view, head state.Head, in *decide.DueInput) ([]decide.JobDue, error) {
	var aside []decide.PartitionFacts
	for {
		due := decide.Due(*in, v.policy)
		i := slices.IndexFunc(in.Partitions, func(p decide.PartitionFacts) bool { return p.Digest && tripped(due, p.Name) })
		if i < 0 && len(aside) == 0 {
			return due, nil
		}
		if i < 0 {
			in.Partitions = append(in.Partitions, aside...)
			return decide.Due(*in, v.policy), nil
		}
		opened, err := f.open(ctx, v, head, in.Partitions[i].Name)
		if err != nil {
			return nil, err
		}
		others := slices.Delete(in.Partitions, i, i+1)
		if in.Partitions = opened; slices.ContainsFunc(decide.Due(*in, v.policy), func(d decide.JobDue) bool { return d.Due && d.Partitioned }) {
			in.Partitions = append(opened, others...)
		} else {
			in.Partitions, aside = others, append(aside, opened...)
		}
	}
}

// tripped reports whether a partition or digest made a job due.
func tripped(due []decide.JobDue, name string) bool {
	return slices.ContainsFunc(due, func(d decide.JobDue) bool { return d.Due && d.Partitioned && d.Partition == name })
}

// open reads the partitions of the shard that a digest is of.
func (f *Function) open(ctx context.Context, v *view, head state.Head, name string) ([]decide.PartitionFacts, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(name, shardName))
	if err != nil {
		return nil, fmt.Errorf("read shard number of %q: %w", name, err)
	}
	shard, err := f.deps.State.LoadShard(ctx, v.id, head.Generation, n)
	if err != nil {
		return nil, err
	}
	facts := make([]decide.PartitionFacts, len(shard.Partitions))
	for i, p := range shard.Partitions {
		facts[i] = v.facts(p)
	}
	return facts, nil
}

// shardName begins the name of a digest; no partition is called so, since its name would hold a "=".
const shardName = "shard "

// facts are those of one partition, with a title for people.
func (v *view) facts(p state.PartitionCounters) decide.PartitionFacts {
	out := facts(p)
	out.Title = v.meta.PartitionTitle(p.Partition)
	return out
}

func facts(p state.PartitionCounters) decide.PartitionFacts {
	return decide.PartitionFacts{
		Name: p.Partition, DataFiles: p.DataFiles, SmallFiles: p.SmallFiles, PositionDeleteFiles: p.PositionDeleteFiles,
		EqualityDeleteFiles: p.EqualityDeleteFiles, DeletedRows: p.DeletedRows, Rows: p.DataRows, LastWriteMS: p.LastWriteMS,
		DataBytes: p.DataBytes, SmallBytes: p.SmallBytes,
	}
}

// input gathers what Due looks at, and notes in the head the least that was found since each job's last run.
func (f *Function) input(v *view, head *state.Head) decide.DueInput {
	now := f.deps.Now()
	sum := total(*head)
	in := decide.DueInput{
		NowMS: now.UnixMilli(), Commits: head.Commits, Snapshots: head.Snapshots, SmallManifests: head.SmallManifests, FirstSeenMS: head.FirstSeenMS,
		Manifests: head.Manifests, MetadataFiles: head.MetadataFiles, LastCommitMS: head.LastWriteMS, Total: facts(sum),
		OldestSnapshotMS: head.OldestSnapshotMS, UnclusteredBytes: sum.UnclusteredBytes, Jobs: map[maintenance.Job]decide.JobFacts{},
	}
	in.SpentMicros = spentThisMonth(head.Spending, now)
	for _, ms := range head.Spending.Runs {
		in.LastRunMS = max(in.LastRunMS, ms)
		if now.Sub(time.UnixMilli(ms)) < 24*time.Hour {
			in.RunsToday++
		}
	}
	for _, p := range head.Partitions {
		in.Partitions = append(in.Partitions, v.facts(p))
	}
	for n, d := range head.Digests {
		worst := facts(d.Worst)
		worst.EqualityDeleteFiles = 0 // PositionDeleteFiles of a digest counts both kinds
		worst.Name, worst.Digest = shardName+strconv.Itoa(n), true
		in.Partitions = append(in.Partitions, worst)
	}
	jobs := maps.Clone(head.Jobs)
	for job, s := range jobs {
		seen := in.Seen(job, decide.JobFacts{
			LastRunMS: s.LastRunMS, LastOutcome: s.LastOutcome, LastAgedMS: s.LastAgedMS, WaitingUntilMS: s.WaitingUntilMS, Left: s.Left, LeftEquality: s.LeftEquality,
		})
		s.Left, s.LeftEquality = seen.Left, seen.LeftEquality
		jobs[job], in.Jobs[job] = s, seen
	}
	head.Jobs = jobs
	return in
}

// figures are the inputs that a decision's record keeps.
func figures(in decide.DueInput) map[string]int64 {
	out := map[string]int64{
		"commits": in.Commits, "snapshots": in.Snapshots, "manifests": in.Manifests, "small_manifests": in.SmallManifests,
		"metadata_files": in.MetadataFiles, "runs_today": in.RunsToday, "spent_micros": in.SpentMicros, "data_files": in.Total.DataFiles,
		"small_files": in.Total.SmallFiles, "small_bytes": in.Total.SmallBytes, "worst_small_files": in.Counter(maintenance.RewriteDataFiles),
		"position_delete_files": in.Total.PositionDeleteFiles, "equality_delete_files": in.Total.EqualityDeleteFiles, "deleted_rows": in.Total.DeletedRows,
		"unclustered_bytes": in.UnclusteredBytes, "last_commit_ms": in.LastCommitMS,
	}
	maps.DeleteFunc(out, func(_ string, n int64) bool { return n == 0 })
	return out
}

// start takes a place and the lease, and starts the run. A crash between is repaired by the next look, which finds a lease in phase starting and starts
// the same name with the same bytes.
func (f *Function) start(ctx context.Context, v *view, head state.Head, request maintenance.Request, debt float64) (string, maintenance.RunID, error) {
	if admitted, err := f.admit(ctx, v.id, debt); err != nil || !admitted {
		return "waiting", "", err
	}
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
