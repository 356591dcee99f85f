package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/store/inventory"
)

// rewriteManifests checks the arguments and counts. What is replaced is decided by commit, on fresh metadata at each attempt; the partition spec is
// the one that was the table's at the plan.
func (p *planner) rewriteManifests(ctx context.Context, index *handoff.Index) error {
	args := maps.Clone(p.request.Args)
	delete(args, "dry_run")
	opts, err := decide.ParseManifestsOptions(args, p.table.ManifestsTable())
	if err != nil {
		return err
	}
	snap := p.table.Metadata.CurrentSnapshot()
	if snap == nil {
		index.Outcome, index.Reason = maintenance.NothingToDo, "the table has no snapshot"
		return nil
	}
	manifests, err := lake.Manifests(ctx, p.reader, snap)
	if err != nil {
		return err
	}
	plan := decide.Manifests(lake.PlannedManifests(manifests), opts)
	if plan.Count() == 0 {
		index.Outcome = maintenance.NothingToDo
		index.Reason = fmt.Sprintf("of %d manifests none of partition spec %d is to be merged or cut", len(manifests), opts.SpecID)
		return nil
	}
	index.Request.Args = opts.Args(args)
	index.Batches = []handoff.Batch{{}}
	index.Detail, err = json.Marshal(handoff.ManifestsDetail{
		SnapshotID: snap.SnapshotID, SequenceNumber: snap.SequenceNumber, SpecID: opts.SpecID, Data: countOf(plan.Data), Deletes: countOf(plan.Deletes),
	})
	if err != nil {
		return fmt.Errorf("encode detail: %w", err)
	}
	return nil
}

func countOf(c decide.ManifestsChoice) handoff.ManifestsCount {
	return handoff.ManifestsCount{Manifests: len(c.Locations), Bytes: c.TotalBytes, Target: c.Target}
}

// expireSnapshots checks the arguments, and decides for a dry run. A real expiry is decided by commit, on fresh metadata at each attempt.
func (p *planner) expireSnapshots(index *handoff.Index) error {
	args := maps.Clone(p.request.Args)
	delete(args, handoff.ArgDeleteOutside)
	opts, err := decide.ParseSnapshotsOptions(args, p.request.SnapshotIDs, p.table.Metadata.Properties(), p.now)
	if err != nil {
		return err
	}
	if len(p.table.Metadata.Snapshots()) == 0 {
		index.Outcome, index.Reason = maintenance.NothingToDo, "the table has no snapshot"
		return nil
	}
	guards := p.guards()
	if p.automatic {
		opts.Guard(time.Duration(guards.MinAgeMS)*time.Millisecond, false)
		opts.KeepBookmarks, opts.BookmarkKeys, opts.Limit = !guards.IgnoreBookmarks, guards.BookmarkKeys, guards.Limit
	}
	plan, err := p.table.Expiring(opts, p.now)
	if err != nil {
		return err
	}
	if p.dryRun && len(plan.ExpiredIDs)+len(plan.RemovedRefs) == 0 {
		index.Outcome, index.Reason = maintenance.NothingToDo, "no snapshot and no ref is past its retention"
		return nil
	}
	detail := struct {
		handoff.ExpireGuards
		handoff.ExpireDetail
		Warnings []string `json:"warnings,omitempty"`
	}{ExpireGuards: guards, Warnings: plan.Warnings}
	if p.dryRun {
		detail.Expired = handoff.Expired{
			SnapshotIDs: plan.ExpiredIDs, ManifestLists: plan.ManifestLists, Statistics: plan.Statistics, Refs: plan.RemovedRefs,
		}
	}
	if index.Detail, err = json.Marshal(detail); err != nil {
		return fmt.Errorf("encode detail: %w", err)
	}
	return nil
}

// guards are what an automatic expiry obeys on top of its arguments.
func (p *planner) guards() handoff.ExpireGuards {
	g := handoff.ExpireGuards{Automatic: p.automatic}
	if asked := p.request.Guards; asked != nil && p.automatic {
		g.MinAgeMS, g.IgnoreBookmarks, g.BookmarkKeys, g.Limit = asked.MinAgeMS, asked.IgnoreBookmarks, asked.BookmarkKeys, asked.Limit
	}
	return g
}

// orphanRanges are the key ranges to list, or the files of the list that stands for a listing.
func (p *planner) orphanRanges(ctx context.Context, rules decide.OrphansOptions) ([]maintenance.SweepItem, error) {
	// The closing slash keeps out siblings whose name merely extends the table's.
	folder := store.Join(rules.Location, "")
	if rules.FileListView == "" {
		return p.listRanges(ctx, folder)
	}
	parts, err := inventory.Parts(ctx, p.reader, rules.FileListView)
	switch {
	case errors.Is(err, inventory.ErrList), errors.Is(err, store.ErrNotFound):
		return nil, refusef("file_list_view: %v", err)
	case err != nil:
		return nil, err
	case len(parts) == 0:
		return nil, refusef("file_list_view: %s names no file", rules.FileListView)
	}
	ranges := make([]maintenance.SweepItem, len(parts))
	for i, part := range parts {
		ranges[i] = maintenance.SweepItem{Range: i, Prefix: folder, Location: part.Location}
	}
	return ranges, nil
}

// removeOrphanFiles checks the arguments and writes the key ranges to list. What counts as an orphan, sweep decides when the listing has ended.
func (p *planner) removeOrphanFiles(ctx context.Context, index *handoff.Index) error {
	rules, err := decide.ParseOrphansOptions(p.request.Args, decide.OrphansTable{
		Properties: p.table.Metadata.Properties(), Location: p.table.Metadata.Location(),
	}, p.now, handoff.ArgEmptyTable, "table")
	if err != nil {
		return err
	}
	if _, err := reach.Swept(rules.Location, p.table.Metadata); err != nil {
		return refusef("%v", err)
	}
	ranges, err := p.orphanRanges(ctx, rules)
	if err != nil {
		return err
	}
	lines := make([]any, len(ranges))
	for i := range ranges {
		lines[i] = maintenance.SweepInput{V: contract.PayloadVersion, Step: maintenance.SweepList, Run: p.run, Job: index.Job, Item: &ranges[i]}
	}
	items := p.work.Part(index.Job, p.attempt, "ranges.jsonl")
	if err := p.work.WriteLines(ctx, items, lines); err != nil {
		return err
	}
	object, err := handoff.Object(items)
	if err != nil {
		return err
	}
	index.Batches = []handoff.Batch{{Count: len(lines), Items: object, Location: items}}
	return nil
}
