// Package lake reads Iceberg tables through iceberg-go: a table's metadata, its manifests and entries with every inherited number applied, and
// which delete files apply to which data file. It never writes and never deletes; package produce writes metadata, package committer commits.
//
// Errors wrap ErrTableFault when the metadata contradicts itself, ErrUnsupported when Firn does not read that kind of table, and the catalog's
// and the store's classes else.
package lake

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"firn/internal/lake/catalogs"
	"firn/internal/lake/peek"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// Classes of failure; see package peek.
var (
	ErrTableFault  = peek.ErrTableFault
	ErrUnsupported = peek.ErrUnsupported
)

// Entry is one manifest entry with all inherited numbers applied.
type Entry = peek.Entry

// EntryOptions steer how entries are read.
type EntryOptions = peek.EntryOptions

// Memo remembers the schemas of manifests from one to the next.
type Memo = peek.Memo

// UnknownSequence is the file sequence number of an existing entry whose writer did not record one.
const UnknownSequence = peek.UnknownSequence

// Table is one loaded state of a table. It is immutable and may be shared.
type Table struct {
	// ID names the table.
	ID maintenance.TableID
	// Pointer is what the catalog said; its Metadata is dropped once it is read.
	Pointer catalogs.Pointer
	// Metadata is the content of the metadata file.
	Metadata table.Metadata
}

// Load asks the catalog for the table's pointer and reads the state that it points to: always fresh.
func Load(ctx context.Context, cat catalogs.Catalog, st store.Reader, id maintenance.TableID) (*Table, error) {
	ptr, err := cat.Load(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("load table %s: %w", id, err)
	}
	return Read(ctx, st, id, ptr)
}

// Read reads the state that a pointer points to: from Pointer.Metadata when the catalog returned it, else from the metadata file.
func Read(ctx context.Context, st store.Reader, id maintenance.TableID, ptr catalogs.Pointer) (*Table, error) {
	meta, err := readMetadata(ctx, st, ptr)
	if err != nil {
		return nil, fmt.Errorf("read table %s from %s: %w", id, ptr.MetadataLocation, err)
	}
	ptr.Metadata = nil
	return &Table{ID: id, Pointer: ptr, Metadata: meta}, nil
}

func readMetadata(ctx context.Context, st store.Reader, ptr catalogs.Pointer) (table.Metadata, error) {
	if ptr.Metadata != nil {
		return peek.Kept(st, ptr.MetadataLocation, "answer", ptr.Metadata, func() (table.Metadata, error) { return ParseMetadata(ptr.Metadata) })
	}
	data, err := peek.ReadMetadataFile(ctx, st, ptr.MetadataLocation)
	if err != nil {
		return nil, err
	}
	return peek.Kept(st, ptr.MetadataLocation, "table", data, func() (table.Metadata, error) { return ParseMetadata(data) })
}

// ParseMetadata reads the unpacked content of a metadata file. A format version that is not 1, 2 or 3 is ErrUnsupported.
func ParseMetadata(data []byte) (table.Metadata, error) {
	meta, err := table.ParseMetadataBytes(data)
	if errors.Is(err, table.ErrInvalidMetadataFormatVersion) {
		return nil, fmt.Errorf("parse metadata: %w: %w", ErrUnsupported, err)
	}
	if err != nil {
		return nil, fmt.Errorf("parse metadata: %w: %w", ErrTableFault, err)
	}
	return meta, nil
}

// Head returns the snapshot that a branch points to ("main", or "" for it); nil when the branch is main and the table has no snapshot. A branch
// that does not exist, and a tag, is an error.
func (t *Table) Head(branch string) (*table.Snapshot, error) {
	if branch == "" || branch == table.MainBranch {
		return t.Metadata.CurrentSnapshot(), nil
	}
	for name, ref := range t.Metadata.Refs() {
		if name != branch {
			continue
		}
		if ref.SnapshotRefType != table.BranchRef {
			return nil, fmt.Errorf("%s of table %s is a tag, not a branch", branch, t.ID)
		}
		snap := t.Metadata.SnapshotByID(ref.SnapshotID)
		if snap == nil {
			return nil, fmt.Errorf("branch %s of table %s points to missing snapshot %d: %w", branch, t.ID, ref.SnapshotID, ErrTableFault)
		}
		return snap, nil
	}
	return nil, fmt.Errorf("table %s has no branch %s", t.ID, branch)
}

// Lacks reports whether the table has none of these snapshots and refs any more: an expiry that would remove them has nothing left to do. It is false when
// none is named.
func (t *Table) Lacks(snapshotIDs []int64, refs []string) bool {
	for _, id := range snapshotIDs {
		if t.Metadata.SnapshotByID(id) != nil {
			return false
		}
	}
	for name := range t.Metadata.Refs() {
		if slices.Contains(refs, name) {
			return false
		}
	}
	return len(snapshotIDs)+len(refs) > 0
}

// FileIO adapts a store to iceberg-go's file IO, for reading only. The context holds for every request made through the result. A file of up
// to 1 MiB costs one request; of a larger one each ReadAt outside of what is buffered is one ranged request.
func FileIO(ctx context.Context, st store.Reader) iceio.IO { return peek.FileIO(ctx, st) }

// Manifests reads a snapshot's manifest list; nil for a nil snapshot.
func Manifests(ctx context.Context, st store.Reader, snap *table.Snapshot) ([]iceberg.ManifestFile, error) {
	if snap == nil {
		return nil, nil
	}
	if snap.ManifestList == "" {
		return nil, fmt.Errorf("snapshot %d has no manifest list (an early form of format version 1): %w", snap.SnapshotID, ErrUnsupported)
	}
	manifests, err := peek.ManifestList(ctx, st, snap.ManifestList)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", snap.SnapshotID, err)
	}
	return manifests, nil
}

// Entries streams the entries of a manifest in their order, with all inherited numbers applied. The iteration ends at the first error.
func Entries(ctx context.Context, st store.Reader, m iceberg.ManifestFile, opts EntryOptions) iter.Seq2[Entry, error] {
	return peek.Entries(ctx, st, m, opts)
}

// PartitionKey spells a partition tuple as text: equal tuples of one spec have equal keys, different tuples different ones; "" when the spec is
// unpartitioned. See peek.PartitionKey for the form.
func PartitionKey(spec iceberg.PartitionSpec, partition map[int]any) (string, error) {
	return peek.PartitionKey(spec, partition)
}

// FileScoped tells the one data file to which a position delete file or deletion vector applies; see peek.FileScoped.
func FileScoped(f iceberg.DataFile) (path string, ok bool) { return peek.FileScoped(f) }

// Unsupported says why no engine of ours can rewrite a data file ("format ORC", "encrypted"); "" when one can.
func Unsupported(f iceberg.DataFile) string { return unsupported(f) }

// IsDeletionVector reports whether the delete file is a deletion vector.
func IsDeletionVector(f iceberg.DataFile) bool { return peek.IsDeletionVector(f) }

// SameFile is the form in which locations are compared (s3a, s3n and s3 are one); what is written keeps its raw text.
func SameFile(location string) string { return peek.SameFile(location) }
