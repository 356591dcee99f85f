package evaluate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"

	"firn/internal/lake/peek"
	"firn/internal/maintenance"
	"firn/internal/state"
)

const (
	// maxCatchUp bounds how many snapshots one look walks back (as Flink's monitor); beyond it the table is scanned.
	maxCatchUp = 100
	// smallShare is the share of the target size under which a data file is small.
	smallShare = 0.75
	// defaultTarget is write.target-file-size-bytes where a table does not set it.
	defaultTarget = 512 << 20
	// manifestTarget is commit.manifest.target-size-bytes; a manifest under half of it is small.
	manifestTarget = 8 << 20
	// manifestReads is how many manifests are read at once.
	manifestReads = 8
	// inlinePartitions is how many partitions' counters live in the head item: most tables then cost one write a look.
	inlinePartitions = 32
	// maxPartitionName bounds a partition's name in bytes.
	maxPartitionName = 128
	// minShards and maxShards bound the number of shards. 1,024 shards of 2,000 partitions are within the size of an item.
	minShards, maxShards = 8, 1024
)

// change is what one snapshot did to each partition.
type change struct {
	snapshot peek.Snapshot
	counters map[partitionKey]state.PartitionCounters
	// manifests and smallManifests count the snapshot's list.
	manifests, smallManifests int64
	// scanned says that the counters are of all live files.
	scanned bool
}

type partitionKey struct {
	spec      int
	partition string
}

// shardsFor is the number of shards for so many partitions: the square root of half of them, so that the digests in the head and the counters in one
// shard, about as large each, grow alike. 100,000 partitions: 256 shards, 40 KB of digests, 400 partitions a shard.
func shardsFor(partitions int) int {
	if partitions <= inlinePartitions {
		return 0
	}
	count := minShards
	for count < maxShards && count*count < partitions/2 {
		count *= 2
	}
	return count
}

func shardOf(k partitionKey, count int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strconv.Itoa(k.spec) + "/" + k.partition))
	return int(h.Sum32() % uint32(count))
}

func compareKeys(a, b partitionKey) int {
	return cmp.Or(cmp.Compare(a.spec, b.spec), cmp.Compare(a.partition, b.partition))
}

// cuts are changes cut by shard: for each change the counters of each shard that it touches. Each counter is hashed once, however many shards and changes
// there are.
type cuts struct {
	changes []change
	shards  []map[int]map[partitionKey]state.PartitionCounters
}

func cut(changes []change, count int) cuts {
	c := cuts{changes: changes, shards: make([]map[int]map[partitionKey]state.PartitionCounters, len(changes))}
	for i, one := range changes {
		c.shards[i] = map[int]map[partitionKey]state.PartitionCounters{}
		for k, p := range one.counters {
			n := shardOf(k, count)
			if c.shards[i][n] == nil {
				c.shards[i][n] = map[partitionKey]state.PartitionCounters{}
			}
			c.shards[i][n][k] = p
		}
	}
	return c
}

// touched are the shards that the changes belong to, in order.
func (c cuts) touched() []int {
	numbers := map[int]bool{}
	for _, shards := range c.shards {
		for n := range shards {
			numbers[n] = true
		}
	}
	return slices.Sorted(maps.Keys(numbers))
}

// of are the changes as one shard sees them.
func (c cuts) of(shard int) []change {
	part := slices.Clone(c.changes)
	for i := range part {
		part[i].counters = c.shards[i][shard]
	}
	return part
}

// changes walks from the current snapshot back to the one that the head item has, and reads what each added and removed. walkable is false when
// that snapshot is no ancestor within the bound. Snapshots of other branches are not on the way.
func (f *Function) changes(ctx context.Context, v *view, head state.Head) (changes []change, walkable bool, err error) {
	if head.TableUUID == "" {
		return nil, false, nil
	}
	byID := make(map[int64]*peek.Snapshot, len(v.meta.Snapshots))
	for i := range v.meta.Snapshots {
		byID[v.meta.Snapshots[i].ID] = &v.meta.Snapshots[i]
	}
	var path []*peek.Snapshot
	for at := v.meta.CurrentSnapshotID; at == nil || *at != head.SnapshotID; {
		if at == nil {
			if head.SnapshotID == 0 {
				break
			}
			return nil, false, nil
		}
		s, found := byID[*at]
		if !found || len(path) == maxCatchUp {
			return nil, false, nil
		}
		path = append(path, s)
		at = s.ParentID
	}
	slices.Reverse(path)
	for _, s := range path {
		c, err := f.change(ctx, v, *s)
		if err != nil {
			return nil, false, err
		}
		changes = append(changes, c)
	}
	return changes, true, nil
}

// change reads what one snapshot added and removed: in its own list only the manifests that it wrote, and of these only its own entries.
func (f *Function) change(ctx context.Context, v *view, s peek.Snapshot) (change, error) {
	return f.readSnapshot(ctx, v, s, func(m iceberg.ManifestFile) bool {
		return m.SnapshotID() == s.ID && (m.HasAddedFiles() || m.DeletedDataFiles() != 0)
	}, func(e peek.Entry) int64 {
		switch {
		case e.SnapshotID != s.ID || e.Status == iceberg.EntryStatusEXISTING:
			return 0
		case e.Status == iceberg.EntryStatusDELETED:
			return -1
		}
		return 1
	})
}

// scan counts all live files of the current snapshot, as one change.
func (f *Function) scan(ctx context.Context, v *view) ([]change, error) {
	s := v.meta.Head("")
	if s == nil {
		return nil, nil
	}
	c, err := f.readSnapshot(ctx, v, *s, func(iceberg.ManifestFile) bool { return true }, func(e peek.Entry) int64 {
		if e.Status == iceberg.EntryStatusDELETED {
			return 0
		}
		return 1
	})
	c.scanned = true
	return []change{c}, err
}

// readSnapshot reads the manifests of one snapshot that are wanted, and counts each entry with its sign.
func (f *Function) readSnapshot(ctx context.Context, v *view, s peek.Snapshot, wanted func(iceberg.ManifestFile) bool, sign func(peek.Entry) int64) (change, error) {
	c := change{snapshot: s, counters: map[partitionKey]state.PartitionCounters{}}
	manifests, err := peek.ManifestList(ctx, v.reader, s.ManifestList)
	if err != nil {
		return c, fmt.Errorf("snapshot %d: %w", s.ID, err)
	}
	var mu sync.Mutex
	var memo peek.Memo
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(manifestReads)
	for _, m := range manifests {
		c.manifests++
		if m.Length() < manifestTarget/2 {
			c.smallManifests++
		}
		if !wanted(m) {
			continue
		}
		group.Go(func() error {
			counters := map[partitionKey]state.PartitionCounters{}
			for e, err := range peek.Entries(gctx, v.reader, m, peek.EntryOptions{WithoutStats: true, IncludeDeleted: true, Memo: &memo}) {
				if err != nil {
					return err
				}
				if n := sign(e); n != 0 {
					if err := v.count(counters, e, n); err != nil {
						return err
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k, p := range counters {
				sum := c.counters[k]
				sum.Add(p)
				sum.SpecID, sum.Partition = k.spec, k.partition
				c.counters[k] = sum
			}
			return nil
		})
	}
	return c, group.Wait()
}

// count adds or takes away one file. A partition was last written when the snapshot of its newest entry was made.
func (v *view) count(counters map[partitionKey]state.PartitionCounters, e peek.Entry, sign int64) error {
	spec, found := v.meta.Spec(e.SpecID)
	if !found {
		return fmt.Errorf("%s has unknown partition spec %d: %w", e, e.SpecID, peek.ErrTableFault)
	}
	name, err := peek.PartitionKey(spec, e.File.Partition())
	if err != nil {
		return err
	}
	key := partitionKey{e.SpecID, bounded(name)}
	p := counters[key]
	p.LastWriteMS = max(p.LastWriteMS, v.madeAt[e.SnapshotID])
	switch e.File.ContentType() {
	case iceberg.EntryContentData:
		size := e.File.FileSizeBytes()
		p.DataFiles += sign
		p.DataBytes += sign * size
		p.DataRows += sign * e.File.Count()
		if float64(size) < smallShare*float64(v.target()) {
			p.SmallFiles += sign
			p.SmallBytes += sign * size
		}
		if order := v.meta.DefaultSortOrderID; order != 0 && (e.File.SortOrderID() == nil || *e.File.SortOrderID() != order) {
			p.UnclusteredBytes += sign * size
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
	counters[key] = p
	return nil
}

// bounded is the name under which the ledger counts a partition: long ones end in a hash of the whole. Writers choose the values, and an item of state has 400 KB.
func bounded(name string) string {
	if len(name) <= maxPartitionName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "#" + hex.EncodeToString(sum[:16])
	return maintenance.Shortened(name, maxPartitionName-len(hash)) + hash
}

// target is the table's target file size.
func (v *view) target() int64 {
	if n, err := strconv.ParseInt(v.meta.Properties["write.target-file-size-bytes"], 10, 64); err == nil && n > 0 {
		return n
	}
	return defaultTarget
}

// basis is what the counters depend on beside the files.
func (v *view) basis() string {
	return fmt.Sprintf("target %d, sort order %d", v.target(), v.meta.DefaultSortOrderID)
}

// add folds changes into counters, in their order; partitions without files go.
func add(partitions state.Counters, changes ...change) state.Counters {
	at := make(map[partitionKey]int, len(partitions))
	for i, p := range partitions {
		at[partitionKey{p.SpecID, p.Partition}] = i
	}
	out := slices.Clone(partitions)
	for _, c := range changes {
		for _, key := range slices.SortedFunc(maps.Keys(c.counters), compareKeys) {
			delta := c.counters[key]
			if i, found := at[key]; found {
				out[i].Add(delta)
				continue
			}
			delta.SpecID, delta.Partition = key.spec, key.partition
			at[key] = len(out)
			out = append(out, delta)
		}
	}
	return slices.DeleteFunc(out, state.PartitionCounters.Empty)
}

// totalsAgree compares the counters with the totals of the head's summary, where it has them.
func totalsAgree(v *view, head state.Head) bool {
	s := v.meta.Head("")
	if s == nil {
		return true
	}
	sum := total(head)
	for name, have := range map[string]int64{
		"total-data-files": sum.DataFiles, "total-records": sum.DataRows,
		"total-delete-files": sum.PositionDeleteFiles + sum.EqualityDeleteFiles + sum.DeletionVectors,
	} {
		if want, err := strconv.ParseInt(s.Summary[name], 10, 64); err == nil && want != have {
			return false
		}
	}
	return true
}

// total adds up the whole table.
func total(head state.Head) state.PartitionCounters {
	var sum state.PartitionCounters
	for _, p := range head.Partitions {
		sum.Add(p)
	}
	for _, d := range head.Digests {
		sum.Add(d.Sum)
	}
	return sum
}
