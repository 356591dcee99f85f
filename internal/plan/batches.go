package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/store"
)

const (
	// groupWriters is how many groups are on their way to the store at a time: enough to hide its latency.
	groupWriters = 8
	// groupBytes bounds the texts of those groups together; a larger one goes alone.
	groupBytes = 16 << 20
)

// batchWriter writes the groups of a plan beside each other, and fills its index.
type batchWriter struct {
	*planner

	index   *handoff.Index
	groupAt func(g int) (handoff.Group, error)
	writing *errgroup.Group
	room    *semaphore.Weighted
}

// writeBatches writes the pinned state, the groups and the map items, and fills the index. What groupAt gives is good until its next call.
// It returns when all is written, or something is not.
func (p *planner) writeBatches(ctx context.Context, index *handoff.Index, pinned handoff.Pinned, batches []decide.Batch,
	groupAt func(g int) (handoff.Group, error),
) error {
	index.PinnedLocation = p.work.Part(index.Job, p.attempt, "pinned.json")
	text, err := p.text(index.PinnedLocation, pinned)
	if err == nil {
		err = p.put(ctx, index.PinnedLocation, text)
	}
	if err != nil {
		return err
	}
	writing, ctx := errgroup.WithContext(ctx)
	writing.SetLimit(groupWriters)
	w := batchWriter{p, index, groupAt, writing, semaphore.NewWeighted(groupBytes)}
	for b := 0; b < len(batches) && err == nil; b++ {
		err = w.batch(ctx, b, batches[b])
	}
	if first := writing.Wait(); first != nil {
		return first // the items' write was only called off with it
	}
	return err
}

// batch writes the items of a batch, and starts the writes of its groups.
func (w batchWriter) batch(ctx context.Context, b int, batch decide.Batch) error {
	items := make([]any, 0, batch.Count)
	for g := batch.First; g < batch.First+batch.Count; g++ {
		location, err := w.group(ctx, b, g)
		if err != nil {
			return err
		}
		w.index.Groups = append(w.index.Groups, location)
		items = append(items, maintenance.CompactItem{
			V: contract.PayloadVersion, Run: w.run, Job: w.index.Job, Batch: b, Group: g, Index: g, GroupLocation: location,
			PinnedLocation: w.index.PinnedLocation,
		})
	}
	location := w.work.Part(w.index.Job, w.attempt, fmt.Sprintf("items-%04d.jsonl", b))
	if err := w.work.WriteLines(ctx, location, items); err != nil {
		return err
	}
	object, err := handoff.Object(location)
	if err != nil {
		return err
	}
	w.index.Batches = append(w.index.Batches, handoff.Batch{First: batch.First, Count: batch.Count, Items: object, Location: location})
	return nil
}

// group starts the write of a group, and says where it will be.
func (w batchWriter) group(ctx context.Context, b, g int) (location string, err error) {
	group, err := w.groupAt(g)
	if err != nil {
		return "", err
	}
	group.Batch, group.Index = b, g
	location = w.work.Part(w.index.Job, w.attempt, fmt.Sprintf("group-%06d.json", g))
	text, err := w.text(location, group)
	if err != nil {
		return "", err
	}
	size := min(int64(text.Len()), groupBytes)
	if err := w.room.Acquire(ctx, size); err != nil {
		return "", err
	}
	w.writing.Go(func() error {
		defer w.room.Release(size)
		return w.put(ctx, location, text)
	})
	return location, nil
}

// text is a part of the plan as JSON, in memory that put gives back.
func (p *planner) text(location string, v any) (*bytes.Buffer, error) {
	buffer, _ := p.buffers.Get().(*bytes.Buffer)
	if buffer == nil {
		buffer = &bytes.Buffer{}
	}
	buffer.Reset()
	if err := json.NewEncoder(buffer).Encode(v); err != nil {
		return nil, fmt.Errorf("encode %s: %w", location, err)
	}
	return buffer, nil
}

// put writes one part of the plan.
func (p *planner) put(ctx context.Context, location string, text *bytes.Buffer) error {
	defer p.buffers.Put(text)
	if err := p.deps.Work.Put(ctx, location, text.Bytes(), store.WriteOptions{ContentType: "application/json"}); err != nil {
		return fmt.Errorf("write %s: %w", location, err)
	}
	return nil
}
