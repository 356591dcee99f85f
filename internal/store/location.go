package store

import (
	"fmt"
	"strings"
)

// Location is a location taken apart. Two spellings of one object (s3a and s3, file:/x and /x) have equal Locations after Canonical.
type Location struct {
	// Scheme is lower case and without "://": "s3", "file", "mem".
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
		return Location{Scheme: "file", Key: text}, nil
	}
	if !found || scheme == "" || strings.ContainsAny(scheme, "/\\ ") {
		return Location{}, fmt.Errorf("parse location %q: want scheme://authority/key or an absolute path", text)
	}
	scheme = strings.ToLower(scheme)
	if scheme == "file" {
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
		return Location{Scheme: "file", Key: path}, nil
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

// Canonical maps s3a and s3n to s3; other schemes stay.
func (l Location) Canonical() Location {
	if l.Scheme == "s3a" || l.Scheme == "s3n" {
		l.Scheme = "s3"
	}
	return l
}

// String spells the location; files as "file://" and the absolute path.
func (l Location) String() string {
	if l.Scheme == "file" {
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
	return loc.Canonical().String(), nil
}

// Join appends name to a location with exactly one slash between.
func Join(base string, names ...string) string {
	out := strings.TrimRight(base, "/")
	for _, n := range names {
		out += "/" + strings.TrimLeft(n, "/")
	}
	return out
}
