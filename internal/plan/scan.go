package plan

import (
	"context"
	"iter"
	"math"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// entryBits is the part of a FileStats.Ref that numbers the entry inside its manifest; the rest numbers the manifest.
const entryBits = 32

// scan reads the live data files of one snapshot in scan order. It keeps nothing of a file: selected ones are read again, with statistics.
type scan struct {
	*planner
	snap      *table.Snapshot
	manifests []iceberg.ManifestFile
	deletes   *lake.DeleteIndex
}

// located is a selected data file with the deletes that apply to it.
type located struct {
	entry   handoff.Entry
	deletes []lake.Entry
}

func (p *planner) scan(ctx context.Context, snap *table.Snapshot) (*scan, error) {
	manifests, err := lake.Manifests(ctx, p.reader, snap)
	if err != nil {
		return nil, err
	}
	deletes, err := lake.BuildDeleteIndex(ctx, p.reader, p.table, manifests)
	if err != nil {
		return nil, err
	}
	s := &scan{planner: p, snap: snap, deletes: deletes}
	for _, m := range manifests {
		if m.ManifestContent() == iceberg.ManifestContentData {
			s.manifests = append(s.manifests, m)
		}
	}
	return s, nil
}

// stats yields what the planner sees of each live data file.
func (s *scan) stats(ctx context.Context) iter.Seq2[maintenance.FileStats, error] {
	return func(yield func(maintenance.FileStats, error) bool) {
		specs := map[int]iceberg.PartitionSpec{}
		for _, spec := range s.table.Metadata.PartitionSpecs() {
			specs[spec.ID()] = spec
		}
		for m, manifest := range s.manifests {
			ordinal := 0
			for e, err := range lake.Entries(ctx, s.reader, manifest, lake.EntryOptions{WithoutStats: true}) {
				if err != nil {
					yield(maintenance.FileStats{}, err)
					return
				}
				stats, err := s.fileStats(e, specs[e.SpecID])
				stats.Ref = m<<entryBits | ordinal
				ordinal++
				if !yield(stats, err) || err != nil {
					return
				}
			}
		}
	}
}

// fileStats describes one data file (Iceberg: BinPackRewriteFilePlanner counts deletes the same way).
func (s *scan) fileStats(e lake.Entry, spec iceberg.PartitionSpec) (maintenance.FileStats, error) {
	partition, err := lake.PartitionKey(spec, e.File.Partition())
	if err != nil {
		return maintenance.FileStats{}, err
	}
	applied, err := s.deletes.For(e)
	if err != nil {
		return maintenance.FileStats{}, err
	}
	stats := maintenance.FileStats{
		Path: e.File.FilePath(), SizeBytes: e.File.FileSizeBytes(), RecordCount: e.File.Count(), SpecID: e.SpecID, Partition: partition,
		HasRowLineage: e.FirstRowID != nil, DataSequence: e.DataSequence, DeleteFiles: len(applied), Unsupported: unsupported(e.File),
	}
	for _, d := range applied {
		if _, scoped := lake.FileScoped(d.File); scoped {
			stats.FileScopedDeletedRows += d.File.Count()
		}
	}
	return stats, nil
}

// unsupported says why no engine of ours rewrites a file. Formats are compared without case: writers spell them differently.
func unsupported(f iceberg.DataFile) string {
	switch {
	case len(f.KeyMetadata()) > 0:
		return "encrypted"
	case !strings.EqualFold(string(f.FileFormat()), string(iceberg.ParquetFile)):
		return "format " + strings.ToUpper(string(f.FileFormat()))
	}
	return ""
}

// entries reads the selected files again, with statistics, by their Ref.
func (s *scan) entries(ctx context.Context, groups []maintenance.FileGroup) (map[int]located, error) {
	wanted := map[int]map[int]bool{}
	for _, g := range groups {
		for _, f := range g.Files {
			m := f.Ref >> entryBits
			if wanted[m] == nil {
				wanted[m] = map[int]bool{}
			}
			wanted[m][f.Ref&math.MaxUint32] = true
		}
	}
	found := map[int]located{}
	for m, ordinals := range wanted {
		ordinal := -1
		for e, err := range lake.Entries(ctx, s.reader, s.manifests[m], lake.EntryOptions{}) {
			if err != nil {
				return nil, err
			}
			if ordinal++; !ordinals[ordinal] {
				continue
			}
			l := located{}
			if l.deletes, err = s.deletes.For(e); err != nil {
				return nil, err
			}
			if l.entry, err = s.encode(e); err != nil {
				return nil, err
			}
			found[m<<entryBits|ordinal] = l
		}
	}
	return found, nil
}
