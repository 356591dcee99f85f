package rebase

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"firn/internal/deletes"
	"firn/internal/lake"
	"firn/internal/lake/produce"
	"firn/internal/store"
)

// reading collects the delete files of several groups, so that one that names files of many groups is read once.
type reading struct {
	set   deletes.Set
	files map[produce.File]int
	// targets are, by group, where its sources stand in the set; -1 for those that need nothing.
	targets map[int][]int
}

// answer is what was read for one group: the deleted rows by source, nil where there is none.
type answer struct {
	masks    []deletes.Mask
	conflict string
}

// needs are the delete files to read for a source: what arrived, and, to see whether deletes of T0 were taken back, all that apply.
func (s Source) needs() []lake.Entry {
	if len(s.Gone) > 0 || s.EqualityGone {
		return slices.Concat(s.Arrived, s.Standing)
	}
	return s.Arrived
}

// cost is the number of positions that reading the group adds.
func (r *reading) cost(g Group) int64 {
	total, mine := int64(0), map[produce.File]bool{}
	for _, s := range g.Sources {
		for _, d := range s.needs() {
			key := produce.FileOf(d.File)
			if _, known := r.files[key]; !known && !mine[key] {
				mine[key] = true
				total += d.File.Count()
			}
		}
	}
	return total
}

// add takes a group into the reading.
func (r *reading) add(group int, g Group) {
	if r.files == nil {
		r.files, r.targets = map[produce.File]int{}, map[int][]int{}
	}
	for _, s := range g.Sources {
		needs := s.needs()
		if len(needs) == 0 {
			r.targets[group] = append(r.targets[group], -1)
			continue
		}
		t := deletes.Target{DataFile: s.File.File, Sequence: s.File.DataSequence}
		for _, d := range needs {
			key := produce.FileOf(d.File)
			at, known := r.files[key]
			if !known {
				at = len(r.set.Files)
				r.files[key] = at
				r.set.Files = append(r.set.Files, deletes.File{DataFile: d.File, Sequence: d.DataSequence})
			}
			t.Deletes = append(t.Deletes, at)
		}
		r.targets[group] = append(r.targets[group], len(r.set.Targets))
		r.set.Targets = append(r.set.Targets, t)
	}
}

// read reads all delete files at once. When one of them cannot be read, each group reads its own, so that only those that need it are in conflict.
func (r *reading) read(ctx context.Context, st store.Reader, groups []Group) (map[int]answer, error) {
	all, err := masks(ctx, st, r.set)
	if err != nil && !final(err) {
		return nil, err
	}
	out := make(map[int]answer, len(r.targets))
	for group, targets := range r.targets {
		a := answer{masks: make([]deletes.Mask, len(targets))}
		if err != nil {
			var alone reading
			alone.add(group, groups[group])
			own, ownErr := masks(ctx, st, alone.set)
			switch {
			case ownErr != nil && !final(ownErr):
				return nil, ownErr
			case ownErr != nil:
				a.conflict = fmt.Sprintf("delete file %s arrived, and the deletes cannot be read: %v", first(groups[group]), ownErr)
			default:
				a.pick(own, alone.targets[group])
			}
		} else {
			a.pick(all, targets)
		}
		out[group] = a
	}
	return out, nil
}

func (a *answer) pick(masks []deletes.Mask, targets []int) {
	for i, at := range targets {
		if at >= 0 {
			a.masks[i] = masks[at]
		}
	}
}

// final reports that repeating the read would not help.
func final(err error) bool {
	return errors.Is(err, deletes.ErrUnusable) || errors.Is(err, store.ErrNotFound) || !errors.Is(err, store.ErrTransient) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// masks guards the readers of damaged files.
func masks(ctx context.Context, st store.Reader, set deletes.Set) (out []deletes.Mask, err error) {
	defer func() {
		if fault := recover(); fault != nil { // a corrupt file reaches library code that indexes without asking
			out, err = nil, fmt.Errorf("read deletes: %v: %w", fault, deletes.ErrUnusable)
		}
	}()
	return deletes.Masks(ctx, st, set)
}

// takenBack tells whether rows that deletes of T0 removed are rows again at the head, "" when not: a writer replaced a delete by one that holds less,
// or removed it. The outputs lack these rows, and no delete file can bring them back.
//
// removed are the rows that no output has, now those that position deletes remove at the head.
func (t *Translator) takenBack(ctx context.Context, s Source, removed, now deletes.Mask) (string, error) {
	if now == nil {
		now = roaring64.New()
	}
	unexplained := roaring64.AndNot(removed, now)
	if unexplained.IsEmpty() {
		return "", nil
	}
	path := s.File.File.FilePath()
	if s.EqualityGone || !s.EqualityStanding {
		return fmt.Sprintf("%d rows of %s, row %d among them, were deleted at the pinned snapshot and are not any more", unexplained.GetCardinality(),
			path, unexplained.Minimum()), nil
	}
	// Equality deletes that stand may explain them: then nothing of what left was among them.
	for _, d := range s.Gone {
		if d.File.Count() > DefaultLimit {
			return fmt.Sprintf("delete file %s of the pinned snapshot left %s and is too large to be compared", d.File.FilePath(), path), nil
		}
		set := deletes.Set{
			Files:   []deletes.File{{DataFile: d.File, Sequence: d.DataSequence}},
			Targets: []deletes.Target{{DataFile: s.File.File, Sequence: s.File.DataSequence, Deletes: []int{0}}},
		}
		old, err := masks(ctx, t.Store, set)
		switch {
		case err != nil && !final(err):
			return "", err
		case err != nil:
			return fmt.Sprintf("delete file %s of the pinned snapshot left %s and cannot be compared: %v", d.File.FilePath(), path, err), nil
		case old[0] != nil && roaring64.And(old[0], unexplained).GetCardinality() > 0:
			return fmt.Sprintf("delete file %s of the pinned snapshot left %s, and rows that it removed are back", d.File.FilePath(), path), nil
		}
	}
	return "", nil
}
