package peek

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/manifest"
	"firn/internal/store"
)

// UnknownSequence is the file sequence number of an existing entry whose writer did not record one.
const UnknownSequence = manifest.UnknownSequence

// Entry is one manifest entry with everything applied that the specification lets it inherit.
type Entry = manifest.Entry

// EntryOptions steer how entries are read.
type EntryOptions struct {
	// IncludeDeleted yields entries with status deleted too.
	IncludeDeleted bool
	// WithoutStats leaves the column statistics out, which saves most of the memory. Such files cannot be encoded or written again.
	WithoutStats bool
	// PruningStats, with WithoutStats, keeps counts and bounds but not column sizes.
	PruningStats bool
	// Memo remembers schemas from one manifest to the next; nil remembers nothing.
	Memo *Memo
}

// Memo remembers the schemas of manifests from one to the next. The zero value is ready; it is safe for concurrent use.
type Memo = manifest.Memo

func (o EntryOptions) reading() manifest.Options {
	return manifest.Options{IncludeDeleted: o.IncludeDeleted, WithoutStats: o.WithoutStats, PruningStats: o.PruningStats}
}

// ManifestList reads the manifest list at location.
func ManifestList(ctx context.Context, st store.Reader, location string) ([]iceberg.ManifestFile, error) {
	return ManifestListWith(ctx, st, location, nil)
}

// ManifestListWith is ManifestList for whoever reads many lists: memo remembers their schema.
func ManifestListWith(ctx context.Context, st store.Reader, location string, memo *Memo) ([]iceberg.ManifestFile, error) {
	manifests, _, err := ManifestListBut(ctx, st, location, memo, nil)
	return manifests, err
}

// ManifestListBut is ManifestListWith without the manifests whose paths are known, and counts all of them. A list that the store keeps decoded is given
// whole.
func ManifestListBut(ctx context.Context, st store.Reader, location string, memo *Memo, known func(path []byte) bool) (
	manifests []iceberg.ManifestFile, count int, err error,
) {
	data, err := st.Get(ctx, location)
	if err != nil {
		return nil, 0, fmt.Errorf("read manifest list: %w", Named(err))
	}
	if Keeps(st, int64(len(data))) {
		manifests, err = Kept(st, location, "list", data, func() ([]iceberg.ManifestFile, error) { return manifest.ReadList(data, memo) })
		manifests, count = slices.Clone(manifests), len(manifests)
	} else {
		manifests, count, err = manifest.ReadListBut(data, memo, known)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read manifest list %s: %w", location, Named(err))
	}
	return manifests, count, nil
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
		stopped := false
		err := each(ctx, st, m, opts, func(e Entry) bool {
			stopped = !yield(e, nil)
			return !stopped
		})
		if err != nil && !stopped {
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
		err = manifest.Read(data, m, manifest.Options{IncludeDeleted: true}, opts.Memo, func(e Entry) bool {
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

// each calls visit for each entry of a manifest until that answers false: one of modest size is read with one request, a larger one streamed.
func each(ctx context.Context, st store.Reader, m iceberg.ManifestFile, opts EntryOptions, visit func(Entry) bool) error {
	if m.Length() > 0 && m.Length() <= WholeManifestBytes {
		return WithManifest(ctx, st, m, opts.Memo, func(data []byte) error {
			return manifest.Read(data, m, opts.reading(), opts.Memo, visit)
		})
	}
	in, err := FileIO(ctx, st).Open(m.FilePath())
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	return manifest.ReadStream(in, m, opts.reading(), opts.Memo, visit)
}

// WithManifest reads a whole manifest and hands it to use, which must keep none of its bytes: thousands of manifests are read into the same memory
// where the store can do that and there is a memo.
func WithManifest(ctx context.Context, st store.Reader, m iceberg.ManifestFile, memo *Memo, use func(data []byte) error) error {
	into, ok := st.(store.BufferReader)
	if length := m.Length(); ok && memo != nil && length > 0 && length <= WholeManifestBytes {
		// One byte more tells whether the file is longer than its list says.
		data, err := into.GetRangeInto(ctx, m.FilePath(), 0, length+1, memo.Buffers().Lend(int(length)+1))
		if err != nil {
			return err
		}
		defer memo.Buffers().Return(data)
		if int64(len(data)) <= length {
			return use(data)
		}
	}
	data, err := st.Get(ctx, m.FilePath())
	if err != nil {
		return err
	}
	return use(data)
}
