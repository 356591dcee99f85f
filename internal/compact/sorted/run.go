package sorted

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"firn/internal/compact/sorted/keys"
	"firn/internal/parquet/chunk"
)

// errTooLarge says that the rows of a window take more memory than was thought.
var errTooLarge = errors.New("too many rows at once")

// run is a window whose rows are sorted and spilled: the keys, the order, and each column on its own.
type run struct {
	window  window
	keys    extent
	order   extent // For each sorted row its number in the window, 4 bytes each.
	columns []extent
	// coded says which columns are codes.
	coded []bool
	// places is where the sorted rows went in the outputs, 4 bytes each, written while runs are merged.
	places []extent
	// base is the first place of the part.
	base int64
	// buffered are places that are not spilled yet.
	buffered []byte
}

// runs cuts a part into sorted runs. The number of rows at once adapts to what the largest column and the keys took.
func (s *sorting) runs(ctx context.Context, inputs []*input) ([]*run, error) {
	r := &reader{store: s.store, job: &s.job, limits: s.limits, inputs: inputs}
	defer func() {
		for _, in := range inputs {
			in.close()
		}
	}()
	var out []*run
	rows := s.firstRows(inputs)
	for {
		w, err := r.next(ctx, rows)
		if err != nil {
			return nil, err
		}
		if len(w.segments) == 0 {
			return out, nil
		}
		made, largest, err := s.sortWindow(ctx, w)
		if errors.Is(err, errTooLarge) {
			r.back(w)
			rows = max(w.total()/4, 1)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, made)
		if len(out) > maxRuns {
			return nil, fmt.Errorf("sort the group: more than %d runs", maxRuns)
		}
		r.release()
		if largest > 0 {
			fit := int64(float64(s.limits.WindowBytes) / float64(largest) * float64(w.kept))
			rows = max(min(fit, s.limits.WindowRows, 2*rows), 1)
		}
	}
}

const (
	// smallestWindow is the fewest rows that are tried at once.
	smallestWindow = 1024
	// maxRuns is what the numbers of runs can count.
	maxRuns = 1 << 16
	// slack is how many times a window may take the bytes that it should.
	slack = 3
	// decodedRatio is what the values of one column are thought to take, over the compressed bytes of all columns, until it is known.
	decodedRatio = 3
)

// firstRows guesses how many rows fit.
func (s *sorting) firstRows(inputs []*input) int64 {
	var rows, size int64
	for _, in := range inputs {
		rows += in.Count()
		size += in.FileSizeBytes()
	}
	width := int64(1)
	for i := range s.forms {
		width = max(width, int64(s.forms[i].stride))
	}
	if rows > 0 {
		width = max(width, decodedRatio*size/rows)
	}
	return max(min(s.limits.WindowBytes/width, s.limits.WindowRows), smallestWindow)
}

func (w window) total() (n int64) {
	for _, s := range w.segments {
		n += s.rows.To - s.rows.From
	}
	return n
}

// sortWindow sorts a window and spills it. largest is the size of its largest column, keys included. On errTooLarge nothing is left of it.
func (s *sorting) sortWindow(ctx context.Context, w window) (made *run, largest int64, err error) {
	if w.kept == 0 {
		return &run{window: w}, 0, nil
	}
	start, moves, sums, nulls := s.spill.size, s.moves.size, slices.Clone(s.sumIn), slices.Clone(s.nullsIn)
	defer func() {
		if errors.Is(err, errTooLarge) {
			s.spill.truncate(start)
			s.moves.truncate(moves)
			s.sumIn, s.nullsIn = sums, nulls
		}
	}()
	made = &run{window: w}
	k, err := s.windowKeys(w)
	if err != nil {
		return nil, 0, err
	}
	largest = int64(len(k.Bytes))
	order := s.sortKeys(k)
	if made.keys, err = s.spillKeys(k, order); err != nil {
		return nil, 0, err
	}
	if made.order, err = s.spillOrder(order); err != nil {
		return nil, 0, err
	}
	for i := range s.forms {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		size, coded, err := s.load(w, i)
		if err != nil {
			return nil, 0, err
		}
		largest = max(largest, size)
		f := s.forms[i]
		if coded {
			f = codedForm(f)
		}
		e, err := s.spillColumn(&f, order)
		if err != nil {
			return nil, 0, err
		}
		made.columns, made.coded = append(made.columns, e), append(made.coded, coded)
	}
	return made, largest, nil
}

// windowKeys reads the columns of the ordering and makes the keys.
func (s *sorting) windowKeys(w window) (*keys.Keys, error) {
	for i, f := range s.encoder.Fields {
		part := &s.scratch.parts[i]
		part.Reset()
		l := &loader{sorting: s, leaf: f.Leaf.Index, form: &s.forms[f.Leaf.Index]}
		field := func(v *chunk.Vector) error {
			if err := toBatch(&s.scratch.batch, &l.form.column, v); err != nil {
				return err
			}
			first := part.Rows()
			if err := f.Append(part, &s.scratch.batch); err != nil {
				return err
			}
			if i < s.encoder.Leading() {
				return s.partitions.note(i, part, first, &s.scratch.batch)
			}
			return nil
		}
		l.take = func(v *chunk.Vector) error {
			l.rows += int64(v.Rows)
			if s.tooLarge(w, len(part.Bytes)) {
				return errTooLarge
			}
			return l.expand(v, field)
		}
		if err := l.scan(w); err != nil {
			return nil, err
		}
		if err := l.complete(w); err != nil {
			return nil, err
		}
	}
	return s.encoder.Combine(&s.scratch.keys, s.scratch.parts)
}

// tooLarge says that a window should be smaller; one of a single row never is.
func (s *sorting) tooLarge(w window, size int) bool {
	return int64(size) > slack*s.limits.WindowBytes && w.total() > 1
}

// item is a row that is being sorted.
type item struct {
	prefix uint64
	row    uint32
}

// sortKeys returns the rows in the order of their keys; equal ones keep their order.
func (s *sorting) sortKeys(k *keys.Keys) []uint32 {
	items, common := s.scratch.items[:0], commonPrefix(k)
	for i := range k.Rows() {
		items = append(items, item{prefix: prefixOf(k.At(i)[common:]), row: uint32(i)})
	}
	s.scratch.items = items
	if cap(s.scratch.swap) < len(items) {
		s.scratch.swap = make([]item, len(items))
	}
	items = radix(items, s.scratch.swap[:len(items)])
	if k.Width == 0 || k.Width-common > prefixBytes {
		for from := 0; from < len(items); {
			to := from + 1
			for to < len(items) && items[to].prefix == items[from].prefix {
				to++
			}
			if to-from > 1 {
				slices.SortStableFunc(items[from:to], func(a, b item) int { return bytes.Compare(k.At(int(a.row)), k.At(int(b.row))) })
			}
			from = to
		}
	}
	order := s.scratch.order[:0]
	for _, x := range items {
		order = append(order, x.row)
	}
	s.scratch.order = order
	return order
}

// commonPrefix is how many bytes all keys begin with.
func commonPrefix(k *keys.Keys) int {
	first := k.At(0)
	n := len(first)
	for i := range k.Rows() {
		key := k.At(i)
		if len(key) >= n && bytes.Equal(key[:n], first[:n]) {
			continue
		}
		n = min(n, len(key))
		for j := range n {
			if key[j] != first[j] {
				n = j
				break
			}
		}
	}
	return n
}

// radix sorts items by their prefix, equal ones in their order, byte after byte from the last; bytes that are the same everywhere are passed
// over. The answer is one of the two slices.
func radix(items, swap []item) []item {
	var counts [prefixBytes][256]int
	for _, x := range items {
		for b := range counts {
			counts[b][byte(x.prefix>>(8*b))]++
		}
	}
	for b := range counts {
		c := &counts[b]
		if len(items) == 0 || c[byte(items[0].prefix>>(8*b))] == len(items) {
			continue
		}
		at := 0
		for i := range c {
			at, c[i] = at+c[i], at
		}
		for _, x := range items {
			digit := byte(x.prefix >> (8 * b))
			swap[c[digit]] = x
			c[digit]++
		}
		items, swap = swap, items
	}
	return items
}

// spillBlock is how many bytes are gathered before they are written.
const spillBlock = 256 << 10

// gatherer writes records to the spill in blocks.
type gatherer struct {
	*sorting
	to    *spill
	start int64
}

func (s *sorting) gather(to *spill) gatherer {
	s.scratch.block = s.scratch.block[:0]
	return gatherer{sorting: s, to: to, start: to.size}
}

// flush writes the block if it is full, or at the end.
func (g gatherer) flush(end bool) error {
	if len(g.scratch.block) == 0 || (len(g.scratch.block) < spillBlock && !end) {
		return nil
	}
	err := g.to.write(g.scratch.block)
	g.scratch.block = g.scratch.block[:0]
	return err
}

func (g gatherer) done() (extent, error) {
	err := g.flush(true)
	return extent{at: g.start, length: g.to.size - g.start}, err
}

// spillKeys writes sorted keys; those of no fixed width have their length in front.
func (s *sorting) spillKeys(k *keys.Keys, order []uint32) (extent, error) {
	g := s.gather(s.spill)
	for _, row := range order {
		key := k.At(int(row))
		if k.Width == 0 {
			s.scratch.block = binary.LittleEndian.AppendUint32(s.scratch.block, uint32(len(key)))
		}
		s.scratch.block = append(s.scratch.block, key...)
		if err := g.flush(false); err != nil {
			return extent{}, err
		}
	}
	return g.done()
}

func (s *sorting) spillOrder(order []uint32) (extent, error) {
	g := s.gather(s.moves)
	for _, row := range order {
		s.scratch.block = binary.LittleEndian.AppendUint32(s.scratch.block, row)
		if err := g.flush(false); err != nil {
			return extent{}, err
		}
	}
	return g.done()
}

// spillColumn writes the records of a column in sorted order.
func (s *sorting) spillColumn(f *form, order []uint32) (extent, error) {
	g, records, ends := s.gather(s.spill), s.scratch.records, s.scratch.ends
	for len(order) > 0 {
		n := len(order)
		if f.stride > 0 {
			n = min(n, max(spillBlock/f.stride, 1))
			s.scratch.block = gatherFixed(s.scratch.block, records, order[:n], f.stride)
		} else {
			n = min(n, spillBlock/64)
			for _, row := range order[:n] {
				from := uint32(0)
				if row > 0 {
					from = ends[row-1]
				}
				s.scratch.block = append(s.scratch.block, records[from:ends[row]]...)
			}
		}
		order = order[n:]
		if err := g.flush(false); err != nil {
			return extent{}, err
		}
	}
	return g.done()
}

// gatherFixed appends records of a fixed length by their number. The usual lengths are moved as machine words.
func gatherFixed(dst, records []byte, rows []uint32, stride int) []byte {
	at := len(dst)
	dst = slices.Grow(dst, len(rows)*stride)[:at+len(rows)*stride]
	switch stride {
	case 4:
		for _, row := range rows {
			*(*[4]byte)(dst[at:]) = *(*[4]byte)(records[int(row)*4:])
			at += 4
		}
	case 5:
		for _, row := range rows {
			*(*[5]byte)(dst[at:]) = *(*[5]byte)(records[int(row)*5:])
			at += 5
		}
	case 8:
		for _, row := range rows {
			*(*[8]byte)(dst[at:]) = *(*[8]byte)(records[int(row)*8:])
			at += 8
		}
	case 9:
		for _, row := range rows {
			*(*[9]byte)(dst[at:]) = *(*[9]byte)(records[int(row)*9:])
			at += 9
		}
	default:
		for _, row := range rows {
			copy(dst[at:at+stride], records[int(row)*stride:])
			at += stride
		}
	}
	return dst
}
