// Package compact is the function that rewrites one file group: it reads the group's data files with their deletes applied, writes new files,
// and leaves a write-once result with the row map and the proof. It has an object store to read and write, no catalog and no power to delete.
//
// A group that cannot be rewritten (ORC, encrypted, corrupt, missing, a type that cannot be carried, ...) is a result with the reason, not an
// error. An error means that the same call may succeed later; what its outputs left behind no snapshot ever names.
package compact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"firn/internal/compact/arrow"
	"firn/internal/compact/engine"
	"firn/internal/compact/pages"
	"firn/internal/compact/sorted"
	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/telemetry"
)

// ErrTimeout says that the work was stopped before the host would have killed it.
var ErrTimeout = errors.New("out of time")

// deadlineMargin is kept between the end of work and the host's deadline, for aborting the open upload.
const deadlineMargin = 10 * time.Second

// Deps are what a Function needs. Store and WorkLocation are required.
type Deps struct {
	Store store.ReadWriter
	// WorkLocation is where plans and results are.
	WorkLocation string
	// Engine moves the rows; nil means the page engine, with the arrow engine for the groups that it declines. Groups whose rows are ordered go
	// to the sorting engine, which spills to Spill.
	Engine engine.Engine
	Spill  sorted.Spill
	// Metrics receives bytes by tier of each finished group, at the time of Now; nil drops them.
	Metrics telemetry.Sink
	Now     func() time.Time
	// Log receives progress; nil drops it.
	Log *slog.Logger
	// NewAttempt names an attempt; nil means random UUIDs. No two calls may give the same name.
	NewAttempt func() string
}

// Function rewrites file groups. Its methods may be called concurrently.
type Function struct{ deps Deps }

// New makes the function.
func New(deps Deps) *Function {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Engine == nil {
		deps.Engine = pages.New(deps.Store, deps.Log, pages.Limits{}, arrow.New(deps.Store, deps.Log, arrow.Limits{}))
	}
	if deps.NewAttempt == nil {
		deps.NewAttempt = uuid.NewString
	}
	return &Function{deps: deps}
}

// Handle rewrites the group of an item. A group that has a result already answers with it.
func (f *Function) Handle(ctx context.Context, item maintenance.CompactItem) (maintenance.CompactOutput, error) {
	if item.V != contract.PayloadVersion {
		return maintenance.CompactOutput{}, fmt.Errorf("compact group %d: payload version %d: %w", item.Index, item.V, handoff.ErrVersion)
	}
	work := handoff.Open(f.deps.Store, f.deps.WorkLocation, item.Run.RunID)
	var result handoff.GroupResult
	err := work.Read(ctx, work.Result(item.Job, item.Index), &result)
	if err == nil {
		return answer(result), nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return maintenance.CompactOutput{}, fmt.Errorf("compact group %d: %w", item.Index, err)
	}
	if result, err = f.group(ctx, work, item); err != nil {
		return maintenance.CompactOutput{}, fmt.Errorf("compact group %d of run %s: %w", item.Index, item.Run.RunID, err)
	}
	return answer(result), nil
}

// group reads what the plan wrote, rewrites, and writes the result. When another attempt was faster its result is the answer, and the outputs
// of this one are left for the sweep.
func (f *Function) group(ctx context.Context, work *handoff.Work, item maintenance.CompactItem) (handoff.GroupResult, error) {
	var group handoff.Group
	if err := work.Read(ctx, item.GroupLocation, &group); err != nil {
		return handoff.GroupResult{}, err
	}
	var pinned handoff.Pinned
	if err := work.Read(ctx, item.PinnedLocation, &pinned); err != nil {
		return handoff.GroupResult{}, err
	}
	if group.Index != item.Index || group.Run.RunID != item.Run.RunID {
		return handoff.GroupResult{}, fmt.Errorf("the object %s is group %d of run %s", item.GroupLocation, group.Index, group.Run.RunID)
	}
	attempt := f.deps.NewAttempt()
	result, err := f.attempt(ctx, work, &group, &pinned, attempt)
	if err != nil {
		reason, final := refusal(err)
		if !final {
			return handoff.GroupResult{}, err
		}
		f.deps.Log.WarnContext(ctx, "group refused", "group", group.Index, "reason", reason)
		result = handoff.GroupResult{Outcome: maintenance.Refused, Reason: reason}
	}
	if err := f.tell(ctx, &group, &result); err != nil {
		return handoff.GroupResult{}, err
	}
	result.V, result.Run, result.Job, result.Batch = contract.PayloadVersion, group.Run, group.Job, group.Batch
	result.Index, result.Attempt = group.Index, attempt
	if _, err := work.WriteOnce(ctx, work.Result(group.Job, group.Index), &result); err != nil {
		return handoff.GroupResult{}, err
	}
	return result, nil
}

// tell writes what operators want to know of a finished group.
func (f *Function) tell(ctx context.Context, g *handoff.Group, r *handoff.GroupResult) error {
	f.deps.Log.InfoContext(ctx, "group done", "group", g.Index, "outcome", r.Outcome, "engine", r.Engine,
		"bytes_in", r.BytesIn, "bytes_out", r.BytesOut, "tiers", r.Tiers)
	if f.deps.Metrics == nil || len(r.Tiers) == 0 {
		return nil
	}
	var metrics []telemetry.Metric
	for _, tier := range slices.Sorted(maps.Keys(r.Tiers)) {
		metrics = append(metrics, telemetry.Metric{Name: contract.MetricTier(tier), Unit: telemetry.Bytes, Value: float64(r.Tiers[tier])})
	}
	if err := f.deps.Metrics.Emit(f.deps.Now(), g.Run.Table, g.Job, metrics); err != nil {
		return fmt.Errorf("emit metrics of group %d: %w", g.Index, err)
	}
	return nil
}

// attempt prepares the group and hands it to the engine, with a deadline that leaves time to clean up.
func (f *Function) attempt(ctx context.Context, work *handoff.Work, g *handoff.Group, p *handoff.Pinned, attempt string,
) (handoff.GroupResult, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline.Add(-deadlineMargin), ErrTimeout)
		defer cancel()
	}
	result, err := f.rewrite(ctx, work, g, p, attempt)
	if err != nil && ctx.Err() != nil {
		return result, fmt.Errorf("%w: %w", err, context.Cause(ctx)) // Never a refusal: see refusal.
	}
	return result, err
}

func (f *Function) rewrite(ctx context.Context, work *handoff.Work, g *handoff.Group, p *handoff.Pinned, attempt string,
) (handoff.GroupResult, error) {
	t, err := readTable(p)
	if err != nil {
		return handoff.GroupResult{}, err
	}
	if g.Job == maintenance.RewritePositionDeleteFiles {
		return f.positionDeletes(ctx, t, g, attempt)
	}
	if g.Job == maintenance.RewriteEqualityDeleteFiles {
		return f.equalityDeletes(ctx, t, g, attempt)
	}
	job, err := f.prepare(ctx, t, g, attempt)
	if err != nil {
		return handoff.GroupResult{}, err
	}
	mover := f.deps.Engine
	if job.Ordering != nil {
		mover, job.Permutation = sorted.New(f.deps.Store, f.deps.Log, sorted.Limits{}, f.deps.Spill), work.Permutation(g.Job, g.Index, attempt)
	}
	made, err := mover.Rewrite(ctx, job)
	if err != nil {
		return handoff.GroupResult{}, err
	}
	if err := f.proveContents(ctx, g, job, &made); err != nil {
		return handoff.GroupResult{}, err
	}
	result := handoff.GroupResult{
		Outcome: maintenance.Committed, Proof: made.Proof, Engine: made.Name, Outputs: []handoff.Entry{}, Permutation: made.Permutation,
		Tiers: made.Tiers,
	}
	if len(t.sorted) > 0 && job.Ordering == nil {
		result.Engine += " (rows keep the order of the inputs: the table's sort order is not applied)"
	}
	for _, in := range job.Inputs {
		result.BytesIn += in.FileSizeBytes()
	}
	for _, out := range made.Outputs {
		e, err := t.entry(out, g)
		if err != nil {
			return handoff.GroupResult{}, err
		}
		result.Outputs = append(result.Outputs, e)
		result.BytesOut += out.FileSizeBytes()
	}
	if made.RowMap != nil {
		made.RowMap.V = contract.PayloadVersion
		result.RowMap = work.RowMap(g.Job, g.Index, attempt)
		if _, err := work.WriteOnce(ctx, result.RowMap, made.RowMap); err != nil {
			return handoff.GroupResult{}, err
		}
	}
	return result, nil
}

// reasonLimit keeps an answer under a kilobyte.
const reasonLimit = 500

func answer(r handoff.GroupResult) maintenance.CompactOutput {
	reason := r.Reason
	if len(reason) > reasonLimit {
		reason = reason[:reasonLimit]
	}
	return maintenance.CompactOutput{V: contract.PayloadVersion, Group: r.Index, Outcome: r.Outcome, Reason: reason}
}
