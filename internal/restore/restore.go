// Package restore undoes deletions of a run, as far as storage kept what the run deleted. What was deleted stands in the run's deletion manifests; a bucket
// with versions keeps a deleted object under a delete marker, and to remove that marker brings the object back.
//
// It adds objects only: no version that holds data is ever removed, an object that was written again is left alone, and a marker that the run did not set
// stays. It commits nothing: what comes back is in no snapshot until somebody registers a metadata file that names it. Every step may be repeated.
package restore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
)

const (
	// parallel is how many objects are looked at at once; each takes one request, and one more for each marker that goes.
	parallel = 16
	// chunk is how many objects of a manifest are done before their result is told.
	chunk = 1000
	// maxNamed bounds the objects that a report names of each state.
	maxNamed = 20
)

// ErrUnknownRun says that the work location holds nothing of a run.
var ErrUnknownRun = errors.New("no such run")

// Restorer restores. Its fields are set by the host and not changed afterwards.
type Restorer struct {
	// Work is the store of WorkLocation, where the run's deletion manifests are.
	Work         store.Store
	WorkLocation string
	// Files is the store of the table's files.
	Files store.Versioned
	// DryRun looks and changes nothing.
	DryRun bool
	// Each, when set, gets every object as soon as its state is known. It is called by one goroutine at a time; its error ends the work.
	Each func(Object) error
}

// Run restores what the run deleted, of all its jobs, and says what became of each object. The report holds what was done when there is an error, too:
// a call that storage answered with a passing fault ends the work, and a repetition goes on.
func (r *Restorer) Run(ctx context.Context, run maintenance.Run) (*Report, error) {
	report := &Report{RunID: run.RunID, Table: run.Table.String(), DryRun: r.DryRun}
	work := handoff.Open(r.Work, r.WorkLocation, run.RunID)
	var manifests []handoff.DeletionManifest
	for _, job := range maintenance.Jobs() {
		found, err := work.DeletionManifests(ctx, r.Work, job)
		if err != nil {
			return report, err
		}
		manifests = append(manifests, found...)
	}
	if err := report.readAround(ctx, work); err != nil {
		return report, err
	}
	unsettled := store.Join(handoff.Unsettled(r.WorkLocation, run.TableUUID), string(run.RunID)+".json")
	if _, err := r.Work.Head(ctx, unsettled); err == nil {
		report.Next = append(report.Next, "a later run on the table goes on deleting what this one left: forbid that first, or undo the deletions again after it")
	} else if !errors.Is(err, store.ErrNotFound) {
		return report, fmt.Errorf("look whether the run is settled: %w", err)
	}
	b := &batches{Restorer: r, work: work, report: report, spans: Spans(manifests), seen: map[[sha256.Size]byte]bool{}}
	for _, m := range manifests {
		if err := b.manifest(ctx, m); err != nil {
			return report, fmt.Errorf("restore what %s of run %s deleted: %w", m.Job, run.RunID, err)
		}
	}
	report.finish()
	return report, nil
}

// Find names the table of a run by what it left in the work location. ErrUnknownRun when that is nothing.
func Find(ctx context.Context, work store.Reader, workLocation string, id maintenance.RunID) (maintenance.Run, error) {
	objects := handoff.Open(readOnly{work}, workLocation, id)
	for _, job := range maintenance.Jobs() {
		var index handoff.Index
		err := objects.Read(ctx, objects.Index(job), &index)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		return index.Run, err
	}
	return maintenance.Run{}, fmt.Errorf("find run %s under %s: %w", id, objects.Location(), ErrUnknownRun)
}

// readOnly is a reader for a room that asks for a writer and is not asked to write.
type readOnly struct{ store.Reader }

// Put implements store.Writer.
func (readOnly) Put(_ context.Context, location string, _ []byte, _ store.WriteOptions) error {
	return fmt.Errorf("write %s: opened for reading", location)
}

// Create implements store.Writer.
func (readOnly) Create(_ context.Context, location string, _ store.WriteOptions) (store.Upload, error) {
	return nil, fmt.Errorf("write %s: opened for reading", location)
}

// batches goes through the deletion manifests of a run.
type batches struct {
	*Restorer
	work   *handoff.Work
	report *Report
	spans  []Span
	// seen are hashes of the objects that were told: each attempt at a batch names them again.
	seen map[[sha256.Size]byte]bool
	// denied is the answer when a whole chunk was refused for lack of permission: to ask on would be a storm.
	denied error
}

func (b *batches) manifest(ctx context.Context, m handoff.DeletionManifest) error {
	deletions, err := b.work.Deletions(ctx, m)
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(deletions, func(d handoff.Deletion) bool {
		canonical, err := store.Canonical(d.Location)
		if err != nil {
			canonical = d.Location // it is refused by the store
		}
		key := sha256.Sum256([]byte(canonical))
		known := b.seen[key]
		b.seen[key] = true
		return known
	})
	for part := range slices.Chunk(fresh, chunk) {
		if err := b.chunk(ctx, m.Job, part); err != nil {
			return err
		}
	}
	return nil
}

// chunk does a part of a manifest. What was done before an error is told too.
func (b *batches) chunk(ctx context.Context, job maintenance.Job, deletions []handoff.Deletion) error {
	objects := make([]Object, len(deletions))
	denials := make([]error, len(deletions))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, d := range deletions {
		group.Go(func() (err error) {
			o := Object{Location: d.Location, Job: job, Kind: d.Kind, SizeBytes: d.SizeBytes, Deleted: d.Reason}
			err = b.denied
			if err == nil {
				err = b.object(gctx, &o)
			}
			switch {
			case err == nil: // it counts, whatever became of the others
			case errors.Is(err, store.ErrPermission):
				denials[i] = err
				o.State, o.Reason = Refused, err.Error()
			case errors.Is(err, store.ErrTransient), gctx.Err() != nil:
				return err
			default:
				o.State, o.Reason = Refused, err.Error()
			}
			objects[i] = o
			return nil
		})
	}
	err := group.Wait()
	var told error
	for _, o := range objects {
		if o.State == "" {
			continue
		}
		b.report.add(o)
		if b.Each != nil && told == nil {
			told = b.Each(o)
		}
	}
	err = errors.Join(err, told)
	if err == nil && !slices.Contains(denials, nil) {
		b.denied = denials[0]
	}
	return err
}

// object looks at one object and removes the markers that the run set.
func (b *batches) object(ctx context.Context, o *Object) error {
	versions, err := b.Files.Versions(ctx, o.Location)
	if err != nil {
		return err
	}
	decision := Decide(versions, b.spans)
	if decision.State == Restorable && !b.DryRun {
		for _, marker := range decision.Markers {
			if err := b.Files.Undelete(ctx, o.Location, marker); err != nil {
				return err
			}
		}
		decision.State = Restored
	}
	o.State, o.Reason = decision.State, decision.Reason
	return nil
}
