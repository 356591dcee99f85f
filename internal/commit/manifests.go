package commit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/produce"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// Spark's result columns of rewrite_manifests.
const (
	columnRewrittenManifests = "rewritten_manifests_count"
	columnAddedManifests     = "added_manifests_count"
)

// rewriteManifests commits a rewrite of manifests. What is replaced is decided anew on each head, so that manifests that appeared since the plan
// take part or stay as they are, and one that is gone is not missed.
func (s *session) rewriteManifests(ctx context.Context) (handoff.CommitResult, error) {
	if err := s.readIndex(ctx); err != nil {
		return handoff.CommitResult{}, err
	}
	m := &merger{session: s}
	if err := json.Unmarshal(s.index.Detail, &m.detail); err != nil {
		return handoff.CommitResult{}, maintenance.Named(contract.ErrorBadInput, fmt.Errorf("read plan's detail: %w", err))
	}
	return s.drive(ctx, m)
}

// merger is the undertaking of a rewrite of manifests. It makes a snapshot whose live entries are its parent's.
type merger struct {
	*session
	detail handoff.ManifestsDetail
}

func (m *merger) settle(ctx context.Context, head *lake.Table) (standing, int, error) {
	return m.settleSnapshot(ctx, head, table.MainBranch, m.detail.SequenceNumber)
}

func (m *merger) resend(_ context.Context, head *lake.Table, n int) (*request, error) {
	return m.sameSnapshot(head, table.MainBranch, n)
}

func (m *merger) result(_ context.Context, _ *lake.Table, n int) (handoff.CommitResult, error) {
	f := m.fates[n]
	return handoff.CommitResult{Outcome: maintenance.Committed, SnapshotID: f.SnapshotID, Columns: f.detail.Columns}, nil
}

// build decides on the head and writes the new manifests.
func (m *merger) build(ctx context.Context, head *lake.Table) (*request, *handoff.CommitResult, error) {
	opts, err := decide.ParseManifestsOptions(m.index.Request.Args, head.ManifestsTable())
	if errors.Is(err, decide.ErrOption) {
		return nil, &handoff.CommitResult{Outcome: maintenance.Refused, Reason: err.Error()}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	parent, err := head.Head(table.MainBranch)
	if err != nil {
		return nil, nil, err
	}
	manifests, err := lake.Manifests(ctx, m.port.Store, parent)
	if err != nil {
		return nil, nil, err
	}
	plan := decide.Manifests(lake.PlannedManifests(manifests), opts)
	if plan.Count() == 0 {
		return nil, &handoff.CommitResult{
			Outcome: maintenance.NothingToDo, Reason: "there are no manifests to merge or to cut",
			Columns: map[string]int64{columnRewrittenManifests: 0, columnAddedManifests: 0},
		}, nil
	}
	a := produce.Attempt{
		Table: head, Parent: parent, Manifests: manifests, Now: m.f.Now(), Run: m.in.Run.RunID, Summary: m.summary(), Rewrite: map[string]bool{},
		Cluster: clustering(head, opts, plan),
	}
	a.Summary["entries-processed"] = "0" // what Spark writes, whatever it processed
	for _, choice := range []decide.ManifestsChoice{plan.Data, plan.Deletes} {
		for _, location := range choice.Locations {
			a.Rewrite[location] = true
		}
	}
	if a.SnapshotID, err = m.f.snapshotID(head.Metadata); err != nil {
		return nil, nil, err
	}
	return m.produce(ctx, a)
}

// clustering turns the decision into the terms of the producer.
func clustering(head *lake.Table, opts decide.ManifestsOptions, plan decide.ManifestsPlan) *produce.Clustering {
	c := &produce.Clustering{
		SpecID: opts.SpecID, TargetBytes: opts.TargetSizeBytes,
		Pieces: map[iceberg.ManifestContent]int{iceberg.ManifestContentData: plan.Data.Target, iceberg.ManifestContentDeletes: plan.Deletes.Target},
	}
	spec := head.Metadata.PartitionSpecByID(opts.SpecID)
	for _, name := range opts.SortBy {
		for _, field := range spec.Fields() {
			if field.Name == name {
				c.Fields = append(c.Fields, field.FieldID)
			}
		}
	}
	return c
}

// produce writes the attempt. A table whose manifests contradict their list is refused: nothing of it may be copied.
func (m *merger) produce(ctx context.Context, a produce.Attempt) (*request, *handoff.CommitResult, error) {
	p := &produce.Producer{Store: m.port.Store, NewUUID: func() (uuid.UUID, error) { return m.f.newUUID() }}
	product, err := p.Snapshot(ctx, a)
	if err != nil {
		m.discarded = append(m.discarded, product.Written...)
	}
	if !errors.Is(err, store.ErrNotFound) && (errors.Is(err, lake.ErrTableFault) || errors.Is(err, lake.ErrUnsupported)) {
		return nil, &handoff.CommitResult{Outcome: maintenance.Refused, Reason: err.Error()}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(product.Snapshot)
	if err != nil {
		return nil, nil, fmt.Errorf("encode snapshot: %w", err)
	}
	r := &request{
		fate: handoff.Fate{SnapshotID: a.SnapshotID, AssertedSnapshotID: a.Parent.SnapshotID, Metadata: product.Written},
		detail: fateDetail{Snapshot: raw, Columns: map[string]int64{
			columnRewrittenManifests: int64(product.ReplacedManifests), columnAddedManifests: int64(product.CreatedManifests),
		}},
	}
	r.change, err = snapshotChange(a.Table, table.MainBranch, product.Snapshot)
	return r, nil, err
}
