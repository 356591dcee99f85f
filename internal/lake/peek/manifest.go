package peek

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/apache/iceberg-go"

	"firn/internal/store"
)

// UnknownSequence is the file sequence number of an existing entry whose writer did not record one.
const UnknownSequence = -1

// Entry is one manifest entry with everything applied that the specification lets it inherit: snapshot ID, sequence numbers, first row ID.
type Entry struct {
	// File is the data or delete file.
	File iceberg.DataFile
	// Status is existing, added or deleted.
	Status iceberg.ManifestEntryStatus
	// SpecID is the partition spec of the file: its manifest's.
	SpecID int
	// DataSequence is the data sequence number; 0 in tables and manifests of format version 1.
	DataSequence int64
	// FileSequence is the file sequence number, or UnknownSequence.
	FileSequence int64
	// SnapshotID is the snapshot that added the file or, with status deleted, removed it.
	SnapshotID int64
	// FirstRowID is the ID of the file's first row, nil without row lineage.
	FirstRowID *int64
	// Manifest is the location of the manifest that holds the entry.
	Manifest string
	// Raw is the entry as iceberg-go gave it, for its manifest writer. Entries read without statistics cannot be written again.
	Raw iceberg.ManifestEntry
}

// String names the entry in messages.
func (e Entry) String() string {
	return fmt.Sprintf("%s (manifest %s, snapshot %d)", e.File.FilePath(), e.Manifest, e.SnapshotID)
}

// EntryOptions steer how entries are read.
type EntryOptions struct {
	// IncludeDeleted yields entries with status deleted too.
	IncludeDeleted bool
	// WithoutStats leaves the column statistics out, which saves most of the time and memory. Such files cannot be encoded or written again.
	WithoutStats bool
	// PruningStats, with WithoutStats, keeps counts and bounds but not column sizes.
	PruningStats bool
}

// ManifestList reads the manifest list at location.
func ManifestList(ctx context.Context, st store.Reader, location string) ([]iceberg.ManifestFile, error) {
	data, err := st.Get(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("read manifest list: %w", Named(err))
	}
	manifests, err := Kept(st, location, "list", data, func() (manifests []iceberg.ManifestFile, err error) {
		err = guard(func() (err error) {
			manifests, err = iceberg.ReadManifestList(bytes.NewReader(data))
			return err
		})
		return manifests, err
	})
	if err != nil {
		return nil, fmt.Errorf("read manifest list %s: %w", location, err)
	}
	return slices.Clone(manifests), nil
}

// Entries streams the entries of a manifest in their order. The iteration ends at the first error.
func Entries(ctx context.Context, st store.Reader, m iceberg.ManifestFile, opts EntryOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if len(m.KeyMetadata()) > 0 {
			yield(Entry{}, fmt.Errorf("read manifest %s: it is encrypted: %w", m.FilePath(), ErrUnsupported))
			return
		}
		if Keeps(st, m.Length()) {
			keptEntries(ctx, st, m, opts, yield)
			return
		}
		in, err := newReader(ctx, st, m.FilePath(), m.Length())
		if err != nil {
			yield(Entry{}, fmt.Errorf("read manifest: %w", Named(err)))
			return
		}
		defer func() { _ = in.Close() }()
		if err := decode(in, m, opts, func(e Entry) bool { return yield(e, nil) }); err != nil {
			yield(Entry{}, fmt.Errorf("read manifest %s: %w", m.FilePath(), Named(err)))
		}
	}
}

// keptEntries yields the entries of a small manifest, which are decoded once.
func keptEntries(ctx context.Context, st store.Reader, m iceberg.ManifestFile, opts EntryOptions, yield func(Entry, error) bool) {
	data, err := st.Get(ctx, m.FilePath())
	if err != nil {
		yield(Entry{}, fmt.Errorf("read manifest: %w", Named(err)))
		return
	}
	// All of them with all their statistics: whoever asks next may need more.
	entries, err := Kept(st, m.FilePath(), "entries "+inherits(m), data, func() (all []Entry, err error) {
		err = decode(bytes.NewReader(data), m, EntryOptions{IncludeDeleted: true}, func(e Entry) bool {
			all = append(all, e)
			return true
		})
		return all, err
	})
	if err != nil {
		yield(Entry{}, fmt.Errorf("read manifest %s: %w", m.FilePath(), Named(err)))
		return
	}
	for _, e := range entries {
		if e.Status == iceberg.EntryStatusDELETED && !opts.IncludeDeleted {
			continue
		}
		if !yield(e, nil) {
			return
		}
	}
}

// decode calls visit for each entry until that answers false.
func decode(in io.Reader, m iceberg.ManifestFile, opts EntryOptions, visit func(Entry) bool) error {
	var r *iceberg.ManifestReader
	if err := guard(func() (err error) {
		r, err = open(in, m, opts)
		return err
	}); err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	for {
		var raw iceberg.ManifestEntry
		err := guard(func() (err error) {
			raw, err = r.ReadEntry()
			return err
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if raw.Status() == iceberg.EntryStatusDELETED && !opts.IncludeDeleted {
			continue
		}
		e, err := inherit(raw, m)
		if err != nil {
			return err
		}
		if !visit(e) {
			return nil
		}
	}
}

// guard turns a panic into an error: iceberg-go and its Avro library panic on some broken files.
func guard(decode func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the file is corrupt: %v", r)
		}
	}()
	return decode()
}

func open(in io.Reader, m iceberg.ManifestFile, opts EntryOptions) (*iceberg.ManifestReader, error) {
	if opts.WithoutStats {
		return iceberg.NewManifestReaderWithProjection(m, in, iceberg.ManifestEntryProjection{IncludePruningStats: opts.PruningStats})
	}
	return iceberg.NewManifestReader(m, in)
}

// inherit completes what iceberg-go already inherited: it gives an added entry the manifest's numbers, every entry of a manifest with sequence
// number 0 the number 0, and a data file without first row ID the next one of its manifest's range. An existing entry without data sequence
// number in any other manifest has lost it.
func inherit(raw iceberg.ManifestEntry, m iceberg.ManifestFile) (Entry, error) {
	e := Entry{
		File:         raw.DataFile(),
		Status:       raw.Status(),
		SpecID:       int(m.PartitionSpecID()),
		DataSequence: raw.SequenceNum(),
		FileSequence: UnknownSequence,
		SnapshotID:   raw.SnapshotID(),
		FirstRowID:   raw.DataFile().FirstRowID(),
		Manifest:     m.FilePath(),
		Raw:          raw,
	}
	if e.DataSequence < 0 {
		if m.Version() != 1 {
			return Entry{}, fmt.Errorf("entry of %s has no data sequence number to inherit: %w", e.File.FilePath(), ErrTableFault)
		}
		e.DataSequence = 0
	}
	if seq := raw.FileSequenceNum(); seq != nil {
		e.FileSequence = *seq
	} else if m.Version() == 1 {
		e.FileSequence = 0
	}
	return e, nil
}
