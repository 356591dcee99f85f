package sorted

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
	"firn/internal/parquet/encoding"
)

// A column whose files have dictionaries is moved as codes, 4 bytes a row: indices into one dictionary for the whole group. Null is told by its
// definition level, counted down from the largest code.

// codeBytes is the length of a record of codes.
const codeBytes = 4

// codedForm is form of a column that is moved as codes.
func codedForm(f form) form { return form{column: f.column, width: f.width, stride: codeBytes} }

// loader reads one column of a window into records.
type loader struct {
	*sorting
	leaf int
	form *form
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
		if s.plain[leaf] = !s.worthCoding(w, leaf); !s.plain[leaf] {
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
	s.scratch.records, s.scratch.ends = s.scratch.records[:0], s.scratch.ends[:0]
	for _, seg := range w.segments {
		if err := l.segment(seg); err != nil {
			return 0, err
		}
		if s.tooLarge(w, len(s.scratch.records)) {
			return 0, errTooLarge
		}
	}
	if l.rows != w.kept {
		return 0, fmt.Errorf("read column %s: %d rows of %d", s.job.Target.Layout.Leaves[leaf].Path, l.rows, w.kept)
	}
	return int64(len(s.scratch.records)), nil
}

// worthCoding looks at the first file: its first chunk has a dictionary.
func (s *sorting) worthCoding(w window, leaf int) bool {
	in, f := w.segments[0].in, &s.forms[leaf]
	col, raw := in.proj.Raw(leaf)
	if !raw || f.column.MaxRep > 0 || f.width == 1 || len(in.file.Groups) == 0 {
		return false
	}
	data, meta, ok, err := in.file.Chunk(0, col)
	if !ok || err != nil || s.scratch.reader.Open(&f.column, data, meta) != nil {
		return false
	}
	d := s.scratch.reader.Dictionary()
	return d != nil && 2*int64(d.Len()) <= meta.Rows
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
		data, meta, ok, err := seg.in.file.Chunk(g, col)
		if err != nil {
			return err
		}
		if ok {
			before := len(l.scratch.records)
			err = l.pages(seg, rows, group.First, data, meta)
			if errors.Is(err, encoding.ErrUnsupported) && len(l.scratch.records) == before {
				ok = false
			}
		}
		if !ok {
			err = l.batches(seg, rows)
		} else if err != nil && !errors.Is(err, errTooLarge) && !errors.Is(err, encoding.ErrDictionaryFull) {
			err = seg.in.file.Fault(g, col, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pages decodes the pages of a chunk whose first row is at a position of the file, and keeps rows of them.
func (l *loader) pages(seg segment, rows column.Run, first int64, data []byte, meta chunk.Meta) error {
	r, v, kept := &l.scratch.reader, &l.scratch.vector, &l.scratch.kept
	if err := r.Open(&l.form.column, data, meta); err != nil {
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
		page := column.Run{From: max(first+p.FirstRow, rows.From), To: min(first+p.FirstRow+p.Rows, rows.To)}
		if page.From >= page.To {
			continue
		}
		if err := r.Decode(p, v); err != nil {
			return err
		}
		out := v
		runs = seg.runs(runs[:0], page)
		if len(runs) != 1 || runs[0].To-runs[0].From != p.Rows {
			l.scratch.spans = l.scratch.spans[:0]
			for _, run := range runs {
				l.scratch.spans = append(l.scratch.spans, encoding.Span{From: int(run.From - first - p.FirstRow), To: int(run.To - first - p.FirstRow)})
			}
			if err := v.Select(kept, &l.form.column, l.scratch.spans, false); err != nil {
				return err
			}
			out = kept
		}
		if err := l.take(out); err != nil {
			return err
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

// take adds a vector to the records.
func (l *loader) take(v *chunk.Vector) error {
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
	if v.Dictionary == nil {
		l.scratch.records, l.scratch.ends = l.form.append(l.scratch.records, l.scratch.ends, v)
		return nil
	}
	// A column with a dictionary is flat. A few indices can stand for much: expand piece by piece.
	for entry, value := 0, 0; entry < v.Entries; {
		part := chunk.Vector{}
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
		l.scratch.records, l.scratch.ends = l.form.append(l.scratch.records, l.scratch.ends, &part)
		if int64(len(l.scratch.records)) > slack*l.limits.WindowBytes && l.rows > 1 {
			return errTooLarge
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
