package compact

import (
	"context"
	"fmt"

	"github.com/apache/iceberg-go"
	"github.com/zeebo/xxh3"

	"firn/internal/compact/engine"
	"firn/internal/deletes"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// newPositionBytes is the estimated size of a position in a new position delete file: positions are eight bytes, paths repeat.
const newPositionBytes = 8

// equalityDeletes turns the equality deletes of a group into positions: of each data file the key columns are read, and what the equality deletes
// remove is written as position deletes, or, with all that was deleted before, as a deletion vector. No data file is written.
func (f *Function) equalityDeletes(ctx context.Context, t *table, g *handoff.Group, attempt string) (handoff.GroupResult, error) {
	none := handoff.GroupResult{}
	inputs, err := t.inputs(g)
	if err != nil {
		return none, err
	}
	masks, err := f.newlyDeleted(ctx, t, g, inputs, attempt)
	if err != nil {
		return none, err
	}
	result := handoff.GroupResult{Outcome: maintenance.Committed, Outputs: []handoff.Entry{}, Engine: "equality deletes"}
	live, spelled := map[string]int64{}, map[string]handoff.Target{}
	wanted := map[string]deletes.Mask{}
	for i, in := range inputs {
		path := lake.SameFile(in.FilePath())
		if _, twice := live[path]; twice {
			return none, fmt.Errorf("data file %s is in the group twice: %w", in.FilePath(), engine.ErrRefused)
		}
		live[path], spelled[path] = in.Sequence, handoff.Target{Path: in.FilePath(), DataSequence: in.Sequence}
		if masks[i] != nil {
			wanted[path] = masks[i]
		}
		result.BytesIn += in.FileSizeBytes()
		result.Proof.RowsIn += in.Count()
	}
	spec, _, err := t.spec(g.SpecID)
	if err != nil {
		return none, err
	}
	w := f.deleteWriter(t, g, deleteHome{spec, inputs[0].Partition()}, attempt)
	w.bytesEach = newPositionBytes
	if err := w.write(ctx, wanted, spelled); err != nil {
		return none, err
	}
	if err := w.check(ctx, wanted, live); err != nil {
		return none, err
	}
	return result, w.describe(&result)
}

// newlyDeleted masks the inputs: what the equality deletes remove beyond the other deletes of the group. Where they remove anything, a vector gets all that
// is deleted, since it takes the place of the other deletes; nil where they remove nothing.
func (f *Function) newlyDeleted(ctx context.Context, t *table, g *handoff.Group, inputs []engine.Input, attempt string) ([]deletes.Mask, error) {
	set := deletes.Set{
		Schema: &deletes.KeySchema{Schemas: t.schemas, Names: t.names, Defaults: t.defaults}, Seed: xxh3.HashString(attempt),
	}
	equality := map[int]bool{}
	for i, d := range g.Deletes {
		df, err := t.file(d)
		if err != nil {
			return nil, err
		}
		equality[i] = df.ContentType() == iceberg.EntryContentEqDeletes
		set.Files = append(set.Files, deletes.File{DataFile: df, Sequence: d.DataSequence})
	}
	before := set
	for i, in := range g.Inputs {
		all := deletes.Target{DataFile: inputs[i].DataFile, Sequence: in.DataSequence, Constants: inputs[i].Constants}
		others := all
		for _, d := range in.Deletes {
			if d < 0 || d >= len(set.Files) {
				return nil, fmt.Errorf("%s names delete %d of %d: %w", in.Path, d, len(set.Files), engine.ErrRefused)
			}
			all.Deletes = append(all.Deletes, d)
			if !equality[d] {
				others.Deletes = append(others.Deletes, d)
			}
		}
		set.Targets, before.Targets = append(set.Targets, all), append(before.Targets, others)
	}
	masks, err := deletes.Masks(ctx, f.deps.Store, set)
	if err != nil {
		return nil, fmt.Errorf("read the deletes: %w", err)
	}
	known, err := deletes.Masks(ctx, f.deps.Store, before)
	if err != nil {
		return nil, fmt.Errorf("read the deletes: %w", err)
	}
	for i, m := range masks {
		if m != nil && known[i] != nil && m.GetCardinality() == known[i].GetCardinality() {
			masks[i] = nil
		}
	}
	return masks, nil
}
