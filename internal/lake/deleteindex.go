package lake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/peek"
	"firn/internal/store"
)

// DeleteIndex knows the live delete files of a snapshot and which of them apply to a data file. It is immutable after BuildDeleteIndex and may
// be used concurrently. It holds the delete entries whole (they can be encoded), data files not at all.
type DeleteIndex struct {
	specs   map[int]iceberg.PartitionSpec
	schemas schemaFields
	// global and equality are equality deletes: of every partition, and of one.
	global   []equalityDelete
	equality map[scope][]equalityDelete
	// position holds the position deletes of a partition, vectors and paths what is scoped to a data file by its canonical location.
	position map[scope][]Entry
	vectors  map[string][]Entry
	paths    map[string][]Entry
	count    int
}

// equalityDelete is an equality delete with its statistics at hand.
type equalityDelete struct {
	Entry
	fields []int
	stats  fileStats
}

// scope is a partition of a spec.
type scope struct {
	spec int
	key  string
}

// BuildDeleteIndex reads the delete manifests among those given; data manifests are passed over.
func BuildDeleteIndex(ctx context.Context, st store.Reader, t *Table, manifests []iceberg.ManifestFile) (*DeleteIndex, error) {
	ix := &DeleteIndex{
		specs:    specsByID(t),
		schemas:  fieldsByID(t),
		equality: map[scope][]equalityDelete{},
		position: map[scope][]Entry{},
		vectors:  map[string][]Entry{},
		paths:    map[string][]Entry{},
	}
	var memo Memo
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentDeletes {
			continue
		}
		for e, err := range Entries(ctx, st, m, EntryOptions{Memo: &memo}) {
			if err != nil {
				return nil, fmt.Errorf("index delete files: %w", err)
			}
			if err := ix.add(e); err != nil {
				return nil, fmt.Errorf("index delete files: %w", err)
			}
		}
	}
	ix.sort()
	return ix, nil
}

func specsByID(t *Table) map[int]iceberg.PartitionSpec {
	specs := map[int]iceberg.PartitionSpec{}
	for _, s := range t.Metadata.PartitionSpecs() {
		specs[s.ID()] = s
	}
	return specs
}

func (ix *DeleteIndex) add(e Entry) error {
	ix.count++
	if peek.IsDeletionVector(e.File) {
		ref := e.File.ReferencedDataFile()
		if ref == nil || *ref == "" {
			return fmt.Errorf("deletion vector %s names no data file: %w", e, ErrTableFault)
		}
		ix.vectors[SameFile(*ref)] = append(ix.vectors[SameFile(*ref)], e)
		return nil
	}
	if path, ok := FileScoped(e.File); ok {
		ix.paths[SameFile(path)] = append(ix.paths[SameFile(path)], e)
		return nil
	}
	spec, at, err := ix.scopeOf(e)
	if err != nil {
		return err
	}
	switch {
	case e.File.ContentType() == iceberg.EntryContentPosDeletes:
		ix.position[at] = append(ix.position[at], e)
	case spec.IsUnpartitioned():
		ix.global = append(ix.global, equalityDelete{e, e.File.EqualityFieldIDs(), statsOf(e.File)})
	default:
		ix.equality[at] = append(ix.equality[at], equalityDelete{e, e.File.EqualityFieldIDs(), statsOf(e.File)})
	}
	return nil
}

func (ix *DeleteIndex) scopeOf(e Entry) (iceberg.PartitionSpec, scope, error) {
	spec, ok := ix.specs[e.SpecID]
	if !ok {
		return spec, scope{}, fmt.Errorf("%s has unknown partition spec %d: %w", e, e.SpecID, ErrTableFault)
	}
	key, err := PartitionKey(spec, e.File.Partition())
	if err != nil {
		return spec, scope{}, fmt.Errorf("%s: %w", e, err)
	}
	return spec, scope{e.SpecID, key}, nil
}

func (ix *DeleteIndex) sort() {
	ascendingEqual(ix.global)
	for _, entries := range ix.equality {
		ascendingEqual(entries)
	}
	for _, entries := range ix.position {
		ascending(entries)
	}
	for _, entries := range ix.paths {
		ascending(entries)
	}
}

func ascending(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.DataSequence, b.DataSequence) })
}

func ascendingEqual(entries []equalityDelete) {
	slices.SortStableFunc(entries, func(a, b equalityDelete) int { return cmp.Compare(a.DataSequence, b.DataSequence) })
}

// Len is the number of live delete entries.
func (ix *DeleteIndex) Len() int { return ix.count }

// All returns every live delete entry, in no particular order.
func (ix *DeleteIndex) All() []Entry {
	all := make([]Entry, 0, ix.count)
	for _, d := range ix.global {
		all = append(all, d.Entry)
	}
	for _, entries := range ix.equality {
		for _, d := range entries {
			all = append(all, d.Entry)
		}
	}
	for _, entries := range ix.position {
		all = append(all, entries...)
	}
	for _, m := range []map[string][]Entry{ix.vectors, ix.paths} {
		for _, entries := range m {
			all = append(all, entries...)
		}
	}
	return all
}

// For returns the delete entries that apply to a data file, by the rules of the specification (section "Scan Planning"):
//
//   - an equality delete, when its data sequence number is greater than the file's and it has the file's spec and partition, or its spec is
//     unpartitioned. One whose bounds prove that it matches no row is left out when both files carry statistics;
//   - a deletion vector, when it names the file and its sequence number is not smaller; it hides every position delete file;
//   - a position delete, when its sequence number is not smaller and it names the file or has its spec and partition.
//
// The order is global and partitioned equality deletes, then the vector or the position deletes. Two live vectors for the file, and a vector or
// file-scoped delete in another spec or partition than the file's, are ErrTableFault that names both entries.
func (ix *DeleteIndex) For(e Entry) ([]Entry, error) {
	if ix.count == 0 {
		return nil, nil
	}
	_, at, err := ix.scopeOf(e)
	if err != nil {
		return nil, err
	}
	return ix.forScope(e, at)
}

// forScope is For when the data file's partition is known.
func (ix *DeleteIndex) forScope(e Entry, at scope) ([]Entry, error) {
	out := ix.equalityFor(e, at)
	path := SameFile(e.File.FilePath())
	vector, err := ix.vectorFor(e, at, path)
	if err != nil {
		return nil, err
	}
	if vector != nil {
		return append(out, *vector), nil
	}
	scoped := from(ix.paths[path], e.DataSequence)
	for _, d := range scoped {
		if err := ix.samePartition(d, e, at); err != nil {
			return nil, err
		}
	}
	out = append(out, from(ix.position[at], e.DataSequence)...)
	return append(out, scoped...), nil
}

func (ix *DeleteIndex) equalityFor(e Entry, at scope) []Entry {
	var out []Entry
	var stats fileStats
	for _, entries := range [][]equalityDelete{ix.global, ix.equality[at]} {
		first := sort.Search(len(entries), func(i int) bool { return entries[i].DataSequence > e.DataSequence })
		if first < len(entries) && stats.values == nil {
			stats = statsOf(e.File)
		}
		for _, d := range entries[first:] {
			if ix.schemas.mayMatch(d, stats) {
				out = append(out, d.Entry)
			}
		}
	}
	return out
}

// needsStats reports whether For can tell more of data files that carry statistics.
func (ix *DeleteIndex) needsStats() bool { return len(ix.global)+len(ix.equality) > 0 }

// Scoped returns the position deletes and vectors that name the data file's path, whether or not they apply to it.
func (ix *DeleteIndex) Scoped(path string) []Entry {
	key := SameFile(path)
	return slices.Concat(ix.vectors[key], ix.paths[key])
}

func (ix *DeleteIndex) vectorFor(e Entry, at scope, path string) (*Entry, error) {
	vectors := ix.vectors[path]
	if len(vectors) > 1 {
		return nil, fmt.Errorf("data file %s has %d live deletion vectors, in %s and %s: %w", e.File.FilePath(), len(vectors), vectors[0],
			vectors[1], ErrTableFault)
	}
	if len(vectors) == 0 || vectors[0].DataSequence < e.DataSequence {
		return nil, nil
	}
	if err := ix.samePartition(vectors[0], e, at); err != nil {
		return nil, err
	}
	return &vectors[0], nil
}

func (ix *DeleteIndex) samePartition(d, e Entry, at scope) error {
	_, its, err := ix.scopeOf(d)
	if err != nil {
		return err
	}
	if its != at {
		return fmt.Errorf("delete file %s has partition %q of spec %d, its data file %s has %q of spec %d: %w", d, its.key, its.spec, e, at.key,
			at.spec, ErrTableFault)
	}
	return nil
}

// from returns those with at least the given data sequence number; entries are ascending.
func from(entries []Entry, sequence int64) []Entry {
	return entries[sort.Search(len(entries), func(i int) bool { return entries[i].DataSequence >= sequence }):]
}
