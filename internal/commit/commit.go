// Package commit is the logic of the function commit: it validates a batch of finished groups against the table's head, builds the snapshot and
// swaps the pointer, or says precisely why not. It also rewrites manifests and commits expiries. It is the only room that commits, and it deletes nothing: it lists what
// sweep may delete.
//
// It works on state, not on history. Each attempt loads the head fresh and asks whether the replaced files are still live and whether the deletes
// that apply to them are the ones that were applied; a group for which that is not so is a conflict.
//
// Each batch has a fate log in the work location. Before each catalog call the next entry is written, only where none is; sweep writes
// an abandoning entry before it deletes an output. A call without a definite answer is settled by looking: the batch is committed if its commit
// ID or one of its outputs is in a retained snapshot, and absent only if neither is and the pointer that the call asserted has moved. While that
// pointer is unmoved, only the same snapshot may be sent again. A second execution of Handle changes nothing and answers the same.
//
// Errors carry a name (maintenance.NamedError) where this room knows what they mean: contract.ErrorCommitStateUnknown above all, in which
// case nothing may be deleted.
package commit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake/committer"
	"firn/internal/lake/produce"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// ErrAbandoned says that sweep closed the batch's fate log: no further attempt may be made.
var ErrAbandoned = errors.New("batch was abandoned")

// Port is what reaches one table: the only power to commit, and its files without the power to delete.
type Port struct {
	Committer committer.Committer
	Store     store.ReadWriter
}

// Function commits batches. Its fields are set once; Handle may be called concurrently.
type Function struct {
	// Open returns the port of a table's catalog.
	Open func(ctx context.Context, id maintenance.TableID) (Port, error)
	// Work is the store of the work location, WorkLocation its URI.
	Work         store.ReadWriter
	WorkLocation string
	// Now is the clock. Sleep waits or returns the context's error; nil means real time.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
	// Random gives 64 random bits, for snapshot IDs and jitter; nil means cryptographic randomness. NewUUID names files; nil means random UUIDs.
	Random  func() (uint64, error)
	NewUUID func() (uuid.UUID, error)
	// RenewLease prolongs the run's lease, when set; state.ErrLeaseLost ends the call before anything is done.
	RenewLease func(ctx context.Context, run maintenance.Run) error
	// EngineVersion is written to the snapshot summary as engine-version when it is not empty.
	EngineVersion string
	// SkipReopen leaves out the check that each output can be opened, has its size and its row count.
	SkipReopen bool
}

// Handle commits one batch of a job, or an expiry, and answers with the outcome. It writes handoff.CommitResult once the batch is settled.
func (f *Function) Handle(ctx context.Context, in maintenance.CommitInput) (maintenance.CommitOutput, error) {
	out, err := f.handle(ctx, in)
	if err != nil {
		return maintenance.CommitOutput{}, fmt.Errorf("commit batch %d of %s for run %s: %w", in.Batch, in.Job, in.Run.RunID, err)
	}
	return out, nil
}

func (f *Function) handle(ctx context.Context, in maintenance.CommitInput) (maintenance.CommitOutput, error) {
	if err := errors.Join(in.Run.RunID.Validate(), in.Run.Table.Validate()); err != nil {
		return maintenance.CommitOutput{}, maintenance.Named(contract.ErrorBadInput, err)
	}
	work := handoff.Open(f.Work, f.WorkLocation, in.Run.RunID)
	var done handoff.CommitResult
	switch err := work.Read(ctx, work.Commit(in.Job, in.Batch), &done); {
	case err == nil:
		return answer(done), nil
	case !errors.Is(err, store.ErrNotFound):
		return maintenance.CommitOutput{}, err
	}
	if f.RenewLease != nil {
		if err := f.RenewLease(ctx, in.Run); err != nil {
			return maintenance.CommitOutput{}, fmt.Errorf("renew lease: %w", err)
		}
	}
	port, err := f.Open(ctx, in.Run.Table)
	if err != nil {
		return maintenance.CommitOutput{}, err
	}
	port.Store = produce.Remember(port.Store, rememberedBytes)
	s := &session{f: f, in: in, work: work, port: port}
	var result handoff.CommitResult
	switch in.Job {
	case maintenance.RewriteDataFiles:
		result, err = s.rewrite(ctx)
	case maintenance.RewritePositionDeleteFiles, maintenance.RewriteEqualityDeleteFiles:
		result, err = s.rewriteDeletes(ctx)
	case maintenance.RewriteManifests:
		result, err = s.rewriteManifests(ctx)
	case maintenance.ExpireSnapshots:
		result, err = s.expire(ctx)
	default:
		err = maintenance.Named(contract.ErrorRefused, fmt.Errorf("job %s is not committed here", in.Job))
	}
	if err != nil {
		return maintenance.CommitOutput{}, err
	}
	result.V = contract.PayloadVersion
	_, err = work.WriteOnce(ctx, work.Commit(in.Job, in.Batch), &result)
	if err = errors.Join(s.unwritten, err); err != nil && (result.Outcome != maintenance.Committed || errors.Is(err, store.ErrTransient)) {
		return maintenance.CommitOutput{}, err
	}
	out := answer(result)
	if err != nil {
		out.Reason = fmt.Sprintf("committed, but that could not be written to the work location: %v", err)
	}
	return out, nil
}

// rememberedBytes bounds the manifests and lists that are kept for the next attempt.
const rememberedBytes = 64 << 20

// session is one execution of Handle.
type session struct {
	f    *Function
	in   maintenance.CommitInput
	work *handoff.Work
	port Port
	// index is the job's plan.
	index handoff.Index
	// fates is the fate log as far as this execution knows it.
	fates []fate
	// discarded are manifests of attempts that failed while they were built: no entry of the log names them.
	discarded []string
	// unwritten is why the end of an attempt that landed could not be written down.
	unwritten error
}

// readIndex reads the job's plan and checks that it is this run's.
func (s *session) readIndex(ctx context.Context) error {
	if err := s.work.Read(ctx, s.work.Index(s.in.Job), &s.index); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	if s.index.Run.RunID != s.in.Run.RunID || s.index.Run.TableUUID != s.in.Run.TableUUID || s.index.Job != s.in.Job {
		return maintenance.Named(contract.ErrorBadInput, fmt.Errorf("the plan is of run %s, job %s, table %s", s.index.Run.RunID, s.index.Job,
			s.index.Run.TableUUID))
	}
	if s.index.DryRun {
		return maintenance.Named(contract.ErrorRefused, errors.New("the plan is a dry run"))
	}
	return nil
}

// commitID names the batch's commit.
func (s *session) commitID() maintenance.CommitID {
	return maintenance.NewCommitID(s.in.Run.RunID, s.in.Job, s.in.Batch)
}

func answer(r handoff.CommitResult) maintenance.CommitOutput {
	out := maintenance.CommitOutput{
		V: contract.PayloadVersion, Next: maintenance.NextPlan, Outcome: r.Outcome, SnapshotID: r.SnapshotID, Reason: r.Reason,
	}
	if r.Expired != nil && len(r.Expired.SnapshotIDs)+len(r.Expired.Statistics) > 0 {
		out.Next = maintenance.NextReach
	}
	return out
}
