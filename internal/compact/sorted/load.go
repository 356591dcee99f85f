package sorted

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"firn/internal/deletes"
	"firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/source"
)

// A column whose files have dictionaries is moved as codes, 4 bytes a row: indices into one dictionary for the whole group. Null is told by its
// definition level, counted down from the largest code.

// codeBytes is the length of a record of codes.
const codeBytes = 4

// codedForm is form of a column that is moved as codes.
func codedForm(f form) form { return form{column: f.column, width: f.width, stride: codeBytes} }

// loader reads one column of a window.
type loader struct {
	*sorting
	leaf int
	form *form
	// take gets the rows in vectors that are valid during the call.
	take func(*chunk.Vector) error

	// dictionary is where values become codes; nil for records of values.
	dictionary *encoding.Dictionary
	table      []uint32
	source     *encoding.Entries
	hashes     []uint64
	rows       int64
}

// load reads a column of a window into records, and sums up what it read. coded says that they are codes.
func (s *sorting) load(w window, leaf int) (size int64, coded bool, err error) {
	if s.dictionaries[leaf] == nil && !s.plain[leaf] {
		worth, err := s.worthCoding(w, leaf)
		if err != nil {
			return 0, false, err
		}
		if s.plain[leaf] = !worth; worth {
			s.dictionaries[leaf] = encoding.NewDictionary(s.forms[leaf].width, int(min(s.job.Writer.DictBytes, encoding.MaxPageBytes)))
		}
	}
	if !s.plain[leaf] {
		sum, nulls := s.sumIn[leaf], s.nullsIn[leaf]
		size, err := s.loadAs(w, leaf, s.dictionaries[leaf])
		if !errors.Is(err, encoding.ErrDictionaryFull) {
			return size, true, err
		}
		s.plain[leaf], s.sumIn[leaf], s.nullsIn[leaf] = true, sum, nulls // Runs that are spilled already keep their codes.
	}
	size, err = s.loadAs(w, leaf, nil)
	return size, false, err
}

func (s *sorting) loadAs(w window, leaf int, d *encoding.Dictionary) (int64, error) {
	l := &loader{sorting: s, leaf: leaf, form: &s.forms[leaf], dictionary: d}
	l.take = func(v *chunk.Vector) error {
		if s.tooLarge(w, len(s.scratch.records)) {
			return errTooLarge
		}
		return l.record(v)
	}
	s.scratch.records, s.scratch.ends = s.scratch.records[:0], s.scratch.ends[:0]
	if err := l.scan(w); err != nil {
		return 0, err
	}
	return int64(len(s.scratch.records)), l.complete(w)
}

// scan reads the kept rows of the window.
func (l *loader) scan(w window) error {
	for _, seg := range w.segments {
		if err := l.segment(seg); err != nil {
			return err
		}
	}
	return nil
}

// complete checks that all rows of the window came.
func (l *loader) complete(w window) error {
	if l.rows != w.kept {
		return fmt.Errorf("read column %s: %d rows of %d", l.job.Target.Layout.Leaves[l.leaf].Path, l.rows, w.kept)
	}
	return nil
}

// worthCoding looks at the first file: its first chunk has a dictionary.
func (s *sorting) worthCoding(w window, leaf int) (bool, error) {
	in, f := w.segments[0].in, &s.forms[leaf]
	col, raw := in.proj.Raw(leaf)
	if !raw || f.column.MaxRep > 0 || f.width == 1 || len(in.file.Groups) == 0 {
		return false, nil
	}
	p, ok, err := in.file.Pages(0, col, column.Run{To: 1})
	if !ok || err != nil || s.scratch.reader.Open(&f.column, p.Data, p.Meta) != nil {
		return false, err
	}
	d := s.scratch.reader.Dictionary()
	return d != nil && 2*int64(d.Len()) <= in.file.Groups[0].Rows, nil
}

// segment reads the rows of one segment: page by page where that is possible, else as batches.
func (l *loader) segment(seg segment) error {
	col, raw := seg.in.proj.Raw(l.leaf)
	if !raw || l.form.column.MaxRep > 0 {
		return l.batches(seg, seg.rows)
	}
	for g, group := range seg.in.file.Groups {
		rows := column.Run{From: max(seg.rows.From, group.First), To: min(seg.rows.To, group.First+group.Rows)}
		if rows.From >= rows.To {
			continue
		}
		p, ok, err := seg.in.file.Pages(g, col, rows)
		if err != nil {
			return err
		}
		if ok {
			before := l.rows
			err = l.pages(seg, rows, p)
			var own *ownError
			switch {
			case errors.As(err, &own):
				return own.error
			case errors.Is(err, encoding.ErrUnsupported) && l.rows == before:
				ok = false
			case err != nil:
				return seg.in.file.Fault(g, col, err)
			}
		}
		if !ok {
			if err := l.batches(seg, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownError is an error of whoever takes vectors, not of the file.
type ownError struct{ error }

// pages decodes pages and keeps rows of them.
func (l *loader) pages(seg segment, rows column.Run, from source.Pages) error {
	r, v, kept := &l.scratch.reader, &l.scratch.vector, &l.scratch.kept
	if err := r.Open(&l.form.column, from.Data, from.Meta); err != nil {
		return err
	}
	var runs []column.Run
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		first := from.First + p.FirstRow
		page := column.Run{From: max(first, rows.From), To: min(first+p.Rows, rows.To)}
		if page.From >= page.To {
			continue
		}
		if err := r.Decode(p, v); err != nil {
			return err
		}
		out := v
		runs = deletes.Live(runs[:0], seg.in.Mask, page)
		if len(runs) != 1 || runs[0].To-runs[0].From != p.Rows {
			l.scratch.spans = l.scratch.spans[:0]
			for _, run := range runs {
				l.scratch.spans = append(l.scratch.spans, encoding.Span{From: int(run.From - first), To: int(run.To - first)})
			}
			if err := v.Select(kept, &l.form.column, l.scratch.spans, false); err != nil {
				return err
			}
			out = kept
		}
		if err := l.take(out); err != nil {
			return &ownError{err}
		}
	}
}

// batches reads rows through the projection.
func (l *loader) batches(seg segment, rows column.Run) error {
	w := window{segments: []segment{{seg.in, rows}}}
	return w.scan(l.leaf, l.job.Target.Layout.Leaves[l.leaf].MaxDef, func(b *column.Batch) error {
		l.scratch.plain = toVector(&l.scratch.converted, l.scratch.plain, &l.form.column, b)
		return l.take(&l.scratch.converted)
	})
}

// record adds a vector to the records.
func (l *loader) record(v *chunk.Vector) error {
	if v.Dictionary != nil && v.Dictionary != l.source {
		l.source, l.hashes = v.Dictionary, chunk.HashEntries(l.hashes, v.Dictionary)
		if l.dictionary != nil {
			var err error
			if l.table, err = l.dictionary.AddTo(l.table[:0], v.Dictionary.Bytes(), v.Dictionary.Len()); err != nil {
				return err
			}
		}
	}
	sum, err := v.Sum(&l.form.column, l.hashes)
	if err != nil {
		return err
	}
	l.sumIn[l.leaf] += sum
	l.nullsIn[l.leaf] += uint64(v.Entries - v.Values)
	l.rows += int64(v.Rows)
	if l.dictionary == nil {
		return l.values(v)
	}
	codes := v.Indices
	if v.Dictionary == nil {
		if l.scratch.codes, err = l.dictionary.AddTo(l.scratch.codes[:0], v.Plain, v.Values); err != nil {
			return err
		}
		codes = l.scratch.codes
	}
	l.codes(v, codes)
	return nil
}

// expandValues is how many values of a dictionary are written out at once.
const expandValues = 4 << 10

// values adds records of values.
func (l *loader) values(v *chunk.Vector) error {
	return l.expand(v, func(part *chunk.Vector) error {
		l.scratch.records, l.scratch.ends = l.form.append(l.scratch.records, l.scratch.ends, part)
		if int64(len(l.scratch.records)) > slack*l.limits.WindowBytes && l.rows > 1 {
			return errTooLarge
		}
		return nil
	})
}

// expand yields a vector with PLAIN values: itself, or pieces of it, since a few indices can stand for much. A column with a dictionary is flat.
func (l *loader) expand(v *chunk.Vector, yield func(*chunk.Vector) error) error {
	if v.Dictionary == nil {
		return yield(v)
	}
	for entry, value := 0, 0; entry < v.Entries; {
		var part chunk.Vector
		for entry+part.Entries < v.Entries && part.Entries < expandValues {
			if l.form.head == 0 || v.Def[entry+part.Entries] == l.form.column.MaxDef {
				part.Values++
			}
			part.Entries++
		}
		var err error
		if l.scratch.plain, err = v.Dictionary.Expand(l.scratch.plain[:0], v.Indices[value:value+part.Values]); err != nil {
			return err
		}
		part.Plain, part.Rows = l.scratch.plain, part.Entries
		if l.form.head > 0 {
			part.Def = v.Def[entry : entry+part.Entries]
		}
		if err := yield(&part); err != nil {
			return err
		}
		entry, value = entry+part.Entries, value+part.Values
	}
	return nil
}

// codes adds records of codes: indices of the vector's dictionary, or, for PLAIN values, of the group's.
func (l *loader) codes(v *chunk.Vector, indices []uint32) {
	at := 0
	for i := range v.Entries {
		code := ^uint32(0)
		if l.form.head > 0 && v.Def[i] != l.form.column.MaxDef {
			code -= uint32(v.Def[i])
		} else {
			if code = indices[at]; v.Dictionary != nil {
				code = l.table[code]
			}
			at++
		}
		l.scratch.records = binary.LittleEndian.AppendUint32(l.scratch.records, code)
	}
}

// decodeCodes fills a vector with rows of codes.
func decodeCodes(v *chunk.Vector, f *form, d *encoding.Dictionary, recs []byte) {
	v.Rep, v.Def, v.Indices, v.Plain, v.Dictionary = v.Rep[:0], v.Def[:0], v.Indices[:0], nil, &d.Entries
	v.Rows, v.Entries = len(recs)/codeBytes, len(recs)/codeBytes
	for ; len(recs) > 0; recs = recs[codeBytes:] {
		code := binary.LittleEndian.Uint32(recs)
		if null := ^code; f.head > 0 && null < uint32(f.column.MaxDef) {
			v.Def = append(v.Def, uint8(null))
			continue
		}
		if f.head > 0 {
			v.Def = append(v.Def, f.column.MaxDef)
		}
		v.Indices = append(v.Indices, code)
	}
	v.Values = len(v.Indices)
}

// decoded appends the record of a value that a code stands for.
func decoded(dst []byte, f *form, d *encoding.Dictionary, rec []byte) []byte {
	code := binary.LittleEndian.Uint32(rec)
	if null := ^code; f.head > 0 && null < uint32(f.column.MaxDef) {
		dst = append(dst, uint8(null))
		n := f.width
		if f.stride == 0 {
			n = lengthBytes
		}
		for range n {
			dst = append(dst, 0)
		}
		return dst
	}
	if f.head > 0 {
		dst = append(dst, f.column.MaxDef)
	}
	return append(dst, d.Entry(int(code))...)
}
