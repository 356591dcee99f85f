package evaluate

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/apache/iceberg-go"

	"firn/internal/contract"
	"firn/internal/lake/peek"
	"firn/internal/state"
)

const (
	// shardCount is the number of shards of a table's partition counters.
	shardCount = 16
	// maxCatchUp bounds how many snapshots one look walks back (as Flink's monitor); beyond it the table is scanned.
	maxCatchUp = 100
	// smallShare is the share of the target size under which a data file is small.
	smallShare = 0.75
	// defaultTarget is write.target-file-size-bytes where a table does not set it.
	defaultTarget = 512 << 20
	// manifestTarget is commit.manifest.target-size-bytes; a manifest under half of it is small.
	manifestTarget = 8 << 20
)

// change is what one snapshot did to each partition.
type change struct {
	snapshot peek.Snapshot
	counters map[partitionKey]state.PartitionCounters
	// manifests and smallManifests count the snapshot's list.
	manifests, smallManifests int64
}

type partitionKey struct {
	spec      int
	partition string
}

// fold brings the ledger to the table's current snapshot: shards first, each conditional on the snapshot that it has folded to, the head item last.
// A crash between leaves shards ahead of the head; the next look goes on from there. What cannot be walked is scanned anew.
func (f *Function) fold(ctx context.Context, v *view) (state.Head, []state.Shard, error) {
	head, err := f.deps.State.LoadHead(ctx, v.id)
	if err != nil {
		return state.Head{}, nil, err
	}
	if head.Version > 0 && head.TableUUID != v.meta.TableUUID {
		if err := f.deps.State.DropTable(ctx, v.id); err != nil {
			return state.Head{}, nil, err
		}
		head = state.Head{Table: v.id}
	}
	shards, err := f.deps.State.LoadShards(ctx, v.id)
	if err != nil {
		return state.Head{}, nil, err
	}
	changes, walkable, err := f.changes(ctx, v, head)
	if err != nil {
		return state.Head{}, nil, err
	}
	fresh := head.Version == 0 || !walkable || head.NeedsScan || astray(shards, changes, head.SnapshotID)
	if fresh {
		if changes, err = f.scan(ctx, v); err != nil {
			return state.Head{}, nil, err
		}
	}
	if shards, err = f.foldShards(ctx, v, shards, foldPlan{changes: changes, from: head.SnapshotID, fresh: fresh}); err != nil {
		return state.Head{}, nil, err
	}
	head.NeedsScan = !totalsAgree(v, shards)
	head, err = f.saveHead(ctx, v, head, changes, fresh)
	return head, shards, err
}

// changes walks from the current snapshot back to the one that the head item has, and reads what each added and removed. walkable is false when
// that snapshot is no ancestor within the bound.
func (f *Function) changes(ctx context.Context, v *view, head state.Head) (changes []change, walkable bool, err error) {
	if head.Version == 0 {
		return nil, false, nil
	}
	byID := map[int64]peek.Snapshot{}
	for _, s := range v.meta.Snapshots {
		byID[s.ID] = s
	}
	var path []peek.Snapshot
	for at := v.meta.CurrentSnapshotID; ; {
		if at == nil {
			walkable = head.SnapshotID == 0
			break
		}
		if *at == head.SnapshotID {
			walkable = true
			break
		}
		s, found := byID[*at]
		if !found || len(path) == maxCatchUp {
			return nil, false, nil
		}
		path = append(path, s)
		at = s.ParentID
	}
	if !walkable {
		return nil, false, nil
	}
	slices.Reverse(path)
	for _, s := range path {
		c, err := f.change(ctx, v, s)
		if err != nil {
			return nil, false, err
		}
		changes = append(changes, c)
	}
	return changes, true, nil
}

// change reads what one snapshot added and removed: in its own list only the manifests that it wrote, and of these only its own entries.
func (f *Function) change(ctx context.Context, v *view, s peek.Snapshot) (change, error) {
	c := change{snapshot: s, counters: map[partitionKey]state.PartitionCounters{}}
	manifests, err := peek.ManifestList(ctx, v.reader, s.ManifestList)
	if err != nil {
		return c, fmt.Errorf("snapshot %d: %w", s.ID, err)
	}
	for _, m := range manifests {
		c.list(m)
		if m.SnapshotID() != s.ID {
			continue
		}
		for e, err := range peek.Entries(ctx, v.reader, m, peek.EntryOptions{WithoutStats: true, IncludeDeleted: true}) {
			if err != nil {
				return c, err
			}
			if e.SnapshotID != s.ID || e.Status == iceberg.EntryStatusEXISTING {
				continue
			}
			sign := int64(1)
			if e.Status == iceberg.EntryStatusDELETED {
				sign = -1
			}
			if err := c.count(v, e, sign, s.TimestampMS); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// scan counts all live files of the current snapshot, as one change.
func (f *Function) scan(ctx context.Context, v *view) ([]change, error) {
	if v.meta.CurrentSnapshotID == nil {
		return nil, nil
	}
	i := slices.IndexFunc(v.meta.Snapshots, func(s peek.Snapshot) bool { return s.ID == *v.meta.CurrentSnapshotID })
	if i < 0 {
		return nil, fmt.Errorf("table %s has no snapshot %d: %w", v.id, *v.meta.CurrentSnapshotID, peek.ErrTableFault)
	}
	c := change{snapshot: v.meta.Snapshots[i], counters: map[partitionKey]state.PartitionCounters{}}
	manifests, err := peek.ManifestList(ctx, v.reader, c.snapshot.ManifestList)
	if err != nil {
		return nil, err
	}
	for _, m := range manifests {
		c.list(m)
		for e, err := range peek.Entries(ctx, v.reader, m, peek.EntryOptions{WithoutStats: true}) {
			if err != nil {
				return nil, err
			}
			if err := c.count(v, e, 1, c.snapshot.TimestampMS); err != nil {
				return nil, err
			}
		}
	}
	return []change{c}, nil
}

// list counts a manifest of the snapshot's list.
func (c *change) list(m iceberg.ManifestFile) {
	c.manifests++
	if m.Length() < manifestTarget/2 {
		c.smallManifests++
	}
}

// count adds or takes away one file.
func (c *change) count(v *view, e peek.Entry, sign, atMS int64) error {
	spec, found := v.spec(e.SpecID)
	if !found {
		return fmt.Errorf("%s has unknown partition spec %d: %w", e, e.SpecID, peek.ErrTableFault)
	}
	key, err := peek.PartitionKey(spec, e.File.Partition())
	if err != nil {
		return err
	}
	at := partitionKey{e.SpecID, key}
	p := c.counters[at]
	p.SpecID, p.Partition, p.LastWriteMS = e.SpecID, key, max(p.LastWriteMS, atMS)
	switch e.File.ContentType() {
	case iceberg.EntryContentData:
		p.DataFiles += sign
		p.DataBytes += sign * e.File.FileSizeBytes()
		p.DataRows += sign * e.File.Count()
		if float64(e.File.FileSizeBytes()) < smallShare*float64(v.target()) {
			p.SmallFiles += sign
			p.SmallBytes += sign * e.File.FileSizeBytes()
		}
	case iceberg.EntryContentEqDeletes:
		p.EqualityDeleteFiles += sign
	default:
		p.DeletedRows += sign * e.File.Count()
		if peek.IsDeletionVector(e.File) {
			p.DeletionVectors += sign
		} else {
			p.PositionDeleteFiles += sign
		}
	}
	c.counters[at] = p
	return nil
}

// target is the table's target file size.
func (v *view) target() int64 {
	if n, err := strconv.ParseInt(v.meta.Properties["write.target-file-size-bytes"], 10, 64); err == nil && n > 0 {
		return n
	}
	return defaultTarget
}

func (v *view) spec(id int) (iceberg.PartitionSpec, bool) {
	for _, s := range v.meta.Specs {
		if s.ID() == id {
			return s.PartitionSpec, true
		}
	}
	return iceberg.PartitionSpec{}, false
}

// foldPlan is what foldShards applies.
type foldPlan struct {
	changes []change
	// from is the snapshot that the head item has.
	from int64
	// fresh replaces all counters by the one change, a scan.
	fresh bool
}

// foldShards applies to each shard the changes behind the snapshot that it has folded to.
func (f *Function) foldShards(ctx context.Context, v *view, shards []state.Shard, plan foldPlan) ([]state.Shard, error) {
	if len(plan.changes) == 0 {
		return shards, nil
	}
	byNumber := map[int]state.Shard{}
	for _, s := range shards {
		byNumber[s.Number] = s
	}
	last := plan.changes[len(plan.changes)-1].snapshot.ID
	out := make([]state.Shard, 0, shardCount)
	for n := range shardCount {
		shard, have := byNumber[n]
		shard.Number = n
		pending := plan.changes
		switch {
		case plan.fresh:
			shard.Partitions = nil
		case have && shard.FoldedTo != plan.from:
			pending = pending[1+slices.IndexFunc(pending, func(c change) bool { return c.snapshot.ID == shard.FoldedTo }):]
		}
		if len(pending) == 0 {
			out = append(out, shard)
			continue
		}
		for _, c := range pending {
			shard.Partitions = add(shard.Partitions, c, n)
		}
		shard.FoldedTo = last
		saved, err := f.deps.State.SaveShard(ctx, v.id, shard)
		if err != nil {
			return nil, err
		}
		out = append(out, saved)
	}
	return out, nil
}

// astray reports whether a shard has folded to a snapshot that is not on the walked path: it followed another history.
func astray(shards []state.Shard, changes []change, from int64) bool {
	return slices.ContainsFunc(shards, func(s state.Shard) bool {
		return s.FoldedTo != from && !slices.ContainsFunc(changes, func(c change) bool { return c.snapshot.ID == s.FoldedTo })
	})
}

// add folds one change into the counters of a shard; partitions without files go.
func add(partitions []state.PartitionCounters, c change, shard int) []state.PartitionCounters {
	out := slices.Clone(partitions)
	for key, delta := range c.counters {
		if shardOf(key) != shard {
			continue
		}
		i := slices.IndexFunc(out, func(p state.PartitionCounters) bool { return p.SpecID == key.spec && p.Partition == key.partition })
		if i < 0 {
			out = append(out, delta)
			continue
		}
		p := &out[i]
		p.DataFiles += delta.DataFiles
		p.DataBytes += delta.DataBytes
		p.DataRows += delta.DataRows
		p.SmallFiles += delta.SmallFiles
		p.SmallBytes += delta.SmallBytes
		p.PositionDeleteFiles += delta.PositionDeleteFiles
		p.EqualityDeleteFiles += delta.EqualityDeleteFiles
		p.DeletionVectors += delta.DeletionVectors
		p.DeletedRows += delta.DeletedRows
		p.LastWriteMS = max(p.LastWriteMS, delta.LastWriteMS)
	}
	return slices.DeleteFunc(out, func(p state.PartitionCounters) bool {
		return p.DataFiles == 0 && p.PositionDeleteFiles == 0 && p.EqualityDeleteFiles == 0 && p.DeletionVectors == 0
	})
}

func shardOf(k partitionKey) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strconv.Itoa(k.spec) + "/" + k.partition))
	return int(h.Sum32() % shardCount)
}

// saveHead moves the head item, last.
func (f *Function) saveHead(ctx context.Context, v *view, head state.Head, changes []change, fresh bool) (state.Head, error) {
	now := f.deps.Now().UnixMilli()
	next := head
	next.Table, next.TableUUID, next.LookedAtMS = v.id, v.meta.TableUUID, now
	next.Snapshots, next.MetadataFiles = int64(len(v.meta.Snapshots)), int64(len(v.meta.MetadataLog))+1
	if next.FirstSeenMS == 0 {
		next.FirstSeenMS = now
	}
	if len(changes) > 0 {
		last := changes[len(changes)-1].snapshot
		next.SnapshotID, next.SequenceNumber = last.ID, last.SequenceNumber
		next.Manifests, next.SmallManifests = changes[len(changes)-1].manifests, changes[len(changes)-1].smallManifests
	}
	for _, c := range changes {
		if c.snapshot.Summary[contract.SummaryRunID] == "" && (fresh || c.snapshot.Summary["operation"] != replaceOperation) {
			next.Commits++
		}
	}
	saved, err := f.deps.State.SaveHead(ctx, next)
	if errors.Is(err, state.ErrConditionFailed) {
		return state.Head{}, fmt.Errorf("another look at %s was faster: %w", v.id, err)
	}
	return saved, err
}

// replaceOperation is the operation of rewrites, by whomever.
const replaceOperation = "replace"

// totalsAgree compares the counters with the totals of the head's summary, where it has them.
func totalsAgree(v *view, shards []state.Shard) bool {
	if v.meta.CurrentSnapshotID == nil {
		return true
	}
	i := slices.IndexFunc(v.meta.Snapshots, func(s peek.Snapshot) bool { return s.ID == *v.meta.CurrentSnapshotID })
	if i < 0 {
		return false
	}
	var files int64
	for _, s := range shards {
		for _, p := range s.Partitions {
			files += p.DataFiles
		}
	}
	total, err := strconv.ParseInt(v.meta.Snapshots[i].Summary["total-data-files"], 10, 64)
	return err != nil || total == files
}
