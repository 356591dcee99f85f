package reach

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/manifest"
	"firn/internal/lake/peek"
	"firn/internal/store"
)

// liveFiles streams the content files that are live in a manifest. Column statistics are not decoded.
//
// A manifest that lost its end at a block's border would read as a shorter one, and the files of the lost part as unreachable. So the length
// and the number of live entries that the manifest list states are checked; the list itself is one block.
func liveFiles(ctx context.Context, st store.Reader, m iceberg.ManifestFile, memo *manifest.Memo) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		stopped := false
		err := eachLiveFile(ctx, st, m, memo, func(f File) bool {
			stopped = !yield(f, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(File{}, fmt.Errorf("read the manifest %s: %w", m.FilePath(), err))
		}
	}
}

// eachLiveFile calls visit for each live file until that answers false.
func eachLiveFile(ctx context.Context, st store.Reader, m iceberg.ManifestFile, memo *manifest.Memo, visit func(File) bool) error {
	if peek.Keeps(st, m.Length()) {
		return eachKeptFile(ctx, st, m, memo, visit)
	}
	return peek.Named(peek.WithManifest(ctx, st, m, memo, func(data []byte) error {
		if err := complete(m, data); err != nil {
			return err
		}
		return readLive(m, data, memo, visit)
	}))
}

// eachKeptFile is eachLiveFile for a manifest whose decoded form the store keeps.
func eachKeptFile(ctx context.Context, st store.Reader, m iceberg.ManifestFile, memo *manifest.Memo, visit func(File) bool) error {
	data, err := st.Get(ctx, m.FilePath())
	if err != nil {
		return peek.Named(err)
	}
	if err := complete(m, data); err != nil {
		return err
	}
	files, err := peek.Kept(st, m.FilePath(), "files", data, func() (all []File, err error) {
		err = readLive(m, data, memo, func(f File) bool {
			all = append(all, f)
			return true
		})
		return all, err
	})
	for _, f := range files {
		if err == nil && !visit(f) {
			return nil
		}
	}
	return err
}

// complete refuses a manifest that is shorter than its list says.
func complete(m iceberg.ManifestFile, data []byte) error {
	if int64(len(data)) < m.Length() {
		return fmt.Errorf("it has %d bytes where its list says %d: %w", len(data), m.Length(), peek.ErrTableFault)
	}
	return nil
}

func readLive(m iceberg.ManifestFile, data []byte, memo *manifest.Memo, visit func(File) bool) error {
	live := int64(0)
	var fault error
	all, err := manifest.LiveFiles(data, m, memo, func(n manifest.Named) bool {
		live++
		var f File
		f, fault = contentFile(n)
		return fault == nil && visit(f)
	})
	if err := cmp.Or(fault, err); err != nil {
		return err
	}
	if stated := int64(m.AddedDataFiles()) + int64(m.ExistingDataFiles()); all && live < stated {
		return fmt.Errorf("it has %d live entries where its list says %d", live, stated)
	}
	return nil
}

// contentFile is the set member of a manifest entry.
func contentFile(n manifest.Named) (File, error) {
	kind := Data
	switch n.Content {
	case iceberg.EntryContentData:
	case iceberg.EntryContentPosDeletes:
		kind = PositionDeletes
	case iceberg.EntryContentEqDeletes:
		kind = EqualityDeletes
	default:
		return File{}, fmt.Errorf("the file %q has the unknown content %d", n.Path, n.Content)
	}
	return NewFile(n.Path, kind, n.SizeBytes, 0)
}
