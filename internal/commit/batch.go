package commit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/produce"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// objectReaders bounds concurrent reads of small objects.
const objectReaders = 8

// batch is what one commit takes: the pinned state and the groups with their results.
type batch struct {
	pinned handoff.Pinned
	words  *words
	groups []*group
}

// group is one file group with its result, decoded.
type group struct {
	handoff.Group
	// inputs are the replaced files as entries of T0, with statistics.
	inputs []lake.Entry
	// deletes are the delete files of Group.Deletes, rowMap and permutation are locations of the row map.
	deletes             []lake.Entry
	rowMap, permutation string
	// outputs are the new files; sequence is their explicit data sequence number, nil when they inherit the new snapshot's.
	outputs  []produce.Addition
	sequence *int64
	// references are the data files that each output names, of a group of position deletes.
	references [][]handoff.Target
	// drop is set when the group cannot be committed whatever the head is.
	drop *handoff.DroppedGroup
}

// verdict is why a group is dropped.
type verdict struct {
	outcome maintenance.Outcome
	reason  string
}

func conflict(format string, args ...any) *verdict {
	return &verdict{maintenance.Conflict, fmt.Sprintf(format, args...)}
}

func refused(format string, args ...any) *verdict {
	return &verdict{maintenance.Refused, fmt.Sprintf(format, args...)}
}

func (g *group) dropped(v *verdict) *handoff.DroppedGroup {
	return &handoff.DroppedGroup{Index: g.Index, Outcome: v.outcome, Reason: v.reason, Files: len(g.Inputs)}
}

// readBatch reads pinned state, groups and results of the batch, and checks everything that does not depend on the head.
func (s *session) readBatch(ctx context.Context) (*batch, error) {
	if s.in.Batch < 0 || s.in.Batch >= len(s.index.Batches) {
		return nil, maintenance.Named(contract.ErrorBadInput, fmt.Errorf("the plan has %d batches", len(s.index.Batches)))
	}
	at := s.index.Batches[s.in.Batch]
	if at.First < 0 || at.Count < 1 || at.First+at.Count > len(s.index.Groups) {
		return nil, maintenance.Named(contract.ErrorBadInput, fmt.Errorf("batch holds groups %d to %d of %d", at.First, at.First+at.Count,
			len(s.index.Groups)))
	}
	b := &batch{groups: make([]*group, at.Count)}
	if err := s.work.Read(ctx, s.index.PinnedLocation, &b.pinned); err != nil {
		return nil, fmt.Errorf("read pinned state: %w", err)
	}
	if b.pinned.UUID != s.in.Run.TableUUID {
		return nil, maintenance.Named(contract.ErrorBadInput, fmt.Errorf("the pinned table is %s", b.pinned.UUID))
	}
	var err error
	if b.words, err = pinnedWords(b.pinned); err != nil {
		return nil, err
	}
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(objectReaders)
	for i := range b.groups {
		readers.Go(func() error {
			var err error
			b.groups[i], err = s.readGroup(ctx, b, s.index.Groups[at.First+i])
			return err
		})
	}
	return b, readers.Wait()
}

func (s *session) readGroup(ctx context.Context, b *batch, location string) (*group, error) {
	g := &group{}
	if err := s.work.Read(ctx, location, &g.Group); err != nil {
		return nil, fmt.Errorf("read group: %w", err)
	}
	var result handoff.GroupResult
	switch err := s.work.Read(ctx, s.work.Result(s.in.Job, g.Index), &result); {
	case errors.Is(err, store.ErrNotFound):
		g.drop = g.dropped(&verdict{maintenance.Failed, "lost: its worker left no result"})
		return g, nil
	case err != nil:
		return nil, fmt.Errorf("read result of group %d: %w", g.Index, err)
	}
	var v *verdict
	if s.in.Job == maintenance.RewritePositionDeleteFiles || s.in.Job == maintenance.RewriteEqualityDeleteFiles {
		v = g.checkDeletes(b, result)
	} else {
		v = g.check(b, result, s.sequenceRule())
	}
	if v == nil && !s.f.SkipReopen {
		var err error
		if v, err = s.reopen(ctx, g); err != nil {
			return nil, fmt.Errorf("reopen outputs of group %d: %w", g.Index, err)
		}
	}
	if v != nil {
		g.drop = g.dropped(v)
	}
	return g, nil
}

// sequenceRule reports whether outputs carry the starting snapshot's sequence number (option use-starting-sequence-number, default true).
func (s *session) sequenceRule() bool {
	return s.index.Request.Options["use-starting-sequence-number"] != "false"
}

// check decodes inputs and outputs and checks the result against the group: everything that is so whatever the head is.
func (g *group) check(b *batch, r handoff.GroupResult, startingSequence bool) *verdict {
	if r.Outcome != maintenance.Committed {
		return &verdict{r.Outcome, r.Reason}
	}
	if g.DataSequence != 0 || b.pinned.SequenceNumber == 0 && startingSequence && b.pinned.FormatVersion > 1 {
		g.sequence = &g.DataSequence // 0 is a value: T0 of a table that was upgraded from format version 1
	}
	if g.sequence != nil && *g.sequence > b.pinned.SequenceNumber {
		return refused("outputs would carry sequence number %d, the pinned snapshot has %d", *g.sequence, b.pinned.SequenceNumber)
	}
	for _, in := range g.Inputs {
		e, err := b.words.entry(in.Entry)
		if err != nil {
			return refused("%v", err)
		}
		if e.File.ContentType() != iceberg.EntryContentData {
			return refused("input %s is no data file", in.Path)
		}
		for _, at := range in.Deletes {
			if at < 0 || at >= len(g.Deletes) {
				return refused("the plan names delete file %d of %d", at, len(g.Deletes))
			}
		}
		g.inputs = append(g.inputs, e)
	}
	for _, d := range g.Deletes {
		e, err := b.words.entry(d)
		if err != nil {
			return refused("%v", err)
		}
		g.deletes = append(g.deletes, e)
	}
	g.rowMap, g.permutation = r.RowMap, r.Permutation
	for _, out := range r.Outputs {
		e, err := b.words.entry(out)
		switch {
		case err != nil:
			return refused("%v", err)
		case e.SpecID != g.OutputSpecID:
			return refused("output %s has partition spec %d, the plan says %d", out.Path, e.SpecID, g.OutputSpecID)
		case e.File.ContentType() != iceberg.EntryContentData:
			return refused("output %s is no data file", out.Path)
		case e.File.FirstRowID() != nil:
			return refused("output %s has a first row ID", out.Path)
		}
		if key, err := b.words.key(e); err != nil || g.OutputSpecID == g.SpecID && key != g.Partition {
			return refused("output %s is in partition %q, its sources are in %q (%v)", out.Path, key, g.Partition, err)
		}
		g.outputs = append(g.outputs, produce.Addition{File: e.File, SpecID: e.SpecID, DataSequence: g.sequence})
	}
	return g.prove(r.Proof)
}

// words are the schemas and specs of T0, in which entries of plan and results are encoded.
type words struct {
	current *iceberg.Schema
	schemas []*iceberg.Schema
	specs   map[int]iceberg.PartitionSpec

	mutex  sync.Mutex
	codecs map[int]*lake.FileCodec // By spec ID, made when first wanted.
}

func pinnedWords(p handoff.Pinned) (*words, error) {
	w := &words{specs: map[int]iceberg.PartitionSpec{}, codecs: map[int]*lake.FileCodec{}}
	for _, raw := range p.Schemas {
		var schema iceberg.Schema
		if err := json.Unmarshal(raw, &schema); err != nil {
			return nil, fmt.Errorf("read pinned schema: %w", err)
		}
		w.schemas = append(w.schemas, &schema)
		if schema.ID == p.SchemaID {
			w.current = &schema
		}
	}
	if w.current == nil {
		return nil, maintenance.Named(contract.ErrorBadInput, fmt.Errorf("the pinned state lacks its schema %d", p.SchemaID))
	}
	for _, raw := range p.Specs {
		var spec iceberg.PartitionSpec
		if err := json.Unmarshal(raw, &spec); err != nil {
			return nil, fmt.Errorf("read pinned partition spec: %w", err)
		}
		w.specs[spec.ID()] = spec
	}
	return w, nil
}

// codec decodes the files of a spec.
func (w *words) codec(id int) (*lake.FileCodec, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if c := w.codecs[id]; c != nil {
		return c, nil
	}
	spec, ok := w.specs[id]
	if !ok {
		return nil, fmt.Errorf("the pinned state lacks partition spec %d", id)
	}
	schema, err := lake.SpecSchema(w.current, w.schemas, spec)
	if err != nil {
		return nil, err
	}
	c, err := lake.NewFileCodec(spec, schema)
	if err != nil {
		return nil, err
	}
	w.codecs[id] = c
	return c, nil
}

// entry decodes one entry.
func (w *words) entry(e handoff.Entry) (lake.Entry, error) {
	codec, err := w.codec(e.SpecID)
	if err != nil {
		return lake.Entry{}, fmt.Errorf("%s: %w", e.Path, err)
	}
	f, err := codec.Decode(e.File)
	if err != nil {
		return lake.Entry{}, err
	}
	if f.FilePath() != e.Path {
		return lake.Entry{}, fmt.Errorf("entry of %s describes %s", e.Path, f.FilePath())
	}
	return lake.Entry{
		File: f, Status: iceberg.EntryStatusEXISTING, SpecID: e.SpecID, DataSequence: e.DataSequence, FileSequence: e.FileSequence,
		SnapshotID: e.SnapshotID, FirstRowID: e.FirstRowID,
	}, nil
}

// key is a file's partition under its spec, for comparison.
func (w *words) key(e lake.Entry) (string, error) {
	return lake.PartitionKey(w.specs[e.SpecID], e.File.Partition())
}
