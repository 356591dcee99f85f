package event

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"firn/internal/maintenance"
)

const (
	// maxName bounds a name or a level in bytes: Glue's and the JDBC catalog's limit.
	maxName = 255
	// maxKey bounds an object's key in bytes: S3's limit. It bounds every text that only goes to logs, too.
	maxKey = 1024
)

// check refuses what would spoil a log.
func (n Notice) check() error {
	for _, text := range []string{n.EventID, n.Origin, n.TableUUID, n.Status} {
		if len(text) > maxKey || strings.ContainsFunc(text, unprintable) {
			return fmt.Errorf("read a text of %d bytes beside the names: %w", len(text), ErrMalformed)
		}
	}
	return nil
}

// identify names a table by the levels of its namespace and its own name. Every table of a notice comes from here.
func identify(catalog string, levels []string, name string) (maintenance.TableID, error) {
	if len(levels) == 0 {
		return maintenance.TableID{}, fmt.Errorf("name a table without namespace: %w", ErrMalformed)
	}
	for _, part := range append(slices.Clip(levels), name) {
		if err := checkName(part); err != nil { // before joining: a separator inside of a level would make two of it
			return maintenance.TableID{}, err
		}
	}
	if catalog != "" {
		if err := checkName(catalog); err != nil {
			return maintenance.TableID{}, err
		}
	}
	return maintenance.TableID{Catalog: catalog, Namespace: maintenance.NewNamespace(levels...), Name: name}, nil
}

// checkName refuses a name or level that nobody should look up. Names are data to every catalog; but one with quotes, semicolons, slashes or control
// characters is far likelier an attack or a broken encoder than a table. The error tells no value: it may be hostile to whoever reads the log.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("read an empty name: %w", ErrMalformed)
	case len(name) > maxName:
		return fmt.Errorf("read a name of %d bytes, more than %d: %w", len(name), maxName, ErrBadName)
	case name == "." || name == ".." || strings.ContainsAny(name, "'\"`;/\\") || strings.ContainsFunc(name, unprintable):
		return fmt.Errorf("read a name with quotes, semicolons, slashes, control characters, or of dots: %w", ErrBadName)
	}
	return nil
}

// unprintable finds control characters, and what a decoder puts in place of bytes that are no text.
func unprintable(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }

// dotted reads a table's name whose levels are joined by dots.
func dotted(text string) (maintenance.TableID, error) {
	if strings.ContainsFunc(text, unprintable) {
		return maintenance.TableID{}, fmt.Errorf("read a dotted name with control characters: %w", ErrBadName)
	}
	id, err := maintenance.ParseTableID("", text)
	if err != nil {
		return maintenance.TableID{}, fmt.Errorf("read a dotted name of %d bytes: %w", len(text), ErrMalformed)
	}
	return identify("", id.Namespace.Levels(), id.Name)
}

// at returns the notice of an object, nothing when it is no metadata file of a table: data files and manifests say nothing of a commit. (Nor do
// metadata files: losers of a race leave some. But they are as many as the commits that were tried.)
func at(id, bucket, key string) ([]Notice, error) {
	switch {
	case bucket == "" || key == "":
		return nil, fmt.Errorf("read an object without bucket and key: %w", ErrMalformed)
	case len(bucket) > 63 || strings.Trim(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "":
		return nil, fmt.Errorf("read the name of a bucket: %w", ErrBadName)
	case len(key) > maxKey || strings.ContainsFunc(key, unprintable):
		return nil, fmt.Errorf("read a key of %d bytes: %w", len(key), ErrBadName)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "." || segment == ".." {
			return nil, fmt.Errorf("read a key with relative segments: %w", ErrBadName)
		}
	}
	if !strings.HasSuffix(key, ".metadata.json") && !strings.HasSuffix(key, ".metadata.json.gz") {
		return nil, nil
	}
	return []Notice{{Source: SourceS3, EventID: id, Location: "s3://" + bucket + "/" + key}}, nil
}
