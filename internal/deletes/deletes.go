// Package deletes turns position deletes, deletion vectors and equality deletes into row masks: for each data file the positions of the rows
// that are deleted. Which delete applies to which file is decided by the caller; this package reads and applies. Rules: Iceberg specification,
// "Delete Formats" and "Scan Planning".
//
// A delete file that cannot be read exactly is never skipped: the masks as a whole fail. What a repetition would not cure is ErrUnusable, or an
// error of the packages source and projection.
package deletes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/iceberg-go"

	"firn/internal/store"
)

// ErrUnusable says that a delete file, or the set of deletes of a data file, cannot be applied. The text around it says why.
var ErrUnusable = errors.New("unusable delete")

// File is a delete file with its data sequence number.
type File struct {
	iceberg.DataFile
	Sequence int64
}

// Target is a data file to mask.
type Target struct {
	iceberg.DataFile
	// Sequence is the data sequence number; Deletes are indexes of the delete files that apply.
	Sequence int64
	Deletes  []int
	// Constants are the values of identity partition fields by source column (see projection.Options).
	Constants map[int]any
}

// Set is a group's deletes and data files.
type Set struct {
	Files   []File
	Targets []Target
	// Schema gives equality deletes their columns; nil when there are none.
	Schema *KeySchema
	// Seed keys the hash of equality keys, so that nobody can prepare two keys that collide.
	Seed uint64
	// KeysPerPass bounds the equality keys in memory: 0 means the default of a million (about 100 MB); more keys take more passes over the
	// key columns.
	KeysPerPass int
}

// Mask is the set of deleted positions of one data file; nil when none is deleted.
type Mask = *roaring64.Bitmap

// Masks reads all deletes of the set and returns one mask a target.
func Masks(ctx context.Context, st store.Reader, set Set) ([]Mask, error) {
	for _, f := range set.Files {
		if err := usable(f); err != nil {
			return nil, err
		}
	}
	masks, err := positions(ctx, st, set)
	if err != nil {
		return nil, err
	}
	if err := applyEquality(ctx, st, set, masks); err != nil {
		return nil, err
	}
	for i, m := range masks {
		if m != nil && m.IsEmpty() {
			masks[i] = nil
		}
	}
	return masks, nil
}

// usable refuses what cannot be read.
func usable(f File) error {
	switch {
	case len(f.KeyMetadata()) > 0:
		return fmt.Errorf("delete file %s is encrypted: %w", f.FilePath(), ErrUnusable)
	case f.FileFormat() == iceberg.PuffinFile && f.ContentType() == iceberg.EntryContentPosDeletes:
		return nil
	case !strings.EqualFold(string(f.FileFormat()), string(iceberg.ParquetFile)):
		return fmt.Errorf("delete file %s has format %s: %w", f.FilePath(), f.FileFormat(), ErrUnusable)
	case f.ContentType() != iceberg.EntryContentPosDeletes && f.ContentType() != iceberg.EntryContentEqDeletes:
		return fmt.Errorf("delete file %s has content %s: %w", f.FilePath(), f.ContentType(), ErrUnusable)
	}
	return nil
}

func isVector(f File) bool { return f.FileFormat() == iceberg.PuffinFile }

// wholeBelowBytes is the length up to which a file is fetched with one request.
const wholeBelowBytes = 8 << 20
