// Package inspect looks at a table before anybody cleans it: its health in figures, the jobs that its symptoms ask for, and Iceberg's metadata tables
// under the names of Spark's columns. It reads metadata and manifests only, never a data file, so that tables of every file format can be
// looked at; it changes nothing.
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
	"firn/internal/store"
)

const (
	// smallShare is the share of the target size under which a data file is small, and half the target is what makes a manifest small: the shares
	// of the triggers.
	smallShare = 0.75
	// defaultTarget is write.target-file-size-bytes, defaultManifestTarget commit.manifest.target-size-bytes where a table does not set them.
	defaultTarget         = 512 << 20
	defaultManifestTarget = 8 << 20
)

// View is one loaded state of a table with its current snapshot's manifests.
type View struct {
	Table *lake.Table
	store store.Reader
	now   time.Time

	manifests []iceberg.ManifestFile
	specs     map[int]iceberg.PartitionSpec
	memo      lake.Memo
}

// Look loads a view of the table's current state; now is what ages are measured by.
func Look(ctx context.Context, st store.Reader, t *lake.Table, now time.Time) (*View, error) {
	v := &View{Table: t, store: st, now: now, specs: map[int]iceberg.PartitionSpec{}}
	for _, s := range t.Metadata.PartitionSpecs() {
		v.specs[s.ID()] = s
	}
	var err error
	if v.manifests, err = lake.Manifests(ctx, st, t.Metadata.CurrentSnapshot()); err != nil {
		return nil, fmt.Errorf("look at table %s: %w", t.ID, err)
	}
	return v, nil
}

// Target is the table's target size of data files in bytes.
func (v *View) Target() int64 {
	return positive(v.Table.Metadata.Properties(), table.WriteTargetFileSizeBytesKey, defaultTarget)
}

func (v *View) manifestTarget() int64 {
	return positive(v.Table.Metadata.Properties(), table.ManifestTargetSizeBytesKey, defaultManifestTarget)
}

func positive(props iceberg.Properties, key string, fallback int64) int64 {
	if n := props.GetInt64(key, fallback); n > 0 {
		return n
	}
	return fallback
}

// partition names a partition as paths do: "day=2026-11-01/region=eu", "" when unpartitioned.
func (v *View) partition(specID int, tuple map[int]any) string {
	spec := v.specs[specID]
	var parts []string
	for _, f := range spec.Fields() {
		text := "null"
		if value := tuple[f.FieldID]; value != nil {
			text = f.Transform.ToHumanStrType(v.sourceType(f.SourceID()), value)
		}
		parts = append(parts, f.Name+"="+text)
	}
	return strings.Join(parts, "/")
}

// sourceType is the type of a partition field's source column, in whichever schema has it; text when it is gone from all.
func (v *View) sourceType(id int) iceberg.Type {
	for _, schema := range v.Table.Metadata.Schemas() {
		if f, found := schema.FindFieldByID(id); found {
			return f.Type
		}
	}
	return iceberg.PrimitiveTypes.String
}

// Partition is what is known of one partition.
type Partition struct {
	SpecID int    `json:"spec_id"`
	Name   string `json:"partition"`
	// DataFiles and SmallFiles are counts, DataBytes the sum of the sizes, Records those before deletes.
	DataFiles  int64 `json:"data_files"`
	SmallFiles int64 `json:"small_files"`
	DataBytes  int64 `json:"data_bytes"`
	Records    int64 `json:"records"`
	// Delete files by kind; PositionRecords and EqualityRecords are their records.
	PositionDeleteFiles int64 `json:"position_delete_files"`
	EqualityDeleteFiles int64 `json:"equality_delete_files"`
	DeletionVectors     int64 `json:"deletion_vectors"`
	PositionRecords     int64 `json:"position_delete_records"`
	EqualityRecords     int64 `json:"equality_delete_records"`
	// LastSnapshotID and LastWriteMS are of the newest snapshot that added a live file; 0 when that snapshot expired.
	LastSnapshotID int64 `json:"last_updated_snapshot_id"`
	LastWriteMS    int64 `json:"last_updated_ms"`

	smallBytes int64
}

// Files are the live files of the current snapshot, summed up.
type Files struct {
	DataFiles  int64 `json:"count"`
	DataBytes  int64 `json:"bytes"`
	Average    int64 `json:"average_bytes"`
	SmallFiles int64 `json:"small"`
	Records    int64 `json:"records"`
	// Formats counts data files by format.
	Formats map[string]int64 `json:"formats"`
	// WithDeletes counts data files that at least one delete file applies to.
	WithDeletes int64 `json:"with_deletes"`
}

// Deletes are the live delete files by kind.
type Deletes struct {
	Position  int64 `json:"position_delete_files"`
	Equality  int64 `json:"equality_delete_files"`
	Vectors   int64 `json:"deletion_vectors"`
	Bytes     int64 `json:"bytes"`
	Positions int64 `json:"deleted_positions"`
	// Dangling counts those that apply to no live data file, DanglingPositions the position delete files and vectors among them.
	Dangling          int64 `json:"dangling"`
	DanglingPositions int64 `json:"dangling_position_deletes"`
}

// survey is one pass over the live entries.
type survey struct {
	files      Files
	deletes    Deletes
	partitions []Partition
	faults     []string
	clusters   *clusters
	// unclusteredBytes are of data files that do not say that they are in the table's sort order.
	unclusteredBytes int64
}

// survey reads all manifests of the snapshot, the delete manifests first.
func (v *View) survey(ctx context.Context) (survey, error) {
	s := survey{files: Files{Formats: map[string]int64{}}}
	index, err := lake.BuildDeleteIndex(ctx, v.store, v.Table, v.manifests)
	if err != nil {
		return s, err
	}
	if s.clusters, err = v.newClusters(); err != nil {
		return s, err
	}
	byKey := map[string]*Partition{}
	used, positions := map[string]bool{}, int64(0)
	for _, e := range index.All() {
		v.countDelete(&s, v.home(byKey, e), e)
	}
	for _, m := range v.manifests {
		if m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		for e, err := range lake.Entries(ctx, v.store, m, lake.EntryOptions{WithoutStats: true, PruningStats: s.clusters != nil, Memo: &v.memo}) {
			if err != nil {
				return s, err
			}
			home := v.home(byKey, e)
			v.countData(&s, home, e)
			s.clusters.add(home.Name, e)
			applying, err := index.For(e)
			if err != nil {
				s.faults = append(s.faults, err.Error())
			}
			if len(applying) > 0 {
				s.files.WithDeletes++
			}
			for _, d := range applying {
				if key := deleteKey(d); !used[key] {
					used[key] = true
					if d.File.ContentType() == iceberg.EntryContentPosDeletes {
						positions++
					}
				}
			}
		}
	}
	if s.files.DataFiles > 0 {
		s.files.Average = s.files.DataBytes / s.files.DataFiles
	}
	s.deletes.Dangling = int64(index.Len() - len(used))
	s.deletes.DanglingPositions = s.deletes.Position + s.deletes.Vectors - positions
	for _, p := range byKey {
		s.partitions = append(s.partitions, *p)
	}
	slices.SortFunc(s.partitions, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(b.SmallFiles, a.SmallFiles), cmp.Compare(b.DataFiles, a.DataFiles), cmp.Compare(a.Name, b.Name), cmp.Compare(a.SpecID, b.SpecID))
	})
	return s, nil
}

// deleteKey tells delete entries apart: vectors of one Puffin file differ in their offset.
func deleteKey(e lake.Entry) string {
	key := e.File.FilePath()
	if offset := e.File.ContentOffset(); offset != nil {
		key = fmt.Sprintf("%s#%d", key, *offset)
	}
	return key
}

// home is the partition of an entry.
func (v *View) home(byKey map[string]*Partition, e lake.Entry) *Partition {
	name := v.partition(e.SpecID, e.File.Partition())
	key := fmt.Sprintf("%d/%s", e.SpecID, name)
	p := byKey[key]
	if p == nil {
		p = &Partition{SpecID: e.SpecID, Name: name}
		byKey[key] = p
	}
	if snap := v.Table.Metadata.SnapshotByID(e.SnapshotID); snap != nil && snap.TimestampMs >= p.LastWriteMS {
		p.LastWriteMS, p.LastSnapshotID = snap.TimestampMs, snap.SnapshotID
	}
	return p
}

func (v *View) countData(s *survey, p *Partition, e lake.Entry) {
	size := e.File.FileSizeBytes()
	s.files.DataFiles++
	s.files.DataBytes += size
	s.files.Records += e.File.Count()
	s.files.Formats[strings.ToLower(string(e.File.FileFormat()))]++
	p.DataFiles++
	p.DataBytes += size
	p.Records += e.File.Count()
	if float64(size) < smallShare*float64(v.Target()) {
		s.files.SmallFiles++
		p.SmallFiles++
		p.smallBytes += size
	}
	if order := v.Table.Metadata.DefaultSortOrder(); order != 0 && (e.File.SortOrderID() == nil || *e.File.SortOrderID() != order) {
		s.unclusteredBytes += size
	}
}

func (v *View) countDelete(s *survey, p *Partition, e lake.Entry) {
	s.deletes.Bytes += e.File.FileSizeBytes()
	switch {
	case lake.IsDeletionVector(e.File):
		s.deletes.Vectors++
		s.deletes.Positions += e.File.Count()
		p.DeletionVectors++
		p.PositionRecords += e.File.Count()
	case e.File.ContentType() == iceberg.EntryContentEqDeletes:
		s.deletes.Equality++
		p.EqualityDeleteFiles++
		p.EqualityRecords += e.File.Count()
	default:
		s.deletes.Position++
		s.deletes.Positions += e.File.Count()
		p.PositionDeleteFiles++
		p.PositionRecords += e.File.Count()
	}
}
