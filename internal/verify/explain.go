package verify

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"firn/internal/parquet/column"
)

// roundRows bounds the rows that are told apart at once, in memory: some 100 bytes each. More take more rounds of reading.
const roundRows = 4_000_000

// place is a row of one side.
type place struct {
	file     int
	position int64
}

// tally counts the rows of one hash: live before and after, and deleted before.
type tally struct {
	before, after, dead int64
	// lastBefore and lastAfter are rows that have it.
	lastBefore, lastAfter place
}

// fault is a hash that is live in another number.
type fault struct {
	kind  Kind
	times int64
	at    place
}

// explain reads the files again and names the rows of the buckets that differ.
func (r *reader) explain(ctx context.Context, s *sums, out *Report) error {
	out.Counts = map[Kind]int64{}
	samples := map[Kind][]fault{}
	for left := s.differing(); len(left) > 0; {
		wanted, rows := map[int]bool{}, int64(0)
		for len(left) > 0 && (len(wanted) == 0 || rows < roundRows) {
			b := left[0]
			rows += s.before.buckets[b].rows + s.before.buckets[b].dead + s.after.buckets[b].rows
			wanted[b], left = true, left[1:]
		}
		found, err := r.tell(ctx, wanted)
		if err != nil {
			return err
		}
		for _, t := range found {
			for _, f := range t.faults() {
				out.Counts[f.kind] += f.times
				samples[f.kind] = append(samples[f.kind], f)
			}
		}
		for k := range samples {
			samples[k] = r.first(samples[k])
		}
	}
	for _, k := range kinds() {
		for _, f := range samples[k] {
			row, err := r.show(ctx, f)
			if err != nil {
				return err
			}
			out.Rows = append(out.Rows, row)
		}
	}
	return nil
}

// first keeps the first faults by file and position.
func (r *reader) first(all []fault) []fault {
	slices.SortFunc(all, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.at.file, b.at.file), cmp.Compare(a.at.position, b.at.position))
	})
	n := r.v.Samples
	if n <= 0 {
		n = defaultSamples
	}
	return all[:min(n, len(all))]
}

// tell counts the rows of some buckets, hash by hash.
func (r *reader) tell(ctx context.Context, wanted map[int]bool) (map[uint64]*tally, error) {
	found := map[uint64]*tally{}
	var mu sync.Mutex
	for _, after := range []bool{false, true} {
		files := r.before
		if after {
			files = r.after
		}
		err := r.each(ctx, files, func(c *chunk) error {
			mu.Lock()
			defer mu.Unlock()
			for i, h := range c.hashes {
				if !wanted[bucketOf(h)] || after && !c.live[i] {
					continue
				}
				t := found[h]
				if t == nil {
					t = &tally{}
					found[h] = t
				}
				t.count(place{c.file, c.first + int64(i)}, after, c.live[i])
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// count notes a row; the last one in order of file and position is remembered, so that the answer does not depend on who reads first.
func (t *tally) count(at place, after, live bool) {
	later := func(old place) place {
		if cmp.Or(cmp.Compare(at.file, old.file), cmp.Compare(at.position, old.position)) > 0 {
			return at
		}
		return old
	}
	switch {
	case after:
		t.after++
		t.lastAfter = later(t.lastAfter)
	case live:
		t.before++
		t.lastBefore = later(t.lastBefore)
	default:
		t.dead++
	}
}

// faults says what is wrong with the rows of one hash. Rows that are alike are one row, many times: when deleted ones were among them, as many of
// those that are too many came back.
func (t *tally) faults() []fault {
	switch more := t.after - t.before; {
	case more < 0:
		return []fault{{Lost, -more, t.lastBefore}}
	case more > 0:
		var out []fault
		if back := min(more, t.dead); back > 0 {
			out = append(out, fault{Resurrected, back, t.lastAfter})
			more -= back
		}
		switch {
		case more > 0 && t.before+t.dead > 0:
			out = append(out, fault{Duplicated, more, t.lastAfter})
		case more > 0:
			out = append(out, fault{Appeared, more, t.lastAfter})
		}
		return out
	}
	return nil
}

// show reads the values of one row.
func (r *reader) show(ctx context.Context, f fault) (Row, error) {
	files := r.after
	if f.kind == Lost {
		files = r.before
	}
	file := &files[f.at.file]
	row := Row{Kind: f.kind, Times: f.times, File: file.File.FilePath(), Position: f.at.position}
	src, p, err := r.open(ctx, file)
	if err != nil {
		return row, err
	}
	defer src.Close()
	var values object
	for _, leaf := range r.shown() {
		err := p.Scan(leaf.Index, column.Run{From: f.at.position, To: f.at.position + 1}, func(b *column.Batch) error {
			values.add(leaf.Path, entries(leaf, b))
			return nil
		})
		if err != nil {
			return row, r.classify(err)
		}
	}
	row.Values, err = values.encode()
	return row, err
}
