package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"firn/internal/decide"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
)

// maxPairs is how many pairs of differing prefixes a refusal names.
const maxPairs = 20

// orphanSearch is one search for orphans: the listing minus everything reachable from a head that is loaded after the listing ended.
type orphanSearch struct {
	*step
	head *lake.Table
	// swept is the folder that was listed.
	swept  string
	rules  decide.OrphansOptions
	others neighbours
	// mismatched are the listed files that differ from reachable ones in scheme or authority only.
	mismatched decide.MismatchedError
	// ages are the oldest and youngest time of modification among the candidates.
	ages [2]int64
}

func (s *step) orphans(ctx context.Context) (handoff.SweepReach, error) {
	listed, err := s.listings(ctx)
	if err != nil {
		return handoff.SweepReach{}, err
	}
	o := &orphanSearch{step: s}
	if o.head, err = s.head(ctx); err != nil {
		return handoff.SweepReach{}, err
	}
	if err := o.prepare(ctx, listed.prefixes); err != nil {
		return handoff.SweepReach{}, err
	}
	if err := listed.usable(o.rules.Mode); err != nil {
		return handoff.SweepReach{}, err
	}
	reached, proofs, counts, err := o.reachable(ctx)
	if err != nil {
		return handoff.SweepReach{}, err
	}
	if err := o.waiting(ctx, o.head, reached.Add); err != nil {
		return handoff.SweepReach{}, err
	}
	result, err := o.subtract(ctx, listed.runs, reached)
	if err != nil {
		return result, err
	}
	result.Proofs, result.Cautious = proofs, true
	result.Summary.Warnings = append(result.Summary.Warnings, o.others.warnings...)
	if o.rules.FileListView != "" && listed.objects == 0 {
		result.Summary.Warnings = append(result.Summary.Warnings, fmt.Sprintf("%s names no file under %s, and %d elsewhere", o.rules.FileListView,
			o.rules.Location, listed.outside+int64(listed.mismatched.Count)))
	}
	result.Summary.Lists, result.Summary.Manifests, result.Summary.Entries = counts.Lists, counts.Manifests, counts.Entries
	if result.ItemCount > 0 && len(o.head.Metadata.Snapshots()) == 0 && s.index.Request.Args[handoff.ArgEmptyTable] != "true" {
		result.ItemCount, result.Summary.Outcome = 0, maintenance.Refused
		result.Summary.Reason = "the table has no snapshot: these files may be what is left of a table that lay here before (" +
			handoff.ArgEmptyTable + " deletes them)"
		return result, nil
	}
	if result.Summary.AbortedUploads, err = o.abortUploads(ctx); err != nil {
		return result, err
	}
	return result, nil
}

// listing is what the step list wrote.
type listing struct {
	runs     []string
	prefixes []string
	// objects and outside count what a list of files has inside and outside of the folder; the list's faults end the job.
	objects, outside int64
	fault            string
	mismatched       decide.MismatchedError
}

// add takes the result of one range.
func (l *listing) add(prefix string, done handoff.SweepListed) {
	l.runs, l.prefixes = append(l.runs, done.Runs...), append(l.prefixes, prefix)
	l.objects, l.outside = l.objects+done.Objects, l.outside+done.Outside
	if l.fault == "" {
		l.fault = done.Fault
	}
	l.mismatched.Count += done.Mismatched
	l.mismatched.Pairs = append(l.mismatched.Pairs, done.Pairs[:min(len(done.Pairs), maxPairs-len(l.mismatched.Pairs))]...)
}

// usable says whether the listing may be judged. Files of a list in another scheme or bucket would silently find nothing: unless the call ignores them, they
// end the job, and none of them is ever deleted.
func (l *listing) usable(mode decide.PrefixMismatchMode) error {
	switch {
	case l.fault != "":
		return refusef("%s", l.fault)
	case l.mismatched.Count > 0 && mode != decide.MismatchIgnore:
		return &l.mismatched
	}
	return nil
}

// listings collects the results of all ranges. A range without a result means that the listing is not complete: an error.
func (s *step) listings(ctx context.Context) (listing, error) {
	var l listing
	for _, b := range s.index.Batches {
		data, err := s.deps.Work.Get(ctx, b.Location)
		if err != nil {
			return l, fmt.Errorf("read the ranges to list: %w", err)
		}
		for line := range bytes.Lines(data) {
			var in maintenance.SweepInput
			if err := json.Unmarshal(line, &in); err != nil {
				return l, fmt.Errorf("decode the ranges to list in %s: %w", b.Location, err)
			}
			if in.Item == nil {
				return l, fmt.Errorf("decode the ranges to list in %s: a line has no item", b.Location)
			}
			var done handoff.SweepListed
			if err := s.work.Read(ctx, s.work.Listed(s.in.Job, in.Item.Range), &done); err != nil {
				return l, fmt.Errorf("range %d was not listed: %w", in.Item.Range, err)
			}
			l.add(in.Item.Prefix, done)
		}
	}
	return l, nil
}

// prepare reads the rules and refuses what must not be swept.
func (o *orphanSearch) prepare(ctx context.Context, prefixes []string) error {
	if err := ownsFiles(o.head); err != nil {
		return err
	}
	meta := o.head.Metadata
	var err error
	if o.rules, err = o.orphanRules(o.head); err != nil {
		return err
	}
	if o.swept, err = reach.Swept(o.rules.Location, meta); err != nil {
		return refusef("%v", err)
	}
	for _, p := range prefixes {
		folder, err := reach.Folder(p)
		if err != nil || !strings.HasSuffix(p, "/") || !strings.HasPrefix(folder, o.swept) {
			return refusef("the listed prefix %q lies outside of %s", p, o.swept)
		}
	}
	o.others, err = o.neighbours(ctx, o.head, o.swept)
	return err
}

// orphanRules are the call's arguments, as of the plan.
func (s *step) orphanRules(head *lake.Table) (decide.OrphansOptions, error) {
	return decide.ParseOrphansOptions(s.index.Request.Args, decide.OrphansTable{
		Properties: head.Metadata.Properties(), Location: head.Metadata.Location(), PartitionFields: partitionFields(head),
	}, time.UnixMilli(s.index.PlannedAtMS), handoff.ArgEmptyTable, "table")
}

// partitionFields are the names of all partition fields of all specs: folders of these may start with an underscore or a point.
func partitionFields(t *lake.Table) []string {
	var names []string
	for _, spec := range t.Metadata.PartitionSpecs() {
		for _, f := range spec.Fields() {
			names = append(names, f.Name)
		}
	}
	return names
}

// reachable walks the table and its neighbours.
func (o *orphanSearch) reachable(ctx context.Context) (*reach.Sorter, []handoff.SweepProof, reach.Counts, error) {
	reached := reach.NewSorter(o.space("reached"))
	var proofs []handoff.SweepProof
	var counts reach.Counts
	for i, t := range append([]*lake.Table{o.head}, o.others.tables...) {
		roots, err := reach.Roots(t.Metadata, t.Pointer.MetadataLocation)
		if err != nil {
			return nil, nil, counts, err
		}
		for _, f := range roots {
			if err := reached.Add(ctx, f); err != nil {
				return nil, nil, counts, err
			}
		}
		manifests := reach.NewSorter(o.space(fmt.Sprintf("manifests-%d", i)))
		walk := &reach.Walk{Store: o.st}
		err = walk.Snapshots(ctx, t.Metadata.Snapshots(), reach.WithEntries, func(ctx context.Context, f reach.File) error {
			if f.Kind == reach.Manifest {
				if err := manifests.Add(ctx, f); err != nil {
					return err
				}
			}
			return reached.Add(ctx, f)
		})
		if err != nil {
			return nil, nil, counts, err
		}
		if err := o.lately(ctx, t, walk, reach.WithEntries, reached.Add); err != nil {
			return nil, nil, counts, err
		}
		proof, err := o.prove(ctx, t, t.Metadata.Snapshots(), manifests.Files(ctx))
		if err != nil {
			return nil, nil, counts, err
		}
		proofs = append(proofs, proof)
		c := walk.Counts()
		counts.Lists, counts.Manifests, counts.Entries = counts.Lists+c.Lists, counts.Manifests+c.Manifests, counts.Entries+c.Entries
	}
	return reached, proofs, counts, nil
}

// subtract writes the orphans. With prefix_mismatch_mode ERROR one differing pair ends the job before anything is deleted.
func (o *orphanSearch) subtract(ctx context.Context, runs []string, reached *reach.Sorter) (handoff.SweepReach, error) {
	c, err := o.newCandidates(ctx)
	if err != nil {
		return handoff.SweepReach{}, err
	}
	listed := reach.OpenSorter(o.space("listed-merged"), runs)
	for m, err := range reach.Join(listed.Files(ctx), reached.Files(ctx)) {
		if err == nil {
			err = o.judge(ctx, c, m)
		}
		if err != nil {
			c.abort(ctx)
			return handoff.SweepReach{}, err
		}
	}
	if o.mismatched.Count > 0 {
		c.abort(ctx)
		return handoff.SweepReach{}, &o.mismatched
	}
	if c.summary.Candidates > 0 {
		c.summary.OldestAgeHours = float64(o.index.PlannedAtMS-o.ages[0]) / float64(time.Hour/time.Millisecond)
		c.summary.YoungestAgeHours = float64(o.index.PlannedAtMS-o.ages[1]) / float64(time.Hour/time.Millisecond)
	}
	return c.finish(ctx)
}

// judge decides about one listed object.
func (o *orphanSearch) judge(ctx context.Context, c *candidates, m reach.Match) error {
	skip := o.rules.Skip(decide.Listed{Location: m.Location, SizeBytes: m.SizeBytes, ModifiedAtMS: m.ModifiedAtMS})
	if skip != "" || !reach.Inside(m.File, []string{o.swept}) || reach.Inside(m.File, o.others.nested) || o.inWork(m.File) {
		return nil
	}
	reached := make([]string, len(m.Reached))
	for i, f := range m.Reached {
		reached[i] = f.Location
	}
	switch verdict, other := o.rules.Judge(m.Location, reached); verdict {
	case decide.Live, decide.Ignored:
		return nil
	case decide.Mismatched:
		if o.mismatched.Count++; o.mismatched.Count <= maxPairs {
			o.mismatched.Pairs = append(o.mismatched.Pairs, m.Location+" against "+other)
		}
		return nil
	case decide.Orphan:
	}
	if why := o.mayLand(m.File); why != "" {
		c.summary.Keep(m.Location, why)
		return nil
	}
	if c.summary.Candidates == 0 {
		o.ages = [2]int64{m.ModifiedAtMS, m.ModifiedAtMS}
	}
	o.ages = [2]int64{min(o.ages[0], m.ModifiedAtMS), max(o.ages[1], m.ModifiedAtMS)}
	return c.add(ctx, m.File)
}

// inWork reports whether an object belongs to the work location, should that lie inside the table.
func (o *orphanSearch) inWork(f reach.File) bool {
	work, err := reach.Folder(o.deps.WorkLocation)
	return err != nil || reach.Inside(f, []string{work})
}

// headSlack is by how much the clocks of a table's writers and of its store may differ.
const headSlack = 10 * time.Minute

// mayLand says why a file must stay although nothing reaches it: an attempt whose commit may still land may have written it. That is so for a file
// younger than the default horizon
//   - whose name carries the ID of a run of ours, wherever that ran: another work location than this one may hold its fate log;
//   - that is a metadata file written after the head: whoever wrote it, it asserts the head, and may be what a slow catalog is about to point to.
func (o *orphanSearch) mayLand(f reach.File) string {
	if f.ModifiedAtMS < o.index.PlannedAtMS-decide.DefaultOrphanAge.Milliseconds() {
		return ""
	}
	name := path.Base(f.Path())
	for _, id := range runIDs(name) {
		return "run " + id + " wrote it, which may not be settled"
	}
	if isMetadataFile(name) && f.ModifiedAtMS > o.head.Metadata.LastUpdatedMillis()-headSlack.Milliseconds() {
		return fmt.Sprintf("it was written after the table's last commit, or at most %.0f minutes before it: an attempt at the next one may still land", headSlack.Minutes())
	}
	return ""
}

// isMetadataFile tells metadata files by their names.
func isMetadataFile(location string) bool {
	return strings.HasSuffix(location, ".metadata.json") || strings.HasSuffix(location, ".metadata.json.gz")
}

// runIDs finds the run IDs in a file name: parts of it that could be one.
func runIDs(name string) []string {
	var ids []string
	for _, part := range strings.FieldsFunc(name, func(c rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz234567", c) }) {
		if maintenance.RunID(part).Validate() == nil {
			ids = append(ids, part)
		}
	}
	return ids
}
