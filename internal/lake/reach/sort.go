package reach

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"sync"

	"firn/internal/store"
)

const (
	// DefaultSortBytes bounds what a Sorter keeps in memory: about 80,000 files.
	DefaultSortBytes = 20 << 20
	// fileBytes is the memory of a File beside its texts (struct, string headers, slack of the allocator).
	fileBytes = 128
	// fanIn is how many runs are merged at once; more are merged in passes.
	fanIn = 64
	// fewKeys is up to how many files are sorted by comparing their paths.
	fewKeys = 16
	// beginBytes is how much of a path is compared as a number.
	beginBytes = 8
)

// Space is where sets that outgrow memory are written.
type Space struct {
	// Store keeps the runs.
	Store store.ReadWriter
	// Prefix starts the runs' locations; nobody else may write under it.
	Prefix string
	// SortBytes bounds the memory of each set; 0 means DefaultSortBytes.
	SortBytes int64
}

// Sorter collects files in any order and gives them back sorted, each object once. Add may be called concurrently.
type Sorter struct {
	space Space
	keep  func(File) bool

	mu      sync.Mutex
	files   []File
	sorted  bool
	spare   []File
	bytes   int64
	runs    []string
	spilled int
}

// NewSorter returns an empty set.
func NewSorter(space Space) *Sorter {
	if space.SortBytes == 0 {
		space.SortBytes = DefaultSortBytes
	}
	return &Sorter{space: space}
}

// OpenSorter returns the set that runs hold; more files may be added.
func OpenSorter(space Space, runs []string) *Sorter {
	s := NewSorter(space)
	s.runs = slices.Clone(runs)
	return s
}

// KeepOnly makes Add drop the files for which keep is false. keep must be safe for concurrent use.
func (s *Sorter) KeepOnly(keep func(File) bool) *Sorter {
	s.keep = keep
	return s
}

// Add puts a file into the set.
func (s *Sorter) Add(ctx context.Context, f File) error {
	if s.keep != nil && !s.keep(f) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files, s.sorted = append(s.files, f), false
	s.bytes += int64(len(f.Location)) + fileBytes
	if s.bytes < s.space.SortBytes {
		return nil
	}
	return s.spill(ctx)
}

// spill writes what is in memory as a run.
func (s *Sorter) spill(ctx context.Context) error {
	location := fmt.Sprintf("%s-%06d.run", s.space.Prefix, s.spilled)
	s.spilled++
	s.sort()
	if _, err := WriteRun(ctx, s.space.Store, location, drain(&sliceCursor{files: s.files})); err != nil {
		return err
	}
	s.runs = append(s.runs, location)
	clear(s.files)
	s.files, s.bytes = s.files[:0], 0
	return nil
}

// sort orders what is in memory and drops doubled objects, keeping the first kind.
func (s *Sorter) sort() {
	if s.sorted || len(s.files) == 0 {
		return // who iterates over them may go on
	}
	s.sorted = true
	order := make([]sortKey, len(s.files))
	for i := range order {
		order[i].at = int32(i)
	}
	s.arrange(order, 0)
	sorted := s.spare[:0]
	for _, k := range order {
		if f := s.files[k.at]; len(sorted) == 0 || !same(sorted[len(sorted)-1], f) {
			sorted = append(sorted, f)
		}
	}
	clear(s.files)
	s.files, s.spare = sorted, s.files[:0]
}

// arrange orders keys of files whose paths are alike in their first known bytes. Paths of one table begin alike, and those of one partition begin alike
// behind that: the eight bytes where they begin to differ are compared as numbers, and only those that are equal there are looked at again.
func (s *Sorter) arrange(order []sortKey, known int) {
	if len(order) < fewKeys {
		slices.SortFunc(order, func(a, b sortKey) int { return compare(s.files[a.at], s.files[b.at]) })
		return
	}
	shared := s.files[order[0].at].place.path[known:]
	for _, k := range order {
		shared = shared[:sharedBytes(shared, s.files[k.at].place.path[known:])]
	}
	known += len(shared)
	for i := range order {
		order[i].begin = begin(s.files[order[i].at].place.path[known:])
	}
	slices.SortFunc(order, func(a, b sortKey) int { return cmp.Compare(a.begin, b.begin) })
	for len(order) > 0 {
		n := 1
		for n < len(order) && order[n].begin == order[0].begin {
			n++
		}
		switch {
		case n == 1:
		case byte(order[0].begin) == 0:
			// Some may end here: a text and the same with zero bytes behind have one number.
			slices.SortFunc(order[:n], func(a, b sortKey) int { return compare(s.files[a.at], s.files[b.at]) })
		default:
			s.arrange(order[:n], known+beginBytes)
		}
		order = order[n:]
	}
}

// sortKey stands for a file while files are sorted.
type sortKey struct {
	begin uint64
	at    int32
}

// sharedBytes is the length of the beginning that two texts share.
func sharedBytes(a, b string) int {
	n := min(len(a), len(b))
	if a[:n] == b[:n] {
		return n
	}
	i := 0
	for a[i] == b[i] {
		i++
	}
	return i
}

// begin is a number for the first beginBytes of a text: where numbers differ, they are ordered as the texts.
func begin(text string) uint64 {
	var b [beginBytes]byte
	copy(b[:], text)
	return binary.BigEndian.Uint64(b[:])
}

// Spilled reports whether the set outgrew memory.
func (s *Sorter) Spilled() bool { return len(s.runs) > 0 }

// Keys returns the set's paths when it fits in memory, else nil.
func (s *Sorter) Keys() map[string]struct{} {
	if s.Spilled() {
		return nil
	}
	keys := make(map[string]struct{}, len(s.files))
	for _, f := range s.files {
		keys[f.Path()] = struct{}{}
	}
	return keys
}

// Files yields the set in order, each object once. It may be called again, but not while files are added.
func (s *Sorter) Files(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		s.sort()
		runs, err := s.shrink(ctx)
		if err != nil {
			yield(File{}, err)
			return
		}
		cursors := make([]cursor, 0, len(runs)+1)
		for _, r := range runs {
			cursors = append(cursors, newRunCursor(ctx, s.space.Store, r))
		}
		cursors = append(cursors, &sliceCursor{files: s.files})
		drain(merge(cursors))(yield)
	}
}

// Runs writes what is still in memory and returns the runs that make up the set, for OpenSorter.
func (s *Sorter) Runs(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) > 0 {
		if err := s.spill(ctx); err != nil {
			return nil, err
		}
	}
	return slices.Clone(s.runs), nil
}

// shrink merges runs until fanIn of them are left.
func (s *Sorter) shrink(ctx context.Context) ([]string, error) {
	for len(s.runs) > fanIn {
		var merged []string
		for part := range slices.Chunk(s.runs, fanIn) {
			location := fmt.Sprintf("%s-%06d.run", s.space.Prefix, s.spilled)
			s.spilled++
			if _, err := WriteRun(ctx, s.space.Store, location, MergeRuns(ctx, s.space.Store, part)); err != nil {
				return nil, err
			}
			merged = append(merged, location)
		}
		s.runs = merged
	}
	return s.runs, nil
}

// MergeRuns yields the files of runs in order, each object once. Their number must be small: each is read by its own buffer.
func MergeRuns(ctx context.Context, st store.Reader, runs []string) iter.Seq2[File, error] {
	cursors := make([]cursor, 0, len(runs))
	for _, r := range runs {
		cursors = append(cursors, newRunCursor(ctx, st, r))
	}
	return drain(merge(cursors))
}

// drain turns a cursor into an iteration, which can be run once.
func drain(c cursor) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for {
			f, ok, err := c.next()
			if err != nil {
				yield(File{}, err)
				return
			}
			if !ok || !yield(f, nil) {
				return
			}
		}
	}
}
