package reach

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go/table"

	"firn/internal/store"
)

// versionHint is the file in which Hadoop catalogs keep the current version. It is never an orphan, whatever catalog holds the table.
const versionHint = "version-hint.text"

// Properties that name places where a table's files lie, beside its location.
const (
	propertyMetadataPath      = "write.metadata.path"
	propertyDataPath          = "write.data.path"
	propertyObjectStorePath   = "write.object-storage.path"
	propertyFolderStoragePath = "write.folder-storage.path"
)

// Roots lists what the metadata file itself reaches: itself, the files of its log, the version hint, the statistics and partition statistics
// files, and the manifest list of every snapshot. metadataLocation is where the metadata file lies.
func Roots(meta table.Metadata, metadataLocation string) ([]File, error) {
	var files []File
	var faults []string
	add := func(location string, kind Kind, sizeBytes int64) {
		f, err := NewFile(location, kind, sizeBytes, 0)
		if err != nil {
			faults = append(faults, err.Error())
			return
		}
		files = append(files, f)
	}
	add(metadataLocation, MetadataFile, -1)
	for e := range meta.PreviousFiles() {
		add(e.MetadataFile, MetadataFile, -1)
	}
	for _, folder := range MetadataFolders(meta) {
		add(store.Join(folder, versionHint), MetadataFile, -1)
	}
	for s := range meta.Statistics() {
		add(s.StatisticsPath, Statistics, s.FileSizeInBytes)
	}
	for s := range meta.PartitionStatistics() {
		add(s.StatisticsPath, Statistics, s.FileSizeInBytes)
	}
	for _, s := range meta.Snapshots() {
		if s.ManifestList != "" {
			add(s.ManifestList, ManifestList, -1)
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("read the locations in %s: %s", metadataLocation, strings.Join(faults, "; "))
	}
	return files, nil
}

// MetadataFolders are the folders in which a table's metadata files, lists and manifests are written.
func MetadataFolders(meta table.Metadata) []string {
	folders := []string{store.Join(meta.Location(), "metadata")}
	if p := meta.Properties()[propertyMetadataPath]; p != "" {
		folders = append(folders, p)
	}
	return folders
}

// Places lists the folders that belong to the table: its location, and those that its write.*.path properties name. Each is canonical and ends
// with a slash, so that a sibling whose name merely extends a folder's name is not inside.
func Places(location string, properties map[string]string) ([]string, error) {
	texts := []string{location}
	for _, key := range []string{propertyDataPath, propertyObjectStorePath, propertyFolderStoragePath, propertyMetadataPath} {
		if p := properties[key]; p != "" {
			texts = append(texts, p)
		}
	}
	places := make([]string, 0, len(texts))
	for _, t := range texts {
		p, err := Folder(t)
		if err != nil {
			return nil, fmt.Errorf("read the table's places: %w", err)
		}
		if !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	return places, nil
}

// Folder is a location in canonical form with exactly one slash at its end.
func Folder(location string) (string, error) {
	canonical, err := store.Canonical(location)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(canonical, "/") + "/", nil
}

// Inside reports whether the file lies in one of the folders, which Folder or Places made.
func Inside(f File, folders []string) bool {
	return slices.ContainsFunc(folders, func(p string) bool {
		rest, ok := strings.CutPrefix(p, f.place.head)
		return ok && strings.HasPrefix(f.place.path, rest) || strings.HasPrefix(f.place.head, p)
	})
}

// tableBucketSuffix ends the names of the buckets in which S3 Tables keeps its tables: that service cleans up by itself, and does not let others
// delete.
const tableBucketSuffix = "--table-s3"

// Swept is the canonical folder that a search for orphans at a location looks through: one of the table's own folders, or one inside of these. The
// error says why a location is not searched.
func Swept(location string, meta table.Metadata) (string, error) {
	folder, err := Folder(location)
	if err != nil {
		return "", err
	}
	if authority, _, _ := strings.Cut(strings.TrimPrefix(folder, "s3://"), "/"); strings.HasSuffix(authority, tableBucketSuffix) {
		return "", fmt.Errorf("%s is a bucket of S3 Tables, which cleans up by itself", authority)
	}
	places, err := Places(meta.Location(), meta.Properties())
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(places, func(p string) bool { return strings.HasPrefix(folder, p) }) {
		return "", fmt.Errorf("%s lies outside of the table's folders %s", location, strings.Join(places, ", "))
	}
	return folder, nil
}
