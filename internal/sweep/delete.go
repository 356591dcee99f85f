package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
)

const (
	// deleteBatch is how many objects go behind one deletion manifest: what one DeleteObjects takes.
	deleteBatch = 1000
	// headReads is how many objects are looked at at once.
	headReads = 16
	// spareTime is what a call leaves of its own time when it deletes for earlier runs.
	spareTime = 20 * time.Second
)

// delete removes the candidates of one range, a batch at a time: prove again, write the deletion manifest, delete, write the result. A batch
// with a result is not touched again; one without is done from its start, which is harmless: what is gone stays gone and counts as deleted.
func (s *step) delete(ctx context.Context) (maintenance.SweepOutput, error) {
	item := *s.in.Item
	var done handoff.SweepDeleted
	location := s.work.Deleted(s.in.Job, item.Batch, item.Range)
	err := s.work.Read(ctx, location, &done)
	if errors.Is(err, store.ErrNotFound) {
		var early bool
		if done, early, err = s.deleteRange(ctx, item); err == nil && !early {
			_, err = s.work.WriteOnce(ctx, location, &done)
		}
	}
	return maintenance.SweepOutput{Next: maintenance.NextPlan, Deleted: int(done.Deleted), Failed: int(done.Failed)}, err
}

// deleteRange is early when the grace period is not over: then it deletes nothing, and a later run does.
func (s *step) deleteRange(ctx context.Context, item maintenance.SweepItem) (total handoff.SweepDeleted, early bool, err error) {
	total = handoff.SweepDeleted{V: contract.PayloadVersion, Range: item.Range}
	if s.index.DryRun {
		return total, false, badInput(errors.New("a dry run deletes nothing"))
	}
	var proof handoff.SweepReach
	if err := s.work.Read(ctx, s.work.Reach(s.in.Job, item.Batch), &proof); err != nil {
		return total, false, err
	}
	if s.early(proof) {
		return total, true, s.leave(ctx, proof.NotBeforeMS)
	}
	var files []reach.File
	for f, err := range reach.ReadRun(ctx, s.deps.Work, item.Location) {
		if err != nil {
			return total, false, err
		}
		files = append(files, f)
	}
	d := &deletion{step: s, item: item, proof: proof, guard: s.newGuard(proof.Proofs, files)}
	n := 0
	for batch := range slices.Chunk(files, deleteBatch) {
		part, err := d.batch(ctx, n, batch)
		if err != nil {
			return total, false, err
		}
		total.Add(part)
		n++
	}
	return total, false, nil
}

// deletion deletes one range.
type deletion struct {
	*step
	item  maintenance.SweepItem
	proof handoff.SweepReach
	guard *guard
	// denied is set once a whole batch was refused for lack of permission: asking on would only be a storm.
	denied string
}

func (d *deletion) batchName(n int) string {
	return fmt.Sprintf("delete-%04d-%06d-%06d", d.item.Batch, d.item.Range, n)
}

func (d *deletion) batch(ctx context.Context, n int, files []reach.File) (handoff.SweepDeleted, error) {
	result := handoff.SweepDeleted{V: contract.PayloadVersion, Range: d.item.Range}
	location := d.work.Sweep(d.in.Job, d.batchName(n)+".json")
	if err := d.work.Read(ctx, location, &result); !errors.Is(err, store.ErrNotFound) {
		return result, err
	}
	if d.denied != "" {
		for _, f := range files {
			result.Fail(f.Location, "permission", d.denied)
		}
		return result, nil
	}
	if err := d.guard.refresh(ctx); err != nil {
		return result, err
	}
	candidates, err := d.standing(ctx, files, &result)
	if err != nil {
		return result, err
	}
	if err := d.writeManifest(ctx, n, candidates); err != nil {
		return result, err
	}
	if err := d.remove(ctx, candidates, &result); err != nil {
		return result, err
	}
	_, err = d.work.WriteOnce(ctx, location, &result)
	return result, err
}

// standing leaves out what is reachable again and, where listed objects are judged by their age, what was written again since the listing.
func (d *deletion) standing(ctx context.Context, files []reach.File, result *handoff.SweepDeleted) ([]reach.File, error) {
	stays := make([]string, len(files))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(headReads)
	for i, f := range files {
		if stays[i] = d.guard.reason(f); stays[i] != "" || !d.proof.Cautious {
			continue
		}
		group.Go(func() error {
			info, err := d.st.Head(gctx, f.Location)
			switch {
			case errors.Is(err, store.ErrNotFound):
				return nil // gone: deleting it again does no harm
			case errors.Is(err, store.ErrTransient), gctx.Err() != nil:
				return err
			case err != nil:
				stays[i] = err.Error()
			case info.ModifiedAt.Unix() > f.ModifiedAtMS/1000, f.SizeBytes >= 0 && info.SizeBytes != f.SizeBytes: // S3's HEAD knows seconds only
				stays[i] = "written again since it was listed"
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var standing []reach.File
	for i, f := range files {
		if stays[i] == "" {
			standing = append(standing, f)
			continue
		}
		result.Keep(f.Location, stays[i])
	}
	return standing, nil
}

// writeManifest writes down what is deleted, and why, before it is. Each attempt has its own: what an earlier one deleted stays on record.
func (d *deletion) writeManifest(ctx context.Context, n int, files []reach.File) error {
	if len(files) == 0 {
		return nil
	}
	return d.writeDeletionManifest(ctx, d.in.Job, d.batchName(n), files, d.reason())
}

func (d *deletion) reason() string {
	if d.in.Job == maintenance.ExpireSnapshots {
		return "only expired snapshots reached it"
	}
	return "nothing reaches it, and it is older than the horizon"
}

func (s *step) writeDeletionManifest(ctx context.Context, job maintenance.Job, batch string, files []reach.File, reason string) error {
	lines := make([]handoff.Deletion, len(files))
	for i, f := range files {
		lines[i] = handoff.Deletion{
			Location: f.Location, Kind: f.Kind.String(), SizeBytes: f.SizeBytes, ModifiedAtMS: f.ModifiedAtMS, RunID: s.in.Run.RunID, Reason: reason,
		}
	}
	if err := s.work.WriteDeletions(ctx, s.work.DeletionManifest(job, batch, s.attempt), lines); err != nil {
		return fmt.Errorf("write a deletion manifest: %w", err)
	}
	return nil
}

// remove deletes and counts.
func (d *deletion) remove(ctx context.Context, files []reach.File, result *handoff.SweepDeleted) error {
	failed, err := d.removeAll(ctx, files, result)
	if err != nil {
		return err
	}
	denials := 0
	for _, f := range failed {
		if errors.Is(f.Err, store.ErrPermission) {
			denials++
			d.denied = f.Err.Error()
		}
	}
	if denials < len(files) {
		d.denied = ""
	}
	return nil
}

// removeAll is the one place of the project where objects are deleted.
func (s *step) removeAll(ctx context.Context, files []reach.File, result *handoff.SweepDeleted) ([]store.DeleteFailure, error) {
	if len(files) == 0 {
		return nil, nil
	}
	locations := make([]string, len(files))
	for i, f := range files {
		locations[i] = f.Location
	}
	_, failures, err := s.st.Delete(ctx, locations)
	if err != nil {
		return nil, fmt.Errorf("delete %d objects: %w", len(files), err)
	}
	failed := make(map[string]bool, len(failures))
	for _, f := range failures {
		if !failed[f.Location] {
			failed[f.Location] = true
			result.Fail(f.Location, failureKind(f.Err), f.Err.Error())
		}
	}
	for _, f := range files {
		if !failed[f.Location] {
			result.Count(column(f.Kind), f.SizeBytes)
		}
	}
	s.log.InfoContext(ctx, "objects deleted", "deleted", len(files)-len(failed), "failed", len(failed))
	return failures, nil
}

// failureKind names the class of a failed deletion.
func failureKind(err error) string {
	switch {
	case errors.Is(err, store.ErrPermission):
		return "permission"
	case errors.Is(err, store.ErrTransient):
		return "transient"
	case errors.Is(err, store.ErrArchived):
		return "archived"
	}
	return "other"
}
