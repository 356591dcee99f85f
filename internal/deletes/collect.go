package deletes

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"firn/internal/store"
)

// Collect reads whole position delete files and deletion vectors of one spec and partition, and returns the deleted positions of each live data
// file that they name. live has the data files of that partition: canonical location (store.Canonical) → data sequence number.
//
// Positions of data files that are not in live are dropped; so are those of a delete that is older than its data file, since it does not apply.
// A vector hides the position delete files of its data file, as it does for every reader. Two vectors of one data file are ErrUnusable.
func Collect(ctx context.Context, st store.Reader, files []File, live map[string]int64) (map[string]Mask, error) {
	masks := map[string]Mask{}
	for _, f := range files {
		if err := usable(f); err != nil {
			return nil, err
		}
		if !isVector(f) {
			continue
		}
		path, err := vectorTarget(f)
		if err != nil {
			return nil, err
		}
		sequence, ok := live[path]
		if !ok || f.Sequence < sequence {
			continue
		}
		if masks[path] != nil {
			return nil, fmt.Errorf("data file %s has two deletion vectors, one of them in %s: %w", path, f.FilePath(), ErrUnusable)
		}
		if masks[path], err = readVector(ctx, st, f); err != nil {
			return nil, err
		}
	}
	hidden := make(map[string]bool, len(masks))
	for path := range masks {
		hidden[path] = true
	}
	target, err := positionTarget()
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if isVector(f) {
			continue
		}
		r := positionReader{mask: func(path string) Mask {
			sequence, ok := live[path]
			if !ok || f.Sequence < sequence || hidden[path] {
				return nil
			}
			if masks[path] == nil {
				masks[path] = roaring64.New()
			}
			return masks[path]
		}}
		if err := r.read(ctx, st, target, f); err != nil {
			return nil, err
		}
	}
	for path, m := range masks {
		if m.IsEmpty() {
			delete(masks, path)
		}
	}
	return masks, nil
}

// vectorTarget is the canonical location of the data file that a vector is for.
func vectorTarget(f File) (string, error) {
	ref := f.ReferencedDataFile()
	if ref == nil || *ref == "" {
		return "", fmt.Errorf("deletion vector in %s names no data file: %w", f.FilePath(), ErrUnusable)
	}
	path, err := store.Canonical(*ref)
	if err != nil {
		return "", fmt.Errorf("deletion vector in %s: %w: %w", f.FilePath(), err, ErrUnusable)
	}
	return path, nil
}

// ReadVector reads one deletion vector, which its manifest entry describes.
func ReadVector(ctx context.Context, st store.Reader, f File) (Mask, error) {
	return readVector(ctx, st, f)
}
