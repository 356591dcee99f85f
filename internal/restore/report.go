package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"firn/internal/handoff"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// Object is one object that the run was about to delete.
type Object struct {
	Location string          `json:"location"`
	Job      maintenance.Job `json:"job"`
	Kind     string          `json:"kind"`
	// SizeBytes is negative where the manifest does not know it.
	SizeBytes int64 `json:"size_bytes"`
	// Deleted says why it was deleted, Reason why it is not back.
	Deleted string `json:"deleted"`
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`
}

// AllBack is the outcome when every object that the run deleted stands again, of a dry run: would stand.
const AllBack = "restored"

// Report says what became of what a run deleted.
type Report struct {
	RunID  maintenance.RunID `json:"run_id"`
	Table  string            `json:"table"`
	DryRun bool              `json:"dry_run"`
	// Outcome is AllBack, maintenance.NothingToDo when all of it stood before, maintenance.Refused when some of it is not back.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// Counts by state; Restored is 0 in a dry run, Restorable 0 otherwise.
	Restored   int64 `json:"restored"`
	Restorable int64 `json:"restorable"`
	Present    int64 `json:"present"`
	Gone       int64 `json:"gone_for_good"`
	Refused    int64 `json:"refused"`
	// Bytes is the size of what is back or would be, as far as it is known.
	Bytes int64 `json:"bytes"`
	// Jobs are the same counts a job.
	Jobs []JobCounts `json:"jobs,omitempty"`
	// Objects names at most 20 objects of each state but Present.
	Objects []Object `json:"objects,omitempty"`
	// AbortedUploads are incomplete uploads that the run gave up: nothing brings them back.
	AbortedUploads int64 `json:"aborted_uploads,omitempty"`
	// Earlier are runs for which this one deleted: their deletions are undone under their own IDs.
	Earlier []maintenance.RunID `json:"earlier_runs,omitempty"`
	// Next says what is to be done now.
	Next []string `json:"next,omitempty"`

	// expired is what the run's expiry removed; nil when it committed none.
	expired *handoff.Expired
	// metadata are metadata files that stand again, the first of them.
	metadata []string
	named    map[State]int
}

// JobCounts counts the objects that one job of the run deleted.
type JobCounts struct {
	Job    maintenance.Job `json:"job"`
	Counts map[State]int64 `json:"counts"`
}

// readAround reads what else the run did that matters to who restores.
func (r *Report) readAround(ctx context.Context, work *handoff.Work) error {
	optional := func(err error) error {
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}
	var committed handoff.CommitResult
	if err := optional(work.Read(ctx, work.Commit(maintenance.ExpireSnapshots, 0), &committed)); err != nil {
		return err
	}
	r.expired = committed.Expired
	for _, job := range maintenance.Jobs() {
		var left handoff.SweepSummary
		if err := optional(work.Read(ctx, work.Abandoned(job), &left)); err != nil {
			return err
		}
		var found handoff.SweepReach
		if err := optional(work.Read(ctx, work.Reach(job, 0), &found)); err != nil {
			return err
		}
		r.AbortedUploads += left.AbortedUploads + found.Summary.AbortedUploads
	}
	var earlier handoff.EarlierDeletions
	if err := optional(work.Read(ctx, work.Earlier(), &earlier)); err != nil {
		return err
	}
	for _, e := range earlier.Runs {
		r.Earlier = append(r.Earlier, e.RunID)
	}
	return nil
}

// add counts an object.
func (r *Report) add(o Object) {
	switch o.State {
	case Restored:
		r.Restored++
	case Restorable:
		r.Restorable++
	case Present:
		r.Present++
	case Gone:
		r.Gone++
	case Refused:
		r.Refused++
	}
	if o.State == Restored || o.State == Restorable {
		r.Bytes += max(0, o.SizeBytes)
	}
	if standing := o.State == Restored || o.State == Present; standing && o.Kind == reach.MetadataFile.String() && len(r.metadata) < maxNamed {
		r.metadata = append(r.metadata, o.Location)
	}
	i := slices.IndexFunc(r.Jobs, func(c JobCounts) bool { return c.Job == o.Job })
	if i < 0 {
		i = len(r.Jobs)
		r.Jobs = append(r.Jobs, JobCounts{o.Job, map[State]int64{}})
	}
	r.Jobs[i].Counts[o.State]++
	if r.named == nil {
		r.named = map[State]int{}
	}
	if o.State != Present && r.named[o.State] < maxNamed {
		r.named[o.State]++
		r.Objects = append(r.Objects, o)
	}
}

// finish says how it went as a whole.
func (r *Report) finish() {
	lost := r.Gone + r.Refused
	switch {
	case lost > 0:
		r.Outcome = string(maintenance.Refused)
		r.Reason = fmt.Sprintf("%d of %d objects cannot be restored (%d gone for good, %d refused)", lost, lost+r.Restored+r.Restorable+r.Present, r.Gone, r.Refused)
	case r.Restored+r.Restorable > 0:
		r.Outcome = AllBack
	default:
		r.Outcome = string(maintenance.NothingToDo)
		r.Reason = "everything that the run deleted stands"
		if r.Present == 0 {
			r.Reason = "the run deleted nothing"
		}
	}
}

// Text prints the report for people.
func (r *Report) Text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "run\t%s\ntable\t%s\n", r.RunID, r.Table)
	if r.DryRun {
		fmt.Fprintf(w, "dry run\tnothing was changed\nrestorable\t%d (%d bytes)\n", r.Restorable, r.Bytes)
	} else {
		fmt.Fprintf(w, "restored\t%d (%d bytes)\n", r.Restored, r.Bytes)
	}
	fmt.Fprintf(w, "present\t%d\ngone for good\t%d\nrefused\t%d\n", r.Present, r.Gone, r.Refused)
	if r.AbortedUploads > 0 {
		fmt.Fprintf(w, "given up\t%d incomplete uploads, which cannot come back\n", r.AbortedUploads)
	}
	fmt.Fprintf(w, "outcome\t%s\n", r.Outcome)
	if r.Reason != "" {
		fmt.Fprintf(w, "reason\t%s\n", r.Reason)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Jobs) > 0 {
		fmt.Fprintln(w, "\njob\trestored\tpresent\tgone for good\trefused")
		for _, j := range r.Jobs {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", j.Job, j.Counts[Restored]+j.Counts[Restorable], j.Counts[Present], j.Counts[Gone], j.Counts[Refused])
		}
	}
	if len(r.Objects) > 0 {
		fmt.Fprintln(w, "\nstate\tkind\tobject\twhy not")
		for _, o := range r.Objects {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", o.State, o.Kind, o.Location, o.Reason)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, line := range r.Next {
		if i == 0 {
			fmt.Fprintln(out, "\nnext:")
		}
		fmt.Fprintf(out, "- %s\n", line)
	}
	return nil
}
