package chunk

import (
	"fmt"

	"firn/internal/parquet/encoding"
)

// Vector is a run of entries of one column: values, nulls and empty lists. What Reader.Decode and Select fill is sound: levels are within the
// column's, Values are as many as definition levels say, and indices are within the dictionary. Whoever fills one himself answers for that.
type Vector struct {
	// Rows is the number of rows that begin; Entries the number of level entries.
	Rows, Entries int
	// Rep and Def are the levels of each entry; empty where the column's maximum is 0.
	Rep, Def []uint8
	// Values is the number of values that are present: of entries at the maximum definition level.
	Values int
	// Plain are the values in PLAIN form, but booleans as one byte each, 0 or 1. It may share memory with the page that it was decoded from.
	Plain []byte
	// Indices stand for the values instead when Dictionary is not nil; it belongs to the Reader until its next Open.
	Indices    []uint32
	Dictionary *encoding.Entries

	own           []byte
	levels, spans []encoding.Span
	// origin is the compressed page that Plain comes from, places are the ranges of its values that are left, if not all are.
	origin origin
	places []encoding.Span
}

// origin is a page body as Zstandard frame: how long its content is, and where the values begin in it. The zero value is none.
type origin struct {
	frame       []byte
	size, front int
}

// Reset empties the vector and keeps its memory.
func (v *Vector) Reset() {
	v.Rows, v.Entries, v.Values, v.Dictionary = 0, 0, 0, nil
	v.Rep, v.Def, v.Indices, v.own, v.Plain = v.Rep[:0], v.Def[:0], v.Indices[:0], v.own[:0], nil
	v.origin, v.places = origin{}, v.places[:0]
}

// continued is the number of entries in front that belong to a row which began before.
func (v *Vector) continued() int {
	n := 0
	for n < len(v.Rep) && v.Rep[n] != 0 {
		n++
	}
	return n
}

// Select fills dst with the rows of v that lie in spans, counted from the first row that begins in v. The entries in front, which end a row of an
// earlier page, are kept when head is set. dst shares no memory with v but the dictionary.
func (v *Vector) Select(dst *Vector, c *Column, rows []encoding.Span, head bool) (err error) {
	dst.Reset()
	dst.Dictionary, dst.Rows = v.Dictionary, encoding.SpanLen(rows)
	levels := rows
	if c.MaxRep > 0 {
		front := v.continued()
		if dst.levels, err = encoding.LevelSpans(dst.levels, v.Rep[front:], rows); err != nil {
			return err
		}
		for i := range dst.levels {
			dst.levels[i].From += front
			dst.levels[i].To += front
		}
		if head && front > 0 {
			dst.levels = append([]encoding.Span{{To: front}}, dst.levels...)
		}
		levels = dst.levels
		if dst.Rep, err = encoding.Select(dst.Rep, v.Rep, levels); err != nil {
			return err
		}
	} else if n := len(rows); n > 0 && rows[n-1].To > v.Entries {
		return fmt.Errorf("select row %d of %d", rows[n-1].To, v.Entries)
	}
	dst.Entries = encoding.SpanLen(levels)
	values := levels
	if c.MaxDef > 0 {
		if dst.Def, err = encoding.Select(dst.Def, v.Def, levels); err != nil {
			return err
		}
		if dst.spans, err = encoding.ValueSpans(dst.spans, v.Def, c.MaxDef, levels); err != nil {
			return err
		}
		values = dst.spans
	}
	dst.Values = encoding.SpanLen(values)
	if v.Dictionary != nil {
		dst.Indices, err = encoding.Select(dst.Indices, v.Indices, values)
		return err
	}
	if c.ValueWidth() == encoding.ByteArray {
		if len(v.places) == 0 { // Else it was selected before, and places would be those of a part.
			dst.origin = v.origin
		}
		dst.own, dst.places, err = encoding.SelectByteArrays(dst.own[:0], dst.places, v.Plain, v.Values, values)
	} else {
		dst.own, err = encoding.SelectPlain(dst.own[:0], v.Plain, c.ValueWidth(), v.Values, values)
	}
	dst.Plain = dst.own
	return err
}
