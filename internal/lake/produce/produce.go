// Package produce builds one attempt of a commit: the manifests, the manifest list and the snapshot that turn a branch's head into the head
// without the removed files and with the added ones. It reads manifests and writes new ones under new names; it never touches the catalog and
// never deletes. A snapshot that it built exists only when the commit room got it into the catalog, and becomes useless as soon as the head moves:
// sequence numbers and row IDs are taken from the state that it was built on.
//
// Rules (Iceberg specification, "Manifests", "Snapshots", "Row Lineage"; Java: MergingSnapshotProducer):
//   - manifests without a removed file are listed again as they are;
//   - the others are written again: kept entries EXISTING with their snapshot ID, sequence numbers and first row ID, removed ones DELETED with the
//     new snapshot's ID, entries that were DELETED before left out;
//   - added data files are ADDED with an explicit data sequence number, so that equality deletes committed after the plan still apply to them;
//   - added delete files inherit the new snapshot's sequence number, which is higher than that of every data file;
//   - one writer for each spec and content, rolled at commit.manifest.target-size-bytes; no manifest is ever empty.
package produce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/lake"
	"firn/internal/lake/manifest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// ErrMismatch says that a manifest did not hold what the survey of the same head had found in it.
var ErrMismatch = errors.New("manifest does not match the survey")

// Producer builds snapshots. Without Reuse it is safe for concurrent use.
type Producer struct {
	// Store reads the head's manifests and gets the new ones.
	Store store.ReadWriter
	// NewUUID makes the unique part of file names: every attempt writes under new names.
	NewUUID func() (uuid.UUID, error)
	// Reuse, when set, lets attempts of one commit list the manifests of earlier ones again. The producer then serves that commit only.
	Reuse *Reuse
}

// File names one live file of a snapshot: by path, a deletion vector by path and blob offset, since one Puffin file holds vectors of many data
// files.
type File struct {
	Path string
	// Offset is the deletion vector's blob offset, -1 for every other file.
	Offset int64
}

// FileOf names a data or delete file.
func FileOf(f iceberg.DataFile) File {
	key := File{Path: f.FilePath(), Offset: -1}
	if lake.IsDeletionVector(f) {
		if offset := f.ContentOffset(); offset != nil {
			key.Offset = *offset
		}
	}
	return key
}

// Addition is a data or delete file to add.
type Addition struct {
	File   iceberg.DataFile
	SpecID int
	// DataSequence is the explicit data sequence number; nil lets the file inherit the new snapshot's. Format version 1 has none.
	DataSequence *int64
}

// Attempt says what a commit does to a head.
type Attempt struct {
	// Table is the head as it was loaded for this attempt, Parent the branch's snapshot and Manifests its manifests.
	Table     *lake.Table
	Parent    *table.Snapshot
	Manifests []iceberg.ManifestFile
	// SnapshotID is the new snapshot's, not present in the table.
	SnapshotID int64
	// Remove are the live entries to remove, each with the manifest that holds it.
	Remove []lake.Entry
	// Add are the data files to add, AddDeletes the delete files.
	Add, AddDeletes []Addition
	// Rewrite are manifests to write again although nothing of them is removed, by location.
	Rewrite map[string]bool
	// Cluster orders and cuts what is written again; nil keeps the order. Nothing is added or removed with it.
	Cluster *Clustering
	// Summary are our own keys of the snapshot's summary.
	Summary map[string]string
	// Now is the time of the attempt.
	Now time.Time
	// Run is put into the names of all files when it is set: by it a search for orphans, wherever it runs, knows files whose commit may still land.
	Run maintenance.RunID
}

// Product is what an attempt made.
type Product struct {
	Snapshot *table.Snapshot
	// Written are the manifests and the list that were written for the attempt. It is set on errors too.
	Written []string
	// CreatedManifests and ReplacedManifests count manifests.
	CreatedManifests, ReplacedManifests int
	// RemovedDeleteFiles counts the removed delete files, vectors included.
	RemovedDeleteFiles int64
}

// Snapshot writes the attempt's manifests and manifest list and returns its snapshot. The product's Written is set even when an error is returned.
func (p *Producer) Snapshot(ctx context.Context, a Attempt) (*Product, error) {
	b := &build{p: p, a: a, meta: a.Table.Metadata, count: counters{partitions: map[string]bool{}}}
	if err := b.init(); err != nil {
		return b.product(nil), fmt.Errorf("build snapshot %d: %w", a.SnapshotID, err)
	}
	snap, err := b.run(ctx)
	if err != nil {
		return b.product(nil), fmt.Errorf("build snapshot %d: %w", a.SnapshotID, err)
	}
	return b.product(snap), nil
}

// build is one attempt in progress.
type build struct {
	p    *Producer
	a    Attempt
	meta table.Metadata

	base    string
	attempt string
	target  int64
	removed map[string]map[File]bool // manifest → files still to be met in it
	written []string
	number  int
	count   counters
	memo    manifest.Memo
}

const (
	manifestTargetKey     = "commit.manifest.target-size-bytes"
	manifestTargetDefault = 8 << 20
	manifestMergeKey      = "commit.manifest-merge.enabled"
	manifestMinMergeKey   = "commit.manifest.min-count-to-merge"
	metadataPathKey       = "write.metadata.path"
)

// MetadataFolder is where a table's metadata goes (write.metadata.path), without closing slash.
func MetadataFolder(meta table.Metadata) string {
	return strings.TrimRight(meta.Properties().Get(metadataPathKey, store.Join(meta.Location(), "metadata")), "/")
}

func (b *build) init() error {
	if b.a.Parent == nil {
		return errors.New("the branch has no snapshot")
	}
	if v := b.meta.Version(); v < 1 || v > 3 {
		return fmt.Errorf("format version %d: %w", v, lake.ErrUnsupported)
	}
	for range b.meta.EncryptionKeys() {
		return fmt.Errorf("the table is encrypted: %w", lake.ErrUnsupported)
	}
	props := b.meta.Properties()
	b.base = MetadataFolder(b.meta)
	b.target = max(props.GetInt64(manifestTargetKey, manifestTargetDefault), 1)
	if c := b.a.Cluster; c != nil {
		if len(b.a.Add)+len(b.a.AddDeletes)+len(b.a.Remove) > 0 {
			return errors.New("entries are clustered in a commit that adds or removes files")
		}
		if c.TargetBytes > 0 {
			b.target = c.TargetBytes
		}
	}
	b.removed = map[string]map[File]bool{}
	for _, e := range b.a.Remove {
		files := b.removed[e.Manifest]
		if files == nil {
			files = map[File]bool{}
			b.removed[e.Manifest] = files
		}
		if key := FileOf(e.File); files[key] {
			return fmt.Errorf("remove %s twice", key.Path)
		} else {
			files[key] = true
		}
	}
	id, err := b.p.NewUUID()
	b.attempt = id.String()
	if b.a.Run != "" {
		b.attempt = string(b.a.Run) + "-" + b.attempt
	}
	return err
}

func (b *build) run(ctx context.Context) (*table.Snapshot, error) {
	touched, kept := b.split()
	var list []iceberg.ManifestFile
	for _, content := range []iceberg.ManifestContent{iceberg.ManifestContentData, iceberg.ManifestContentDeletes} {
		for _, spec := range b.specIDs(touched, content) {
			made, err := b.manifests(ctx, spec, content, touched)
			if err != nil {
				return nil, err
			}
			list = append(list, made...)
		}
		for _, m := range kept {
			if m.ManifestContent() == content {
				list = append(list, m)
			}
		}
	}
	if len(b.a.AddDeletes) > 0 && b.meta.Version() == 1 {
		return nil, fmt.Errorf("add delete files to a table of format version 1: %w", lake.ErrUnsupported)
	}
	for manifest, files := range b.removed {
		if len(files) > 0 {
			return nil, fmt.Errorf("%d files to remove are not live in %s: %w", len(files), manifest, ErrMismatch)
		}
	}
	b.count.created, b.count.kept, b.count.replaced = len(list)-len(kept), len(kept), len(touched)
	return b.list(ctx, list)
}

// split tells the manifests that must be written again from those that are listed as they are. Manifests of an early format version 1 writer know
// no counts; later versions require them.
func (b *build) split() (touched, kept []iceberg.ManifestFile) {
	for _, m := range b.a.Manifests {
		unknown := b.meta.Version() > 1 && (m.AddedDataFiles() < 0 || m.ExistingDataFiles() < 0 || m.AddedRows() < 0 || m.ExistingRows() < 0)
		if len(b.removed[m.FilePath()]) > 0 || b.a.Rewrite[m.FilePath()] || unknown {
			touched = append(touched, m)
		} else {
			kept = append(kept, m)
		}
	}
	return touched, kept
}

func (b *build) product(snap *table.Snapshot) *Product {
	return &Product{
		Snapshot: snap, Written: b.written, CreatedManifests: b.count.created, ReplacedManifests: b.count.replaced,
		RemovedDeleteFiles: b.count.removed.deleteFiles,
	}
}
