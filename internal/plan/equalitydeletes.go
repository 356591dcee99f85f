package plan

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/apache/iceberg-go"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// rewriteEqualityDeleteFiles pins the table's head and groups the data files to which equality deletes apply. A file that cannot be read keeps all
// equality deletes that apply to it: they are left out, with the files that they alone apply to.
func (p *planner) rewriteEqualityDeleteFiles(ctx context.Context, index *handoff.Index) error {
	opts, err := decide.ParseEqualityDeletesOptions(p.request.Options, p.facts())
	if err != nil {
		return err
	}
	snap, err := p.snapshotOf("")
	if err != nil {
		return err
	}
	if snap == nil {
		index.Outcome, index.Reason = maintenance.NothingToDo, "the table has no snapshot"
		return nil
	}
	scan, err := lake.NewScan(ctx, p.reader, p.table, snap)
	if err != nil {
		return err
	}
	files, err := p.filesWithEqualityDeletes(ctx, scan)
	if err != nil {
		return err
	}
	plan := files.plan(opts)
	if index.Detail, err = json.Marshal(summaryOf(plan)); err != nil {
		return fmt.Errorf("encode plan summary: %w", err)
	}
	if len(plan.Groups) == 0 {
		index.Outcome, index.Reason = maintenance.NothingToDo, "no equality delete file applies to a data file"
		if plan.RefusedFiles > 0 {
			index.Outcome = maintenance.Refused
			index.Reason = fmt.Sprintf("%d data files keep their equality deletes, the first: %s: %s", plan.RefusedFiles, plan.Refusals[0].Path,
				plan.Refusals[0].Reason)
		}
		return nil
	}
	// All groups land in one commit, and a group that does not keeps only the equality deletes that apply to its files.
	index.PartialProgress, index.MaxFailedCommits = true, 0
	if p.dryRun {
		return nil
	}
	pinned, err := p.pinned(snap)
	if err != nil {
		return err
	}
	return p.writeBatches(ctx, index, pinned, []decide.Batch{{Count: len(plan.Groups)}}, func(g int) (handoff.Group, error) {
		return p.equalityGroup(files, plan.Groups[g], pinned)
	})
}

// equalityFiles are the data files to which equality deletes apply, in scan order.
type equalityFiles struct {
	stats []maintenance.FileStats
	found map[int]lake.Selected
	// blocked are equality deletes that apply to a file that cannot be rewritten, with the reason of the first.
	blocked  map[string]bool
	refusals []maintenance.FileRefusal
}

func isEqualityDelete(e lake.Entry) bool {
	return e.File.ContentType() == iceberg.EntryContentEqDeletes
}

func (p *planner) filesWithEqualityDeletes(ctx context.Context, scan *lake.Scan) (*equalityFiles, error) {
	out := &equalityFiles{found: map[int]lake.Selected{}, blocked: map[string]bool{}}
	stats, refs := map[int]maintenance.FileStats{}, []int{}
	for f, err := range scan.Files(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if f.DeleteFiles > 0 {
			stats[f.Ref], refs = f, append(refs, f.Ref)
		}
	}
	if faults := scan.Faults(); len(faults) > 0 {
		for _, err := range faults {
			return nil, err // the table lists a file twice: no count of its rows is right
		}
	}
	for s, err := range scan.Select(ctx, refs) {
		if err != nil {
			return nil, err
		}
		f := stats[s.Ref]
		reason := f.Unsupported
		if s.Fault != nil {
			return nil, s.Fault
		}
		equal := false
		for _, d := range s.Deletes {
			if !isEqualityDelete(d) {
				continue
			}
			equal = true
			if reason != "" {
				out.blocked[deleteKey(d)] = true
			}
		}
		switch {
		case !equal:
		case reason != "":
			out.refusals = append(out.refusals, maintenance.FileRefusal{Path: f.Path, Reason: reason})
		default:
			out.stats, out.found[s.Ref] = append(out.stats, f), s
		}
	}
	return out, nil
}

// applying are the deletes of a file that its group reads: the equality deletes that can go, and on format version 3 what is in the vectors' place
// now, since a vector holds all positions. None when no equality delete can go.
func (f *equalityFiles) applying(ref int, vectors bool) []lake.Entry {
	var out []lake.Entry
	equal := false
	for _, d := range f.found[ref].Deletes {
		switch {
		case isEqualityDelete(d) && !f.blocked[deleteKey(d)]:
			equal = true
			out = append(out, d)
		case !isEqualityDelete(d) && vectors:
			out = append(out, d)
		}
	}
	if !equal {
		return nil
	}
	return out
}

// plan cuts the files into groups of one spec and partition and at most the wanted size.
func (f *equalityFiles) plan(opts decide.EqualityDeletesOptions) maintenance.RewritePlan {
	plan := maintenance.RewritePlan{RefusedFiles: len(f.refusals), Refusals: f.refusals[:min(len(f.refusals), maxNamedRefusals)]}
	type key struct {
		deleteScope
		lineage bool
	}
	open := map[key]int{}
	for _, file := range f.stats {
		if f.applying(file.Ref, false) == nil {
			plan.SkippedFiles++
			continue
		}
		at := key{deleteScope{file.SpecID, file.Partition}, file.HasRowLineage}
		i, ok := open[at]
		if !ok || plan.Groups[i].SizeBytes+file.SizeBytes > opts.MaxFileGroupSizeBytes {
			i = len(plan.Groups)
			open[at] = i
			plan.Groups = append(plan.Groups, maintenance.FileGroup{
				Index: i, SpecID: file.SpecID, Partition: file.Partition, HasRowLineage: file.HasRowLineage,
				MaxOutputFileSizeBytes: opts.WriterMaxFileSizeBytes(), ExpectedOutputFiles: 1,
			})
		}
		g := &plan.Groups[i]
		g.Files, g.SizeBytes = append(g.Files, file), g.SizeBytes+file.SizeBytes
		plan.TotalFiles++
		plan.TotalBytes += file.SizeBytes
	}
	return plan
}

// maxNamedRefusals is how many refused files a plan names.
const maxNamedRefusals = 20

// equalityGroup makes the object of one group. New files inherit the commit's sequence number.
func (p *planner) equalityGroup(files *equalityFiles, g maintenance.FileGroup, pinned handoff.Pinned) (handoff.Group, error) {
	group := handoff.Group{
		V: contract.PayloadVersion, Run: p.run, Job: p.request.Job, SpecID: g.SpecID, OutputSpecID: g.SpecID, Partition: g.Partition,
		HasRowLineage: g.HasRowLineage, MaxOutputFileSizeBytes: g.MaxOutputFileSizeBytes, ExpectedOutputFiles: g.ExpectedOutputFiles, OutputLocation: dataLocation(pinned),
		Options: p.request.Options,
	}
	deletes := map[string]int{}
	for _, f := range g.Files {
		entry, err := p.encode(files.found[f.Ref].Entry)
		if err != nil {
			return handoff.Group{}, err
		}
		input := handoff.GroupInput{Entry: entry}
		for _, d := range files.applying(f.Ref, pinned.FormatVersion >= 3) {
			at, known := deletes[deleteKey(d)]
			if !known {
				encoded, err := p.encode(d)
				if err != nil {
					return handoff.Group{}, err
				}
				at = len(group.Deletes)
				deletes[deleteKey(d)] = at
				group.Deletes = append(group.Deletes, encoded)
			}
			input.Deletes = append(input.Deletes, at)
		}
		group.Inputs = append(group.Inputs, input)
	}
	return group, nil
}
