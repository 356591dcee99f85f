package decide

import (
	"fmt"
	"iter"
	"path"
	"strings"
)

// Listed is an object that a listing found.
type Listed struct {
	Location     string
	SizeBytes    int64
	ModifiedAtMS int64
}

// Verdict is what the metadata says about a candidate.
type Verdict int

const (
	// Orphan means that the metadata names no file of that path.
	Orphan Verdict = iota
	// Live means that it is named.
	Live
	// Ignored means that its path is named with another scheme or authority, and such files are left.
	Ignored
	// Mismatched means the same where such a file ends the job.
	Mismatched
)

// MismatchedError ends a search for orphans whose mode is ERROR: nothing may be deleted.
type MismatchedError struct {
	// Count is the number of listed files, Pairs the first of them with what the metadata says.
	Count int
	Pairs []string
}

func (e *MismatchedError) Error() string {
	return fmt.Sprintf("%d files differ from what the metadata names in scheme or authority only: say equal_schemes or equal_authorities, or "+
		"prefix_mismatch_mode IGNORE: %s", e.Count, strings.Join(e.Pairs, "; "))
}

// Is makes it an ErrRefused.
func (e *MismatchedError) Is(target error) bool { return target == ErrRefused }

// maxPairs is how many mismatched pairs an error names.
const maxPairs = 20

// Orphans yields the listed files that are orphans. Both inputs are sorted by OrphanKey of the location, equal keys side by side; nothing is held in
// memory but the files of one key. Nothing may be deleted before the sequence has ended without an error: a mismatch is known at the end.
func Orphans(listed iter.Seq2[Listed, error], reached iter.Seq2[string, error], o OrphansOptions) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		next, stop := iter.Pull2(reached)
		defer stop()
		m := &orphanMerge{next: next}
		mismatched := &MismatchedError{}
		last := ""
		for f, err := range listed {
			if err != nil {
				yield(Listed{}, fmt.Errorf("read the listing: %w", err))
				return
			}
			key := OrphanKey(f.Location)
			if key < last {
				yield(Listed{}, fmt.Errorf("read the listing: %s is not in order", f.Location))
				return
			}
			last = key
			if err := m.advance(key); err != nil {
				yield(Listed{}, err)
				return
			}
			if o.Skip(f) != "" {
				continue
			}
			verdict, other := o.Judge(f.Location, m.group)
			if verdict == Mismatched {
				if mismatched.Count++; mismatched.Count <= maxPairs {
					mismatched.Pairs = append(mismatched.Pairs, f.Location+" against "+other)
				}
			}
			if verdict == Orphan && !yield(f, nil) {
				return
			}
		}
		if mismatched.Count > 0 {
			yield(Listed{}, mismatched)
		}
	}
}

// orphanMerge walks over the reached files in step with the listing.
type orphanMerge struct {
	next func() (string, error, bool)
	// group are the reached files with the key; ahead is the first one behind them.
	key      string
	group    []string
	ahead    string
	aheadKey string
	started  bool
	ended    bool
}

// advance collects the reached files of a key.
func (m *orphanMerge) advance(key string) error {
	if !m.started {
		m.started = true
		if err := m.pull(); err != nil {
			return err
		}
	}
	if m.key != key {
		m.key, m.group = key, m.group[:0]
	}
	for !m.ended && m.aheadKey <= key {
		if m.aheadKey == key {
			m.group = append(m.group, m.ahead)
		}
		if err := m.pull(); err != nil {
			return err
		}
	}
	return nil
}

func (m *orphanMerge) pull() error {
	location, err, ok := m.next()
	if !ok {
		m.ended = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the reachable files: %w", err)
	}
	key := OrphanKey(location)
	if key < m.aheadKey {
		return fmt.Errorf("read the reachable files: %s is not in order", location)
	}
	m.ahead, m.aheadKey = location, key
	return nil
}

// prefixedPath is a location taken apart without decoding: keys are opaque bytes.
type prefixedPath struct {
	scheme, authority, path string
}

// splitLocation takes "s3://bucket/key", "file:/x", "file:///x" and "/x" apart. Paths of file systems are cleaned, keys of object stores are not.
func splitLocation(location string) prefixedPath {
	scheme, rest, found := strings.Cut(location, ":")
	if !found || strings.Contains(scheme, "/") {
		scheme, rest = "", location
	}
	p := prefixedPath{scheme: strings.ToLower(scheme), path: rest}
	if inner, ok := strings.CutPrefix(rest, "//"); ok && scheme != "" {
		slash := strings.IndexByte(inner, '/')
		if slash < 0 {
			slash = len(inner)
		}
		p.authority, p.path = strings.ToLower(inner[:slash]), inner[slash:]
	}
	if p.scheme == "" || p.scheme == "file" {
		p.path = path.Clean("/" + p.path)
	}
	return p
}

// OrphanKey is the part of a location that listing and metadata are compared by: the path without scheme and authority.
func OrphanKey(location string) string { return splitLocation(location).path }

// samePrefix compares scheme and authority through the equalities, without regard to case. What the second one leaves out matches everything.
func (o *OrphansOptions) samePrefix(listed, reached prefixedPath) bool {
	return (reached.scheme == "" || mapped(o.EqualSchemes, listed.scheme) == mapped(o.EqualSchemes, reached.scheme)) &&
		(reached.authority == "" || mapped(o.EqualAuthorities, listed.authority) == mapped(o.EqualAuthorities, reached.authority))
}

func mapped(equal map[string]string, text string) string {
	if to, ok := equal[text]; ok {
		return to
	}
	return text
}

// Respell writes a location with the scheme and authority of another one, if equal_schemes and equal_authorities make these the same. same says whether they
// are; other spellings of s3 in the same bucket stay as they are.
func (o *OrphansOptions) Respell(location, like string) (respelled string, same bool) {
	from, to := splitLocation(location), splitLocation(like)
	if !o.samePrefix(from, to) {
		return location, false
	}
	plain := OrphansOptions{EqualSchemes: map[string]string{"s3a": "s3", "s3n": "s3"}}
	if plain.samePrefix(from, to) {
		return location, true
	}
	scheme, rest, found := strings.Cut(like, "://")
	if !found {
		return location, true
	}
	authority, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + authority + from.path, true
}

// Inside reports whether a location lies in the folder to sweep.
func (o *OrphansOptions) Inside(location string) bool {
	at, swept := splitLocation(location), splitLocation(o.Location)
	return strings.HasPrefix(at.path, strings.TrimRight(swept.path, "/")+"/") && o.samePrefix(at, swept)
}

// Skip says why a listed file is no candidate, "" when it is one.
func (o *OrphansOptions) Skip(f Listed) string {
	location, swept := splitLocation(f.Location), splitLocation(o.Location)
	relative, inside := strings.CutPrefix(location.path, strings.TrimRight(swept.path, "/")+"/")
	switch {
	case !inside || !o.samePrefix(location, swept):
		return "outside of " + o.Location
	case f.ModifiedAtMS <= 0:
		return "of unknown age"
	case f.ModifiedAtMS >= o.OlderThanMS:
		return "younger than the horizon"
	case relative == "" || strings.HasSuffix(relative, "/"):
		return "a folder's marker"
	case path.Base(relative) == "version-hint.text":
		return "the version hint"
	}
	for part := range strings.SplitSeq(relative, "/") {
		if (strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".")) && !o.partitionFolder(part) {
			return "hidden"
		}
	}
	return ""
}

// partitionFolder reports a folder of a partition field whose own name starts like a hidden one.
func (o *OrphansOptions) partitionFolder(part string) bool {
	for _, field := range o.table.PartitionFields {
		if strings.HasPrefix(part, field+"=") {
			return true
		}
	}
	return false
}

// Judge compares a candidate with the reached files of the same path (in any order). other is the first one that differs.
func (o *OrphansOptions) Judge(location string, reached []string) (v Verdict, other string) {
	if len(reached) == 0 {
		return Orphan, ""
	}
	listed := splitLocation(location)
	for _, r := range reached {
		if o.samePrefix(listed, splitLocation(r)) {
			return Live, ""
		}
	}
	switch o.Mode {
	case MismatchIgnore:
		return Ignored, reached[0]
	case MismatchDelete:
		return Orphan, reached[0]
	default:
		return Mismatched, reached[0]
	}
}
