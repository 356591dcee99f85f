package committer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/store"
)

// Table properties about metadata files, with Iceberg's meanings.
const (
	propMetadataPath      = "write.metadata.path"
	propMetadataCodec     = "write.metadata.compression-codec"
	propDeleteAfterCommit = "write.metadata.delete-after-commit.enabled"
)

// Ends of metadata file names.
const (
	plainSuffix = ".metadata.json"
	gzipSuffix  = ".gz.metadata.json"
)

// leadingVersion finds the version in a metadata file's name: NNNNN-<uuid>… as all catalogs write it, or vN… as Hadoop tables have it.
var leadingVersion = regexp.MustCompile(`^(?:(\d+)-|v(\d+)\.)`) // an immutable pattern

// nextLocation names the metadata file after current: a number one higher, a UUID that makes left-overs of failed attempts harmless, and the
// table's codec. A name without number (a table that another tool registered) is followed by the length of the metadata log plus one.
func nextLocation(next table.Metadata, current string, logged int, id uuid.UUID) (string, error) {
	props := next.Properties()
	suffix := plainSuffix
	switch codec := strings.ToLower(props[propMetadataCodec]); codec {
	case "", "none":
	case "gzip":
		suffix = gzipSuffix
	default:
		return "", fmt.Errorf("read table property %s: unknown codec %q; known are none and gzip", propMetadataCodec, codec)
	}
	dir := props[propMetadataPath]
	if dir == "" {
		dir = store.Join(next.Location(), "metadata")
	}
	return store.Join(dir, fmt.Sprintf("%05d-%s%s", versionOf(current, logged)+1, id, suffix)), nil
}

// versionOf reads the version out of a metadata file's name, else takes how many files came before.
func versionOf(location string, logged int) int {
	name := location[strings.LastIndexByte(location, '/')+1:]
	if m := leadingVersion.FindStringSubmatch(name); m != nil {
		if n, err := strconv.Atoi(m[1] + m[2]); err == nil && n < 1<<31-1 {
			return n
		}
	}
	return logged
}
