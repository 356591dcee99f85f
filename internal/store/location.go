package store

import (
	"fmt"
	"path"
	"strings"
)

const fileScheme = "file"

// Location is a location taken apart. Two spellings of one object (s3a and s3, file:/x and /x) have equal Locations after Canonical.
type Location struct {
	// Scheme is lower case and without "://": "s3", fileScheme, "mem".
	Scheme string
	// Authority is the bucket; "" for files.
	Authority string
	// Key is the object's key without leading slash; for files the absolute path.
	Key string
}

// ParseLocation takes a location apart without decoding it. A relative path or a scheme without separator is an error.
func ParseLocation(text string) (Location, error) {
	scheme, rest, found := strings.Cut(text, ":")
	if strings.HasPrefix(text, "/") {
		return Location{Scheme: fileScheme, Key: text}, nil
	}
	if !found || scheme == "" || strings.ContainsAny(scheme, "/\\ ") {
		return Location{}, fmt.Errorf("parse location %q: want scheme://authority/key or an absolute path", text)
	}
	scheme = strings.ToLower(scheme)
	if scheme == fileScheme {
		path := rest
		if strings.HasPrefix(path, "//") {
			path = path[2:]
			if i := strings.IndexByte(path, '/'); i > 0 {
				path = path[i:]
			}
		}
		if !strings.HasPrefix(path, "/") {
			return Location{}, fmt.Errorf("parse location %q: want an absolute path", text)
		}
		return Location{Scheme: fileScheme, Key: path}, nil
	}
	if !strings.HasPrefix(rest, "//") {
		return Location{}, fmt.Errorf("parse location %q: want // after the scheme", text)
	}
	authority, key, _ := strings.Cut(rest[2:], "/")
	if authority == "" {
		return Location{}, fmt.Errorf("parse location %q: want an authority (bucket)", text)
	}
	return Location{Scheme: scheme, Authority: authority, Key: key}, nil
}

// Canonical maps s3a and s3n to s3, and writes a file's path without empty, "." and ".." steps (a file system takes "/a//b" for "/a/b"; an
// object store does not, so other keys stay as they are). A trailing slash survives.
func (l Location) Canonical() Location {
	switch l.Scheme {
	case "s3a", "s3n":
		l.Scheme = "s3"
	case fileScheme:
		slash := len(l.Key) > 1 && strings.HasSuffix(l.Key, "/")
		if isClean(l.Key) {
			return l
		}
		if l.Key = path.Clean(l.Key); slash && l.Key != "/" {
			l.Key += "/"
		}
	}
	return l
}

// isClean reports whether an absolute path surely has no step that path.Clean would remove, a slash at its end aside.
func isClean(key string) bool {
	return strings.HasPrefix(key, "/") && !strings.Contains(key, "//") && !strings.Contains(key, "/.")
}

// spelling is what stands before the key in text, the slash after an authority included: spelling + loc.Key names the same object as text,
// in the caller's words.
func (l Location) spelling(text string) string {
	head := text[:len(text)-len(l.Key)]
	if l.Scheme != fileScheme && !strings.HasSuffix(head, "/") {
		head += "/"
	}
	return head
}

// bounds turns the options' locations into keys beside loc's. They must lie in the same scheme and authority.
func (l Location) bounds(opts ListOptions) (after, until string, err error) {
	key := func(text string) (string, error) {
		if text == "" {
			return "", nil
		}
		b, err := ParseLocation(text)
		if err != nil {
			return "", err
		}
		if b.Authority != l.Authority || b.Canonical().Scheme != l.Canonical().Scheme {
			return "", fmt.Errorf("bound %q lies outside of %s", text, l)
		}
		return b.Key, nil
	}
	if after, err = key(opts.StartAfter); err != nil {
		return "", "", err
	}
	if until, err = key(opts.EndAt); err != nil {
		return "", "", err
	}
	if opts.EndAt != "" && until == "" {
		return "", "", fmt.Errorf("bound %q has no key", opts.EndAt)
	}
	return after, until, nil
}

// String spells the location; files as "file://" and the absolute path.
func (l Location) String() string {
	if l.Scheme == fileScheme {
		return "file://" + l.Key
	}
	return l.Scheme + "://" + l.Authority + "/" + l.Key
}

// Canonical spells a location in its canonical form, for comparison only: what is written keeps its raw text.
func Canonical(text string) (string, error) {
	loc, err := ParseLocation(text)
	if err != nil {
		return "", err
	}
	canonical := loc.Canonical()
	// Most texts are canonical; planning asks of each file several times.
	if canonical == loc && len(text) == canonical.length() && strings.HasPrefix(text, loc.Scheme) {
		return text, nil
	}
	return canonical.String(), nil
}

// length is that of String: of the other spellings of a location none that begins with the same scheme has it.
func (l Location) length() int {
	if l.Scheme == fileScheme {
		return len("file://") + len(l.Key)
	}
	return len(l.Scheme) + len("://") + len(l.Authority) + len("/") + len(l.Key)
}

// Join appends names to a location with exactly one slash between. A last name that is empty, or ends in a slash, makes a folder.
func Join(base string, names ...string) string {
	out := strings.TrimRight(base, "/")
	for _, n := range names {
		out = strings.TrimRight(out, "/") + "/" + strings.TrimLeft(n, "/")
	}
	return out
}
