package commit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"firn/internal/commit/deletefiles"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/produce"
	"firn/internal/maintenance"
)

// vectorsSince is the format version whose position deletes are deletion vectors.
const vectorsSince = 3

// rewriteDeletes commits a batch of rewritten position deletes, or of equality deletes that became position deletes.
func (s *session) rewriteDeletes(ctx context.Context) (handoff.CommitResult, error) {
	if err := s.readIndex(ctx); err != nil {
		return handoff.CommitResult{}, err
	}
	b, err := s.readBatch(ctx)
	if err != nil {
		return handoff.CommitResult{}, err
	}
	return s.drive(ctx, &deletesRewriter{rewriter: rewriter{session: s, b: b}})
}

// deletesRewriter is the undertaking of a rewrite of position deletes. It settles and repeats attempts as a rewrite of data files does.
type deletesRewriter struct{ rewriter }

// landings are the groups of an attempt with what they do.
type landings struct {
	groups []*group
	all    []deletefiles.Landing
}

// build builds one attempt on a head; a result instead of a request says that there is nothing to commit.
func (r *deletesRewriter) build(ctx context.Context, head *lake.Table) (*request, *handoff.CommitResult, error) {
	a := produce.Attempt{Table: head, Now: r.f.Now(), Run: r.in.Run.RunID, Summary: r.summary()}
	found, dropped, h, err := r.choose(ctx, &a)
	if err != nil {
		return nil, nil, err
	}
	if len(found.groups) == 0 {
		result := nothing(dropped)
		if len(dropped) == 0 {
			result.Outcome, result.Reason = maintenance.Conflict, "data files that arrived meanwhile need every equality delete file"
		}
		result.Columns = deleteColumns(landings{})
		return nil, result, nil
	}
	out := &request{
		fate:   handoff.Fate{AssertedSnapshotID: a.Parent.SnapshotID},
		detail: fateDetail{Dropped: dropped, Columns: deleteColumns(found)},
	}
	removed := map[produce.File]bool{}
	for i, g := range found.groups {
		out.fate.Groups = append(out.fate.Groups, g.Index)
		a.AddDeletes = append(a.AddDeletes, found.all[i].Add...)
		a.Remove = append(a.Remove, found.all[i].Remove...)
		for _, e := range found.all[i].Remove {
			removed[produce.FileOf(e.File)] = true
		}
		for _, o := range found.all[i].Add {
			if path := o.File.FilePath(); !slices.Contains(out.fate.Paths, path) {
				out.fate.Paths = append(out.fate.Paths, path)
			}
		}
	}
	rest := slices.DeleteFunc(h.Deletes(), func(e lake.Entry) bool { return removed[produce.FileOf(e.File)] })
	dead, err := produce.Result{Table: head, Survey: h.Survey, NewSequence: head.Metadata.LastSequenceNumber() + 1}.Dangling(rest)
	if err != nil {
		return nil, nil, err
	}
	a.Remove = append(a.Remove, dead...)
	if len(a.Remove)+len(a.AddDeletes) == 0 {
		return nil, &handoff.CommitResult{
			Outcome: maintenance.NothingToDo, Reason: "other writers replaced every file of the batch", Columns: deleteColumns(landings{}),
		}, nil
	}
	return r.send(ctx, out, a)
}

// send writes the attempt's manifests.
func (r *deletesRewriter) send(ctx context.Context, out *request, a produce.Attempt) (*request, *handoff.CommitResult, error) {
	var err error
	if a.SnapshotID, err = r.f.snapshotID(a.Table.Metadata); err != nil {
		return nil, nil, err
	}
	p := &produce.Producer{Store: r.port.Store, NewUUID: func() (uuid.UUID, error) { return r.f.newUUID() }}
	product, err := p.Snapshot(ctx, a)
	if err != nil {
		r.discarded = append(r.discarded, product.Written...)
		return nil, nil, err
	}
	if out.detail.Snapshot, err = json.Marshal(product.Snapshot); err != nil {
		return nil, nil, fmt.Errorf("encode snapshot: %w", err)
	}
	out.fate.SnapshotID, out.fate.Metadata = a.SnapshotID, product.Written
	out.change, err = snapshotChange(a.Table, r.b.pinned.Branch, product.Snapshot)
	return out, nil, err
}

// choose asks every group of the batch whether it lands on the head, and fills the attempt's parent and manifests. Without partial progress one that
// does not keeps all from it.
func (r *deletesRewriter) choose(ctx context.Context, a *produce.Attempt) (found landings, dropped []handoff.DroppedGroup, h *deletefiles.Head, err error) {
	world, err := r.readHead(ctx, a)
	if err != nil {
		return found, nil, nil, err
	}
	groups := make([]deletefiles.Group, len(r.b.groups))
	for i, g := range r.b.groups {
		groups[i] = deletefiles.Group{
			SpecID: g.SpecID, Partition: g.Partition, Inputs: g.inputs, Beside: g.deletes, Outputs: g.outputs, References: g.references,
			Equality: r.in.Job == maintenance.RewriteEqualityDeleteFiles,
		}
		for _, in := range g.Inputs {
			groups[i].Applied = append(groups[i].Applied, in.Deletes)
		}
	}
	if world == nil && !r.b.allDropped() {
		if h, err = deletefiles.Look(ctx, r.port.Store, a.Table, a.Manifests, groups); err != nil {
			return found, nil, nil, err
		}
	}
	replaced, made := map[string]bool{}, map[string]bool{}
	for i, g := range r.b.groups {
		drop, landing := g.drop, deletefiles.Landing{}
		if drop == nil {
			why := world
			if why == nil {
				if landing, why, err = judgeDeletes(ctx, h, groups[i]); err != nil {
					return found, nil, nil, err
				}
			}
			if why == nil {
				why = onceDeleted(g, replaced, made)
			}
			if why != nil {
				drop = g.dropped(why)
			}
		}
		if drop != nil {
			dropped = append(dropped, *drop)
			continue
		}
		found.groups, found.all = append(found.groups, g), append(found.all, landing)
	}
	if len(dropped) > 0 && !r.index.PartialProgress {
		found = landings{}
	}
	if r.in.Job == maintenance.RewriteEqualityDeleteFiles && len(found.groups) > 0 {
		err = r.convert(ctx, a, h, groups, &found)
	}
	return found, dropped, h, err
}

// convert adds the equality deletes that can go. When none can, nothing lands: rows would be deleted twice and nothing gained.
func (r *deletesRewriter) convert(ctx context.Context, a *produce.Attempt, h *deletefiles.Head, all []deletefiles.Group, found *landings) error {
	var landing []deletefiles.Group
	for i, g := range r.b.groups {
		if slices.Contains(found.groups, g) {
			landing = append(landing, all[i])
		}
	}
	gone, err := h.Convertible(ctx, a.Manifests, landing, found.all)
	if err != nil {
		return err
	}
	if len(gone) == 0 {
		*found = landings{}
		return nil
	}
	found.all[0].Remove = append(found.all[0].Remove, gone...)
	return nil
}

// readHead reads the branch's head; the verdict is set when no group can land on it.
func (r *deletesRewriter) readHead(ctx context.Context, a *produce.Attempt) (*verdict, error) {
	pinned := r.b.pinned
	var err error
	if a.Parent, err = a.Table.Head(pinned.Branch); err != nil {
		return conflict("%v", err), nil
	}
	switch have := a.Table.Metadata.Version(); {
	case a.Parent == nil:
		return conflict("branch %s has no snapshot any more", pinned.Branch), nil
	case have != pinned.FormatVersion:
		return conflict("the table's format version became %d, it was %d", have, pinned.FormatVersion), nil
	case !deletefiles.Descends(a.Table, a.Parent, pinned.SnapshotID):
		return conflict("the pinned snapshot %d is no known ancestor of the head", pinned.SnapshotID), nil
	}
	for _, g := range r.b.groups {
		if a.Table.Metadata.PartitionSpecByID(g.SpecID) == nil {
			return conflict("partition spec %d was removed", g.SpecID), nil
		}
	}
	a.Manifests, err = lake.Manifests(ctx, r.port.Store, a.Parent)
	return nil, err
}

func judgeDeletes(ctx context.Context, h *deletefiles.Head, g deletefiles.Group) (deletefiles.Landing, *verdict, error) {
	landing, v, err := h.Check(ctx, g)
	switch {
	case v.Conflict != "":
		return landing, conflict("%s", v.Conflict), err
	case v.Fault != "":
		return landing, refused("%s", v.Fault), err
	}
	return landing, nil, err
}

// onceDeleted makes sure that no file is replaced or added twice in one commit, and that no data file gets two vectors.
func onceDeleted(g *group, replaced, made map[string]bool) *verdict {
	for _, e := range g.inputs {
		name := fmt.Sprint(produce.FileOf(e.File))
		if replaced[name] {
			return refused("%s is in two groups", e.File.FilePath())
		}
		replaced[name] = true
	}
	for _, o := range g.outputs {
		names := []string{fmt.Sprint(produce.FileOf(o.File))}
		if ref := o.File.ReferencedDataFile(); lake.IsDeletionVector(o.File) && ref != nil {
			names = append(names, lake.SameFile(*ref))
		}
		for _, name := range names {
			if made[name] {
				return refused("output %s, or a vector of its data file, is made twice", o.File.FilePath())
			}
			made[name] = true
		}
	}
	return nil
}

// deleteColumns are Spark's result columns of rewrite_position_delete_files, of what lands. The size of a deletion vector is its blob's.
func deleteColumns(found landings) map[string]int64 {
	out := map[string]int64{
		"rewritten_delete_files_count": 0, "added_delete_files_count": 0, "rewritten_bytes_count": 0, "added_bytes_count": 0,
	}
	for _, l := range found.all {
		out["rewritten_delete_files_count"] += int64(len(l.Remove))
		out["added_delete_files_count"] += int64(len(l.Add))
		for _, e := range l.Remove {
			out["rewritten_bytes_count"] += lake.DeleteSizeBytes(e.File)
		}
		for _, o := range l.Add {
			out["added_bytes_count"] += lake.DeleteSizeBytes(o.File)
		}
	}
	return out
}

// checkDeletes is check for a group of position deletes, or of data files whose equality deletes became position deletes.
func (g *group) checkDeletes(b *batch, r handoff.GroupResult) *verdict {
	equality := g.Job == maintenance.RewriteEqualityDeleteFiles
	if r.Outcome != maintenance.Committed {
		return &verdict{r.Outcome, r.Reason}
	}
	if len(r.References) != len(r.Outputs) {
		return refused("%d outputs have %d lists of references", len(r.Outputs), len(r.References))
	}
	var read, written, newest int64
	var entries []handoff.Entry
	for _, in := range g.Inputs {
		entries = append(entries, in.Entry)
		newest = max(newest, in.DataSequence)
	}
	for i, in := range append(entries, g.Deletes...) {
		e, err := b.words.entry(in)
		if err != nil {
			return refused("%v", err)
		}
		input := i < len(g.Inputs)
		switch content := e.File.ContentType(); {
		case equality && input != (content == iceberg.EntryContentData), !equality && content != iceberg.EntryContentPosDeletes:
			return refused("input %s has content %s", in.Path, content)
		case input:
			g.inputs = append(g.inputs, e)
		default:
			g.deletes = append(g.deletes, e)
		}
		if input || !equality {
			read += e.File.Count()
		}
	}
	g.references = r.References
	if !equality {
		if g.DataSequence != newest {
			return refused("outputs would carry sequence number %d, the highest of the replaced files is %d", g.DataSequence, newest)
		}
		g.sequence = &g.DataSequence
	}
	for _, in := range g.Inputs {
		for _, at := range in.Deletes {
			if at < 0 || at >= len(g.deletes) {
				return refused("the plan names delete file %d of %d", at, len(g.deletes))
			}
		}
	}
	for i, out := range r.Outputs {
		e, err := b.words.entry(out)
		if err != nil {
			return refused("%v", err)
		}
		if v := g.checkDeleteOutput(b, e, r.References[i]); v != nil {
			return v
		}
		written += e.File.Count()
		g.outputs = append(g.outputs, produce.Addition{File: e.File, SpecID: e.SpecID, DataSequence: g.sequence})
	}
	if p := r.Proof; equality && (p.RowsIn != read || p.RowsOut != written || written > read) {
		return refused("proof: %d rows were looked at and %d deleted; the data files hold %d, the outputs %d", p.RowsIn, p.RowsOut, read, written)
	} else if equality {
		return nil
	}
	if p := r.Proof; p.RowsIn != read || p.RowsOut != written || p.RowsDeleted < 0 || p.RowsIn-p.RowsDeleted != p.RowsOut {
		return refused("proof: %d positions in less %d dropped are not %d out; the inputs hold %d, the outputs %d", p.RowsIn, p.RowsDeleted, p.RowsOut,
			read, written)
	}
	return nil
}

// checkDeleteOutput checks what is so of a new delete file whatever the head is.
func (g *group) checkDeleteOutput(b *batch, e lake.Entry, refs []handoff.Target) *verdict {
	path := e.File.FilePath()
	key, err := b.words.key(e)
	scopedTo, scoped := lake.FileScoped(e.File)
	vector := lake.IsDeletionVector(e.File)
	switch {
	case err != nil || e.SpecID != g.SpecID || key != g.Partition:
		return refused("output %s is in partition %q of spec %d, its group is in %q of %d (%v)", path, key, e.SpecID, g.Partition, g.SpecID, err)
	case e.File.ContentType() != iceberg.EntryContentPosDeletes:
		return refused("output %s holds no position deletes", path)
	case vector != (b.pinned.FormatVersion >= vectorsSince):
		return refused("output %s has format %s in a table of format version %d", path, e.File.FileFormat(), b.pinned.FormatVersion)
	case len(refs) == 0 || len(refs) > 1 && scoped, scoped && lake.SameFile(refs[0].Path) != lake.SameFile(scopedTo), vector && !scoped:
		return refused("output %s names other data files than its references", path)
	}
	for _, ref := range refs {
		if g.sequence != nil && ref.DataSequence > g.DataSequence {
			return refused("output %s would not apply to %s: sequence number %d, the data file has %d", path, ref.Path, g.DataSequence, ref.DataSequence)
		}
	}
	return nil
}
