package produce

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"

	"firn/internal/lake"
	"firn/internal/lake/manifest"
)

// Clustering says how the entries of manifests that are written again are put in order and cut (Iceberg: rewrite_manifests).
type Clustering struct {
	// SpecID is the partition spec that is clustered; manifests of others are written again in their order.
	SpecID int
	// Fields are the IDs of the partition fields to order by; none means all of the spec, in its order.
	Fields []int
	// Pieces is the number of manifests wanted of each content.
	Pieces map[iceberg.ManifestContent]int
	// TargetBytes is the size of manifests; 0 is the table's. One manifest may reach 1.2 times of it before the next one begins.
	TargetBytes int64
}

// clusters reports whether manifests of a spec and content are clustered.
func (b *build) clusters(specID int, content iceberg.ManifestContent) bool {
	return b.a.Cluster != nil && b.a.Cluster.SpecID == specID && b.a.Cluster.Pieces[content] > 0
}

// clusterReaders bounds how many manifests are read at once. They are streamed: what is held of them are keys, or the entries of one output.
const clusterReaders = 8

// place is where a live entry stands: in which manifest, and as which of its live entries. rank is its partition's place in the order.
type place struct {
	rank, manifest, entry int32
}

// cluster writes the live entries of manifests of one spec and content anew, ordered by partition. In memory are 12 bytes an entry, each distinct
// partition tuple once, the entries of about one output manifest (a window), and the encoded entries of the windows of one pass. A pass reads the
// manifests that hold an entry of its windows once more.
func (b *build) cluster(ctx context.Context, w *roller, manifests []iceberg.ManifestFile) error {
	c := b.a.Cluster
	w.target += w.target / 5
	places, err := b.survey(ctx, w.spec, manifests, c.Fields)
	if err != nil {
		return err
	}
	ends := pieces(places, c.Pieces[w.content], w.spec.IsUnpartitioned())
	weights := entryBytes(manifests, places)
	for begin := 0; begin < len(places); {
		windows := nextPass(places[begin:], weights, w.target)
		end := begin + windows[len(windows)-1]
		if err := b.writePass(ctx, w, pass{manifests, places[begin:end], ends[begin:end], windows}); err != nil {
			return err
		}
		begin = end
	}
	made := 0
	for _, m := range w.out {
		made += int(m.ExistingDataFiles())
	}
	if made != len(places) {
		return fmt.Errorf("%d live files were read, %d written: %w", len(places), made, ErrMismatch)
	}
	return nil
}

// headerBytes is about what a manifest has before its first entry: schemas and codec.
const headerBytes = 6000

// entryBytes is about how many bytes an entry has in each manifest.
func entryBytes(manifests []iceberg.ManifestFile, places []place) []int64 {
	counts := make([]int64, len(manifests))
	for _, p := range places {
		counts[p.manifest]++
	}
	out := make([]int64, len(manifests))
	for i, m := range manifests {
		out[i] = max(max(m.Length()-headerBytes, m.Length()/4)/max(counts[i], 1), 1)
	}
	return out
}

// survey reads the partitions of all live entries, checks their number against the list's, and puts them in order: by partition, then as they stand.
func (b *build) survey(ctx context.Context, spec iceberg.PartitionSpec, manifests []iceberg.ManifestFile, fields []int) ([]place, error) {
	var mu sync.Mutex
	numbers, tuples := map[string]int32{}, []map[int]any{}
	found := make([][]place, len(manifests))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clusterReaders)
	for i, m := range manifests {
		group.Go(func() error {
			for e, err := range lake.Entries(ctx, unremembered(b.p.Store), m, lake.EntryOptions{WithoutStats: true, Memo: &b.memo}) {
				if err != nil {
					return err
				}
				key, err := lake.PartitionKey(spec, e.File.Partition())
				if err != nil {
					return fmt.Errorf("%s: %w", e, err)
				}
				mu.Lock()
				number, known := numbers[key]
				if !known {
					number = int32(len(tuples))
					numbers[key] = number
					tuples = append(tuples, e.File.Partition())
				}
				mu.Unlock()
				found[i] = append(found[i], place{rank: number, manifest: int32(i), entry: int32(len(found[i]))})
			}
			if m.AddedDataFiles() >= 0 && m.ExistingDataFiles() >= 0 && int(m.AddedDataFiles())+int(m.ExistingDataFiles()) != len(found[i]) {
				return fmt.Errorf("manifest %s holds %d live files, its list says %d added and %d existing: %w", m.FilePath(), len(found[i]),
					m.AddedDataFiles(), m.ExistingDataFiles(), lake.ErrTableFault)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	ranks := rank(spec, tuples, fields)
	places := slices.Concat(found...)
	for i := range places {
		places[i].rank = ranks[places[i].rank]
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.manifest, b.manifest), cmp.Compare(a.entry, b.entry))
	})
	return places, nil
}

// rank puts partition tuples in order; tuples that the fields do not tell apart have one rank.
func rank(spec iceberg.PartitionSpec, tuples []map[int]any, fields []int) []int32 {
	if len(fields) == 0 {
		for _, field := range spec.Fields() {
			fields = append(fields, field.FieldID)
		}
	}
	compare := func(a, b int) int {
		for _, id := range fields {
			if c := manifest.CompareValues(tuples[a][id], tuples[b][id]); c != 0 {
				return c
			}
		}
		return 0
	}
	order := make([]int, len(tuples))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, compare)
	ranks := make([]int32, len(tuples))
	for i, at := range order {
		switch {
		case i == 0:
		case compare(order[i-1], at) == 0:
			ranks[at] = ranks[order[i-1]]
		default:
			ranks[at] = ranks[order[i-1]] + 1
		}
	}
	return ranks
}

// pieces tells after which entries an output ends. Partitioned entries are cut as Spark's range partitioning cuts them, behind the partition with
// which a share is full, so that no partition is in two outputs because of the cut; unpartitioned ones into equal shares.
func pieces(places []place, wanted int, unpartitioned bool) []bool {
	ends := make([]bool, len(places))
	step := float64(len(places)) / float64(max(wanted, 1))
	full, made := step, 1
	for i := range places {
		last := i+1 == len(places)
		if last || made < wanted && float64(i+1) >= full && (unpartitioned || places[i].rank != places[i+1].rank) {
			ends[i] = true
			full, made = full+step, made+1
		}
	}
	return ends
}
