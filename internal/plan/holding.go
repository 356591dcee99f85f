package plan

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"

	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// arenaBytes is how many bytes of entries are collected before they are packed. Files come in the order of the manifests, in which those of a group
// may be scattered: the more are collected, the more of a group are packed together.
const arenaBytes = 8 << 20

// holding keeps the selected files of each group, as they are met in the manifests, until the group is written. The entries are packed: those of a
// table with many columns are by far the most of what a plan holds.
type holding struct {
	groups [][]block
	// open are the files whose entries are in the arena.
	open           []located
	arena, scratch []byte
	// taken is what the last taken group's files were made in.
	taken []located
	plain []byte
}

// located is a selected data file with the deletes that apply to it.
type located struct {
	// group and file are its place in the plan.
	group, file int
	// begin and end are where its entry's bytes are, in the arena or in what its block unpacks to.
	begin, end int
	entry      handoff.Entry
	deletes    []lake.Entry
}

// block are files of one group, their entries packed together.
type block struct {
	files  []located
	packed []byte
}

// add keeps a file, its entry's bytes aside: encode appends them.
func (h *holding) add(f located, encode func(dst []byte) ([]byte, error)) error {
	if h.arena == nil {
		h.arena = make([]byte, 0, arenaBytes+arenaBytes/16)
	}
	arena, err := encode(h.arena)
	if err != nil {
		return err
	}
	f.begin, f.end = len(h.arena), len(arena)
	h.open, h.arena = append(h.open, f), arena
	if len(h.arena) >= arenaBytes {
		h.pack()
	}
	return nil
}

// pack empties the arena into one block a group.
func (h *holding) pack() {
	slices.SortStableFunc(h.open, func(a, b located) int { return a.group - b.group })
	plain := h.plain
	for open := h.open; len(open) > 0; {
		group, n := open[0].group, 0
		plain = plain[:0]
		for ; n < len(open) && open[n].group == group; n++ {
			f := &open[n]
			begin := len(plain)
			plain = append(plain, h.arena[f.begin:f.end]...)
			f.begin, f.end = begin, len(plain)
		}
		h.scratch = s2.Encode(h.scratch[:cap(h.scratch)], plain)
		h.groups[group] = append(h.groups[group], block{slices.Clone(open[:n]), bytes.Clone(h.scratch)})
		open = open[n:]
	}
	h.plain = plain
	clear(h.open)
	h.open, h.arena = h.open[:0], h.arena[:0]
}

// close packs what is left, and lets the arena go.
func (h *holding) close() {
	h.pack()
	h.open, h.arena, h.scratch = nil, nil, nil
}

// take returns the files of a group in the plan's order, with whole entries, and forgets them. They are good until the next call.
func (h *holding) take(group int) ([]located, error) {
	files, size := 0, 0
	for _, b := range h.groups[group] {
		files, size = files+len(b.files), size+b.files[len(b.files)-1].end
	}
	h.taken, h.plain = slices.Grow(h.taken[:0], files)[:files], slices.Grow(h.plain[:0], size)[:size]
	plain := h.plain
	for _, b := range h.groups[group] {
		data, err := s2.Decode(plain, b.packed)
		if err != nil {
			return nil, fmt.Errorf("unpack the entries of group %d: %w", group, err)
		}
		plain = plain[len(data):]
		for _, f := range b.files {
			f.entry.File = data[f.begin:f.end:f.end]
			h.taken[f.file] = f
		}
	}
	h.groups[group] = nil
	return h.taken, nil
}

// place is where a file stands in a plan.
type place struct{ ref, group, file int }

// placesOf are the places of the files of groups, in the order of their Refs.
func placesOf(groups []maintenance.FileGroup) (places []place, refs []int) {
	n := 0
	for _, g := range groups {
		n += len(g.Files)
	}
	places, refs = make([]place, 0, n), make([]int, 0, n)
	for g, group := range groups {
		for i, f := range group.Files {
			places = append(places, place{f.Ref, g, i})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return a.ref - b.ref })
	for _, p := range places {
		refs = append(refs, p.ref)
	}
	return places, refs
}

// locate reads the selected files again, with statistics.
func (p *planner) locate(ctx context.Context, scan *lake.Scan, groups []maintenance.FileGroup) (*holding, error) {
	out := &holding{groups: make([][]block, len(groups))}
	places, refs := placesOf(groups)
	for selected, err := range scan.Select(ctx, refs) {
		if err != nil {
			return nil, err
		}
		at, e := places[0], selected.Entry
		places = places[1:]
		f := groups[at.group].Files[at.file]
		switch {
		case selected.Ref != at.ref || e.File.FilePath() != f.Path:
			return nil, fmt.Errorf("find %s in its manifest again: %w", f.Path, lake.ErrTableFault)
		case selected.Fault != nil:
			return nil, selected.Fault
		}
		codec, err := p.codec(e.SpecID)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", f.Path, err)
		}
		kept := located{group: at.group, file: at.file, entry: numbered(e), deletes: selected.Deletes}
		kept.entry.Path = f.Path // one text, not two
		if err := out.add(kept, func(dst []byte) ([]byte, error) { return codec.Append(dst, e.File) }); err != nil {
			return nil, err
		}
	}
	out.close()
	return out, nil
}

// bounds are the bounds of a file's columns.
type bounds struct{ lower, upper map[int][]byte }

// boundsOf reads the bounds of the files of some groups by their Ref.
func (p *planner) boundsOf(
	ctx context.Context, scan *lake.Scan, groups []maintenance.FileGroup, wanted func(g maintenance.FileGroup) bool,
) (map[int]bounds, error) {
	groups = slices.DeleteFunc(slices.Clone(groups), func(g maintenance.FileGroup) bool { return !wanted(g) })
	_, refs := placesOf(groups)
	out := make(map[int]bounds, len(refs))
	for selected, err := range scan.Select(ctx, refs) {
		if err != nil {
			return nil, err
		}
		out[selected.Ref] = bounds{selected.Entry.File.LowerBoundValues(), selected.Entry.File.UpperBoundValues()}
	}
	return out, nil
}
