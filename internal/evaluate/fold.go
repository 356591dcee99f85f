package evaluate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"firn/internal/contract"
	"firn/internal/lake/peek"
	"firn/internal/state"
)

// replaceOperation is the operation of rewrites, by whomever.
const replaceOperation = "replace"

// errAstray says that a shard has folded to a snapshot of another history: the counters are scanned anew.
var errAstray = errors.New("shard followed another history")

// fold brings the ledger to the table's current snapshot: the shards that the changes touch first, each conditional on what it has folded to, the head
// item last. A crash between leaves shards ahead of the head; the next look goes on from there. What cannot be walked is scanned anew.
func (f *Function) fold(ctx context.Context, v *view, head state.Head) (state.Head, error) {
	if head.TableUUID != "" && head.TableUUID != v.meta.TableUUID {
		if err := f.deps.State.DropTable(ctx, v.id); err != nil {
			return head, err
		}
		head = state.Head{Table: v.id}
	}
	changes, walkable, err := f.changes(ctx, v, head)
	if err != nil {
		return head, err
	}
	scanned := head.TableUUID == "" || !walkable || head.NeedsScan || head.Basis != v.basis()
	if !scanned {
		next, err := f.apply(ctx, v, head, changes)
		switch {
		case errors.Is(err, errAstray):
			// counted anew below
		case err != nil:
			return head, err
		case f.reconcileDue(v, head):
			return f.reconcile(ctx, v, next, changes)
		default:
			return f.moved(v, next, changes), nil
		}
	}
	next, scan, err := f.rescan(ctx, v, head)
	if err != nil {
		return head, err
	}
	if !walkable || head.TableUUID == "" {
		changes = scan
	}
	next = f.moved(v, next, changes)
	next.TotalsWrong, next.NeedsScan = next.NeedsScan, false // a scan is the truth: the summary's totals are wrong until the next one
	return next, nil
}

// rescan counts the current snapshot and writes a new generation.
func (f *Function) rescan(ctx context.Context, v *view, head state.Head) (state.Head, []change, error) {
	scan, err := f.scan(ctx, v)
	if err != nil {
		return head, nil, err
	}
	all := add(nil, scan...)
	head.Basis, head.ReconciledMS, head.TotalsWrong = v.basis(), f.deps.Now().UnixMilli(), false
	head, err = f.regenerate(ctx, v, head, all)
	return head, scan, err
}

// reconcileDue reports whether the ledger is to be proved by a full scan.
func (f *Function) reconcileDue(v *view, head state.Head) bool {
	every := v.policy.ReconcileInterval()
	return every > 0 && f.deps.Now().UnixMilli()-head.ReconciledMS >= every.Milliseconds()
}

// reconcile scans the table and compares with what was folded. The scan wins; the drift is told.
func (f *Function) reconcile(ctx context.Context, v *view, folded state.Head, changes []change) (state.Head, error) {
	before, err := f.partitions(ctx, v, folded)
	if err != nil && !errors.Is(err, errAstray) {
		return folded, err
	}
	next, scan, err := f.rescan(ctx, v, folded)
	if err != nil {
		return folded, err
	}
	drift := drifted(before, add(nil, scan...))
	if f.deps.Drift != nil {
		if err := f.deps.Drift(f.deps.Now(), v.id, int64(drift)); err != nil {
			return folded, fmt.Errorf("emit drift of %s: %w", v.id, err)
		}
	}
	if drift > 0 {
		f.deps.Log.WarnContext(ctx, "ledger had drifted", "table", v.id.String(), "partitions", drift)
	}
	next = f.moved(v, next, changes)
	next.TotalsWrong, next.NeedsScan = next.NeedsScan, false
	return next, nil
}

// drifted counts partitions whose counters differ. Times of last writes are not compared: a scan does not see removals.
func drifted(a, b state.Counters) int {
	type key = partitionKey
	left := map[key]state.PartitionCounters{}
	for _, p := range a {
		p.LastWriteMS = 0
		left[key{p.SpecID, p.Partition}] = p
	}
	drift := 0
	for _, p := range b {
		p.LastWriteMS = 0
		k := key{p.SpecID, p.Partition}
		if left[k] != p {
			drift++
		}
		delete(left, k)
	}
	return drift + len(left)
}

// partitions reads all counters of a folded ledger. A shard that is not as the head knows it was folded by a look that did not end: errAstray.
func (f *Function) partitions(ctx context.Context, v *view, head state.Head) (state.Counters, error) {
	all := slices.Clone(head.Partitions)
	for n := range head.ShardCount {
		shard, err := f.deps.State.LoadShard(ctx, v.id, head.Generation, n)
		if err != nil {
			return nil, err
		}
		if shard.Version != head.Digests[n].Version {
			return nil, errAstray
		}
		all = append(all, shard.Partitions...)
	}
	return all, nil
}

// apply folds the changes into the shards that they touch.
func (f *Function) apply(ctx context.Context, v *view, head state.Head, changes []change) (state.Head, error) {
	if len(changes) == 0 {
		return head, nil
	}
	left := leftovers{}
	if head.ShardCount == 0 {
		left.add(head.Partitions, ours(changes))
		head.Jobs = left.note(head, changes)
		head.Partitions = add(head.Partitions, changes...)
		return f.grown(ctx, v, head, len(head.Partitions))
	}
	head.Digests = slices.Clone(head.Digests)
	parts := cut(changes, head.ShardCount)
	numbers := parts.touched()
	for n, d := range head.Digests {
		if _, found := slices.BinarySearch(numbers, n); !found {
			left.digest(d)
		}
	}
	for _, n := range numbers {
		shard, err := f.deps.State.LoadShard(ctx, v.id, head.Generation, n)
		if err != nil {
			return head, err
		}
		pending := parts.of(n)
		left.add(shard.Partitions, ours(pending))
		if shard.Version != head.Digests[n].Version && shard.FoldedTo != head.SnapshotID {
			at := slices.IndexFunc(changes, func(c change) bool { return c.snapshot.ID == shard.FoldedTo })
			if at < 0 {
				return head, errAstray
			}
			pending = pending[at+1:]
		}
		if len(pending) > 0 {
			shard.Partitions = add(shard.Partitions, pending...)
			shard.FoldedTo = changes[len(changes)-1].snapshot.ID
			if shard, err = f.deps.State.SaveShard(ctx, v.id, shard); err != nil {
				return head, err
			}
		}
		head.Digests[n] = state.DigestOf(shard)
	}
	head.Jobs = left.note(head, changes)
	partitions := 0
	for _, d := range head.Digests {
		partitions += d.Partitions
	}
	return f.grown(ctx, v, head, partitions)
}

// grown spreads the counters over more shards when there are too many partitions for those that there are.
func (f *Function) grown(ctx context.Context, v *view, head state.Head, partitions int) (state.Head, error) {
	if shardsFor(partitions) <= head.ShardCount {
		return head, nil
	}
	all, err := f.partitions(ctx, v, head)
	if err != nil {
		return head, err
	}
	return f.regenerate(ctx, v, head, all)
}

// regenerate writes all counters as a new generation. Nobody sees it before the head moves; a leftover of a look that did not end is overwritten.
func (f *Function) regenerate(ctx context.Context, v *view, head state.Head, all state.Counters) (state.Head, error) {
	head.Generation++
	head.ShardCount = shardsFor(len(all))
	head.Partitions, head.Digests = nil, nil
	if head.ShardCount == 0 {
		head.Partitions = all
		return head, nil
	}
	shards := make([]state.Shard, head.ShardCount)
	for _, p := range all {
		n := shardOf(partitionKey{p.SpecID, p.Partition}, head.ShardCount)
		shards[n].Partitions = append(shards[n].Partitions, p)
	}
	for n, shard := range shards {
		shard.Generation, shard.Number, shard.FoldedTo = head.Generation, n, current(v.meta)
		saved, err := f.deps.State.SaveShard(ctx, v.id, shard)
		if errors.Is(err, state.ErrConditionFailed) {
			var left state.Shard
			if left, err = f.deps.State.LoadShard(ctx, v.id, shard.Generation, n); err == nil {
				shard.Version = left.Version
				saved, err = f.deps.State.SaveShard(ctx, v.id, shard)
			}
		}
		if err != nil {
			return head, err
		}
		head.Digests = append(head.Digests, state.DigestOf(saved))
	}
	return head, nil
}

// current is the ID of the current snapshot, 0 for none.
func current(m *peek.Metadata) int64 {
	if m.CurrentSnapshotID == nil {
		return 0
	}
	return *m.CurrentSnapshotID
}

// moved is the head item at the table's current snapshot.
func (f *Function) moved(v *view, head state.Head, changes []change) state.Head {
	head.Table, head.TableUUID, head.LookedAtMS = v.id, v.meta.TableUUID, v.lookedAt.UnixMilli()
	head.Snapshots, head.MetadataFiles = int64(len(v.meta.Snapshots)), int64(len(v.meta.MetadataLog))+1
	head.OldestSnapshotMS = oldest(v.meta)
	if head.FirstSeenMS == 0 {
		head.FirstSeenMS = head.LookedAtMS
	}
	head.SnapshotID, head.SequenceNumber = 0, 0
	if s := v.meta.Head(""); s != nil {
		head.SnapshotID, head.SequenceNumber = s.ID, s.SequenceNumber
	} else {
		head.Manifests, head.SmallManifests = 0, 0
	}
	if len(changes) > 0 {
		head.Manifests, head.SmallManifests = changes[len(changes)-1].manifests, changes[len(changes)-1].smallManifests
	}
	for _, c := range changes {
		if c.snapshot.Summary[contract.SummaryRunID] == "" && (c.scanned || c.snapshot.Summary["operation"] != replaceOperation) {
			head.Commits++
			head.LastWriteMS = max(head.LastWriteMS, c.snapshot.TimestampMS)
		}
	}
	head.NeedsScan = !head.TotalsWrong && !totalsAgree(v, head)
	return head
}

// oldest is the time of the oldest snapshot; 0 when there is none, or when a reference has an age of its own by which it or its snapshots expire.
func oldest(m *peek.Metadata) int64 {
	for _, r := range m.Refs {
		if r.MaxSnapshotAgeMS != nil || r.MaxRefAgeMS != nil {
			return 0
		}
	}
	first := int64(0)
	for _, s := range m.Snapshots {
		if first == 0 || s.TimestampMS < first {
			first = s.TimestampMS
		}
	}
	return first
}
