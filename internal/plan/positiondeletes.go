package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/apache/iceberg-go"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/decide/where"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// deleteScan is what rewrite_position_delete_files sees of a snapshot.
type deleteScan struct {
	manifests []iceberg.ManifestFile
	// entries are the live position deletes whose partition may match the condition; files are the same in the planner's terms.
	entries []lake.Entry
	files   []decide.PositionDelete
}

// deleteScope is the spec and partition of a group.
type deleteScope struct {
	spec      int
	partition string
}

// rewritePositionDeleteFiles pins the table's head, selects and groups position deletes, and writes one object a group.
func (p *planner) rewritePositionDeleteFiles(ctx context.Context, index *handoff.Index) error {
	opts, err := decide.ParsePositionDeletesOptions(p.request.Options, p.facts(), p.table.Metadata.Version())
	if err != nil {
		return err
	}
	opts.RequireGain, opts.TakeDangling = p.automatic, p.automatic || p.due
	snap, err := p.snapshotOf("")
	if err != nil {
		return err
	}
	if snap == nil {
		index.Outcome, index.Reason = maintenance.NothingToDo, "the table has no snapshot"
		return nil
	}
	scan := &deleteScan{}
	if scan.manifests, err = lake.Manifests(ctx, p.reader, snap); err != nil {
		return err
	}
	if err := p.readDeletes(ctx, scan); err != nil {
		return err
	}
	plan, err := decide.PositionDeletes(scan.each(), opts)
	if err != nil {
		return err
	}
	if index.Detail, err = json.Marshal(summaryOf(plan)); err != nil {
		return fmt.Errorf("encode plan summary: %w", err)
	}
	if len(plan.Groups) == 0 {
		index.Outcome, index.Reason = emptyDeletePlan(plan)
		return nil
	}
	index.PartialProgress, index.MaxFailedCommits = opts.PartialProgress, opts.MaxFailedCommits
	if p.dryRun {
		return nil
	}
	pinned, err := p.pinned(snap)
	if err != nil {
		return err
	}
	targets, err := p.liveFiles(ctx, scan, plan.Groups)
	if err != nil {
		return err
	}
	return p.writeBatches(ctx, index, pinned, opts.Batches(len(plan.Groups), 0), func(g int) (handoff.Group, error) {
		return p.deleteGroup(scan, plan.Groups[g], opts, targets[scopeOf(plan.Groups[g])], pinned)
	})
}

func scopeOf(g maintenance.FileGroup) deleteScope { return deleteScope{g.SpecID, g.Partition} }

// emptyDeletePlan says how a job without groups ends, and why.
func emptyDeletePlan(plan maintenance.RewritePlan) (maintenance.Outcome, string) {
	none := fmt.Sprintf("none of %d position delete files qualifies", plan.SkippedFiles)
	if plan.RefusedFiles == 0 {
		return maintenance.NothingToDo, none
	}
	return maintenance.Refused, fmt.Sprintf("%s; %d refused, the first: %s: %s",
		none, plan.RefusedFiles, plan.Refusals[0].Path, plan.Refusals[0].Reason)
}

// each yields the planner's view of the deletes.
func (s *deleteScan) each() iter.Seq2[decide.PositionDelete, error] {
	return func(yield func(decide.PositionDelete, error) bool) {
		for _, f := range s.files {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// readDeletes reads the live position deletes whose partition may match, and looks which of the data files that they name are live. Statistics never
// count: Spark asks the condition of the partition only, and takes everything where it says nothing of the partition.
func (p *planner) readDeletes(ctx context.Context, scan *deleteScan) error {
	condition, err := p.condition()
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, m := range scan.manifests {
		if m.ManifestContent() != iceberg.ManifestContentDeletes {
			continue
		}
		for e, err := range lake.Entries(ctx, p.reader, m, lake.EntryOptions{Memo: &p.memo}) {
			if err != nil {
				return err
			}
			if e.File.ContentType() != iceberg.EntryContentPosDeletes {
				continue
			}
			file := lake.WhereFile(e)
			if condition != nil && !condition.MayMatch(where.File{SpecID: e.SpecID, RecordCount: max(file.RecordCount, 1), Partition: file.Partition}) {
				continue
			}
			f, err := p.table.PlannedDelete(e)
			if err != nil {
				return err
			}
			f.Ref = len(scan.entries)
			scan.entries, scan.files = append(scan.entries, e), append(scan.files, f)
			if f.Target != "" {
				named[f.Target] = true
			}
		}
	}
	return p.findTargets(ctx, scan, named)
}

// home is where a data file is.
type home struct {
	deleteScope
	sequence int64
}

// findTargets looks which deletes apply to nothing, and which name a data file of another partition.
func (p *planner) findTargets(ctx context.Context, scan *deleteScan, named map[string]bool) error {
	if len(scan.files) == 0 {
		return nil
	}
	homes, oldest := map[string]home{}, map[deleteScope]int64{}
	err := p.dataFiles(ctx, scan, func(e lake.Entry, at deleteScope) {
		if path := lake.SameFile(e.File.FilePath()); named[path] {
			homes[path] = home{at, e.DataSequence}
		}
		if before, seen := oldest[at]; !seen || e.DataSequence < before {
			oldest[at] = e.DataSequence
		}
	})
	for i := range scan.files {
		f := &scan.files[i]
		own := deleteScope{f.SpecID, f.Partition}
		sequence, live := oldest[own]
		if f.Target != "" {
			var at home
			at, live = homes[f.Target]
			if sequence = at.sequence; live && at.deleteScope != own {
				f.Unsupported = fmt.Sprintf("it names %s, which is in partition %q of spec %d, and is itself in partition %q of spec %d", f.Target,
					at.partition, at.spec, own.partition, own.spec)
			}
		}
		f.Dangling = !live || sequence > f.DataSequence
	}
	return err
}

// condition is the argument where; nil without one.
func (p *planner) condition() (*where.Where, error) {
	text := p.request.Args["where"]
	if text == "" {
		return nil, nil //nolint:nilnil // no condition
	}
	schema, err := p.table.WhereSchema()
	if err != nil {
		return nil, err
	}
	condition, err := where.Parse(text, schema, p.now)
	if err != nil {
		return nil, refusef("read where: %v", err)
	}
	return condition, nil
}

// dataFiles streams the live data files with their scopes.
func (p *planner) dataFiles(ctx context.Context, scan *deleteScan, see func(e lake.Entry, at deleteScope)) error {
	for _, m := range scan.manifests {
		if m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		spec := p.table.Metadata.PartitionSpecByID(int(m.PartitionSpecID()))
		if spec == nil {
			return fmt.Errorf("manifest %s has unknown partition spec %d: %w", m.FilePath(), m.PartitionSpecID(), lake.ErrTableFault)
		}
		for e, err := range lake.Entries(ctx, p.reader, m, lake.EntryOptions{WithoutStats: true, Memo: &p.memo}) {
			if err != nil {
				return err
			}
			key, err := lake.PartitionKey(*spec, e.File.Partition())
			if err != nil {
				return fmt.Errorf("%s: %w", e, err)
			}
			see(e, deleteScope{e.SpecID, key})
		}
	}
	return nil
}

// liveFiles lists, for each group, the live data files that its deletes may name: those of its partition, or, when all its deletes are
// file-scoped, those that they name.
func (p *planner) liveFiles(ctx context.Context, scan *deleteScan, groups []maintenance.FileGroup) (map[deleteScope][]handoff.Target, error) {
	named := map[deleteScope]map[string]bool{} // nil: all of the partition
	for _, g := range groups {
		at := scopeOf(g)
		names, seen := named[at]
		if !seen {
			names = map[string]bool{}
		}
		for _, f := range g.Files {
			target := scan.files[f.Ref].Target
			if target == "" {
				names = nil
			}
			if names != nil {
				names[target] = true
			}
		}
		named[at] = names
	}
	out := map[deleteScope][]handoff.Target{}
	err := p.dataFiles(ctx, scan, func(e lake.Entry, at deleteScope) {
		names, wanted := named[at]
		if !wanted || names != nil && !names[lake.SameFile(e.File.FilePath())] {
			return
		}
		out[at] = append(out[at], handoff.Target{Path: e.File.FilePath(), DataSequence: e.DataSequence})
	})
	return out, err
}

// deleteGroup makes the object of one group. New files carry the highest data sequence number of the group, as in Spark. On format version 3 the vectors
// of the data files that get a new one are replaced too, and the position delete files that stay are read along: a vector hides them.
func (p *planner) deleteGroup(scan *deleteScan, g maintenance.FileGroup, opts decide.PositionDeletesOptions, targets []handoff.Target, pinned handoff.Pinned,
) (handoff.Group, error) {
	group := handoff.Group{
		V: contract.PayloadVersion, Run: p.run, Job: p.request.Job, SpecID: g.SpecID, OutputSpecID: g.SpecID, Partition: g.Partition,
		MaxOutputFileSizeBytes: g.MaxOutputFileSizeBytes, ExpectedOutputFiles: g.ExpectedOutputFiles, OutputLocation: dataLocation(pinned),
		Options: p.request.Options, Targets: targets,
	}
	chosen, named, converts := map[int]bool{}, map[string]bool{}, false
	for _, f := range g.Files {
		chosen[f.Ref] = true
		if fact := scan.files[f.Ref]; !fact.Vector {
			converts = converts || opts.Vectors
			named[fact.Target] = true
		}
	}
	for i, f := range scan.files {
		replaced := chosen[i]
		if !replaced && (!converts || deleteScope{f.SpecID, f.Partition} != scopeOf(g)) {
			continue
		}
		if f.Vector && !replaced && !named[""] && !named[f.Target] {
			continue // its data file gets no other vector
		}
		entry, err := p.encode(scan.entries[i])
		if err != nil {
			return handoff.Group{}, err
		}
		if replaced || f.Vector {
			group.Inputs = append(group.Inputs, handoff.GroupInput{Entry: entry})
			group.DataSequence = max(group.DataSequence, entry.DataSequence)
		} else {
			group.Deletes = append(group.Deletes, entry)
		}
	}
	return group, nil
}
