// Package sweep deletes: files that only expired snapshots reached, orphans, outputs of rewrites that provably did not commit, and incomplete
// multipart uploads. It is the only room that is handed a deleter, and it never updates a catalog.
//
// Each step says when it may be killed: list and reach write one write-once result as their last act, delete writes a deletion manifest before
// each batch and a result after it, abandon closes the fate logs before it looks at anything. A second execution of any step changes nothing.
//
// It fails towards keeping: an unreadable file, an unknown ref, a table that shares the location, a scheme that differs, a commit whose state is
// unknown: nothing is deleted, and the reason is reported.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/store/inventory"
)

// Deps are what sweep reaches.
type Deps struct {
	// Catalog opens the catalog of a table, for reading, and the store of its files with the power to delete.
	Catalog func(ctx context.Context, name string) (catalogs.Catalog, store.Full, error)
	// Work is the store of WorkLocation.
	Work         store.Full
	WorkLocation string
	// Grace is how long after an expiry's commit its files are left alone, by catalog name: 15 minutes on REST, where the server and its caches
	// may still hand out the replaced metadata; nil and 0 elsewhere. The run does not wait: a later one deletes them.
	Grace func(catalog string) time.Duration
	// Now is the clock; NewAttempt makes a name that no other attempt has.
	Now        func() time.Time
	NewAttempt func() string
	Log        *slog.Logger
	// SortBytes bounds the memory of a set; 0 means reach.DefaultSortBytes.
	SortBytes int64
}

// Function is sweep.
type Function struct{ deps Deps }

// New returns the function.
func New(deps Deps) *Function { return &Function{deps: deps} }

// Handle does one step. Errors are the ports' classes; what is a definite no (a table that does not own its files, a shared location) is a
// refused summary, not an error, so that the run goes on with its next job.
func (f *Function) Handle(ctx context.Context, in maintenance.SweepInput) (maintenance.SweepOutput, error) {
	s := &step{
		Function: f, in: in, work: handoff.Open(f.deps.Work, f.deps.WorkLocation, in.Run.RunID), attempt: f.deps.NewAttempt(),
		log: f.deps.Log.With("run_id", string(in.Run.RunID), "table", in.Run.Table.String(), "step", string(in.Step), "job", string(in.Job)),
	}
	out, err := s.run(ctx)
	if err != nil {
		return maintenance.SweepOutput{}, fmt.Errorf("sweep %s of %s: %w", in.Step, in.Run.Table, err)
	}
	out.V = contract.PayloadVersion
	return out, nil
}

// step is one call of the function.
type step struct {
	*Function
	in      maintenance.SweepInput
	work    *handoff.Work
	attempt string
	log     *slog.Logger
	index   handoff.Index
	cat     catalogs.Catalog
	st      store.Full
	// deleted counts what this step deleted for an earlier run's expiry.
	deleted handoff.SweepDeleted
}

func (s *step) run(ctx context.Context) (maintenance.SweepOutput, error) {
	if err := s.in.Run.RunID.Validate(); err != nil {
		return maintenance.SweepOutput{}, badInput(err)
	}
	if s.in.Step == maintenance.SweepAbandon {
		return s.abandon(ctx)
	}
	if s.in.Job != maintenance.ExpireSnapshots && s.in.Job != maintenance.RemoveOrphanFiles {
		return maintenance.SweepOutput{}, badInput(fmt.Errorf("job %q has no step %q", s.in.Job, s.in.Step))
	}
	if s.in.Step != maintenance.SweepReach && s.in.Item == nil {
		return maintenance.SweepOutput{}, badInput(errors.New("item is missing"))
	}
	if err := s.work.Read(ctx, s.work.Index(s.in.Job), &s.index); err != nil {
		return maintenance.SweepOutput{}, err
	}
	if err := s.open(ctx); err != nil {
		return maintenance.SweepOutput{}, err
	}
	switch s.in.Step {
	case maintenance.SweepList:
		return s.list(ctx)
	case maintenance.SweepReach:
		return s.reach(ctx)
	case maintenance.SweepDelete:
		return s.delete(ctx)
	default:
		return maintenance.SweepOutput{}, badInput(fmt.Errorf("unknown step %q", s.in.Step))
	}
}

func (s *step) open(ctx context.Context) error {
	cat, st, err := s.deps.Catalog(ctx, s.in.Run.Table.Catalog)
	if err != nil {
		return err
	}
	s.cat, s.st = cat, st
	return nil
}

// head loads the table fresh. A table of another UUID has taken the name: nothing of the run's table may be judged by it.
func (s *step) head(ctx context.Context) (*lake.Table, error) {
	t, err := lake.Load(ctx, s.cat, s.st, s.in.Run.Table)
	if err != nil {
		return nil, err
	}
	if have := t.Metadata.TableUUID().String(); have != s.in.Run.TableUUID {
		return nil, refusef("the table was made anew: its UUID is %s, the run was started for %s", have, s.in.Run.TableUUID)
	}
	return t, nil
}

// space is where this attempt's sets are written.
func (s *step) space(name string) reach.Space {
	return reach.Space{Store: s.deps.Work, Prefix: s.part(name), SortBytes: s.deps.SortBytes}
}

// part is the location of an object of this attempt; objects of attempts that lost are never read.
func (s *step) part(name string) string {
	return s.work.Sweep(s.in.Job, "part-"+s.attempt+"/"+name)
}

// reach answers with the first result if there is one, else it finds what may be deleted. A refusal is a result.
func (s *step) reach(ctx context.Context) (maintenance.SweepOutput, error) {
	location := s.work.Reach(s.in.Job, s.in.Batch)
	var result handoff.SweepReach
	err := s.work.Read(ctx, location, &result)
	if errors.Is(err, store.ErrNotFound) {
		result, err = s.find(ctx)
		if reason, refused := refusal(err); refused {
			s.log.WarnContext(ctx, "nothing is deleted", "reason", reason)
			result.Summary = handoff.SweepSummary{Outcome: maintenance.Refused, Reason: reason, Warnings: result.Summary.Warnings}
			result = handoff.SweepReach{Summary: result.Summary}
			err = nil
		}
		if err != nil {
			return maintenance.SweepOutput{}, err
		}
		result.V, result.Summary.V = contract.PayloadVersion, contract.PayloadVersion
		if s.early(result) {
			err = s.leave(ctx, result.NotBeforeMS) // before the result: whoever reads that relies on the mark
		}
		if err == nil {
			_, err = s.work.WriteOnce(ctx, location, &result)
		}
	}
	if err != nil {
		return maintenance.SweepOutput{}, err
	}
	out := maintenance.SweepOutput{Next: maintenance.NextPlan}
	if result.ItemCount > 0 && !s.early(result) {
		out.Next, out.Items, out.ItemCount = maintenance.NextDelete, result.Items, result.ItemCount
	}
	return out, nil
}

func (s *step) find(ctx context.Context) (handoff.SweepReach, error) {
	if s.in.Job == maintenance.ExpireSnapshots {
		return s.expired(ctx)
	}
	return s.orphans(ctx)
}

// errRefused marks a definite no that this room found itself.
var errRefused = errors.New("refused")

// refusef makes a refusal with a reason.
func refusef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
}

// refusal tells a definite no from an error that may pass: the first ends the job, the second the attempt.
func refusal(err error) (reason string, refused bool) {
	if err == nil {
		return "", false
	}
	for _, class := range []error{
		errRefused, decide.ErrRefused, decide.ErrOption, lake.ErrUnsupported, lake.ErrTableFault, catalogs.ErrNoSuchTable, catalogs.ErrNotIceberg, store.ErrArchived,
		inventory.ErrList,
	} {
		if errors.Is(err, class) {
			return strings.TrimPrefix(err.Error(), errRefused.Error()+": "), true
		}
	}
	return "", false
}

func badInput(err error) error { return maintenance.Named(contract.ErrorBadInput, err) }
