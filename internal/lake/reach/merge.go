package reach

import (
	"container/heap"
	"iter"
)

// head is a cursor with the file that it stands on.
type head struct {
	file File
	rest cursor
	// rank keeps the merge stable: of equal files the one of the earlier cursor comes first.
	rank int
}

// heads is a heap of cursors by their files.
type heads []head

func (h heads) Len() int { return len(h) }

func (h heads) Less(i, j int) bool {
	if c := compare(h[i].file, h[j].file); c != 0 {
		return c < 0
	}
	return h[i].rank < h[j].rank
}
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *heads) Push(x any) { *h = append(*h, x.(head)) } //nolint:forcetypeassert // only this file pushes

// Pop implements heap.Interface.
func (h *heads) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// mergeCursor merges cursors and drops all but the first of the files that are one object.
type mergeCursor struct {
	heads   heads
	pending []cursor
	started bool
	last    File
	any     bool
}

func merge(cursors []cursor) *mergeCursor { return &mergeCursor{pending: cursors} }

func (m *mergeCursor) start() error {
	m.started = true
	for i, c := range m.pending {
		f, ok, err := c.next()
		if err != nil {
			return err
		}
		if ok {
			m.heads = append(m.heads, head{file: f, rest: c, rank: i})
		}
	}
	m.pending = nil
	heap.Init(&m.heads)
	return nil
}

func (m *mergeCursor) next() (File, bool, error) {
	if !m.started {
		if err := m.start(); err != nil {
			return File{}, false, err
		}
	}
	for len(m.heads) > 0 {
		top := &m.heads[0]
		f := top.file
		following, ok, err := top.rest.next()
		if err != nil {
			return File{}, false, err
		}
		if ok {
			top.file = following
			heap.Fix(&m.heads, 0)
		} else {
			heap.Pop(&m.heads)
		}
		if m.any && same(m.last, f) {
			continue
		}
		m.last, m.any = f, true
		return f, true, nil
	}
	return File{}, false, nil
}

// sliceCursor walks files in memory.
type sliceCursor struct{ files []File }

func (s *sliceCursor) next() (File, bool, error) {
	if len(s.files) == 0 {
		return File{}, false, nil
	}
	f := s.files[0]
	s.files = s.files[1:]
	return f, true, nil
}

// Match is a file with the members of another set that have the same path: the same object, or one that differs in scheme or authority.
type Match struct {
	File
	// Reached are the members of the other set with File's path, in order. The slice is valid until the iteration goes on.
	Reached []File
}

// Join yields every file of left with the files of right that have the same path. Both must be in the order of a set.
func Join(left, right iter.Seq2[File, error]) iter.Seq2[Match, error] {
	return func(yield func(Match, error) bool) {
		next, stop := iter.Pull2(right)
		defer stop()
		var group []File
		var ahead File
		var rightErr error
		more := true
		advance := func() {
			f, err, ok := next()
			more = ok && err == nil
			ahead, rightErr = f, err
		}
		advance()
		for f, err := range left {
			if err != nil {
				yield(Match{}, err)
				return
			}
			if len(group) > 0 && group[0].Path() != f.Path() {
				group = group[:0]
			}
			for more && ahead.Path() < f.Path() {
				advance()
			}
			for more && ahead.Path() == f.Path() {
				group = append(group, ahead)
				advance()
			}
			if rightErr != nil {
				yield(Match{}, rightErr)
				return
			}
			if !yield(Match{File: f, Reached: group}, nil) {
				return
			}
		}
	}
}
