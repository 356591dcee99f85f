package plan

import (
	"context"
	"encoding/json"
	"fmt"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// expireSnapshots checks what can be checked before the metadata is read anew: commit decides on fresh metadata at each attempt.
func (p *planner) expireSnapshots(index *handoff.Index) error {
	if p.table.Metadata.Properties()["gc.enabled"] == "false" {
		return refusef("table %s has gc.enabled=false: its files may belong to other tables", p.run.Table)
	}
	if len(p.table.Metadata.Snapshots()) == 0 {
		index.Outcome, index.Reason = maintenance.NothingToDo, "the table has no snapshot"
	}
	return nil
}

// removeOrphanFiles writes the key ranges to list. Where to list, and what counts as an orphan, sweep decides when the listing has ended.
func (p *planner) removeOrphanFiles(ctx context.Context, index *handoff.Index) error {
	if p.table.Metadata.Properties()["gc.enabled"] == "false" {
		return refusef("table %s has gc.enabled=false: its files may belong to other tables", p.run.Table)
	}
	location := p.table.Metadata.Location()
	if arg := p.request.Args["location"]; arg != "" {
		location = arg
	}
	if _, err := store.ParseLocation(location); err != nil {
		return refusef("%v", err)
	}
	item := maintenance.SweepInput{
		V: contract.PayloadVersion, Step: maintenance.SweepList, Run: p.run, Job: index.Job,
		// The closing slash keeps out siblings whose name merely extends the table's.
		Item: &maintenance.SweepItem{Prefix: store.Join(location, "")},
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
	if index.Detail, err = json.Marshal(map[string]string{"location": location}); err != nil {
		return fmt.Errorf("encode detail: %w", err)
	}
	return nil
}
