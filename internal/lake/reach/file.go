package reach

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"firn/internal/store"
)

// Kind says what an object is to the table. The order of kinds is the order of Spark's result columns.
type Kind byte

// The kinds. Their letters stand in the runs.
const (
	// Data is a data file.
	Data Kind = 'd'
	// PositionDeletes is a position-delete file, or a Puffin file with deletion vectors.
	PositionDeletes Kind = 'p'
	// EqualityDeletes is an equality-delete file.
	EqualityDeletes Kind = 'q'
	// Manifest is a manifest.
	Manifest Kind = 'r'
	// ManifestList is a snapshot's manifest list.
	ManifestList Kind = 's'
	// Statistics is a statistics or partition statistics file.
	Statistics Kind = 't'
	// MetadataFile is a metadata.json or the version hint.
	MetadataFile Kind = 'u'
	// Listed is an object of a listing, of which nothing more is known.
	Listed Kind = 'v'
)

// String names the kind as messages and deletion manifests do.
func (k Kind) String() string {
	switch k {
	case Data:
		return "data file"
	case PositionDeletes:
		return "position delete file"
	case EqualityDeletes:
		return "equality delete file"
	case Manifest:
		return "manifest"
	case ManifestList:
		return "manifest list"
	case Statistics:
		return "statistics file"
	case MetadataFile:
		return "metadata file"
	case Listed:
		return "listed object"
	}
	return fmt.Sprintf("kind %q", byte(k))
}

// Content reports whether files of this kind are named by manifest entries.
func (k Kind) Content() bool { return k == Data || k == PositionDeletes || k == EqualityDeletes }

// File is one member of a set.
type File struct {
	// Location is the object's location as metadata or the listing spells it. Deletion uses this text and no other.
	Location string
	// Kind says what the object is.
	Kind Kind
	// SizeBytes is the length that metadata or the listing gives; -1 when unknown.
	SizeBytes int64
	// ModifiedAtMS is the time of the last write in milliseconds since the epoch; 0 when unknown.
	ModifiedAtMS int64

	place place
}

// place is where a location points: sets are ordered by path, then by what stands before it. Both are parts of the location where that is canonical.
type place struct {
	// head is the canonical scheme and authority, with the slash behind.
	head string
	path string
}

func (p place) canonical() string { return p.head + p.path }

// NewFile checks the location and makes a member of a set of it.
func NewFile(location string, kind Kind, sizeBytes, modifiedAtMS int64) (File, error) {
	p, err := placeOf(location)
	if err != nil {
		return File{}, err
	}
	return File{Location: location, Kind: kind, SizeBytes: sizeBytes, ModifiedAtMS: modifiedAtMS, place: p}, nil
}

// Path is the location without scheme and authority: what Spark joins the listing and the valid set on. Two locations with equal paths are the
// same object only if their schemes and authorities are equal too, or are said to be.
func (f File) Path() string { return f.place.path }

// Canonical is the location in the form in which equal objects have equal texts (see store.Location.Canonical).
func (f File) Canonical() string { return f.place.canonical() }

func placeOf(location string) (place, error) {
	loc, err := store.ParseLocation(location)
	if err != nil {
		return place{}, err
	}
	loc = loc.Canonical()
	// A file's absolute path and an object's key are the same path: metadata may name an object without scheme and bucket.
	if loc.Scheme == "file" {
		return place{head: "file:///", path: strings.TrimPrefix(loc.Key, "/")}, nil
	}
	n := len(loc.Scheme) + len("://") + len(loc.Authority) + len("/")
	if n <= len(location) && location[n-1] == '/' && strings.HasPrefix(location, loc.Scheme+"://") {
		return place{head: location[:n], path: loc.Key}, nil // share the bytes
	}
	return place{head: loc.Scheme + "://" + loc.Authority + "/", path: loc.Key}, nil
}

// compare orders files by path, then by canonical location, then by kind.
func compare(a, b File) int {
	if c := strings.Compare(a.place.path, b.place.path); c != 0 {
		return c
	}
	if c := strings.Compare(a.place.head, b.place.head); c != 0 {
		return c
	}
	return cmp.Compare(a.Kind, b.Kind)
}

// same reports whether two files are one object.
func same(a, b File) bool { return a.place == b.place }

// appendLine encodes a file as one line of a run: kind, size, time, location. Locations are opaque bytes: only the line's end and the escape
// itself are escaped.
func appendLine(buf []byte, f File) []byte {
	buf = append(buf, byte(f.Kind))
	buf = strconv.AppendInt(buf, f.SizeBytes, 10)
	buf = append(buf, ' ')
	buf = strconv.AppendInt(buf, f.ModifiedAtMS, 10)
	buf = append(buf, ' ')
	if strings.IndexByte(f.Location, '\n') < 0 && strings.IndexByte(f.Location, '\\') < 0 {
		return append(append(buf, f.Location...), '\n')
	}
	for i := range len(f.Location) {
		switch c := f.Location[i]; c {
		case '\n':
			buf = append(buf, '\\', 'n')
		case '\\':
			buf = append(buf, '\\', '\\')
		default:
			buf = append(buf, c)
		}
	}
	return append(buf, '\n')
}

// parseLine decodes a line without its end.
func parseLine(line string) (File, error) {
	if line == "" {
		return File{}, fmt.Errorf("decode an empty line of a run")
	}
	size, rest, ok := strings.Cut(line[1:], " ")
	at, text, more := strings.Cut(rest, " ")
	if !ok || !more {
		return File{}, fmt.Errorf("decode the line %q of a run: want kind, size, time and location", line)
	}
	sizeBytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return File{}, fmt.Errorf("decode the size in the line %q of a run: %w", line, err)
	}
	modifiedAtMS, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return File{}, fmt.Errorf("decode the time in the line %q of a run: %w", line, err)
	}
	if strings.IndexByte(text, '\\') >= 0 {
		if text, err = unescape(text); err != nil {
			return File{}, fmt.Errorf("decode the line %q of a run: %w", line, err)
		}
	}
	f, err := NewFile(text, Kind(line[0]), sizeBytes, modifiedAtMS)
	if err != nil {
		return File{}, fmt.Errorf("decode the line %q of a run: %w", line, err)
	}
	return f, nil
}

func unescape(text string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch {
		case i < len(text) && text[i] == 'n':
			b.WriteByte('\n')
		case i < len(text) && text[i] == '\\':
			b.WriteByte('\\')
		default:
			return "", fmt.Errorf("unknown escape at byte %d", i)
		}
	}
	return b.String(), nil
}
