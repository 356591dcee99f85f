// Package rebase carries deletes that arrived after the pinned snapshot over to rewritten files. A writer deleted rows of a file by their positions
// while Firn rewrote it; the row map of the rewrite tells where these rows went, and the output gets a delete set of its own.
//
// Each attempt at a commit translates everything anew from T0: what applies to a source at the head and was not applied at T0. Positions that the
// row map does not know were removed by deletes of T0. Nothing is carried from one attempt to the next but row maps, which do not change.
//
// The package never guesses. A delete file that cannot be read, a row map that does not cover its group, more positions than the limit, and deletes
// of T0 that somebody took back make a group a conflict, with the reason; it is rewritten by a later run.
package rebase

import (
	"context"
	"errors"
	"fmt"

	"firn/internal/deletes"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/produce"
	"firn/internal/store"
)

// DefaultLimit is how many deleted positions one attempt reads: some ten seconds of work, and 80 MB at worst. Writers delete a few rows while a
// rewrite runs; more means that the files are changing under it.
const DefaultLimit = 10_000_000

// Source is a replaced data file with the position deletes and vectors of its past and present.
type Source struct {
	// File is the data file's entry at T0.
	File lake.Entry
	// Arrived apply at the head and were not applied at T0; Standing were applied and still apply; Gone were applied and do not apply any more.
	Arrived, Standing, Gone []lake.Entry
	// EqualityStanding and EqualityGone say that equality deletes were applied at T0 that still apply, that do not.
	EqualityStanding, EqualityGone bool
}

// settled reports that the source's deletes are those of T0.
func (s Source) settled() bool { return len(s.Arrived)+len(s.Gone) == 0 && !s.EqualityGone }

// Group is a rewritten group.
type Group struct {
	// RowMap is the location of its row map, Permutation that of a sort's, both "" without one.
	RowMap, Permutation string

	Sources []Source
	Outputs []produce.Addition
}

// Settled reports that there is nothing to translate: the head's deletes are those of T0.
func (g Group) Settled() bool {
	for _, s := range g.Sources {
		if !s.settled() {
			return false
		}
	}
	return true
}

// Translation is what the outputs of a group need.
type Translation struct {
	// Conflict says why the group cannot be committed, "" when it can.
	Conflict string
	// Outputs are the deleted rows by output, nil where there is none; Positions is their number.
	Outputs   []deletes.Mask
	Positions int64
}

// Translator translates deletes for the attempts of one batch. It is not safe for concurrent use.
type Translator struct {
	// Store has the delete files, Work and its store Maps have the row maps.
	Store store.Reader
	Work  *handoff.Work
	Maps  store.Reader
	// Limit bounds the positions that one attempt reads; 0 means DefaultLimit.
	Limit int64

	maps map[string]mapping
}

// Translate answers for each group, in their order. The limit is shared: groups that come first are served first. Errors are those of the store
// that a repetition may cure.
func (t *Translator) Translate(ctx context.Context, groups []Group) ([]Translation, error) {
	left := t.Limit
	if left == 0 {
		left = DefaultLimit
	}
	out := make([]Translation, len(groups))
	maps := make([]mapping, len(groups))
	var r reading
	for i, g := range groups {
		cost := r.cost(g)
		if cost > left {
			out[i].Conflict = fmt.Sprintf("deletes of %d rows arrived, more than are translated in one commit", cost)
			continue
		}
		var err error
		switch maps[i], err = t.mapping(ctx, g); {
		case err == nil && cost > maps[i].limit():
			out[i].Conflict = fmt.Sprintf("deletes of %d rows arrived, more than are looked up for a sorted group", cost)
		case err == nil:
			left -= cost
			r.add(i, g)
		case errors.Is(err, errMap):
			out[i].Conflict = fmt.Sprintf("delete file %s arrived, and %v", first(g), err)
		default:
			return nil, err
		}
	}
	masks, err := r.read(ctx, t.Store, groups)
	if err != nil {
		return nil, err
	}
	for i, g := range groups {
		if out[i].Conflict != "" {
			continue
		}
		if out[i], err = t.group(ctx, g, maps[i], masks[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// first names a delete file that made the translation necessary.
func first(g Group) string {
	for _, s := range g.Sources {
		for _, d := range s.Arrived {
			return d.File.FilePath() + " for " + s.File.File.FilePath()
		}
	}
	return "of the pinned snapshot left, another"
}

// errMap says that a group's row map cannot be used.
var errMap = errors.New("cannot be translated")

// mapping reads and checks the group's row map.
func (t *Translator) mapping(ctx context.Context, g Group) (mapping, error) {
	location := g.RowMap
	if location == "" {
		location = g.Permutation
	}
	if location == "" {
		return nil, fmt.Errorf("%w: the rewrite left no row map", errMap)
	}
	if known := t.maps[location]; known != nil {
		return known, nil
	}
	checked, err := t.read(ctx, g)
	switch {
	case errors.Is(err, store.ErrTransient), err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("read row map: %w", err)
	case err != nil:
		return nil, fmt.Errorf("%w: row map %s: %w", errMap, location, err)
	}
	if t.maps == nil {
		t.maps = map[string]mapping{}
	}
	t.maps[location] = checked
	return checked, nil
}

func (t *Translator) read(ctx context.Context, g Group) (mapping, error) {
	if g.RowMap == "" {
		p, err := handoff.OpenPermutation(ctx, t.Maps, g.Permutation)
		if err != nil {
			return nil, err
		}
		return newPermuted(p, g)
	}
	var m handoff.RowMap
	if err := t.Work.Read(ctx, g.RowMap, &m); err != nil {
		return nil, err
	}
	return newRows(m, g)
}

// group translates one group from the masks of its sources.
func (t *Translator) group(ctx context.Context, g Group, m mapping, found answer) (Translation, error) {
	if found.conflict != "" {
		return Translation{Conflict: found.conflict}, nil
	}
	out := Translation{Outputs: make([]deletes.Mask, len(g.Outputs))}
	for i, s := range g.Sources {
		switch conflict, err := t.source(ctx, s, source{m, i, found.masks[i]}, out.Outputs); {
		case errors.Is(err, handoff.ErrPermutation):
			return Translation{Conflict: fmt.Sprintf("delete file %s arrived, and %v", first(g), err)}, nil
		case err != nil:
			return out, err
		case conflict != "":
			return Translation{Conflict: conflict}, nil
		}
	}
	for _, o := range out.Outputs {
		if o != nil {
			out.Positions += int64(o.GetCardinality())
		}
	}
	return out, nil
}

// source is a source in its mapping, with the rows that position deletes remove at the head.
type source struct {
	mapping
	number  int
	deleted deletes.Mask
}

// source translates one source, or says why that cannot be done.
func (t *Translator) source(ctx context.Context, s Source, at source, into []deletes.Mask) (string, error) {
	if len(s.Gone) > 0 || s.EqualityGone {
		removed, err := at.removed(ctx, at.number)
		if err != nil {
			return "", err
		}
		if back, err := t.takenBack(ctx, s, removed, at.deleted); back != "" || err != nil {
			return back, err
		}
	}
	if at.deleted == nil {
		return "", nil
	}
	return "", at.translate(ctx, at.number, at.deleted, into)
}
