package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// abandon ends a run: it closes the fate logs of all batches that are not settled or did not take all their groups, and then deletes what the
// run wrote and provably did not commit. It runs after success and after failure. A batch whose state is unknown is not touched: its files are
// reported and left to remove_orphan_files with its horizon.
func (s *step) abandon(ctx context.Context) (maintenance.SweepOutput, error) {
	out := maintenance.SweepOutput{Next: maintenance.NextPlan}
	var ends []*jobEnd
	var errs []error
	for _, job := range maintenance.Jobs() {
		e, err := s.jobEnd(ctx, job, false)
		switch {
		case err != nil:
			errs = append(errs, err)
		case e == nil:
		case e.done != nil:
			out.Deleted, out.Failed = out.Deleted+int(e.done.Deleted), out.Failed+int(e.done.Failed)
		default:
			ends = append(ends, e)
		}
	}
	if len(errs) > 0 {
		return out, errors.Join(errs...)
	}
	if err := s.finish(ctx, ends, &out); err != nil {
		return out, err
	}
	if err := s.leaveExpiry(ctx); err != nil {
		return out, err
	}
	return out, s.settleEarlier(ctx)
}

// finish sweeps what the jobs left and writes down what became of it.
func (s *step) finish(ctx context.Context, ends []*jobEnd, out *maintenance.SweepOutput) error {
	if len(ends) == 0 {
		return nil
	}
	summaries, err := s.endJobs(ctx, ends)
	if err != nil {
		return err
	}
	for i, e := range ends {
		sum := summaries[i]
		if _, err := s.work.WriteOnce(ctx, s.work.Abandoned(e.job), &sum); err != nil {
			return err
		}
		out.Deleted, out.Failed = out.Deleted+int(sum.Deleted), out.Failed+int(sum.Failed)
	}
	return nil
}

// jobEnd is what is to be decided about one job of the run.
type jobEnd struct {
	job   maintenance.Job
	index handoff.Index
	logs  []*fates
	// done is the summary of an earlier execution.
	done *handoff.SweepSummary
	// outputs are the files that groups and attempts of this job wrote, by canonical location.
	outputs map[string]reach.File
	// listed are the folders to search for outputs without a result.
	listed []string
	// unneeded are metadata files that commit handed over.
	unneeded []string
}

// jobEnd reads what the run did for a job and closes the fate logs that need it; nil when the job made nothing that could be left over. again looks
// at a job that was ended before.
func (s *step) jobEnd(ctx context.Context, job maintenance.Job, again bool) (*jobEnd, error) {
	e := &jobEnd{job: job, outputs: map[string]reach.File{}}
	err := s.work.Read(ctx, s.work.Index(job), &e.index)
	if errors.Is(err, store.ErrNotFound) || err == nil && (e.index.DryRun || e.index.Outcome != "" || job == maintenance.RemoveOrphanFiles) {
		return nil, nil //nolint:nilnil // nothing was executed
	}
	if err != nil {
		return nil, err
	}
	if !again {
		var done handoff.SweepSummary
		err = s.work.Read(ctx, s.work.Abandoned(job), &done)
		if !errors.Is(err, store.ErrNotFound) {
			e.done = &done
			return e, err
		}
	}
	batches := len(e.index.Batches)
	if !job.Rewrites() {
		batches = max(1, batches)
	}
	for b := range batches {
		l, err := s.readFates(ctx, job, b)
		if err != nil {
			return nil, err
		}
		e.logs = append(e.logs, l)
		if l.result != nil {
			e.unneeded = append(e.unneeded, l.result.Unneeded...)
		}
		if l.result != nil && l.result.Outcome == maintenance.Committed && len(l.result.Dropped) == 0 {
			continue // every group landed, nothing else was written for it
		}
		if err := l.close(ctx, s.work); err != nil {
			return nil, err
		}
		if err := s.readOutputs(ctx, e, b); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// readOutputs collects what the groups of a closed batch wrote: from their results, and from the announced attempts. Groups without a finished
// result may have written more: their folders are listed.
func (s *step) readOutputs(ctx context.Context, e *jobEnd, batch int) error {
	l := e.logs[batch]
	for _, a := range l.attempts {
		for _, location := range a.Paths {
			if err := e.addOutput(location, reach.Data, -1); err != nil {
				return err
			}
		}
		for _, location := range a.Metadata {
			if err := e.addOutput(location, reach.Manifest, -1); err != nil {
				return err
			}
		}
	}
	if !e.job.Rewrites() {
		return nil
	}
	b := e.index.Batches[batch]
	for i := b.First; i < b.First+b.Count && i < len(e.index.Groups); i++ {
		var result handoff.GroupResult
		err := s.work.Read(ctx, s.work.Result(e.job, i), &result)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		for _, o := range result.Outputs {
			if err := e.addOutput(o.Path, reach.Data, -1); err != nil {
				return err
			}
		}
		if result.Outcome == maintenance.Committed {
			continue
		}
		var group handoff.Group
		if err := s.work.Read(ctx, e.index.Groups[i], &group); err != nil {
			return err
		}
		if !slices.Contains(e.listed, group.OutputLocation) && group.OutputLocation != "" {
			e.listed = append(e.listed, group.OutputLocation)
		}
	}
	return nil
}

func (e *jobEnd) addOutput(location string, kind reach.Kind, sizeBytes int64) error {
	f, err := reach.NewFile(location, kind, sizeBytes, 0)
	if err != nil {
		return err
	}
	e.outputs[f.Canonical()] = f
	return nil
}

// endJobs deletes what may go and tells about the rest. The head is loaded after every log was closed.
func (s *step) endJobs(ctx context.Context, ends []*jobEnd) ([]handoff.SweepSummary, error) {
	summaries := make([]handoff.SweepSummary, len(ends))
	for i := range summaries {
		summaries[i] = handoff.SweepSummary{V: contract.PayloadVersion, Outcome: maintenance.NothingToDo}
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	head, err := s.head(ctx)
	if reason, refused := refusal(err); refused {
		// The table is gone or another one has its name: nothing can be proved.
		for i, e := range ends {
			summaries[i].Outcome, summaries[i].Reason = maintenance.Refused, reason
			for _, o := range e.outputs {
				summaries[i].Keep(o.Location, reason)
			}
		}
		return summaries, s.leaveEnds(ctx, head, ends)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range ends {
		if err := s.settle(ctx, head, e); err != nil {
			return nil, err
		}
	}
	if err := s.leaveEnds(ctx, head, ends); err != nil {
		return nil, err
	}
	aborted, err := s.abortRunUploads(ctx, head)
	if err != nil {
		return nil, err
	}
	summaries[0].AbortedUploads = aborted
	for i, e := range ends {
		if err := s.endJob(ctx, head, e, &summaries[i]); err != nil {
			return nil, fmt.Errorf("sweep what %s left: %w", e.job, err)
		}
	}
	return summaries, nil
}

// abortRunUploads gives up the run's own incomplete uploads at once, whatever became of its batches: an object that was never completed is in no
// commit.
func (s *step) abortRunUploads(ctx context.Context, head *lake.Table) (int64, error) {
	places, err := reach.Places(head.Metadata.Location(), head.Metadata.Properties())
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for i, p := range places {
		if slices.ContainsFunc(places[:i], func(q string) bool { return len(inside([]string{p}, q)) > 0 }) {
			continue
		}
		n, err := s.eachUpload(ctx, p, func(u store.IncompleteUpload) (bool, error) { return s.ofRun(u.Location), nil })
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}
