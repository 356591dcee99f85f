package lake

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/cespare/xxhash/v2"

	"firn/internal/lake/manifest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// Filter decides by a data file's statistics whether it is looked at. The entry has counts and bounds, but cannot be encoded.
type Filter func(e Entry) (bool, error)

// Scan looks at the live data files of one snapshot for planning. It streams them and keeps some 40 bytes a file, however many statistics
// the manifests hold. Its methods are not safe for concurrent use.
type Scan struct {
	st        store.Reader
	specs     map[int]iceberg.PartitionSpec
	manifests []iceberg.ManifestFile
	deletes   *DeleteIndex
	// first is the Ref of each data manifest's first entry; seen holds the Ref at which each path stood, by the hash of the path.
	first []int
	seen  map[uint64]int32
	// keys interns partition texts, paths the locations of manifests in which a hash was met again, twice the paths that are live twice.
	keys  map[string]string
	paths map[int][]string
	twice map[string]error
	// contradicted are the Refs of files whose deletes are at fault.
	contradicted map[int]error
	memo         manifest.Memo
}

// NewScan reads the snapshot's manifest list and its delete manifests. A nil snapshot has no files.
func NewScan(ctx context.Context, st store.Reader, t *Table, snap *table.Snapshot) (*Scan, error) {
	all, err := Manifests(ctx, st, snap)
	if err != nil {
		return nil, err
	}
	deletes, err := BuildDeleteIndex(ctx, st, t, all)
	if err != nil {
		return nil, err
	}
	s := &Scan{
		st: st, specs: deletes.specs, deletes: deletes, seen: map[uint64]int32{}, keys: map[string]string{}, paths: map[int][]string{},
		twice: map[string]error{},
	}
	for _, m := range all {
		if m.ManifestContent() == iceberg.ManifestContentData {
			s.manifests = append(s.manifests, m)
		}
	}
	return s, nil
}

// Deletes is the snapshot's delete index.
func (s *Scan) Deletes() *DeleteIndex { return s.deletes }

// Files streams what a planner sees of each live data file, in the order of the manifests. With a filter, files that it refuses are left out.
// Ref is the file's number in this order; it stays the same for the snapshot, and Select takes it.
//
// A path that is live twice is yielded once, at its first entry, and is found in Faults afterwards. A file whose deletes are at fault is yielded
// without counts; Select tells.
func (s *Scan) Files(ctx context.Context, filter Filter) iter.Seq2[maintenance.FileStats, error] {
	return func(yield func(maintenance.FileStats, error) bool) {
		s.first, s.seen, s.twice, s.contradicted = nil, map[uint64]int32{}, map[string]error{}, map[int]error{}
		opts := EntryOptions{Memo: &s.memo, WithoutStats: true, PruningStats: filter != nil || s.deletes.needsStats()}
		ref := 0
		ahead := newReadAhead(ctx, s.st, s.manifests)
		defer ahead.stop()
		for i, m := range s.manifests {
			s.first = append(s.first, ref)
			for e, err := range Entries(ctx, ahead.at(i), m, opts) {
				if err != nil {
					yield(maintenance.FileStats{}, err)
					return
				}
				f, take, err := s.look(ctx, e, ref, filter)
				if err != nil {
					yield(maintenance.FileStats{}, err)
					return
				}
				ref++
				if take && !yield(f, nil) {
					return
				}
			}
		}
	}
}

// look makes the planner's view of one entry.
func (s *Scan) look(ctx context.Context, e Entry, ref int, filter Filter) (f maintenance.FileStats, take bool, err error) {
	if again, err := s.again(ctx, e, ref); err != nil || again {
		return f, false, err
	}
	if filter != nil {
		if take, err := filter(e); err != nil || !take {
			return f, false, err
		}
	}
	_, at, err := s.deletes.scopeOf(e)
	if err != nil {
		return f, false, err
	}
	f = maintenance.FileStats{
		Path: e.File.FilePath(), SizeBytes: e.File.FileSizeBytes(), RecordCount: e.File.Count(), SpecID: e.SpecID, Partition: s.intern(at.key),
		HasRowLineage: e.FirstRowID != nil, DataSequence: e.DataSequence, Ref: ref, Unsupported: unsupported(e.File),
	}
	deletes, err := s.deletes.forScope(e, at)
	if err != nil {
		s.contradicted[ref] = err // it is planned like any other, and refused when it is selected
		return f, true, nil
	}
	f.DeleteFiles = len(deletes)
	for _, d := range deletes {
		if _, scoped := FileScoped(d.File); scoped {
			f.FileScopedDeletedRows += d.File.Count()
		}
	}
	return f, true, nil
}

// unsupported says why no engine of ours rewrites a file, "" when one does. Formats are compared without case: writers spell them differently.
func unsupported(f iceberg.DataFile) string {
	switch {
	case len(f.KeyMetadata()) > 0:
		return "encrypted"
	case !strings.EqualFold(string(f.FileFormat()), string(iceberg.ParquetFile)):
		return "format " + strings.ToUpper(string(f.FileFormat()))
	}
	return ""
}

func (s *Scan) intern(key string) string {
	known, ok := s.keys[key]
	if !ok {
		known = strings.Clone(key)
		s.keys[known] = known
	}
	return known
}

// again reports whether the entry's path was met before, and keeps the fault. Equal hashes are compared by path.
func (s *Scan) again(ctx context.Context, e Entry, ref int) (bool, error) {
	path := SameFile(e.File.FilePath())
	sum := xxhash.Sum64String(path)
	before, ok := s.seen[sum]
	if !ok {
		s.seen[sum] = int32(ref)
		return false, nil
	}
	at, known := slices.BinarySearch(s.first, int(before))
	if !known {
		at--
	}
	paths, err := s.pathsOf(ctx, at)
	if err != nil {
		return false, err
	}
	if paths[int(before)-s.first[at]] != path {
		return false, nil
	}
	if s.twice[path] == nil {
		s.twice[path] = fmt.Errorf("data file %s is live twice, in manifest %s and in manifest %s: %w", e.File.FilePath(),
			s.manifests[at].FilePath(), e.Manifest, ErrTableFault)
	}
	return true, nil
}

func (s *Scan) pathsOf(ctx context.Context, manifest int) ([]string, error) {
	if paths, ok := s.paths[manifest]; ok {
		return paths, nil
	}
	var paths []string
	for e, err := range Entries(ctx, s.st, s.manifests[manifest], EntryOptions{WithoutStats: true, Memo: &s.memo}) {
		if err != nil {
			return nil, err
		}
		paths = append(paths, SameFile(e.File.FilePath()))
	}
	s.paths[manifest] = paths
	return paths, nil
}

// Faults returns the paths that the last complete Files met twice, each with an error that wraps ErrTableFault and names both entries.
func (s *Scan) Faults() map[string]error { return s.twice }

// Fault says of a file that the last complete Files yielded why it must not be rewritten: what Select says of it as well, without reading it again.
func (s *Scan) Fault(f maintenance.FileStats) error {
	if fault := s.twice[SameFile(f.Path)]; fault != nil {
		return fault
	}
	return s.contradicted[f.Ref]
}

// Selected is a live data file with everything that a worker needs.
type Selected struct {
	// Ref is the file's number, as in FileStats.
	Ref int
	// Entry is the whole entry; it can be encoded.
	Entry Entry
	// Deletes are the delete entries that apply, in the order of DeleteIndex.For.
	Deletes []Entry
	// Fault wraps ErrTableFault when the file must not be rewritten: its path is live twice, or its deletes contradict each other.
	Fault error
}

// Select reads the entries of files that Files yielded, in the order of their Refs. Only the manifests that hold one are read.
func (s *Scan) Select(ctx context.Context, refs []int) iter.Seq2[Selected, error] {
	return func(yield func(Selected, error) bool) {
		sorted := slices.Clone(refs)
		slices.Sort(sorted)
		sorted = slices.Compact(sorted)
		manifests, firsts := s.holding(sorted)
		ahead := newReadAhead(ctx, s.st, manifests)
		defer ahead.stop()
		for i, m := range manifests {
			ref := firsts[i]
			for e, err := range Entries(ctx, ahead.at(i), m, EntryOptions{Memo: &s.memo}) {
				if err != nil {
					yield(Selected{}, err)
					return
				}
				if len(sorted) > 0 && sorted[0] == ref {
					sorted = sorted[1:]
					if !yield(s.selected(e, ref), nil) {
						return
					}
				}
				ref++
			}
		}
		if len(sorted) > 0 {
			yield(Selected{}, fmt.Errorf("select files: no file has number %d", sorted[0]))
		}
	}
}

// holding returns the manifests that hold any of the ascending refs, with the refs of their first entries.
func (s *Scan) holding(sorted []int) (manifests []iceberg.ManifestFile, firsts []int) {
	for i, first := range s.first {
		at, _ := slices.BinarySearch(sorted, first)
		if at == len(sorted) {
			break
		}
		if i+1 == len(s.first) || sorted[at] < s.first[i+1] {
			manifests, firsts = append(manifests, s.manifests[i]), append(firsts, first)
		}
	}
	return manifests, firsts
}

func (s *Scan) selected(e Entry, ref int) Selected {
	out := Selected{Ref: ref, Entry: e, Fault: s.twice[SameFile(e.File.FilePath())]}
	if out.Fault == nil {
		out.Deletes, out.Fault = s.deletes.For(e)
	}
	return out
}
