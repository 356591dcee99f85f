package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
)

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
	if p.automatic {
		opts.Guard(0, false)
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
	}{ExpireGuards: handoff.ExpireGuards{Automatic: p.automatic}, Warnings: plan.Warnings}
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

// removeOrphanFiles checks the arguments and writes the key ranges to list. What counts as an orphan, sweep decides when the listing has ended.
func (p *planner) removeOrphanFiles(ctx context.Context, index *handoff.Index) error {
	rules, err := decide.ParseOrphansOptions(p.request.Args, decide.OrphansTable{
		Properties: p.table.Metadata.Properties(), Location: p.table.Metadata.Location(),
	}, p.now, handoff.ArgEmptyTable, "table")
	if err != nil {
		return err
	}
	if _, err := store.ParseLocation(rules.Location); err != nil {
		return refusef("%v", err)
	}
	item := maintenance.SweepInput{
		V: contract.PayloadVersion, Step: maintenance.SweepList, Run: p.run, Job: index.Job,
		// The closing slash keeps out siblings whose name merely extends the table's.
		Item: &maintenance.SweepItem{Prefix: store.Join(rules.Location, "")},
	}
	items := p.work.Part(index.Job, p.attempt, "ranges.jsonl")
	if err := p.work.WriteLines(ctx, items, []any{item}); err != nil {
		return err
	}
	object, err := handoff.Object(items)
	if err != nil {
		return err
	}
	index.Batches = []handoff.Batch{{Count: 1, Items: object, Location: items}}
	return nil
}
