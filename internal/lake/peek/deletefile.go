package peek

import (
	"bytes"

	"github.com/apache/iceberg-go"

	"firn/internal/store"
)

const (
	// filePathFieldID is the reserved field ID of file_path in position delete files (specification, "Reserved Field IDs").
	filePathFieldID = 2147483546
	// defaultBoundLength is the length to which writers cut bounds by default. A bound of exactly this length may be a cut one.
	defaultBoundLength = 16
)

// IsDeletionVector reports whether the delete file is a deletion vector: position deletes in a Puffin blob.
func IsDeletionVector(f iceberg.DataFile) bool {
	return f.ContentType() == iceberg.EntryContentPosDeletes && f.FileFormat() == iceberg.PuffinFile
}

// FileScoped tells the one data file to which a position delete file or deletion vector applies: its referenced_data_file, or the path that is
// both bounds of its file_path column. ok is false for equality deletes and for position deletes that may span data files. On any doubt (bounds
// that may have been cut) it is false, since a delete file that is taken for partition-scoped still applies rightly.
func FileScoped(f iceberg.DataFile) (path string, ok bool) {
	if f.ContentType() != iceberg.EntryContentPosDeletes {
		return "", false
	}
	if ref := f.ReferencedDataFile(); ref != nil && *ref != "" {
		return *ref, true
	}
	lower, upper := f.LowerBoundValues()[filePathFieldID], f.UpperBoundValues()[filePathFieldID]
	if len(lower) <= defaultBoundLength || !bytes.Equal(lower, upper) {
		return "", false
	}
	return string(lower), true
}

// SameFile is the form in which locations are compared: s3a and s3n are s3, a file's path has one spelling. A text that is no location is
// compared as it stands.
func SameFile(location string) string {
	canonical, err := store.Canonical(location)
	if err != nil {
		return location
	}
	return canonical
}
