package commit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/commit/rebase"
	"firn/internal/contract"
	"firn/internal/deletes"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/lake/produce"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// rewrite commits a batch of rewritten groups.
func (s *session) rewrite(ctx context.Context) (handoff.CommitResult, error) {
	if err := s.readIndex(ctx); err != nil {
		return handoff.CommitResult{}, err
	}
	b, err := s.readBatch(ctx)
	if err != nil {
		return handoff.CommitResult{}, err
	}
	return s.drive(ctx, &rewriter{
		session: s, b: b, known: &targets{paths: map[produce.File][]string{}},
		translator: &rebase.Translator{Store: s.port.Store, Work: s.work, Maps: s.f.Work},
		surveyor:   &produce.Surveyor{Store: s.port.Store},
		producer: &produce.Producer{
			Store: s.port.Store, NewUUID: func() (uuid.UUID, error) { return s.f.newUUID() }, Reuse: &produce.Reuse{},
		},
	})
}

// rewriter is the undertaking of a rewrite.
type rewriter struct {
	*session
	b          *batch
	known      *targets
	translator *rebase.Translator
	// surveyor and producer remember what earlier attempts of this execution read and wrote. snapshotID is the ID of all of them, so that manifests
	// can be listed again: a new attempt is made only after all others provably did not land.
	surveyor   *produce.Surveyor
	producer   *produce.Producer
	snapshotID int64
}

func (r *rewriter) settle(ctx context.Context, head *lake.Table) (standing, int, error) {
	return r.settleSnapshot(ctx, head, r.b.pinned.Branch, r.b.pinned.SequenceNumber)
}

func (r *rewriter) build(ctx context.Context, head *lake.Table) (*request, *handoff.CommitResult, error) {
	return r.request(ctx, head)
}

func (r *rewriter) resend(_ context.Context, head *lake.Table, n int) (*request, error) {
	return r.sameSnapshot(head, r.b.pinned.Branch, n)
}

// sameSnapshot repeats attempt n with the same snapshot: the pointer that its first call asserted has not moved, so that two of them cannot both
// land.
func (s *session) sameSnapshot(head *lake.Table, branch string, n int) (*request, error) {
	f := s.fates[n]
	var snap table.Snapshot
	if err := json.Unmarshal(f.detail.Snapshot, &snap); err != nil {
		return nil, fmt.Errorf("read snapshot of attempt %d: %w", n, err)
	}
	change, err := snapshotChange(head, branch, &snap)
	return &request{fate: f.Fate, detail: f.detail, change: change}, err
}

// result is the batch's result when attempt n landed.
func (r *rewriter) result(_ context.Context, _ *lake.Table, n int) (handoff.CommitResult, error) {
	f := r.fates[n]
	return handoff.CommitResult{
		Outcome: maintenance.Committed, SnapshotID: f.SnapshotID, Groups: f.Groups, Dropped: f.detail.Dropped, Columns: f.detail.Columns,
		Rebased: f.detail.Rebased,
	}, nil
}

// request builds one attempt on a head; a result instead of a request says that there is nothing to commit.
func (r *rewriter) request(ctx context.Context, head *lake.Table) (*request, *handoff.CommitResult, error) {
	landing, dropped, v, err := r.choose(ctx, head)
	if err != nil {
		return nil, nil, err
	}
	if len(landing) == 0 {
		return nil, nothing(dropped), nil
	}
	attempt, err := r.attempt(v, landing)
	if err != nil {
		return nil, nil, err
	}
	rebased, written, err := r.carry(ctx, v, landing, &attempt)
	if err != nil {
		r.discarded = append(r.discarded, written...)
		return nil, nil, err
	}
	product, err := r.producer.Snapshot(ctx, attempt)
	written = append(written, product.Written...)
	if err != nil {
		r.discarded = append(r.discarded, written...)
		return nil, nil, err
	}
	raw, err := json.Marshal(product.Snapshot)
	if err != nil {
		return nil, nil, fmt.Errorf("encode snapshot: %w", err)
	}
	out := &request{
		fate: handoff.Fate{SnapshotID: attempt.SnapshotID, AssertedSnapshotID: v.parent.SnapshotID, Metadata: written},
		detail: fateDetail{
			Snapshot: raw, Dropped: dropped, Columns: columns(landing, dropped, product.RemovedDeleteFiles), Rebased: rebased,
		},
	}
	for _, g := range landing {
		out.fate.Groups = append(out.fate.Groups, g.Index)
		for _, o := range g.outputs {
			out.fate.Paths = append(out.fate.Paths, o.File.FilePath())
		}
	}
	out.change, err = snapshotChange(head, r.b.pinned.Branch, product.Snapshot)
	return out, nil, err
}

// choose asks every group of the batch whether it lands on the head. Without partial progress one that does not keeps all from it.
func (r *rewriter) choose(ctx context.Context, head *lake.Table) (landing []*group, dropped []handoff.DroppedGroup, v *view, err error) {
	verdicts := map[int]*verdict{}
	if !r.b.allDropped() {
		var world *verdict
		if v, world, err = r.look(ctx, head); err != nil {
			return nil, nil, nil, err
		}
		if verdicts, err = r.judge(ctx, v, world); err != nil {
			return nil, nil, nil, err
		}
	}
	replaced, made := map[string]bool{}, map[string]bool{}
	for _, g := range r.b.groups {
		drop := g.drop
		if drop == nil {
			why := verdicts[g.Index]
			if why == nil {
				why = once(g, replaced, made)
			}
			if why != nil {
				drop = g.dropped(why)
			}
		}
		if drop != nil {
			dropped = append(dropped, *drop)
			continue
		}
		landing = append(landing, g)
	}
	if len(dropped) > 0 && !r.index.PartialProgress {
		landing = nil
	}
	return landing, dropped, v, nil
}

// judge checks the groups that can still land; world is what is wrong with all of them.
func (r *rewriter) judge(ctx context.Context, v *view, world *verdict) (map[int]*verdict, error) {
	verdicts := map[int]*verdict{}
	var passed []*group
	for _, g := range r.b.groups {
		if g.drop != nil {
			continue
		}
		why := world
		if why == nil {
			var err error
			if why, err = v.check(g); err != nil {
				return nil, err
			}
		}
		if why != nil {
			verdicts[g.Index] = why
			continue
		}
		passed = append(passed, g)
	}
	if len(verdicts) > 0 && !r.index.PartialProgress {
		return verdicts, nil
	}
	more, err := v.translate(ctx, r.translator, passed)
	maps.Copy(verdicts, more)
	return verdicts, err
}

// carry writes the delete sets that the outputs need on this head and adds them to the attempt. written is set on errors too.
func (r *rewriter) carry(ctx context.Context, v *view, landing []*group, a *produce.Attempt) (*handoff.Rebased, []string, error) {
	var outputs []produce.Addition
	var masks []deletes.Mask
	count := &handoff.Rebased{}
	for _, g := range landing {
		t, ok := v.translated[g.Index]
		if !ok {
			continue
		}
		outputs, masks = append(outputs, g.outputs...), append(masks, t.Outputs...)
		count.Groups++
		count.Positions += t.Positions
	}
	if count.Groups == 0 {
		return nil, nil, nil
	}
	id, err := r.f.newUUID()
	if err != nil {
		return nil, nil, err
	}
	w := rebase.Writer{
		Store: r.port.Store, Version: v.head.Metadata.Version(), Spec: v.head.Metadata.PartitionSpecByID,
		Prefix: store.Join(produce.MetadataFolder(v.head.Metadata), fmt.Sprintf("%s-%s-%04d-%s", r.in.Run.RunID, r.in.Job, r.in.Batch, id)),
	}
	made, written, err := w.Write(ctx, outputs, masks)
	a.AddDeletes, count.DeleteFiles = made, len(made)
	return count, written, err
}

func (b *batch) allDropped() bool {
	for _, g := range b.groups {
		if g.drop == nil {
			return false
		}
	}
	return true
}

// once makes sure that no path is replaced or added twice in one commit.
func once(g *group, replaced, made map[string]bool) *verdict {
	for _, in := range g.inputs {
		if replaced[in.File.FilePath()] {
			return refused("%s is in two groups", in.File.FilePath())
		}
	}
	for _, o := range g.outputs {
		if made[o.File.FilePath()] {
			return refused("output %s is in two groups", o.File.FilePath())
		}
	}
	for _, in := range g.inputs {
		replaced[in.File.FilePath()] = true
	}
	for _, o := range g.outputs {
		made[o.File.FilePath()] = true
	}
	return nil
}

// attempt says what the commit does to the head.
func (r *rewriter) attempt(v *view, landing []*group) (produce.Attempt, error) {
	a := produce.Attempt{
		Table: v.head, Parent: v.parent, Manifests: v.manifests, Now: r.f.Now(), Run: r.in.Run.RunID, Summary: r.summary(),
	}
	result := produce.Result{
		Table: v.head, Survey: v.survey, Replaced: map[string]bool{}, NewSequence: v.head.Metadata.LastSequenceNumber() + 1, Targets: v.targets.of,
	}
	for _, g := range landing {
		for _, in := range g.inputs {
			result.Replaced[in.File.FilePath()] = true
			a.Remove = append(a.Remove, v.survey.Found[in.File.FilePath()][0])
		}
		a.Add = append(a.Add, g.outputs...)
	}
	result.Added = a.Add
	dangling, err := result.Dangling(v.deletes.All())
	if err != nil {
		return a, err
	}
	a.Remove = append(a.Remove, dangling...)
	if r.snapshotID == 0 || v.head.Metadata.SnapshotByID(r.snapshotID) != nil {
		if r.snapshotID, err = r.f.snapshotID(v.head.Metadata); err != nil {
			return a, err
		}
	}
	a.SnapshotID = r.snapshotID
	return a, nil
}

func (s *session) summary() map[string]string {
	out := map[string]string{
		"engine-name":            "firn",
		contract.SummaryRunID:    string(s.in.Run.RunID),
		contract.SummaryCommitID: string(s.commitID()),
		contract.SummaryJob:      string(s.in.Job),
	}
	if s.f.EngineVersion != "" {
		out["engine-version"] = s.f.EngineVersion
	}
	return out
}

// snapshotChange adds a snapshot and points the branch to it, with the branch's retention kept. A service must see the schema under which the attempt was
// judged (sameWorld): one that shows a dropped column again would find it empty in the outputs.
func snapshotChange(head *lake.Table, branch string, snap *table.Snapshot) (committer.Change, error) {
	builder, err := table.MetadataBuilderFromBase(head.Metadata, head.Pointer.MetadataLocation)
	if err != nil {
		return committer.Change{}, fmt.Errorf("read base metadata: %w", err)
	}
	id, err := uuid.Parse(head.Metadata.TableUUID().String())
	if err != nil {
		return committer.Change{}, err
	}
	requirements := []table.Requirement{table.AssertTableUUID(id), table.AssertRefSnapshotID(branch, snap.ParentSnapshotID)}
	if snap.SchemaID != nil {
		requirements = append(requirements, table.AssertCurrentSchemaID(*snap.SchemaID))
	}
	return committer.Change{
		Requirements: requirements,
		Updates: []table.Update{
			table.NewAddSnapshotUpdate(snap), builder.NewRetainingSnapshotRefUpdate(branch, snap.SnapshotID, table.BranchRef),
		},
	}, nil
}

// columns are Spark's result columns of rewrite_data_files. removed_delete_files_count counts what this commit removed.
func columns(landing []*group, dropped []handoff.DroppedGroup, removedDeletes int64) map[string]int64 {
	out := map[string]int64{
		"rewritten_data_files_count": 0, "added_data_files_count": 0, "rewritten_bytes_count": 0, "failed_data_files_count": 0,
		"removed_delete_files_count": removedDeletes,
	}
	for _, g := range landing {
		out["rewritten_data_files_count"] += int64(len(g.inputs))
		out["added_data_files_count"] += int64(len(g.outputs))
		for _, in := range g.inputs {
			out["rewritten_bytes_count"] += in.File.FileSizeBytes()
		}
	}
	for _, d := range dropped {
		out["failed_data_files_count"] += int64(d.Files)
	}
	return out
}

// nothing is the result of a batch of which no group lands.
func nothing(dropped []handoff.DroppedGroup) *handoff.CommitResult {
	r := &handoff.CommitResult{Outcome: maintenance.Refused, Dropped: dropped, Columns: columns(nil, dropped, 0)}
	for _, d := range dropped {
		if d.Outcome == maintenance.Conflict || r.Reason == "" {
			r.Reason = fmt.Sprintf("group %d: %s", d.Index, d.Reason)
		}
		if d.Outcome == maintenance.Conflict {
			r.Outcome = maintenance.Conflict
			break
		}
		if d.Outcome == maintenance.Failed {
			r.Outcome = maintenance.Failed
		}
	}
	return r
}
