// Package inventory reads lists of objects that somebody else made, so that a bucket need not be listed again: a list of files as Spark's
// remove_orphan_files takes it (columns file_path and last_modified, as CSV with a header line, JSON Lines or Parquet, one file or a folder that Spark wrote),
// and the manifest.json of an S3 Inventory whose files are CSV or Parquet. It only reads, and guesses nothing: a column that is missing, a line that does
// not read, a file that is not what its manifest says end in an error that names the place.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"

	"firn/internal/store"
)

// ErrList marks a list that cannot be used: the fault of who made it or named it, not of the store.
var ErrList = errors.New("list of files cannot be used")

// listError is a fault of a list; it is an ErrList and prints without that word.
type listError struct{ text string }

func (e *listError) Error() string { return e.text }

func (e *listError) Is(target error) bool { return target == ErrList }

func faultf(format string, args ...any) error { return &listError{fmt.Sprintf(format, args...)} }

// Object is one line of a list.
type Object struct {
	// Location is spelled as the list does.
	Location string
	// SizeBytes is -1 and ModifiedAtMS 0 where the list does not say.
	SizeBytes    int64
	ModifiedAtMS int64
}

// kind is how a part is written.
type kind string

const (
	formatCSV     kind = "CSV"
	formatJSON    kind = "JSON Lines"
	formatParquet kind = "Parquet"
)

// Part is one file of a list.
type Part struct {
	Location string
	format   kind
	packed   bool
	// columns are those of a CSV file without a header; nil for all others.
	columns []string
	// bucket is the inventory's, sizeBytes and sum what its manifest says of the file.
	bucket    string
	sizeBytes int64
	sum       string
}

// manifestName is how S3 Inventory calls the file that names the others.
const manifestName = "manifest.json"

// Parts are the files of the list at a location, in order. A folder is a list only where src is a store.Lister too. Errors: ErrList for what is no list, and
// those of store.
func Parts(ctx context.Context, src store.Reader, location string) ([]Part, error) {
	if path.Base(location) == manifestName {
		return inventoryParts(ctx, src, location)
	}
	f, packed, err := formatOf(location)
	if err == nil {
		return []Part{{Location: location, format: f, packed: packed, sizeBytes: -1}}, nil
	}
	folder := strings.TrimRight(location, "/") + "/"
	lister, ok := src.(store.Lister)
	if !ok {
		return nil, err
	}
	var parts []Part
	for info, lerr := range lister.List(ctx, folder, store.ListOptions{}) {
		if lerr != nil {
			return nil, fmt.Errorf("look for the files of list %s: %w", location, lerr)
		}
		name := path.Base(info.Location)
		if strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") {
			continue // Spark's marks and checksums
		}
		f, packed, ferr := formatOf(name)
		if ferr != nil {
			return nil, fmt.Errorf("read list %s: %w", location, ferr)
		}
		parts = append(parts, Part{Location: info.Location, format: f, packed: packed, sizeBytes: info.SizeBytes})
	}
	if len(parts) == 0 {
		return nil, err
	}
	return parts, nil
}

// formatOf tells a file's format by its name.
func formatOf(location string) (kind, bool, error) {
	name, packed := strings.CutSuffix(path.Base(location), ".gz")
	switch {
	case strings.HasSuffix(name, ".csv"):
		return formatCSV, packed, nil
	case strings.HasSuffix(name, ".jsonl"), strings.HasSuffix(name, ".json"):
		return formatJSON, packed, nil
	case strings.HasSuffix(name, ".parquet") && !packed:
		return formatParquet, false, nil
	case strings.HasSuffix(name, ".orc"):
		return "", false, faultf("%s is ORC, which is not read: write the list as Parquet or CSV", location)
	}
	return "", false, faultf("%s is no list of files: want a .csv, .jsonl or .parquet file with the columns file_path and last_modified, a folder of them, "+
		"or the %s of an S3 Inventory", location, manifestName)
}

// Objects streams the objects of a part. Versions that are not the latest, and delete markers, are left out. It may be iterated once.
func (p Part) Objects(ctx context.Context, src store.Reader) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		var err error
		switch p.format {
		case formatParquet:
			err = p.parquet(ctx, src, yield)
		case formatJSON:
			err = p.text(ctx, src, jsonRows, yield)
		case formatCSV:
			err = p.text(ctx, src, csvRows, yield)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Object{}, fmt.Errorf("read list %s: %w", p.Location, err))
		}
	}
}

// errStopped ends a walk whose consumer has enough.
var errStopped = errors.New("stopped")
